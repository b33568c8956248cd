"""Run a mechanism on private rows and release its last iterate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import inputs, noise
from dpbraid.engine.blocked import Blocked, Progress
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.noise import Seed
from dpbraid.engine.threads import one_blas_thread
from dpbraid.mechanism import Mechanism
from dpbraid.numeric import numeric_model
from dpbraid.release import NumericModel, Release
from dpbraid.rows import Rows

Array = NDArray[np.float64]


def run(
    mechanism: Mechanism,
    private: Rows,
    public: Rows | None = None,
    *,
    start: Array | None = None,
    seed: Seed | None = None,
    progress: Progress | None = None,
) -> Release:
    """Run the mechanism once, in float64, and release its last iterate alone.

    start: the start point, where the mechanism asks for a given one.
    seed: None draws everything from the operating system's entropy. A number makes
    the run reproducible, and its release not private.
    progress: called with (steps done, all steps), nothing computed from rows.
    """
    inputs.check(mechanism, private, public)
    numeric = numeric_model(mechanism, private.dimension)
    streams = noise.secure() if seed is None else noise.seeded(seed)
    point = mechanism.start.point(private.dimension, streams.start, start)
    X = np.ascontiguousarray(point[:, None])
    with one_blas_thread(), np.errstate(all="ignore"):
        engine = Blocked(
            Columns.of([mechanism]),
            Table.of(private, mechanism.loss, mechanism.clip_norm, np.float64),
            None
            if public is None
            else Table.of(public, mechanism.loss, mechanism.clip_norm, np.float64),
            X,
            _noise(streams.noise, numeric),
            progress=progress,
        )
        for _ in engine.epochs(streams.order):
            pass
    return Release(X[:, 0].copy(), mechanism, streams.source, numeric)


def _noise(rng: np.random.Generator, numeric: NumericModel) -> noise.Noise:
    """The noise that the numeric model speaks of."""
    if numeric.grid is None:
        return noise.Gaussian(rng)
    assert numeric.iterate_bound is not None
    return noise.OnGrid(rng, numeric.grid, numeric.iterate_bound)
