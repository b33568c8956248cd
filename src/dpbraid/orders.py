"""Orders: who says in which order an epoch walks through the private rows.

An order yields one permutation of range(n) an epoch; an epoch that uses n_d < n private
rows uses the first n_d of it. Shuffled orders are *secret* by default: the engine draws
them from its own source and forgets them. Say ``secret=False`` when somebody else may
know the order (a published seed, a pre-shuffled file): the accountant then refuses the
analyses that need the secret.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._variant import Variant

Permutation = NDArray[np.int64]


class Draws(Protocol):
    """What orders ask of a source of randomness; NumPy's Generator is one."""

    def permutation(self, n: int, /) -> Permutation:
        """A uniform permutation of range(n)."""

    def integers(self, low: int, high: Permutation, /) -> Permutation:
        """Uniform integers in [low, high), one for each entry of high."""


class Order(Variant, ABC):
    """A rule for the order of the private rows in every epoch."""

    @abstractmethod
    def permutations(self, n: int, rng: Draws) -> Iterator[Permutation]:
        """Endless: the permutation of range(n) for each epoch in turn."""


@dataclass(frozen=True)
class Incremental(Order):
    """IG: the order of the table, in every epoch."""

    kind = "incremental"

    def permutations(self, n: int, rng: Draws) -> Iterator[Permutation]:  # noqa: D102
        numbers = np.arange(n)
        while True:
            yield numbers


@dataclass(frozen=True)
class ShuffleOnce(Order):
    """SO: one uniform permutation, drawn before the first epoch, for all of them."""

    secret: bool = True
    kind = "shuffle_once"

    def __post_init__(self) -> None:
        _validate.boolean(secret=self.secret)

    def permutations(self, n: int, rng: Draws) -> Iterator[Permutation]:  # noqa: D102
        permutation = rng.permutation(n)
        while True:
            yield permutation


@dataclass(frozen=True)
class Reshuffle(Order):
    """RR: a fresh uniform permutation for every epoch."""

    secret: bool = True
    kind = "reshuffle"

    def __post_init__(self) -> None:
        _validate.boolean(secret=self.secret)

    def permutations(self, n: int, rng: Draws) -> Iterator[Permutation]:  # noqa: D102
        while True:
            yield rng.permutation(n)


@dataclass(frozen=True)
class ShuffleBuffer(Order):
    """TensorFlow's shuffle buffer: incremental at size 1, a full shuffle at size >= n.

    The buffer holds the next `size` rows of the table; each step takes a uniformly
    random one out of it and puts the table's next row in its place. The result is not a
    uniform permutation for 1 < size < n, so no analysis may use its randomness.
    """

    size: int
    kind = "shuffle_buffer"

    def __post_init__(self) -> None:
        _validate.integer(1, size=self.size)
        _validate.plain(self)

    def permutations(self, n: int, rng: Draws) -> Iterator[Permutation]:  # noqa: D102
        while True:
            yield self._epoch(n, rng)

    def _epoch(self, n: int, rng: Draws) -> Permutation:
        filled = min(self.size, n)
        buffer = list(range(filled))
        # while rows are left the buffer stays full, then it drains
        lengths = np.minimum(filled, np.arange(n, 0, -1))
        picks = rng.integers(0, lengths)
        permutation = np.empty(n, dtype=np.int64)
        for t, pick in enumerate(picks):
            permutation[t] = buffer[pick]
            if filled + t < n:
                buffer[pick] = filled + t
            else:
                buffer[pick] = buffer[-1]
                buffer.pop()
        return permutation
