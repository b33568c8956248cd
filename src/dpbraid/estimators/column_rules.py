"""Column rules: how the columns of a table become features and labels.

Rules are public: made from a public table (`dpbraid.estimators.table_rules`) or written
by the user, never from private rows. Each row is mapped by itself, so one private row
stays one private row; a cell that no rule foresees is mapped all the same, as the rule
says, and nobody hears of it.

A missing cell is an empty one, a null, or a text that the rule makes nothing of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid._variant import Variant
from dpbraid.estimators import cells as cell

Array = NDArray[np.float64]

# Features are cut here, far below what the square of a row's norm can hold.
LARGEST = 1e100


class ColumnRule(Variant, ABC):
    """One column of a table as one or more features."""

    name: str

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """A name for each feature."""

    @abstractmethod
    def fill(self, column: pa.Array, out: Array) -> None:
        """Write the features of a column's cells to out, (rows, features)."""


class TargetRule(Variant, ABC):
    """One column of a table as labels."""

    name: str

    @abstractmethod
    def labels(self, column: pa.Array) -> NDArray[Any]:
        """The label of each cell, (rows,), with a mark where there is none."""

    @abstractmethod
    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Which labels are not that mark."""


@dataclass(frozen=True)
class Number(ColumnRule):
    """(x - center) / scale; a cell that is no finite number counts as `missing`."""

    name: str
    missing: float
    center: float = 0.0
    scale: float = 1.0
    kind = "number"

    def __post_init__(self) -> None:
        _name(self.name)
        _validate.finite(missing=self.missing, center=self.center)
        _validate.positive(scale=self.scale)
        _validate.plain(self)

    @property
    def features(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.name,)

    def fill(self, column: pa.Array, out: Array) -> None:  # noqa: D102
        values = cell.numbers(column)
        np.copyto(values, self.missing, where=np.isnan(values))
        with np.errstate(all="ignore"):
            values -= self.center
            values /= self.scale
        np.clip(values, -LARGEST, LARGEST, out=out[:, 0])


@dataclass(frozen=True)
class Boolean(ColumnRule):
    """1 for true (or 1), 0 for false (or 0); any other cell counts as `missing`."""

    name: str
    missing: bool
    kind = "boolean"

    def __post_init__(self) -> None:
        _name(self.name)
        _validate.boolean(missing=self.missing)

    @property
    def features(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.name,)

    def fill(self, column: pa.Array, out: Array) -> None:  # noqa: D102
        values = cell.truths(column)
        out[:, 0] = np.where(np.isnan(values), float(self.missing), values)


@dataclass(frozen=True)
class Category(ColumnRule):
    """One feature a category, 1 for its cells; any other cell has 0 in all of them."""

    name: str
    categories: tuple[str, ...]
    kind = "category"

    def __post_init__(self) -> None:
        _name(self.name)
        object.__setattr__(self, "categories", _words("categories", self.categories, 1))

    @property
    def features(self) -> tuple[str, ...]:
        """``column=category`` for each category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def fill(self, column: pa.Array, out: Array) -> None:  # noqa: D102
        places = self._lookup.places(column)
        out[:] = 0.0
        rows = np.flatnonzero(places >= 0)
        out[rows, places[rows]] = 1.0

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.categories)


@dataclass(frozen=True)
class Real(TargetRule):
    """A number as it stands; any other cell is no label (NaN)."""

    name: str
    kind = "real"

    def __post_init__(self) -> None:
        _name(self.name)

    def labels(self, column: pa.Array) -> NDArray[Any]:  # noqa: D102
        return cell.numbers(column)

    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:  # noqa: D102
        found: NDArray[np.bool_] = np.isfinite(labels)
        return found


@dataclass(frozen=True)
class Classes(TargetRule):
    """One of the classes, as its text; any other cell is no label (an empty text)."""

    name: str
    classes: tuple[str, ...]
    kind = "classes"

    def __post_init__(self) -> None:
        _name(self.name)
        object.__setattr__(self, "classes", _words("classes", self.classes, 2))

    def labels(self, column: pa.Array) -> NDArray[Any]:  # noqa: D102
        words = np.array([*self.classes, ""])
        labels: NDArray[Any] = words[self._lookup.places(column)]
        return labels

    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:  # noqa: D102
        found: NDArray[np.bool_] = labels != ""
        return found

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.classes)


class Lookup:
    """The place of a cell among some words, -1 for none of them.

    Words that are all different numbers, or true and false, are compared as such, so
    that 1, 1.0 and the text "1" are the same; other words letter by letter, without the
    blanks around them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = pa.array([w.encode() for w in words], pa.large_binary())
        self._read = None
        for read in (cell.numbers, cell.truths):
            values = read(self._words)
            if len(np.unique(values[~np.isnan(values)])) == len(words):
                self._read, self._order = read, np.argsort(values)
                self._values = values[self._order]
                break

    def places(self, column: pa.Array) -> NDArray[np.int64]:
        """The place of each cell, (rows,)."""
        if self._read is None:
            found = pc.index_in(cell.texts(column), value_set=self._words)
            places: NDArray[np.int64] = (
                pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            )
            return places
        values = self._read(column)
        near = np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)
        same: NDArray[np.bool_] = self._values[near] == values
        return np.where(same, self._order[near], -1)


def _name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidParameterError(f"name must be a column's name, got {name!r}")


def _words(name: str, words: Any, least: int) -> tuple[str, ...]:
    if (
        not isinstance(words, list | tuple)
        or len(words) < least
        or not all(
            isinstance(w, str) and w and w.strip(cell.BLANKS) == w for w in words
        )
        or len(set(words)) != len(words)
    ):
        raise InvalidParameterError(
            f"{name} must be {least} or more different texts without blanks around "
            f"them, got {words!r}"
        )
    return tuple(words)
