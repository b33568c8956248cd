"""From a cut and the open choices to the private and public tables of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid.paper.embedded import Cut
from dpbraid.paper.options import CrimeColumns, CrimeOptions, Half, Rotation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """X of shape (n, d), y of shape (n,) or None."""

    X: Array
    y: Array | None


@dataclass(frozen=True, eq=False)
class Split:
    """The private and the public table before they are bounded."""

    private: Table
    public: Table


def crime(cut: Cut, options: CrimeOptions) -> Split:
    """Crime: 159 private rows, the other 160 rotated; target ViolentCrimesPerPop."""
    columns = [str(name) for name in cut["columns"]]
    table = cut["hundredths"] / 100.0
    y = table[:, -1]
    features = [
        i
        for i, name in enumerate(columns[:-1])
        if options.columns is CrimeColumns.ALL or name not in ("state", "fold")
    ]
    X = table[:, features]
    half = len(X) // 2
    if options.private_half is Half.FIRST:
        private, public = slice(0, half), slice(half, None)
    else:
        private, public = slice(len(X) - half, None), slice(0, len(X) - half)
    public_X = X[public]
    if options.rotation is Rotation.LITERAL:
        d = X.shape[1]
        rng = np.random.Generator(np.random.PCG64(options.rotation_seed))
        rotated = public_X @ (np.eye(d) + rng.standard_normal((d, d)))
        # the order in which a BLAS sums differs; nine decimals are the same everywhere
        public_X = np.round(rotated, 9)
    return Split(Table(X[private], y[private]), Table(public_X, y[public]))
