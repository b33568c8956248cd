"""The tasks of the paper: a private and a public table, a loss and a penalty.

The private tables are real data of real people and places, published long ago. Nothing
that is computed from them here is protected by itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpbraid._validate import InvalidParameterError
from dpbraid.losses import Logistic, Loss, Mean, Squared
from dpbraid.paper import cuts, embedded, raw, recipes
from dpbraid.paper.embedded import Cut
from dpbraid.paper.options import (
    Cifar10Options,
    CompasOptions,
    CreditCardOptions,
    CrimeOptions,
    Mnist69Options,
    RowBound,
    TaskOptions,
)
from dpbraid.penalties import Ball, Lasso, Penalty, Ridge
from dpbraid.rows import Rows


@dataclass(frozen=True, eq=False)
class Task:
    """One data set of the paper, ready to run.

    private, public: D and P. The public table has at least as many rows as the private
    one; schedules read its first n. options: every choice that led here.
    """

    name: str
    title: str
    description: str
    private: Rows
    public: Rows
    loss: Loss
    penalty: Penalty
    options: TaskOptions

    @property
    def n(self) -> int:
        """Number of private rows."""
        return len(self.private)

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return self.private.dimension

    @cached_property
    def digest(self) -> str:
        """Sha256 of the numbers in both tables, whatever files they came from."""
        digest = hashlib.sha256()
        for rows in (self.private, self.public):
            for values in (rows.X, rows.y):
                if values is not None:
                    digest.update(f"{values.shape}".encode())
                    digest.update(values.astype("<f8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Source:
    """How a task is made: original files -> cut -> (options) -> tables.

    from_files: the cut from a folder of original files; trim: the part of it that the
    package embeds; split: the tables from a cut and the options.
    """

    title: str
    description: str
    options: type[TaskOptions]
    from_files: Callable[[Path], Cut]
    trim: Callable[[Cut], Cut]
    split: Callable[[Cut, Any], recipes.Split]
    loss: Loss
    penalty: Callable[[Any], Penalty]


SOURCES: dict[str, Source] = {
    "mnist69": Source(
        title="MNIST-69",
        description=(
            "Mean of images of the digit 6 in a ball; the public images are nines "
            "turned by 180 degrees"
        ),
        options=Mnist69Options,
        from_files=lambda folder: cuts.mnist69(raw.mnist(folder)),
        trim=cuts.mnist69_trim,
        split=recipes.mnist69,
        loss=Mean(),
        penalty=lambda options: Ball(options.radius),
    ),
    "cifar10": Source(
        title="CIFAR-10",
        description=(
            "Ridge regression of the class number of an image; the public images show "
            "four of the ten classes"
        ),
        options=Cifar10Options,
        from_files=lambda folder: cuts.cifar10(raw.cifar10(folder)),
        trim=cuts.cifar10_trim,
        split=recipes.cifar10,
        loss=Squared(),
        penalty=lambda options: Ridge(options.ridge),
    ),
    "crime": Source(
        title="Crime",
        description=(
            "Ridge regression of the violent crime rate of US communities; the public "
            "half is corrupted by a random matrix"
        ),
        options=CrimeOptions,
        from_files=lambda folder: cuts.crime(raw.crime(folder)),
        trim=cuts.whole,
        split=recipes.crime,
        loss=Squared(),
        penalty=lambda options: Ridge(options.ridge),
    ),
    "compas": Source(
        title="COMPAS",
        description=(
            "Lasso logistic regression of recidivism within two years; private and "
            "public rows are two ethnic groups"
        ),
        options=CompasOptions,
        from_files=lambda folder: cuts.compas(raw.compas(folder)),
        trim=cuts.whole,
        split=recipes.compas,
        loss=Logistic(),
        penalty=lambda options: Lasso(options.lasso),
    ),
    "creditcard": Source(
        title="CreditCard",
        description=(
            "Lasso logistic regression of default on credit card payments; private "
            "and public rows differ in education and in the share of defaults"
        ),
        options=CreditCardOptions,
        from_files=lambda folder: cuts.creditcard(raw.creditcard(folder)),
        trim=cuts.creditcard_trim,
        split=recipes.creditcard,
        loss=Logistic(),
        penalty=lambda options: Lasso(options.lasso),
    ),
}


def names() -> tuple[str, ...]:
    """The names of the tasks, in the order of the paper."""
    return tuple(SOURCES)


def source(name: str) -> Source:
    """The entry of a task by its name."""
    if name not in SOURCES:
        raise InvalidParameterError(
            f"task must be one of {', '.join(SOURCES)}, got {name!r}"
        )
    return SOURCES[name]


def load(
    name: str,
    options: TaskOptions | None = None,
    *,
    data_dir: str | Path | None = None,
    cut: Cut | None = None,
) -> Task:
    """The task of that name, from the embedded data unless told otherwise.

    data_dir: a folder with the original files. cut: one that is at hand already, for
    example from `openml.fetch`.
    """
    entry = source(name)
    if options is None:
        options = entry.options()
    if not isinstance(options, entry.options):
        raise InvalidParameterError(
            f"options must be {entry.options.__name__} for the task {name!r}, got "
            f"{options!r}"
        )
    if data_dir is not None:
        cut = entry.from_files(Path(data_dir))
    elif cut is None:
        cut = embedded.read(name)
    private, public = _bounded(entry.split(cut, options), options.row_bound)
    if len(public) < len(private):
        raise InvalidParameterError(
            f"the options give n={len(private)} private rows but {len(public)} public "
            "ones; the schedules of the paper read n public rows an epoch"
        )
    return Task(
        name=name,
        title=entry.title,
        description=entry.description,
        private=private,
        public=public,
        loss=entry.loss,
        penalty=entry.penalty(options),
        options=options,
    )


def _bounded(split: recipes.Split, bound: RowBound) -> tuple[Rows, Rows]:
    private, public = split.private, split.public
    public_norm = _norm_bound(public.X)
    private_norm = public_norm if bound is RowBound.PUBLIC else _norm_bound(private.X)
    return (
        Rows.bounded(private.X, private.y, row_norm=private_norm),
        Rows.bounded(public.X, public.y, row_norm=public_norm),
    )


def _norm_bound(X: recipes.Array) -> float:
    """The largest row norm, rounded up to four digits, so that no row is touched."""
    largest = float(np.max(np.linalg.norm(X, axis=1))) * (1 + 1e-9)
    unit = 10.0 ** (math.floor(math.log10(largest)) - 3)
    return float(f"{math.ceil(largest / unit) * unit:.4g}")
