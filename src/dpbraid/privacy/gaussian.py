"""The Gaussian privacy profile: delta, epsilon and mu of mu-GDP (PRIVACY.md 2).

A mechanism is mu-GDP if telling two neighbouring tables apart is at least as hard as
telling N(mu, 1) from N(0, 1). Its exact privacy profile is (Balle and Wang 2018)

    delta(epsilon; mu) = Phi(-a) - e^epsilon Phi(-b),
    a = epsilon/mu - mu/2,  b = epsilon/mu + mu/2.

With Mills' ratio m(x) = Phi(-x)/phi(x) and b^2 - a^2 = 2 epsilon this is
phi(a) (m(a) - m(b)): no large factor, and where a and b are close the difference is the
integral of -m'(x) = 1 - x m(x) by Gauss-Legendre.

Every value is rounded towards more loss: delta up, epsilon up, mu (of a given epsilon
and delta) down. The margin is `MARGIN`, above the error of the evaluation for mu up to
1e3; beyond, the rounding of epsilon/mu - mu/2 makes it grow with mu.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate

Array = NDArray[np.float64]

MARGIN = 4e-12
_SMALLEST = math.ulp(0.0)
# Where mu is below this share of 1 + |a|, Mills' ratios are too close to subtract.
_CLOSE = 1e-2
_HALF_PI_ROOT = math.sqrt(math.pi / 2)
_TWO_PI_ROOT = math.sqrt(2 * math.pi)
_ROOT = math.sqrt(2)
# nodes and weights of 3-point Gauss-Legendre on [0, 1]
_NODES = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
_WEIGHTS = (5 / 18, 8 / 18, 5 / 18)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    mu = 0 gives 0 and mu = inf gives 1. For 0 < mu the result is never 0: below the
    smallest positive float it is that float.
    """
    _validate.nonnegative(epsilon=epsilon)
    _check_mu(mu)
    return delta_scalar(float(epsilon), float(mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    _check_mu(mu)
    _validate.probability(delta=delta)
    if math.isinf(mu):
        return math.inf
    return smallest(lambda epsilon: delta_scalar(epsilon, mu), delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down."""
    _validate.nonnegative(epsilon=epsilon)
    _validate.probability(delta=delta)
    log_inverse = -math.log(delta)
    # where Mironov's conversion of the Gaussian's Renyi curve meets delta
    guess = math.sqrt(2) * (math.sqrt(log_inverse + epsilon) - math.sqrt(log_inverse))
    low = high = max(guess, delta)
    while delta_scalar(epsilon, high) <= delta:
        high *= 2
    while delta_scalar(epsilon, low) > delta:
        low /= 2
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        if delta_scalar(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle


def smallest(delta_at: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon >= 0 with delta_at(epsilon) <= delta, rounded up.

    delta_at: nonincreasing. inf where no float epsilon will do.
    """
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
        if high > 1e300:
            return math.inf
    while high - low > 4 * math.ulp(high):
        middle = 0.5 * (low + high)
        if delta_at(middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def delta_scalar(epsilon: float, mu: float) -> float:
    """`gaussian_delta` without the checks."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    a = epsilon / mu - 0.5 * mu
    b = epsilon / mu + 0.5 * mu
    if a > 40:  # below 1e-347
        return _SMALLEST
    density = math.exp(-0.5 * a * a) / _TWO_PI_ROOT
    if a < -1:  # then mu > 2 and nothing cancels
        value = 1 - (0.5 * math.erfc(-a / _ROOT) + density * _mills(b))
    elif mu > _CLOSE * (1 + abs(a)):
        value = density * (_mills(a) - _mills(b))
    else:
        slope = sum(
            weight * _mills_slope(a + mu * node)
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        )
        value = density * mu * slope
    return min(value * (1 + MARGIN * max(1.0, mu / 1e3)) + _SMALLEST, 1.0)


def delta_array(epsilon: float | Array, mu: Array) -> Array:
    """`gaussian_delta` on arrays, without checks; shapes broadcast, 0 < mu < inf."""
    # importing scipy.special takes longer than all the rest
    from scipy.special import erfcx, ndtr

    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), mu)
    a = epsilon / mu - 0.5 * mu
    b = epsilon / mu + 0.5 * mu
    density = np.exp(-0.5 * a * a) / _TWO_PI_ROOT
    mills_b = _HALF_PI_ROOT * erfcx(b / _ROOT)
    # a is cut only where the branch for a < -1 holds
    mills_a = _HALF_PI_ROOT * erfcx(np.maximum(a, -1.0) / _ROOT)
    value: Array = density * (mills_a - mills_b)
    large = a < -1
    if np.any(large):
        value[large] = 1 - (ndtr(a[large]) + density[large] * mills_b[large])
    close = ~large & (mu <= _CLOSE * (1 + np.abs(a))) & (a <= 40)
    if np.any(close):
        near, width = a[close], mu[close]
        slope = np.zeros_like(near)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            slope += weight * _mills_slopes(near + width * node)
        value[close] = density[close] * width * slope
    margins = MARGIN * np.maximum(1.0, mu / 1e3)
    rounded: Array = np.minimum(value * (1 + margins) + _SMALLEST, 1.0)
    return rounded


def _mills(x: float) -> float:
    """Phi(-x)/phi(x) for x >= -1."""
    if x < 5:
        return _HALF_PI_ROOT * math.erfc(x / _ROOT) * math.exp(0.5 * x * x)
    return 1 / (x + _fraction(x))


def _mills_slope(x: float) -> float:
    """1 - x m(x), the negative derivative of Mills' ratio."""
    if x < 5:
        return 1 - x * _mills(x)
    t = _fraction(x)
    return t / (x + t)


def _fraction(x: float) -> float:
    """t = 1/(x + 2/(x + 3/...)), so that m(x) = 1/(x + t) and 1 - x m = t/(x + t)."""
    t = 0.0
    for k in range(24, 0, -1):
        t = k / (x + t)
    return t


def _mills_slopes(x: Array) -> Array:
    from scipy.special import erfcx

    direct = 1 - x * (_HALF_PI_ROOT * erfcx(x / _ROOT))
    far = np.maximum(x, 5.0)
    t = np.zeros_like(x)
    for k in range(24, 0, -1):
        t = k / (far + t)
    slopes: Array = np.where(x < 5, direct, t / (far + t))
    return slopes


def _check_mu(mu: float) -> None:
    if mu != math.inf:
        _validate.nonnegative(mu=mu)
