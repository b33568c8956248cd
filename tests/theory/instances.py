"""Random problems that meet every condition of the theorem, with known constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import dpbraid as db
from dpbraid.theory.bounds import Form, largest_learning_rate
from dpbraid.theory.constants import Constants, constants_not_private

NOISELESS = ("nonprivate", "public_only")
SCHEDULES = ("dp", "interleaved", "priv_pub", "pub_priv", "alternating", *NOISELESS)
ORDERS = (db.Incremental(), db.ShuffleOnce(), db.Reshuffle(), db.ShuffleBuffer(3))
PLACEMENTS = tuple(db.Placement)


@dataclass(frozen=True)
class Instance:
    """A mechanism with its tables and its constants."""

    mechanism: db.Mechanism
    private: db.Rows
    public: db.Rows
    constants: Constants

    @property
    def affine(self) -> bool:
        """Whether every step is affine, so that the excess risk is exact."""
        return isinstance(self.mechanism.penalty, db.Ridge | db.NoPenalty)


def build(  # type: ignore[no-untyped-def]
    schedule: str, n: int, K: int, eta: float, p: float = 0.5, **common
) -> db.Mechanism:
    """The schedule by name, with the share p where there are public rows."""
    make = getattr(db, schedule)
    if schedule in NOISELESS:
        common.pop("noise_std")
        common.pop("placement")
        return make(n, K, learning_rate=eta, **common)
    if schedule == "dp":
        return db.dp(n, K, learning_rate=eta, **common)
    return make(n, K, learning_rate=eta, private_fraction=p, **common)


def random_instance(seed: int) -> Instance:
    """Instance number `seed`: schedule, order and placement in turn, the rest drawn.

    Public rows need the mean loss (L_H = 0 < mu_psi) or a projection (bounded domain);
    the squared loss under a ridge penalty is for schedules without public rows.
    """
    rng = np.random.default_rng([seed, 7])
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    order = ORDERS[seed // len(SCHEDULES) % len(ORDERS)]
    placement = PLACEMENTS[seed // (len(SCHEDULES) * len(ORDERS)) % len(PLACEMENTS)]
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    K = int(np.exp(rng.uniform(np.log(2), np.log(150))))
    public_needed = schedule not in ("dp", "nonprivate")
    kind = rng.integers(3)
    X, P = rng.standard_normal((2, n, d)) * np.exp(rng.uniform(-1, 1))
    P = P + rng.choice([0.0, 1.0]) * rng.standard_normal(d)
    weight = float(np.exp(rng.uniform(-3, 1)))
    loss: db.Mean | db.Squared = db.Squared()
    y, py = rng.standard_normal((2, n))
    if kind == 0 or (kind == 1 and public_needed):
        loss = db.Mean()
        penalty: db.penalties.Penalty = db.Ridge(weight)
    elif kind == 1:
        penalty = db.Ridge(weight) if rng.random() < 0.7 else db.NoPenalty()
    elif public_needed or rng.random() < 0.5:
        penalty = db.Ball(float(np.exp(rng.uniform(-1, 1))))
        if rng.random() < 0.3:
            penalty = db.Box(-0.5, 1.0)
    else:
        penalty = db.Lasso(weight) if rng.random() < 0.5 else db.ElasticNet(0.3, weight)
    labels = (None, None) if isinstance(loss, db.Mean) else (y, py)
    private = db.Rows.bounded(X, labels[0])
    public = db.Rows.bounded(P, labels[1])
    noise = float(np.exp(rng.uniform(-3, 2)))

    def at(eta: float) -> tuple[db.Mechanism, Constants]:
        mechanism = build(
            schedule, n, K, eta, loss=loss, penalty=penalty, order=order,
            noise_std=noise, placement=placement,
        )  # fmt: skip
        return mechanism, constants_not_private(mechanism, private, public)

    limit = largest_learning_rate(at(1.0)[1], Form.ITERATED, K)
    mechanism, constants = at(limit * float(np.exp(-rng.exponential(1.5))))
    return Instance(mechanism, private, public, constants)
