"""Subsampling in each epoch and composition over epochs (PRIVACY.md 5, D4).

With a fresh permutation for every epoch, given its start an epoch has the profile

    delta_k(epsilon) <= p mean_j delta_G(e; mu_j),  e = ln(1 + (exp(epsilon) - 1)/p),

p = n_d/n, j uniform over its slots, mu_j what the epoch pays by itself for a use there;
with one noise w after the last private step mu_j = s/w. Replacing is symmetric, so
delta_k(-epsilon) = 1 - exp(-epsilon) (1 - delta_k(epsilon)); this is the profile of
some pair of laws, which dominates the epoch, and dominating pairs compose adaptively
(Zhu, Dong and Wang 2022). It is not valid where one permutation serves all epochs.

Numerics. The profile, as a function of exp(epsilon), is replaced by its chords on a
grid of epsilons, which lie above it: the profile of a pair with finitely many privacy
losses. Their sum is computed by FFT after an exponential tilt that centres it at the
epsilon asked for, so that rounding errors are relative to a Chernoff bound of delta
itself. Mass beyond the grid counts as infinite loss; mass that the FFT may misplace,
and its rounding errors, are bounded and added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbraid.privacy import gaussian
from dpbraid.privacy.iteration import rounded_mu
from dpbraid.privacy.profile import Curve, amplified_epsilons, bracketed_factor

Array = NDArray[np.float64]

# The grid's step in units of the loss's standard deviation per epoch, its largest size,
# and the number of standard deviations of the largest mu that it reaches (1e-40).
_RESOLUTION = 1 / 32
_LARGEST_GRID = 1 << 15
_REACH = 13.4
_COARSEST = 50.0
_BEYOND = 1e-40
_MISPLACED = 1e-17
_LARGEST_FFT = 1 << 23
_UNIT = 2.0**-53


# mus of slots are rounded up to at most this many values, at least this far apart
_MOST_MUS = 192
_FINEST_MUS = 1e-3


def merged(mus: Array, weights: Array, most: int = _MOST_MUS) -> tuple[Array, Array]:
    """The slots with about `most` different mus or fewer, each rounded up."""
    low, high = math.log(float(np.min(mus))), math.log(float(np.max(mus)))
    width = max(_FINEST_MUS, (high - low) / most)
    index = np.ceil((np.log(mus) - low) / width - 1e-9).astype(np.int64)
    sums: Array = np.bincount(index, weights).astype(np.float64)
    largest = np.zeros(len(sums))
    np.maximum.at(largest, index, mus)
    kept = sums > 0
    return largest[kept], sums[kept]


@dataclass(frozen=True, eq=False)
class EpochLaw:
    """One epoch: the mus of its slots with their shares, and participation p."""

    mus: Array
    weights: Array
    participation: float

    def scaled(self, factor: float) -> EpochLaw:
        """With all noise multiplied by factor."""
        return EpochLaw(self.mus / factor, self.weights, self.participation)

    def resembles(self, other: EpochLaw) -> bool:
        """Whether the other law differs by no more than the rounding of its mus."""
        return (
            self.participation == other.participation
            and np.array_equal(self.weights, other.weights)
            and np.allclose(self.mus, other.mus, rtol=1e-12, atol=0.0)
        )

    def joined(self, other: EpochLaw) -> EpochLaw:
        """One law that is above both."""
        mus = np.maximum(self.mus, other.mus)
        return EpochLaw(mus, self.weights, self.participation)

    def profile(self, epsilons: Array) -> Array:
        """delta_k at each epsilon >= 0, rounded up."""
        inner = amplified_epsilons(epsilons, self.participation)
        total = np.zeros(len(epsilons))
        for mu, weight in zip(self.mus, self.weights, strict=True):
            end = int(np.searchsorted(inner, mu * _REACH + 0.5 * mu * mu, "right"))
            total[:end] += weight * gaussian.delta_array(inner[:end], mu)
            total[end:] += weight * _BEYOND
        deltas: Array = self.participation * total * (1 + gaussian.MARGIN)
        return deltas + math.ulp(0.0)

    @property
    def reach(self) -> float:
        """An epsilon beyond which delta_k is below 1e-40."""
        mu = float(np.max(self.mus))
        inner = mu * _REACH + 0.5 * mu * mu
        if inner > 30:
            return inner
        return math.log1p(self.participation * math.expm1(inner))

    @property
    def variance(self) -> float:
        """About the variance of the privacy loss, of a rare or a certain Gaussian."""
        rare = self.participation**2 * np.expm1(np.minimum(self.mus**2, 20.0))
        return float(np.sum(self.weights * np.minimum(rare, self.mus**2)))


@dataclass(frozen=True, eq=False)
class ComposedCurve(Curve):
    """D4: adaptive composition of `count` times each epoch law."""

    laws: tuple[tuple[int, EpochLaw], ...]

    def scaled(self, factor: float) -> ComposedCurve:  # noqa: D102
        laws = tuple((count, law.scaled(factor)) for count, law in self.laws)
        return ComposedCurve(laws)

    @cached_property
    def worst(self) -> float:
        """mu of the composition without the secret, every row at its worst position.

        It holds as well, and is the guarantee where the grid gives no better.
        """
        cost = sum(count * float(np.max(law.mus)) ** 2 for count, law in self.laws)
        return rounded_mu(cost, len(self.laws))

    def noise_factor(self, epsilon: float, delta: float) -> float:
        """Bracketing from the factor that composition without the secret needs."""
        start = self.worst / gaussian.gaussian_mu(epsilon, delta)
        return bracketed_factor(
            lambda f: self.scaled(f).delta(epsilon), delta, start, 1e-8
        )

    def delta(self, epsilon: float) -> float:  # noqa: D102
        return min(self._by_grid(epsilon), gaussian.delta_scalar(epsilon, self.worst))

    def _by_grid(self, epsilon: float) -> float:
        """The theorem, composed numerically."""
        if sum(count for count, _ in self.laws) == 1:
            return float(self.laws[0][1].profile(np.array([epsilon]))[0])
        if self._grid is None:
            return 1.0
        step, pairs = self._grid
        infinite = -math.expm1(
            sum(count * math.log1p(-pair.infinite) for count, pair in pairs)
        )
        finite = _composed_delta(pairs, step, epsilon)
        return min((finite + infinite) * (1 + 1e-9) + math.ulp(0.0), 1.0)

    @cached_property
    def _grid(self) -> tuple[float, list[tuple[int, _Losses]]] | None:
        """The grid's step and each law's losses on it; None where nothing is proved."""
        epochs = sum(count for count, _ in self.laws)
        variance = sum(count * law.variance for count, law in self.laws) / epochs
        reach = max(law.reach for _, law in self.laws)
        step = max(math.sqrt(variance) * _RESOLUTION, reach / _LARGEST_GRID)
        if not 0 < step < _COARSEST:
            return None
        return step, [(count, _losses(law, step)) for count, law in self.laws]


@dataclass(frozen=True, eq=False)
class _Losses:
    """Masses of the first law on the losses i * step, i = -m..m, and at infinity."""

    masses: Array
    infinite: float

    @cached_property
    def index(self) -> Array:
        """The i of each mass."""
        m = len(self.masses) // 2
        return np.arange(-m, m + 1, dtype=np.float64)

    @cached_property
    def logs(self) -> Array:
        """The logarithms of the masses."""
        return np.log(self.masses)

    def log_moment(self, slope: float) -> float:
        """ln E exp(slope * i) over the finite losses."""
        logs = self.logs + slope * self.index
        top = float(np.max(logs))
        # exp of what cannot count is slow
        return top + math.log(float(np.sum(np.exp(np.maximum(logs - top, -690)))))

    def moments(self, slope: float) -> tuple[float, float]:
        """About the mean and the variance of i under the tilt exp(slope * i)."""
        logs = self.logs + slope * self.index
        relevant = logs > np.max(logs) - 50
        tilted, index = np.exp(logs[relevant] - np.max(logs)), self.index[relevant]
        tilted /= np.sum(tilted)
        mean = float(np.sum(tilted * index))
        return mean, float(np.sum(tilted * (index - mean) ** 2))


def _losses(law: EpochLaw, step: float) -> _Losses:
    """The pair whose profile is the chords of the law's profile on the grid."""
    m = max(math.ceil(law.reach / step), 2)
    H = law.profile(np.arange(m + 1, dtype=np.float64) * step)
    growth = math.exp(step)
    drops = H[:-1] - H[1:]  # drops[i] = H_i - H_{i+1}
    # mass at i is alpha_i times the change of the slope at alpha_i = exp(i step)
    upper = np.empty(m)
    upper[:-1] = growth * drops[:-1] - drops[1:]
    upper[-1] = growth * drops[-1]
    upper = np.maximum(upper / math.expm1(step), 1e-320)
    # the pair is its own mirror image: mass at -i is the second law's at i
    lower = np.maximum(upper * np.exp(-step * np.arange(1, m + 1)), 1e-320)
    middle = 1 - (float(H[0]) * (1 + growth) - 2 * float(H[1])) / math.expm1(step)
    masses = np.concatenate((lower[::-1], [max(middle, 1e-320)], upper))
    return _Losses(masses, float(H[-1]))


def _composed_delta(
    pairs: list[tuple[int, _Losses]], step: float, epsilon: float
) -> float:
    """E (1 - exp(epsilon - L))_+ for the sum L of all finite losses, bounded above."""

    def log_moment(slope: float) -> float:
        return sum(count * pair.log_moment(slope) for count, pair in pairs)

    target = epsilon / step
    most = sum(count * (len(pair.masses) // 2) for count, pair in pairs)
    if target >= most:
        return 0.0
    slope = _tilt(pairs, target)
    at = log_moment(slope)
    mean, variance = _tilted_moments(pairs, slope)
    std = math.sqrt(max(variance, 1.0))
    # a window that holds all of the tilted law but _MISPLACED on either side
    right = _window(log_moment, slope, at, mean, std, 1)
    left = _window(log_moment, slope, at, mean, std, -1)
    first = math.floor(mean - left)
    last = min(math.ceil(mean + right), most)
    first = min(first, math.floor(target))
    size = 1 << max(last - first, 2).bit_length()
    bound = at - slope * target
    if size > _LARGEST_FFT:
        return min(math.exp(min(bound, 0.0)), 1.0)  # Chernoff
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    norm, epochs = 0.0, 0
    for count, pair in pairs:
        logs = pair.logs + slope * pair.index - pair.log_moment(slope)
        tilted = np.exp(np.maximum(logs, -690))
        index = pair.index.astype(np.int64) % size
        cyclic: Array = np.bincount(index, tilted, size).astype(np.float64)
        transform *= np.fft.rfft(cyclic) ** count
        norm = max(norm, math.sqrt(float(np.sum(cyclic**2))))
        epochs += count
    law = np.maximum(np.fft.irfft(transform, size), 0.0)
    i = np.arange(math.floor(target) + 1, last + 1)
    excess = i * step - epsilon
    gain = np.exp(-slope * (i - target)) * -np.expm1(-excess)
    error = 16 * _UNIT * math.log2(size) * (epochs + 4) * norm
    total = float(np.sum(law[i % size] * gain)) + error * math.sqrt(
        float(np.sum(gain**2))
    )
    total += 2 * _MISPLACED
    return math.exp(min(bound + math.log(total), 0.0))


def _tilt(pairs: list[tuple[int, _Losses]], target: float) -> float:
    """The slope >= 0 at which the tilted sum has mean `target`; 0 if it is above."""
    if _tilted_moments(pairs, 0.0)[0] >= target:
        return 0.0
    low, high = 0.0, 1e-3
    while _tilted_moments(pairs, high)[0] < target and high < 1e3:
        low, high = high, 2 * high
    for _ in range(16):
        middle = 0.5 * (low + high)
        if _tilted_moments(pairs, middle)[0] < target:
            low = middle
        else:
            high = middle
    return low


def _tilted_moments(
    pairs: list[tuple[int, _Losses]], slope: float
) -> tuple[float, float]:
    mean = variance = 0.0
    for count, pair in pairs:
        own = pair.moments(slope)
        mean += count * own[0]
        variance += count * own[1]
    return mean, variance


def _window(
    log_moment: Callable[[float], float],
    slope: float,
    at: float,
    mean: float,
    std: float,
    side: int,
) -> float:
    """Distance from the mean beyond which the tilted sum has mass <= _MISPLACED.

    Chernoff: P(side (L - mean) >= w) <= exp(K(slope + side t) - K(slope)
    - side t mean - t w), with a few values of t.
    """
    log_mass = math.log(_MISPLACED)
    best = math.inf
    for scale in (9.0, 6.0, 4.0, 2.5, 1.5, 1.0, 0.6, 0.3, 0.1):
        t = scale / std
        cumulant = log_moment(slope + side * t) - at - side * t * mean
        best = min(best, (cumulant - log_mass) / t)
    return best
