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
from typing import Protocol

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from dpbraid.engine import gaussian, kernels
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

    def permutation(self, n: int, /) -> NDArray[np.int64]:
        """A uniform permutation of range(n)."""
        if n >= 2**32:  # more than 32 bits can choose from
            return self._rng.permutation(n)
        out = np.arange(n)
        left = n - 1
        while left > 0:
            words = np.asarray(self._rng.bit_generator.random_raw(left // 2 + 1))
            left = kernels.shuffle(words.view(np.uint32), out, left)
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
    root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
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
        W: AnyArray,
        z: Array,
    ) -> bool:
        """The noise of blocks of `size` rows each, one after the other.

        W of shape (blocks, d): the sum of each block's noise vectors. z of shape
        (rows,): the numbers <a_i, W_t> themselves, then the answer is True; or normals
        from which `kernels.bridge` makes them given W, then it is False. The a_i are
        table[rows]; times[i] is t, the number of the block's steps before row i's.
        """

    def end(self, X: AnyArray, rates: Array, stds: Array) -> None:
        """X <- X - rates * stds * rho for one vector: the noise of an epoch's end."""


class Gaussian:
    """Gaussian noise in the floating-point numbers of the state.

    Few normals are drawn ahead, AHEAD at a time: a call of the compiled generator costs
    as much as thousands of them. They come in the same order either way.
    """

    AHEAD = 2**14

    def __init__(self, rng: Generator) -> None:
        self._rng = rng
        self._drawn = np.empty(self.AHEAD)
        self._used = self.AHEAD

    def fill(self, out: AnyArray, std: float = 1.0) -> None:
        """Fill `out` of shape (count,) with the next normals of the stream."""
        first = 0
        while first < len(out):
            if self._used == self.AHEAD:
                if len(out) - first >= self.AHEAD and out.dtype == np.float64:
                    kernels.normals(self._rng, std, out[first:])
                    return
                kernels.normals(self._rng, 1.0, self._drawn)
                self._used = 0
            count = min(len(out) - first, self.AHEAD - self._used)
            used = self._drawn[self._used : self._used + count]
            out[first : first + count] = std * used
            self._used += count
            first += count

    def steps(self, out: AnyArray) -> None:
        """Draw d normals a step."""
        self.fill(out.reshape(-1))

    def blocks(
        self,
        size: int,
        times: NDArray[np.int64],
        table: AnyArray,
        rows: NDArray[np.int64],
        W: AnyArray,
        z: Array,
    ) -> bool:
        """W_B ~ N(0, B I) for B steps, and one normal a row for the bridge."""
        if len(W) > 1:
            self.fill(W[:-1].reshape(-1), math.sqrt(times[size - 1] + 1))
        self.fill(W[-1], math.sqrt(times[-1] + 1))
        self.fill(z)
        return False

    def end(self, X: AnyArray, rates: Array, stds: Array) -> None:
        """Draw one vector for all columns."""
        rho = np.empty(len(X), X.dtype)
        self.fill(rho)
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
        W: AnyArray,
        z: Array,
    ) -> bool:
        """Not on this grid."""
        raise NotImplementedError(_ONLY_AT_ENDS)


@lru_cache
def _cells(rate: float, std: float, grid: float) -> Fraction:
    """Rate std / grid, exactly."""
    return Fraction(rate) * Fraction(std) / Fraction(grid)


_ONLY_AT_ENDS = "noise on a grid is for the ends of epochs"
