"""Many runs side by side: mechanisms that differ in step size and noise alone.

The state X of shape (d, columns) holds one run a column. Columns share the tables, the
order, the start point and every normal draw, so each column has the law of its own
mechanism, and comparisons between columns are sharper than between separate runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.engine import slopes
from dpbraid.losses import Loss, MarginLoss, Mean
from dpbraid.mechanism import Mechanism
from dpbraid.rows import Rows

Array = NDArray[np.float64]
AnyArray = NDArray[np.floating]


@dataclass(frozen=True)
class Columns:
    """What the columns share, as one mechanism, and each column's own numbers.

    learning_rates, noise_stds: (K, columns).
    """

    shared: Mechanism
    learning_rates: Array
    noise_stds: Array

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism]) -> Columns:
        """Refuses mechanisms that differ in more than learning_rate and noise_std."""
        if not mechanisms:
            raise InvalidParameterError("mechanisms must hold at least one Mechanism")
        shared = _bare(mechanisms[0]) if len(mechanisms) > 1 else None
        for number, mechanism in enumerate(mechanisms[1:], start=1):
            if _bare(mechanism) != shared:
                raise InvalidParameterError(
                    "mechanisms must agree on all but learning_rate and noise_std, but "
                    f"number {number} differs from number 0 in more than that"
                )
        return cls(
            mechanisms[0],
            _table(mechanisms, "learning_rate"),
            _table(mechanisms, "noise_std"),
        )

    @property
    def count(self) -> int:
        """Number of columns."""
        return int(self.learning_rates.shape[1])

    @property
    def steps(self) -> int:
        """Number of steps of a whole run."""
        m = self.shared
        return sum(m.private_steps(e) + m.public_steps(e) for e in m.epochs)


def _bare(mechanism: Mechanism) -> Mechanism:
    """The mechanism without learning rates and noise stds."""
    bare = {
        e: replace(e, learning_rate=1.0, noise_std=0.0) for e in set(mechanism.epochs)
    }
    return replace(mechanism, epochs=tuple(bare[e] for e in mechanism.epochs))


def _table(mechanisms: Sequence[Mechanism], field: str) -> Array:
    return np.array([[getattr(e, field) for e in m.epochs] for m in mechanisms]).T


@dataclass(frozen=True)
class Table:
    """Rows as the kernels want them: X (n, d) in the state's precision, C order.

    norms: |a| for each row. limits: C/|a|, lowered by more than the rounding of |a|, so
    that the clipped gradient's true norm is at most C; infinity without clipping.
    """

    X: AnyArray
    y: Array
    norms: Array
    limits: Array

    @classmethod
    def of(cls, rows: Rows, loss: Loss, clip_norm: float | None, dtype: type) -> Table:
        """Copies the rows only where the precision differs."""
        from dpbraid.engine import kernels

        n, d = rows.X.shape
        y = np.zeros(n) if rows.y is None else rows.y
        norms, limits = np.empty(n), np.full(n, np.inf)
        kernels.row_norms(rows.X, norms)
        if clip_norm is not None and isinstance(loss, MarginLoss):
            np.divide(lowered(clip_norm, d), norms, out=limits, where=norms > 0)
        return cls(np.ascontiguousarray(rows.X, dtype=dtype), y, norms, limits)


def lowered(clip_norm: float, dimension: int) -> float:
    """C (1 - (d + 8) 2^-52): a computed norm and a division round by less than that."""
    return clip_norm * (1.0 - (dimension + 8) * 2.0**-52)


@dataclass(frozen=True)
class Slope:
    """What the kernels call: a margin loss's slope and the clip norm of a mean."""

    address: int
    parameter: float
    clip_norm: float

    @classmethod
    def of(cls, mechanism: Mechanism, dimension: int) -> Slope:
        """Compiles the loss's slope function, or finds it in the cache.

        Refuses a loss that the kernels do not know: they would run another one.
        """
        loss, clip_norm = mechanism.loss, mechanism.clip_norm
        if not isinstance(loss, MarginLoss | Mean):
            raise InvalidParameterError(
                f"loss must be a MarginLoss or Mean, got {type(loss).__name__}: there "
                "are compiled steps for these alone"
            )
        return cls(
            slopes.address(loss),
            slopes.parameter(loss),
            np.inf if clip_norm is None else lowered(clip_norm, dimension),
        )
