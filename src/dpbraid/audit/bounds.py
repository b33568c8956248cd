"""Lower bounds on privacy loss from what an attacker got right.

All bounds are for one pair of neighbouring tables and hold with a stated probability
over the runs, whatever the law of the released iterates is:

- *threshold test, Clopper-Pearson*: an (epsilon, delta)-private mechanism gives every
  test power <= e^epsilon * false positive rate + delta. Exact binomial limits on both
  rates turn counts into a lower bound on epsilon.
- *the same test against the Gaussian curve*: a mu-GDP mechanism gives every test
  power <= Phi(PhiInverse(false positive rate) + mu), hence a lower bound on mu.
- *one run* (Steinke, Nasr and Jagielski 2023, *Privacy Auditing with One (1) Training
  Run*, Corollary 5.4): many rows at once, each replaced or not by a fair coin.

`fitted_mu` is not among them: it takes scores to be Gaussian with one variance.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import (
    betainccinv,
    betaincinv,
    gammainccinv,
    gammaincinv,
    ndtr,
    ndtri,
)
from scipy.stats import binom

from dpbraid.privacy.profile import Curve, GaussianCurve, MinimumCurve

Array = NDArray[np.float64]


def rate_below(hits: int, runs: int, error: float) -> float:
    """A lower limit that fails with probability <= error (Clopper-Pearson)."""
    return float(betaincinv(hits, runs - hits + 1, error)) if hits else 0.0


def rate_above(hits: int, runs: int, error: float) -> float:
    """An upper limit that fails with probability <= error."""
    return float(betainccinv(hits + 1, runs - hits, error)) if hits < runs else 1.0


def mu_of(false_positives: float, power: float) -> float:
    """The mu of the Gaussian curve through a test's two rates; 0 below the diagonal."""
    if power <= false_positives:
        return 0.0
    return float(ndtri(power) - ndtri(false_positives))


def epsilon_of(false_positives: float, power: float, delta: float) -> float:
    """Least epsilon with power <= e^epsilon * false_positives + delta."""
    if power - delta <= false_positives:
        return 0.0
    if false_positives == 0:
        return math.inf
    return math.log((power - delta) / false_positives)


def claimed_power(curve: Curve, false_positives: float) -> float:
    """The largest power that a claim leaves to a test with this false positive rate.

    min over epsilon of delta + e^epsilon a and of 1 - e^-epsilon (1 - delta - a); both
    have one minimum, since hockey-stick divergences are convex in e^epsilon. Wherever
    the search ends it gives a valid, if larger, power.
    """
    if isinstance(curve, MinimumCurve):
        return min(claimed_power(c, false_positives) for c in curve.curves)
    if isinstance(curve, GaussianCurve):
        if math.isinf(curve.gdp):
            return 1.0
        return float(ndtr(ndtri(false_positives) + curve.gdp))

    def one(epsilon: float) -> float:
        return curve.delta(epsilon) + math.exp(epsilon) * false_positives

    def other(epsilon: float) -> float:
        return 1 - math.exp(-epsilon) * (1 - curve.delta(epsilon) - false_positives)

    least = min(one(0.0), 1.0)
    for power in (one, other):
        found = minimize_scalar(power, bounds=(0.0, 30.0), method="bounded")
        least = min(least, float(found.fun))
    return least


def fitted_mu(left: Array, right: Array, error: float) -> float:
    """Lower limit on mu if scores are Gaussian with one variance; else an estimate.

    Exact, by Student's t: with as many scores N on either side and a pooled deviation
    of std * s, s^2 ~ chi^2/(2N - 2), the distance is (mu + sqrt(2/N) z)/s. The limit is
    the mu at which a distance so large has probability `error`.
    """
    distance = separation(left, right)
    if not math.isfinite(distance):
        return distance
    scale = math.sqrt(min(len(left), len(right)) / 2)
    weights, deviations = _pooled(min(len(left), len(right)))
    least = distance * scale * deviations

    def excess(center: float) -> float:
        return float(weights @ ndtr(center - least)) - error

    if excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, float(least.max()) + 10)) / scale


@lru_cache
def _pooled(runs: int) -> tuple[Array, Array]:
    """The law of s of `fitted_mu`: weights, and its values at normal quantiles."""
    z = np.linspace(-9, 9, 1001)
    upper = gammainccinv(runs - 1, ndtr(-np.abs(z)))
    halves = np.where(z > 0, upper, gammaincinv(runs - 1, ndtr(-np.abs(z))))
    weights = np.exp(-(z**2) / 2)
    return weights / weights.sum(), np.sqrt(halves / (runs - 1))


def separation(left: Array, right: Array) -> float:
    """(mean of left - mean of right) over their pooled standard deviation."""
    difference = float(np.mean(left) - np.mean(right))
    std = math.sqrt(0.5 * float(np.var(left, ddof=1) + np.var(right, ddof=1)))
    scale = max(float(np.max(np.abs(left))), float(np.max(np.abs(right))))
    if std <= 1e-14 * scale:  # no noise at all
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / std


def one_run_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """Probability of so many correct guesses under (epsilon, delta)-DP, an upper bound.

    Corollary 5.4 of Steinke, Nasr and Jagielski (2023). Assumptions: each of the
    `canaries` bits is a fair coin, independent of the others; changing one bit changes
    one private row, so the map from bits to release is (epsilon, delta)-private in
    each bit; at most `guesses` bits are guessed, from the release alone. With W ~
    Binomial(guesses, e^epsilon / (1 + e^epsilon)):

        P(W >= correct) + 2 canaries delta max_i P(correct > W >= correct - i) / i.
    """
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    tail = float(law.sf(correct - 1))
    steps = np.arange(1, correct + 1)
    below = np.cumsum(law.pmf(correct - steps))
    slope = float(np.max(below / steps)) if correct else 0.0
    return min(tail + 2 * canaries * delta * slope, 1.0)


def one_run_epsilon(
    canaries: int, guesses: int, correct: int, delta: float, error: float
) -> float:
    """Largest epsilon that so many correct guesses refute at this error, rounded down.

    The p-value need not be monotone where delta counts: the scan stops at the first
    epsilon that is not refuted.
    """

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) < error

    if not refuted(0.0):
        return 0.0
    low = 0.0
    while low < 50 and refuted(low + 0.25):
        low += 0.25
    high = low + 0.25
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
