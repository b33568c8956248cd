"""Privacy profiles: what an analysis proves, as a function of epsilon.

A `Curve` is the mathematics: an upper bound on delta at every epsilon, for all pairs of
tables that differ in one replaced private row. A `PrivacyProfile` is a curve with the
name of the theorem behind it and the conditions under which it holds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid.privacy import gaussian

Array = NDArray[np.float64]

# Numbers of two analyses that differ by less than this factor are equal: what is
# between them is how they are rounded up.
_EQUAL = 1 + 1e-9


class PrivacyAssumptionError(_validate.DpbraidError):
    """A condition of the analysis does not hold, so it proves nothing.

    problem: the step or epoch, the number and the limit. remedy: what to change.
    valid: the analyses that hold for the same mechanism.
    """

    def __init__(
        self, problem: str, remedy: str, valid: tuple[str, ...] | None = None
    ) -> None:
        self.problem = problem
        self.remedy = remedy
        self.valid = valid
        message = f"{problem}; {remedy}"
        if valid is not None:
            names = ", ".join(repr(name) for name in valid) or "none"
            message += f"; analyses that hold for this mechanism: {names}"
        super().__init__(message)


@dataclass(frozen=True)
class Assumption:
    """One condition of a guarantee: what it says, and how it is known to hold."""

    name: str
    statement: str
    evidence: str


@dataclass(frozen=True)
class Considered:
    """An analysis that did not give the guarantee, and why."""

    analysis: str
    reason: str


class Curve(ABC):
    """An upper bound on delta for every epsilon >= 0, nonincreasing."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at epsilon, rounded up."""

    @abstractmethod
    def scaled(self, factor: float) -> Curve:
        """The curve of the same mechanism with all noise multiplied by factor > 0."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon with delta(epsilon) <= delta, rounded up."""
        return gaussian.smallest(self.delta, delta)

    @property
    def mu(self) -> float | None:
        """The mu of mu-GDP, where the curve is that of a Gaussian."""
        return None

    def noise_factor(self, epsilon: float, delta: float) -> float:
        """Factor of all noise at which delta(epsilon) meets delta, or a hair above.

        Bracketing on the logarithm of the factor: delta is nonincreasing in it.
        """
        return bracketed_factor(lambda f: self.scaled(f).delta(epsilon), delta, 1.0)


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """mu-GDP (PRIVACY.md 2). mu = 0: nothing private is used; inf: nothing hides it."""

    gdp: float

    def delta(self, epsilon: float) -> float:  # noqa: D102
        return gaussian.delta_scalar(epsilon, self.gdp)

    def epsilon(self, delta: float) -> float:  # noqa: D102
        return gaussian.gaussian_epsilon(self.gdp, delta)

    def scaled(self, factor: float) -> GaussianCurve:
        """Mu is a ratio of shift to noise."""
        return GaussianCurve(self.gdp / factor)

    @property
    def mu(self) -> float:  # noqa: D102
        return self.gdp

    def noise_factor(self, epsilon: float, delta: float) -> float:
        """Closed form, since mu is inversely proportional to the noise."""
        return self.gdp / gaussian.gaussian_mu(epsilon, delta)


@dataclass(frozen=True)
class RenyiCurve(Curve):
    """Renyi divergence <= alpha R at every order alpha > 1, by Mironov's conversion.

    epsilon = min over alpha of alpha R + ln(1/delta)/(alpha - 1)
            = R + 2 sqrt(R ln(1/delta)), at alpha = 1 + sqrt(ln(1/delta)/R)
    (PRIVACY.md 3, A).
    """

    rate: float

    def delta(self, epsilon: float) -> float:  # noqa: D102
        if self.rate == 0:
            return 0.0
        if epsilon <= self.rate or math.isinf(self.rate):
            return 1.0
        exponent = (epsilon - self.rate) ** 2 / (4 * self.rate)
        value = math.exp(-exponent) * (1 + 1e-15 * (8 + exponent))
        return min(value + math.ulp(0.0), 1.0)

    def epsilon(self, delta: float) -> float:  # noqa: D102
        log_inverse = -math.log(delta)
        value = self.rate + 2 * math.sqrt(self.rate * log_inverse)
        return value * (1 + 1e-15)

    def scaled(self, factor: float) -> RenyiCurve:
        """R is a ratio of squared shift to variance."""
        return RenyiCurve(self.rate / factor**2)

    def noise_factor(self, epsilon: float, delta: float) -> float:
        """Closed form: sqrt(R) = sqrt(L + epsilon) - sqrt(L) with L = ln(1/delta)."""
        log_inverse = -math.log(delta)
        root = epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
        if root == 0:
            return math.inf
        return math.sqrt(self.rate) / root


@dataclass(frozen=True, eq=False)
class MixtureCurve(Curve):
    """A secret choice among Gaussian pairs, and whether the row takes part at all.

    delta(epsilon) = p sum_i w_i delta_G(e; mu_i),  e = ln(1 + (exp(epsilon) - 1)/p)

    with weights w_i >= 0 that sum to at most 1 (the rest is mu = 0) and participation
    p; p = 1 is plain joint convexity of the hockey-stick divergence (PRIVACY.md 5, D1).
    """

    mus: Array
    weights: Array
    participation: float = 1.0

    def delta(self, epsilon: float) -> float:  # noqa: D102
        if len(self.mus) == 0:
            return 0.0
        inner = amplified_epsilon(epsilon, self.participation)
        deltas = gaussian.delta_array(inner, self.mus)
        # a positive sum of products: its relative error is below the margin
        value = self.participation * float(np.sum(self.weights * deltas))
        return min(value * (1 + gaussian.MARGIN) + math.ulp(0.0), 1.0)

    def scaled(self, factor: float) -> MixtureCurve:  # noqa: D102
        return MixtureCurve(self.mus / factor, self.weights, self.participation)


@dataclass(frozen=True, eq=False)
class MinimumCurve(Curve):
    """The smallest of several valid curves, at each epsilon for itself."""

    curves: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:  # noqa: D102
        return min(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:  # noqa: D102
        return min(curve.epsilon(delta) for curve in self.curves)

    def scaled(self, factor: float) -> MinimumCurve:  # noqa: D102
        return MinimumCurve(tuple(curve.scaled(factor) for curve in self.curves))

    @property
    def mu(self) -> float | None:
        """The smallest mu, where no other curve can be below its Gaussian.

        That is so of Gaussian curves, and of a Renyi curve with mu^2 <= 2 R.
        """
        mu = min((c.mu for c in self.curves if c.mu is not None), default=None)
        if mu is None:
            return None
        for curve in self.curves:
            above = isinstance(curve, RenyiCurve) and 2 * curve.rate * _EQUAL >= mu * mu
            if curve.mu is None and not above:
                return None
        return mu

    def noise_factor(self, epsilon: float, delta: float) -> float:
        """The smallest factor; of equal ones, up to rounding, that of the first curve.

        A curve that is no better there is not solved.
        """
        best = math.inf
        for curve in self.curves:
            less = best / _EQUAL
            if math.isfinite(best) and curve.scaled(less).delta(epsilon) > delta:
                continue
            best = min(best, curve.noise_factor(epsilon, delta))
        return best


@dataclass(frozen=True, eq=False)
class PrivacyProfile:
    """A guarantee for the release of a mechanism, for replacing one private row.

    analysis: the name of the theorem. assumptions: its conditions, each with how it is
    known to hold. released_std: std per coordinate of the noise that has gathered in
    the iterate before the last proximal step if every map contracts exactly by its
    certified factor, in units of x (it includes the learning rate). considered: for
    "best", the analyses that lost, with the reason. alternatives: for "best", the
    profiles of all analyses that hold; the guarantee is the smallest at each epsilon.
    """

    analysis: str
    curve: Curve
    assumptions: tuple[Assumption, ...]
    released_std: float
    considered: tuple[Considered, ...] = ()
    alternatives: tuple[PrivacyProfile, ...] = ()

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at epsilon >= 0."""
        _validate.nonnegative(epsilon=epsilon)
        return self.curve.delta(float(epsilon))

    def epsilon(self, delta: float) -> float:
        """Upper bound on the epsilon that goes with 0 < delta < 1; inf for none."""
        _validate.probability(delta=delta)
        return self.curve.epsilon(float(delta))

    @property
    def mu(self) -> float | None:
        """The mu of mu-GDP; None where the profile is not that of a Gaussian."""
        return self.curve.mu

    def at(self, epsilon: float) -> PrivacyProfile:
        """The profile of the one analysis that gives the guarantee at epsilon.

        Of analyses that are equal up to rounding, the one that asks for least.
        """
        _validate.nonnegative(epsilon=epsilon)
        if not self.alternatives:
            return self
        deltas = [profile.delta(epsilon) for profile in self.alternatives]
        return self.alternatives[first_smallest(deltas)]

    def __repr__(self) -> str:
        mu = "" if self.mu is None else f"mu={self.mu!r}, "
        return (
            f"<PrivacyProfile: {self.analysis}, {mu}released_std={self.released_std!r}>"
        )


def first_smallest(deltas: Sequence[float]) -> int:
    """Index of the first delta that is the smallest up to rounding."""
    lowest = min(deltas) * _EQUAL
    return next(i for i, delta in enumerate(deltas) if delta <= lowest)


def amplified_epsilon(epsilon: float, participation: float) -> float:
    """ln(1 + (exp(epsilon) - 1)/p), stable for large epsilon; rounded down."""
    if participation == 1:
        return epsilon
    # = epsilon - ln p + ln(p exp(-epsilon) + 1 - exp(-epsilon))
    log_p = math.log(participation)
    if epsilon < 1:
        value = math.log1p(math.expm1(epsilon) / participation)
    else:
        value = epsilon - log_p + math.log1p((participation - 1) * math.exp(-epsilon))
    return value * (1 - 1e-15)


def amplified_epsilons(epsilons: Array, participation: float) -> Array:
    """`amplified_epsilon` on an array."""
    if participation == 1:
        return epsilons
    small = np.log1p(np.expm1(np.minimum(epsilons, 1.0)) / participation)
    large = np.log1p((participation - 1) * np.exp(-np.maximum(epsilons, 1.0)))
    values: Array = np.where(
        epsilons < 1, small, epsilons - math.log(participation) + large
    )
    return values * (1 - 1e-15)


def bracketed_factor(
    delta_at: Callable[[float], float],
    delta: float,
    start: float = 1.0,
    tolerance: float = 1e-13,
) -> float:
    """Smallest factor f with delta_at(f) <= delta, rounded up by `tolerance`.

    delta_at: nonincreasing in f and continuous; a root search on log f and log delta.
    inf where no factor will do.
    """
    from scipy.optimize import brentq

    def gap(log_factor: float) -> float:
        return math.log(max(delta_at(math.exp(log_factor)), 1e-320)) - math.log(delta)

    low = high = math.log(start)
    width = 0.25
    while gap(high) > 0:
        low, high, width = high, high + width, 2 * width
        if high > 600:
            return math.inf
    while low == high or gap(low) <= 0:
        low, high, width = min(low, high) - width, low, 2 * width
        if low < -300:
            return math.exp(high)
    root = brentq(gap, low, high, xtol=tolerance, rtol=1e-15)
    factor, nudge = math.exp(root), tolerance
    while delta_at(factor) > delta:
        factor, nudge = factor * (1 + nudge), 2 * nudge
    return factor
