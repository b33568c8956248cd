"""Neighbouring tables on which a mechanism tells the most about one row.

No private row is ever used: the tables are made from the mechanism's public bounds, or
from public rows that the caller hands over. In each pair one row is replaced; left and
right of it all rows are the same, and the row stands at the last private step, the
worst position of every proof, unless the pair says otherwise.

Words: the row *pushes* if its gradient is as large as the clip norm, the row bound and
the loss allow, wherever the iterate may be; *idle* rows leave the iterate where it is,
*pulling* rows draw it back to 0 and let it forget earlier noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.losses import Labels, Mean
from dpbraid.mechanism import Mechanism
from dpbraid.rows import Rows
from dpbraid.starts import Given

Array = NDArray[np.float64]

# A label, or a point to average, beyond every iterate: its gradient is clipped.
_FAR = 1e9


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two tables that differ in one row, and the direction in which they push apart.

    direction: the unit vector, shape (d,), along which the release is expected to
    differ, left of it larger; None to learn it from pilot runs alone.
    """

    name: str
    words: str
    left: Rows
    right: Rows
    public: Rows | None = None
    start: Array | None = None
    direction: Array | None = None


def neighbours(
    mechanism: Mechanism,
    dimension: int,
    *,
    public: Rows | None = None,
    rng: np.random.Generator,
) -> tuple[Neighbours, ...]:
    """The pairs that every audit tries; with public rows also canaries among them.

    dimension: number of columns d. public: rows on which the mechanism is to be
    audited; they stand in for the private ones, again and again where n is larger.
    """
    return tuple(_pairs(Maker(mechanism, dimension), public, rng))


def private_rows(mechanism: Mechanism) -> list[int]:
    """Private rows of the epochs that use any."""
    used = [e.private_rows for e in mechanism.epochs if e.private_rows]
    if not used:
        raise InvalidParameterError(
            "the mechanism uses no private row: there is nothing to audit"
        )
    return used


def _pairs(
    make: Maker, public: Rows | None, rng: np.random.Generator
) -> Iterator[Neighbours]:
    n, d, m = make.n, make.dimension, make.mechanism
    used = private_rows(m)
    last = min(used) - 1  # used in every private epoch, in the order of the table
    # the last column, which penalties leave alone where it is an intercept
    e, f = make.axis(d - 1), make.axis(0)
    idle = make.idle(n, f)
    yield make.pair(
        "linear", "the row pushes, all others are idle", idle, e, last, start=0.75 * e
    )
    if max(used) > min(used):
        yield make.pair(
            "seldom",
            "the row pushes in the longest epochs alone, all others are idle",
            idle,
            e,
            max(used) - 1,
        )
    if max(used) < n:
        yield make.pair(
            "unused",
            "the row after those that the order of the table uses pushes",
            idle,
            e,
            max(used),
        )
    pulling = make.pulling(n, e)
    if n > 1 or m.public_rows:
        yield make.pair(
            "reset", "the row pushes last, all others pull back to 0", pulling, e, last
        )
    if n > 1:
        yield make.pair(
            "first", "the row pushes first, all others pull back to 0", pulling, e, 0
        )
        yield make.pair(
            "duplicated",
            "all others are copies of the row on the left",
            make.pushing(n, e),
            e,
            last,
        )
    if n > 1 and d > 1:
        yield make.pair(
            "orthogonal",
            "all others are random, orthogonal to the row's gradient",
            make.random(n, rng),
            e,
            last,
        )
        tilted = 0.5 * f + np.sqrt(0.75) * e
        yield make.pair(
            "extreme",
            "all others push to where the row's gradient is largest",
            make.pushing(n, -f),
            tilted,
            last,
            other=tilted - np.sqrt(3) * e,
            start=-0.75 * f,
            direction=e,
        )
    if public is not None:
        yield from _canaries(make, public, last, rng)


def _canaries(
    make: Maker, public: Rows, last: int, rng: np.random.Generator
) -> Iterator[Neighbours]:
    """Canaries among the caller's public rows."""
    if public.dimension != make.dimension:
        raise InvalidParameterError(
            f"public must have {make.dimension} columns, got {public.dimension}"
        )
    again = np.arange(make.n) % len(public)
    y = None if public.y is None else public.y[again]
    table = (public.X[again], y)
    m = make.mechanism
    gradient = m.loss.gradients(
        np.zeros(make.dimension), public.X, public.y, m.clip_norm
    ).mean(axis=0)
    norm = float(np.linalg.norm(gradient))
    drawn = rng.standard_normal(make.dimension)
    directions = [("random canary", drawn / np.linalg.norm(drawn))]
    if norm > 0:
        directions.append(("aligned canary", -gradient / norm))
    for name, v in directions:
        words = "public rows, and one row that pushes in a random direction"
        if name == "aligned canary":
            words = "public rows, and one row that pushes along their mean gradient"
        yield make.pair(name, words, table, v, last, public=public)


_Table = tuple[Array, Array | None]


class Maker:
    """Rows within the bounds of one mechanism."""

    def __init__(self, mechanism: Mechanism, dimension: int) -> None:
        self.mechanism = mechanism
        self.dimension = dimension
        self.n = mechanism.n
        loss, clip = mechanism.loss, mechanism.clip_norm
        self._mean = isinstance(loss, Mean)
        self._binary = loss.labels is Labels.BINARY
        # without a bound on rows: one whose gradient the clip norm cuts everywhere
        self._free = 10 * (clip or 1.0) if self._binary else _FAR if self._mean else 1.0

    def axis(self, number: int) -> Array:
        """The unit vector of one column."""
        unit = np.zeros(self.dimension)
        unit[number] = 1.0
        return unit

    def norm(self, bound: float | None) -> float:
        """The norm of a row that pushes, under a public bound."""
        return self._free if bound is None else bound

    def pushing(self, n: int, direction: Array, bound: float | None = None) -> _Table:
        """n rows that push the iterate along the direction."""
        size = self.norm(self.mechanism.row_norm if bound is None else bound)
        X = np.tile(size * direction, (n, 1))
        return X, None if self._mean else np.full(n, 1.0 if self._binary else _FAR)

    def idle(self, n: int, direction: Array, bound: float | None = None) -> _Table:
        """n rows that leave the iterate alone, or push to and fro along a direction.

        A clipped mean has no row without a gradient.
        """
        X = np.zeros((n, self.dimension))
        if self._mean and self.mechanism.clip_norm is not None:
            size = self.norm(self.mechanism.row_norm if bound is None else bound)
            X = np.outer(size * _alternating(n), direction)
        return X, None if self._mean else np.ones(n)

    def pulling(self, n: int, direction: Array) -> _Table:
        """n rows whose losses are least where the iterate is 0 in the direction."""
        if self._mean:
            return np.zeros((n, self.dimension)), None
        X = np.tile(self.norm(self.mechanism.row_norm) * direction, (n, 1))
        return X, _alternating(n) if self._binary else np.zeros(n)

    def random(self, n: int, rng: np.random.Generator) -> _Table:
        """n random rows of the largest norm, 0 in the last column."""
        size = self.norm(self.mechanism.row_norm)
        X = rng.standard_normal((n, self.dimension))
        X[:, -1] = 0.0
        X *= min(size, 1e3) / np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.standard_normal(n)
        return X, None if self._mean else np.sign(y) if self._binary else y

    def pair(
        self,
        name: str,
        words: str,
        table: _Table,
        push: Array,
        position: int,
        *,
        other: Array | None = None,
        start: Array | None = None,
        direction: Array | None = None,
        public: Rows | None = None,
    ) -> Neighbours:
        """The table with its row at `position` pushing one way, and the other way.

        start: in units of the norm that a given start may have.
        """
        return Neighbours(
            name,
            words,
            self._replaced(table, push, position),
            self._replaced(table, -push if other is None else other, position),
            self.public(public),
            self.start(np.zeros_like(push) if start is None else start),
            push if direction is None else direction,
        )

    def start(self, point: Array) -> Array | None:
        """`point` times the given start's norm bound; None for other starts."""
        start = self.mechanism.start
        return start.norm * point if isinstance(start, Given) else None

    def public(self, rows: Rows | None) -> Rows | None:
        """The public table: these rows if they are enough, else idle ones."""
        m = self.mechanism
        if not m.public_rows or (rows is not None and len(rows) >= m.public_rows):
            return rows if m.public_rows else None
        X, y = self.idle(m.public_rows, self.axis(0), m.public_bound)
        return Rows.bounded(X, y, row_norm=m.public_bound)

    def _replaced(self, table: _Table, push: Array, position: int) -> Rows:
        X, y = table[0].copy(), None if table[1] is None else table[1].copy()
        row, label = self.pushing(1, push)
        X[position] = row[0]
        if y is not None and label is not None:
            y[position] = label[0]
        return Rows.bounded(X, y, row_norm=self.mechanism.row_norm)


def _alternating(n: int) -> Array:
    return np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
