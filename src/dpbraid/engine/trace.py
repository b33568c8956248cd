"""Research on data that need no protection: what a run does on its way.

Nothing in this module is private: it shows the iterates of every epoch and objective
values on the private rows. Its results can never carry a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import inputs, noise
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.objective import objective
from dpbraid.engine.threads import one_blas_thread
from dpbraid.mechanism import Mechanism
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NotPrivateTrace:
    """A run laid open; NOT PRIVATE.

    iterates: (K + 1, d), the start point and the iterate after each epoch;
    objectives: (K + 1,), G(x; D) of each.
    """

    iterates: Array
    objectives: Array


def trace_not_private(
    mechanism: Mechanism,
    private: Rows,
    public: Rows | None = None,
    *,
    order_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    start: Array | None = None,
) -> NotPrivateTrace:
    """Run the fast engine and keep everything; the output is NOT PRIVATE.

    For research on data that need no protection. The iterates have the law of the
    literal engine's, `literal.iterates_not_private`, though not its draws.
    """
    inputs.check(mechanism, private, public)
    inputs.check_generators(order_rng=order_rng, noise_rng=noise_rng)
    point = mechanism.start.point(private.dimension, noise_rng, start)
    X = np.ascontiguousarray(point[:, None])
    iterates = [point.copy()]
    with one_blas_thread(), np.errstate(all="ignore"):
        tables = [
            None
            if rows is None
            else Table.of(rows, mechanism.loss, mechanism.clip_norm, np.float64)
            for rows in (private, public)
        ]
        assert tables[0] is not None
        engine = Blocked(
            Columns.of([mechanism]), tables[0], tables[1], X, noise.Gaussian(noise_rng)
        )
        iterates += [X[:, 0].copy() for _ in engine.epochs(order_rng)]
        values = [
            objective(mechanism.loss, mechanism.penalty, x, private) for x in iterates
        ]
    return NotPrivateTrace(np.array(iterates), np.array(values))
