"""Research on data that need no protection: a whole grid of runs in one.

Nothing in this module is private: it shows objective values on the private rows after
every epoch, of many runs at once. Its results can never carry a certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.engine import inputs, noise
from dpbraid.engine.blocked import Blocked, Progress
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.noise import Seed
from dpbraid.engine.objective import objectives
from dpbraid.engine.threads import one_blas_thread
from dpbraid.mechanism import Mechanism
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NotPrivateGrid:
    """Many runs laid open; NOT PRIVATE.

    objectives: (columns, K + 1), G(x; D) at the start and after each epoch, infinite
    from where a run diverges; iterates: (columns, d), each run's last iterate.
    """

    objectives: Array
    iterates: Array


def grid_not_private(
    mechanisms: Sequence[Mechanism],
    private: Rows,
    public: Rows | None = None,
    *,
    seed: Seed,
    dtype: Literal["float32", "float64"] = "float32",
    start: Array | None = None,
    progress: Progress | None = None,
) -> NotPrivateGrid:
    """Run mechanisms that differ in learning rates and noise stds alone; NOT PRIVATE.

    All runs share the order, the start point and every normal draw of the seed, so
    each has the law of its own mechanism, and differences between them are sharper
    than between separate runs. float32 costs half the time and is for research only.
    start: where mechanisms ask for a given point, one (d,) or one each (columns, d).
    progress: called with (steps done, all steps); a step moves all runs.
    """
    columns = Columns.of(mechanisms)
    shared = columns.shared
    inputs.check(shared, private, public)
    streams = noise.seeded(seed)
    kind: type[np.floating] = np.float32 if dtype == "float32" else np.float64
    given = [start] if start is None or np.ndim(start) == 1 else list(start)
    if len(given) not in (1, columns.count):
        raise InvalidParameterError(
            f"start must hold one point, or one for each of the {columns.count} "
            f"mechanisms, got {len(given)}"
        )
    d = private.dimension
    X: NDArray[np.floating] = np.empty((d, columns.count), kind)
    X.T[...] = [shared.start.point(d, streams.start, point) for point in given]
    values = np.empty((columns.count, len(shared.epochs) + 1))
    with one_blas_thread(), np.errstate(all="ignore"):
        tables = [
            None
            if rows is None
            else Table.of(rows, shared.loss, shared.clip_norm, kind)
            for rows in (private, public)
        ]
        assert tables[0] is not None
        engine = Blocked(
            columns,
            tables[0],
            tables[1],
            X,
            noise.Gaussian(streams.noise),
            progress=progress,
        )
        judge = (shared.loss, shared.penalty, X, private, tables[0].X)
        values[:, 0] = objectives(*judge)
        for k, _ in enumerate(engine.epochs(streams.order), start=1):
            values[:, k] = objectives(*judge)
    return NotPrivateGrid(values, np.ascontiguousarray(X.T, dtype=np.float64))
