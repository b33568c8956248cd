"""The Gaussian profile against 80-digit arithmetic, over all of its range."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import gaussian, gaussian_delta, gaussian_epsilon, gaussian_mu

mus = st.floats(-8, 3).map(lambda power: 10**power)
epsilons = st.one_of(st.just(0.0), st.floats(-9, 3).map(lambda power: 10**power))
log_deltas = st.floats(-300, -0.01)


def exact(epsilon: float, mu: float) -> mp.mpf:
    """Balle and Wang's formula, the two terms as they stand, with digits to spare."""
    # the two terms agree to about log10(1/mu) digits
    with mp.workdps(80 + max(0, -2 * math.frexp(mu)[1] // 3)):
        eps, m = mp.mpf(epsilon), mp.mpf(mu)
        a, b = eps / m - m / 2, eps / m + m / 2
        tail = mp.erfc(a / mp.sqrt(2)) / 2
        return tail - mp.exp(eps) * mp.erfc(b / mp.sqrt(2)) / 2


def ratio(value: float, truth: mp.mpf) -> float:
    with mp.workdps(80):
        return float(mp.mpf(value) / truth - 1)


@settings(max_examples=300)
@given(epsilons, mus)
@example(1e3, 1e3)
@example(5e5, 1e3)
@example(0.0, 1e-8)
@example(0.0, 1e3)
def test_delta_is_above_the_truth_and_hardly(epsilon: float, mu: float) -> None:
    value = gaussian_delta(epsilon, mu)
    truth = exact(epsilon, mu)
    assert 0 < value <= 1
    if truth < mp.mpf("1e-305"):
        assert mp.mpf(value) >= truth
        assert value < 1.1e-305
    else:
        assert 0 <= ratio(value, truth) < 2.5 * gaussian.MARGIN


@settings(max_examples=60)
@given(st.floats(3, 12), st.floats(-2, 39))
def test_beyond_its_range_delta_stays_above_the_truth(log_mu: float, a: float) -> None:
    """mu up to 1e12: the margin grows with the rounding of epsilon / mu."""
    mu = 10**log_mu
    epsilon = mu * (a + mu / 2)
    assume(epsilon >= 0)
    with mp.workdps(80):
        assert mp.mpf(gaussian_delta(epsilon, mu)) >= exact(epsilon, mu)


@settings(max_examples=100)
@given(st.lists(st.tuples(epsilons, mus), min_size=1, max_size=8))
def test_arrays_are_the_numbers(pairs: list[tuple[float, float]]) -> None:
    found = gaussian.delta_array(
        np.array([e for e, _ in pairs]), np.array([m for _, m in pairs])
    )
    for (epsilon, mu), value in zip(pairs, found, strict=True):
        assert value == pytest.approx(gaussian_delta(epsilon, mu), rel=4e-12)
        assert mp.mpf(float(value)) >= exact(epsilon, mu)


@settings(max_examples=100)
@given(epsilons, log_deltas)
@example(0.0, -300)
@example(1e3, -300)
def test_mu_is_below_the_truth_and_hardly(epsilon: float, log_delta: float) -> None:
    delta = 10**log_delta
    mu = gaussian_mu(epsilon, delta)
    assert exact(epsilon, mu) <= mp.mpf(delta)
    assert exact(epsilon, mu * (1 + 1e-10)) > mp.mpf(delta)


@settings(max_examples=100)
@given(mus, log_deltas)
@example(1e3, -300)
@example(1e-8, -300)
def test_epsilon_is_above_the_truth_and_hardly(mu: float, log_delta: float) -> None:
    delta = 10**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert math.isfinite(epsilon)
    assert exact(epsilon, mu) <= mp.mpf(delta) * (1 + mp.mpf("1e-14"))
    if epsilon > 0:
        assert exact(epsilon * (1 - 1e-9), mu) > mp.mpf(delta) * (1 - mp.mpf("1e-11"))


@settings(max_examples=200)
@given(epsilons, mus, st.floats(1e-6, 1))
def test_monotone_in_both(epsilon: float, mu: float, step: float) -> None:
    """Ordered to the last digit but the margin."""
    value = gaussian_delta(epsilon, mu)
    slack = 1 + 2 * gaussian.MARGIN
    assert gaussian_delta(epsilon, mu * (1 + step)) * slack >= value
    assert gaussian_delta(epsilon * (1 + step), mu) <= value * slack


def test_round_trip() -> None:
    for epsilon in (0.0, 1e-3, 1.0, 10.0, 500.0):
        for delta in (0.4, 1e-6, 1e-100):
            mu = gaussian_mu(epsilon, delta)
            assert gaussian_delta(epsilon, mu) <= delta
            assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)


def test_edges() -> None:
    assert gaussian_delta(1, 0) == 0
    assert gaussian_delta(1, math.inf) == 1
    assert gaussian_epsilon(0, 1e-6) == 0
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_delta(1e3, 1e-8) == math.ulp(0.0)  # never 0: that is a promise
    with pytest.raises(db.InvalidParameterError, match="mu must be"):
        gaussian_delta(1, -1)
    with pytest.raises(db.InvalidParameterError, match="mu must be"):
        gaussian_epsilon(math.nan, 0.5)
    with pytest.raises(db.InvalidParameterError, match="delta must be"):
        gaussian_mu(1, 0)
    with pytest.raises(db.InvalidParameterError, match="epsilon must be"):
        gaussian_mu(-1, 0.5)
