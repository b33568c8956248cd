"""A new schedule in ten lines: fewer private rows and a smaller rate in every epoch.

Illustrative: the noise is not calibrated here and the data are made up.
"""

import numpy as np

import dpbraid as db
from dpbraid.engine import literal


def fading(n: int, epochs: int, learning_rate: float, noise_std: float) -> db.Mechanism:
    """Epoch k walks through n / 2^k private rows, then public ones up to n."""
    return db.Mechanism(
        n=n,
        epochs=tuple(
            db.Epoch(n >> k, n - (n >> k), learning_rate / (k + 1), noise_std)
            for k in range(epochs)
        ),
        loss=db.Squared(),
        penalty=db.Ridge(0.1),
        clip_norm=1.0,
        row_norm=1.0,
    )


rng = np.random.default_rng(0)
X, truth = rng.normal(size=(128, 5)) / 3, np.arange(5.0)
private = db.Rows.bounded(X[:64], X[:64] @ truth, row_norm=1.0)
public = db.Rows.bounded(X[64:], X[64:] @ truth + 0.3, row_norm=1.0)
mechanism = fading(n=64, epochs=4, learning_rate=0.1, noise_std=0.1)
x = literal.run(mechanism, private, public, order_rng=rng, noise_rng=rng)
print("released:", np.round(x, 2))
