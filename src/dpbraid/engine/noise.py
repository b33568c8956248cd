"""Where the randomness of a run comes from: three separate streams, no global state.

`secure` streams are AES-128 in counter mode, each under its own key from the operating
system. `seeded` streams are reproducible, and therefore never private.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid.engine import gaussian, kernels, normals
from dpbraid.engine.normals import Words
from dpbraid.release import NoiseSource

Array = NDArray[np.float64]
AnyArray = NDArray[np.floating]
Seed = int | SeedSequence


class Shuffler:
    """The draws of an order from a Generator, its permutations by compiled code.

    They cost a quarter of NumPy's: of the time of an epoch on short rows, much.
    """

    def __init__(self, rng: Generator) -> None:
        self._rng = rng
        self._words = Words.of(rng)

    def permutation(self, n: int, /) -> NDArray[np.int64]:
        """A uniform permutation of range(n)."""
        if n >= 2**32:  # more than 32 bits can choose from
            return self._rng.permutation(n)
        out = np.empty(n, np.int64)
        kernels.permute(self._words.source, out)
        return out

    def integers(self, low: int, high: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Uniform integers in [low, high), one for each entry of high."""
        return self._rng.integers(low, high)


@dataclass(frozen=True)
class Streams:
    """Independent sources for the order, the noise and the start point."""

    order: Shuffler
    noise: Generator
    start: Generator
    source: NoiseSource


def secure() -> Streams:
    """Streams that nobody can predict or draw again."""
    from randomgen import AESCounter

    def stream() -> Generator:
        return Generator(AESCounter(key=secrets.randbits(128)))

    return Streams(Shuffler(stream()), stream(), stream(), NoiseSource.OS_ENTROPY)


def seeded(seed: Seed) -> Streams:
    """Streams that the same seed gives again: for research and tests."""
    if isinstance(seed, SeedSequence):
        root = seed
    else:
        _validate.integer(0, seed=seed)
        root = SeedSequence(int(seed))
    # not root.spawn, which would change the root that the caller holds
    order, noise, start = (
        Generator(
            np.random.SFC64(
                SeedSequence(
                    root.entropy,
                    spawn_key=(*root.spawn_key, number),
                    pool_size=root.pool_size,
                )
            )
        )
        for number in range(3)
    )
    return Streams(Shuffler(order), noise, start, NoiseSource.USER_SEED)


class BlockNoise(NamedTuple):
    """The noise of blocks: where it is drawn from, or what it is.

    source: the words from which kernels draw it, a block at a time into W[0] and z; or
    GIVEN, and W (blocks, d) holds the sum of each block's noise vectors, z (rows,) the
    numbers <a_i, W_t>.
    """

    source: tuple[int, int]
    W: AnyArray
    z: Array


GIVEN = (0, 0)


class Noise(Protocol):
    """The noise vectors rho_1, rho_2, .. of a run, in the forms the engine asks for.

    All are standard normal; the engine scales them. Each call moves on to new vectors.
    """

    def steps(self, out: AnyArray) -> None:
        """Fill `out` of shape (steps, d): one vector a step."""

    def blocks(
        self,
        size: int,
        times: NDArray[np.int64],
        table: AnyArray,
        rows: NDArray[np.int64],
    ) -> BlockNoise:
        """The noise of blocks of `size` rows each, one after the other.

        The a_i are table[rows]; times[i] is t, the number of a block's steps before its
        row i.
        """

    def end(self, X: AnyArray, rates: Array, stds: Array) -> None:
        """X <- X - rates * stds * rho for one vector: the noise of an epoch's end."""


class Gaussian:
    """Gaussian noise in the floating-point numbers of the state."""

    def __init__(self, rng: Generator) -> None:
        self._words = Words.of(rng)

    def steps(self, out: AnyArray) -> None:
        """Draw d normals a step."""
        normals.fill(self._words.source, 1.0, out.reshape(-1))

    def blocks(
        self,
        size: int,
        times: NDArray[np.int64],
        table: AnyArray,
        rows: NDArray[np.int64],
    ) -> BlockNoise:
        """W_B ~ N(0, B I) for B steps, and one normal a row for the bridge."""
        W = np.empty((1, table.shape[1]), table.dtype)
        return BlockNoise(self._words.source, W, np.empty(size))

    def end(self, X: AnyArray, rates: Array, stds: Array) -> None:
        """Draw one vector for all columns."""
        rho = np.empty(len(X), X.dtype)
        normals.fill(self._words.source, 1.0, rho)
        X -= rho[:, None] * (rates * stds).astype(X.dtype)


@dataclass(frozen=True)
class OnGrid:
    """Exactly rounded Gaussian noise at epoch ends, on a float64 state of one column.

    grid: the power of two gamma; bound: the radius that the state is projected to
    after each noise, which in all likelihood never does anything (numeric.py).
    """

    rng: Generator
    grid: float
    bound: float

    def end(self, X: AnyArray, rates: Array, stds: Array) -> None:
        """X <- gamma (round(X / gamma) + round(Z / gamma)), Z ~ N(0, (rate std)^2)."""
        cells = _cells(float(rates[0]), float(stds[0]), self.grid)
        drawn = gaussian.draw(self.rng, len(X), cells)
        norm = math.sqrt(kernels.to_grid(X[:, 0], drawn, self.grid))
        if norm > self.bound:
            X *= self.bound / norm * (1 - 2.0**-40)

    def steps(self, out: AnyArray) -> None:
        """Not on this grid."""
        raise NotImplementedError(_ONLY_AT_ENDS)

    def blocks(
        self,
        size: int,
        times: NDArray[np.int64],
        table: AnyArray,
        rows: NDArray[np.int64],
    ) -> BlockNoise:
        """Not on this grid."""
        raise NotImplementedError(_ONLY_AT_ENDS)


@lru_cache
def _cells(rate: float, std: float, grid: float) -> Fraction:
    """Rate std / grid, exactly."""
    return Fraction(rate) * Fraction(std) / Fraction(grid)


_ONLY_AT_ENDS = "noise on a grid is for the ends of epochs"
