"""From a cut and the open choices to the private and public tables of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid.paper.embedded import Cut, DataError
from dpbraid.paper.options import (
    Cifar10Options,
    CompasOptions,
    CreditCardOptions,
    CrimeColumns,
    CrimeOptions,
    Feature21,
    Half,
    Mnist69Options,
    PixelScale,
    Rotation,
    RowOrder,
    Scaling,
    Target,
)

Array = NDArray[np.float64]
RowNumbers = NDArray[np.int64]


class MissingRowsError(DataError):
    """The choice needs rows that the package does not embed."""


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


def mnist69(cut: Cut, options: Mnist69Options) -> Split:
    """MNIST-69: 1000 sixes private, 1000 nines turned by 180 degrees public."""
    X = _pixels(cut["pixels"], options.pixels)
    six, nine = (
        _rows(cut["labels"] == digit, cut["position"], 0, 1000, f"digit {digit}")
        for digit in (6, 9)
    )
    # turning a 28 x 28 image by 180 degrees is reading its 784 pixels backwards
    return Split(Table(X[six], None), Table(X[nine, ::-1], None))


def cifar10(cut: Cut, options: Cifar10Options) -> Split:
    """CIFAR-10: all ten classes private; classes 0 to 3 public, other images."""
    private = _classes(cut, range(10), 0, options.private_per_class)
    public = _classes(
        cut, range(4), CIFAR_PUBLIC_START, CIFAR_PUBLIC_START + options.public_per_class
    )
    chosen = [
        _ordered(rows, cut["labels"][rows], options.order, options.order_seed + i)
        for i, rows in enumerate((private, public))
    ]
    X = _pixels(cut["pixels"], options.pixels)
    y = cut["labels"].astype(np.float64)
    if options.target is Target.UNIT:
        y /= 9.0
    return Split(*(Table(X[rows], y[rows]) for rows in chosen))


# The first 200 images of each class may be private, whatever n is.
CIFAR_PUBLIC_START = 200


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


def compas(cut: Cut, options: CompasOptions) -> Split:
    """COMPAS: 2103 Caucasian rows private, 3175 African-American rows public."""
    public = cut["public"] == 1
    y = 2.0 * cut["label"] - 1.0
    X = cut["features"].astype(np.float64)
    return _scaled(
        Split(Table(X[~public], y[~public]), Table(X[public], y[public])),
        options.scaling,
        cut,
    )


def creditcard(cut: Cut, options: CreditCardOptions) -> Split:
    """CreditCard: 200 rows of one education code private, 200 of another public."""
    private, public = (
        _by_default(cut, education, defaults, options, seed)
        for seed, (education, defaults) in enumerate(
            (
                (options.private_education, options.private_defaults),
                (options.public_education, options.public_defaults),
            ),
            start=options.order_seed,
        )
    )
    y = 2.0 * cut["default"] - 1.0
    X = cut["features"].astype(np.float64)
    split = _scaled(
        Split(Table(X[private], y[private]), Table(X[public], y[public])),
        options.scaling,
        cut,
    )
    if options.feature21 is Feature21.SEX:
        return split
    at = [str(name) for name in cut["columns"]].index("SEX")
    for table in (split.private, split.public):
        table.X[:, at] = 1.0
    return split


CREDIT_ROWS = 200


def _by_default(
    cut: Cut, education: int, defaults: int, options: CreditCardOptions, seed: int
) -> RowNumbers:
    rows = []
    for default, needed in ((1, defaults), (0, CREDIT_ROWS - defaults)):
        alike = (cut["education"] == education) & (cut["default"] == default)
        found = np.flatnonzero(alike)[:needed]
        if len(found) < needed:
            raise DataError(
                f"EDUCATION {education} has only {len(found)} rows with default "
                f"{default}, {needed} are asked for"
            )
        rows.append(found)
    chosen = np.concatenate(rows)
    return _ordered(chosen, cut["default"][chosen], options.order, seed)


# -- shared ------------------------------------------------------------------------


def _pixels(pixels: NDArray[np.uint8], scale: PixelScale) -> Array:
    values = pixels.astype(np.float64)
    if scale is PixelScale.BYTES:
        return values
    unit: Array = values / 255.0
    return unit if scale is PixelScale.UNIT else 2.0 * unit - 1.0


def _classes(cut: Cut, labels: range, first: int, stop: int) -> RowNumbers:
    return np.concatenate(
        [
            _rows(
                cut["labels"] == label, cut["position"], first, stop, f"class {label}"
            )
            for label in labels
        ]
    )


def _rows(
    of_class: NDArray[np.bool_],
    position: NDArray[np.uint16],
    first: int,
    stop: int,
    name: str,
) -> RowNumbers:
    """Row numbers of the images first..stop-1 of a class."""
    found = np.flatnonzero(of_class & (position >= first) & (position < stop))
    if len(found) < stop - first:
        raise MissingRowsError(
            f"this choice needs the images {first} to {stop - 1} of {name}, of which "
            f"{len(found)} are here; the package embeds what the defaults need. Say "
            "where the original files are (--data-dir)"
        )
    return found


def _ordered(
    rows: RowNumbers, classes: NDArray[np.uint8], order: RowOrder, seed: int
) -> RowNumbers:
    if order is RowOrder.FILE:
        return np.sort(rows)
    by_class = rows[np.lexsort((rows, classes))]
    if order is RowOrder.CLASS:
        return by_class
    rng = np.random.Generator(np.random.PCG64(seed))
    return by_class[rng.permutation(len(by_class))]


def _scaled(split: Split, scaling: Scaling, cut: Cut) -> Split:
    """Both tables minus the mean, over the standard deviation, of the chosen rows."""
    if scaling is Scaling.RAW:
        return split
    if scaling is Scaling.ALL:
        # in Python's integers, hence exact
        count = int(cut["count"])
        sums = [int(s) for s in cut["sum"]]
        squares = [int(s) for s in cut["square_sum"]]
        mean = np.array([s / count for s in sums])
        variances = [
            (count * q - s * s) / count**2 for q, s in zip(squares, sums, strict=True)
        ]
        std = np.sqrt(np.array(variances))
    else:
        reference = {
            Scaling.PRIVATE: split.private.X,
            Scaling.PUBLIC: split.public.X,
            Scaling.BOTH: np.concatenate([split.private.X, split.public.X]),
        }[scaling]
        mean, std = reference.mean(axis=0), reference.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    return Split(
        *(Table((t.X - mean) / std, t.y) for t in (split.private, split.public))
    )
