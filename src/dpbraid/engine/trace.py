"""Research on data that need no protection: what a run does on its way.

Nothing in this module is private: it shows the iterates of every epoch and objective
values on the private rows. Its results can never carry a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import literal
from dpbraid.engine.objective import objective
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
    """Run the literal engine and keep everything; the output is NOT PRIVATE.

    For research on data that need no protection. The last iterate is the one that
    `literal.run` returns for the same generators.
    """
    iterates = np.array(
        list(
            literal.iterates(
                mechanism,
                private,
                public,
                order_rng=order_rng,
                noise_rng=noise_rng,
                start=start,
            )
        )
    )
    values = [
        objective(mechanism.loss, mechanism.penalty, x, private) for x in iterates
    ]
    return NotPrivateTrace(iterates, np.array(values))
