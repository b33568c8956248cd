"""Confidence limits, trade-off points and the one-run theorem, against exact values."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, nct, norm

from dpbraid.audit import bounds
from dpbraid.privacy.gaussian import gaussian_delta
from dpbraid.privacy.profile import GaussianCurve, MinimumCurve, MixtureCurve


@given(st.integers(1, 3000), st.floats(0, 1), st.sampled_from([0.3, 0.025, 1e-6]))
def test_limits_are_clopper_and_pearsons(runs: int, share: float, error: float) -> None:
    hits = round(share * runs)
    exact = binomtest(hits, runs).proportion_ci(1 - 2 * error, "exact")
    assert bounds.rate_below(hits, runs, error) == pytest.approx(exact.low, rel=1e-9)
    assert bounds.rate_above(hits, runs, error) == pytest.approx(exact.high, rel=1e-9)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.2, 0.5, 0.93, 1.0])
def test_limits_fail_no_more_often_than_they_say(rate: float) -> None:
    """Summed over all outcomes of 40 runs, without any randomness."""
    hits = np.arange(41)
    chances = binom.pmf(hits, 40, rate)
    for error in (0.2, 0.01):
        below = np.array([bounds.rate_below(int(k), 40, error) for k in hits])
        above = np.array([bounds.rate_above(int(k), 40, error) for k in hits])
        assert chances[below > rate].sum() <= error * (1 + 1e-9)
        assert chances[above < rate].sum() <= error * (1 + 1e-9)


def test_a_gaussian_pair_gives_its_own_mu_at_every_threshold() -> None:
    for mu in (0.1, 1.0, 4.0):
        for threshold in (-1.0, 0.3, 2.0):
            rates = norm.sf(threshold), norm.sf(threshold - mu)
            assert bounds.mu_of(*rates) == pytest.approx(mu)
            epsilon = bounds.epsilon_of(*rates, 1e-3)
            # no test beats the best one at this epsilon
            if epsilon > 0:
                assert gaussian_delta(epsilon, mu) >= 1e-3 * (1 - 1e-9)
    assert bounds.mu_of(0.4, 0.3) == 0.0
    assert bounds.epsilon_of(0.4, 0.4, 1e-6) == 0.0
    assert bounds.epsilon_of(0.0, 0.5, 1e-6) == math.inf


def test_claimed_power_of_a_gaussian_by_both_ways() -> None:
    """A mixture of one is searched numerically, the Gaussian is in closed form."""
    for mu in (0.2, 1.0, 3.0):
        searched = MixtureCurve(np.array([mu]), np.ones(1))
        for rate in (1e-4, 0.02, 0.3, 0.8):
            exact = float(norm.cdf(norm.ppf(rate) + mu))
            assert bounds.claimed_power(GaussianCurve(mu), rate) == pytest.approx(exact)
            found = bounds.claimed_power(searched, rate)
            assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-3)
            both = MinimumCurve((searched, GaussianCurve(mu / 2)))
            assert bounds.claimed_power(both, rate) < found
    assert bounds.claimed_power(GaussianCurve(0.0), 0.3) == pytest.approx(0.3)
    assert bounds.claimed_power(GaussianCurve(math.inf), 0.3) == 1.0


def test_separation_and_fit() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(1.5, 2, 4000), rng.normal(0.5, 2, 4000)
    assert bounds.separation(left, right) == pytest.approx(0.5, abs=0.11)  # 5 se
    assert bounds.fitted_mu(left, right, 0.05) < bounds.separation(left, right)
    same = np.full(10, 3.0)
    assert bounds.separation(same + 1, same) == math.inf
    assert bounds.separation(same, same) == 0.0


def test_the_fit_is_the_limit_of_the_noncentral_t() -> None:
    """Two implementations; and limits fail as often as they say, for three scores."""
    rng = np.random.default_rng(1)
    for runs in (2, 3, 50, 1000):
        left, right = rng.normal(2.5, 1, runs), rng.normal(0, 1, runs)
        scale = math.sqrt(runs / 2)
        seen = bounds.separation(left, right) * scale
        for error in (0.3, 0.05, 1e-7):
            limit = bounds.fitted_mu(left, right, error)
            again = nct.sf(seen, 2 * runs - 2, limit * scale)
            assert again == pytest.approx(error, rel=1e-6) or (
                limit == 0 and again > error
            )
    fails, trials = 0, 2000
    for _ in range(trials):
        left, right = rng.normal(3, 1, 3), rng.normal(0, 1, 3)
        fails += bounds.fitted_mu(left, right, 0.05) > 3
    # 5 standard errors; a normal approximation fails in 0.097 of all cases
    assert abs(fails / trials - 0.05) < 5 * math.sqrt(0.05 * 0.95 / trials)


# -- one run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "delta", "printed"),
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
)
def test_one_run_gives_the_numbers_of_its_paper(
    canaries: int, guesses: int, correct: int, delta: float, printed: float
) -> None:
    """arXiv:2305.08846, Appendix D and Section 7, to the last printed digit."""
    found = bounds.one_run_epsilon(canaries, guesses, correct, delta, 0.05)
    assert found == pytest.approx(printed, abs=1e-3)


def test_one_run_on_randomised_response_is_exact() -> None:
    """Coins told truthfully with the odds e^epsilon: the worst case at delta 0."""
    m, epsilon, error = 60, 1.2, 0.05
    correct = np.arange(m + 1)
    chances = binom.pmf(correct, m, 1 / (1 + math.exp(-epsilon)))
    found = [bounds.one_run_epsilon(m, m, int(v), 0.0, error) for v in correct]
    exceeds = chances[np.array(found) > epsilon].sum()
    assert 0.2 * error < exceeds <= error


def test_one_run_grows_with_right_guesses_and_falls_with_delta() -> None:
    found = [bounds.one_run_epsilon(200, 100, v, 1e-6, 0.05) for v in range(40, 101)]
    assert all(a <= b for a, b in pairwise(found))
    assert found[0] == 0.0
    assert found[-1] > 3
    for delta in (0.0, 1e-5, 1e-3):
        value = bounds.one_run_epsilon(200, 100, 90, delta, 0.05)
        assert value >= bounds.one_run_epsilon(200, 100, 90, 3 * delta + 1e-9, 0.05)
    assert bounds.one_run_p_value(10, 5, 0, 1.0, 1e-3) == 1.0
