"""composition, epoch_end and paper: each epoch pays for its own use."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import PrivacyAssumptionError, account, calibrate
from tests.privacy.instances import clipped
from tests.privacy.literal import Walk, accountable, last_steps, walk


def mu_of(mechanism: db.Mechanism, analysis: str = "composition") -> float:
    mu = account(mechanism, analysis).mu
    assert mu is not None
    return mu


def by_epochs(mechanism: db.Mechanism) -> float:
    """Theorem 1 on every epoch by itself, from its first step to its last."""
    steps, start, cost = walk(mechanism, last_steps(mechanism)), 0, 0.0
    for end in steps.epoch_ends:
        alone = Walk(
            steps.shifts[start:end], steps.noise[start:end], steps.factors[start:end]
        )
        cost += alone.mu() ** 2
        start = end
    return math.sqrt(cost)


@settings(max_examples=300)
@given(accountable())
def test_composition_is_theorem_1_in_every_epoch(mechanism: db.Mechanism) -> None:
    exact = by_epochs(mechanism)
    assert mu_of(mechanism) == pytest.approx(exact, rel=1e-12)


@settings(max_examples=100)
@given(st.integers(1, 200), st.integers(1, 60), st.floats(0.1, 9), st.data())
def test_closed_forms(n: int, k: int, noise: float, data: st.DataObject) -> None:
    """B: mu^2 = 4 G^2 K/(m sigma^2); A: R = mu^2/2, epsilon = R + 2 sqrt(R L)."""
    n_d = data.draw(st.integers(1, n))
    mechanism = clipped(n, [(n_d, noise)] * k)
    mu = 2 / noise * math.sqrt(k / (n - n_d + 1))
    assert 0 <= mu_of(mechanism) / mu - 1 < 1e-12
    for delta in (0.1, 1e-6, 1e-200):
        exact = mu**2 / 2 + 2 * math.sqrt(mu**2 / 2 * -math.log(delta))
        found = account(mechanism, "paper").epsilon(delta)
        assert 0 <= found / exact - 1 < 1e-12


def test_the_paper_is_the_best_order_of_mironov() -> None:
    """delta = min over alpha of exp(-(alpha - 1)(epsilon - alpha R))."""
    mechanism = clipped(50, [(30, 4.0)] * 5)
    rate = mu_of(mechanism) ** 2 / 2
    profile = account(mechanism, "paper")
    for epsilon in (rate * 1.01, 1.0, 3.0):
        orders = [1 + 10 ** (i / 2000 - 6) for i in range(20_000)]
        best = math.exp(min(-(a - 1) * (epsilon - a * rate) for a in orders))
        assert profile.delta(epsilon) == pytest.approx(best, rel=1e-5)
        assert profile.delta(epsilon) <= best * (1 + 1e-12)
    assert profile.delta(rate) == 1.0
    assert profile.mu is None  # not the profile of a Gaussian


def test_below_the_renyi_curve_is_not_gaussian_dp() -> None:
    """PRIVACY.md 3: why `composition` is not read off the paper's Renyi bound.

    Randomised response with epsilon_0 = 1 has Renyi divergences below those of mu = 1
    at every order, and a larger total variation than mu = 1 allows.
    """
    p = math.e / (1 + math.e)
    for order in (1.0001, 1.5, 2, 5, 50, 500):
        # the ratio of the probabilities is e^1 and e^-1
        log_moment = math.log(p * math.exp(order - 1) + (1 - p) * math.exp(1 - order))
        assert log_moment / (order - 1) <= order / 2
    total_variation = 2 * p - 1
    assert total_variation == pytest.approx(0.4621, abs=1e-4)
    assert total_variation > db.privacy.gaussian_delta(0, 1) + 0.07


@settings(max_examples=200)
@given(accountable(placements=["epoch_end"]))
def test_epoch_end_is_one_gaussian_an_epoch(mechanism: db.Mechanism) -> None:
    cost = 0.0
    for epoch in mechanism.epochs:
        if epoch.private_rows:
            radius = mechanism.clip_norm or 1.0
            shift = 2 * radius / mechanism.batch_size
            cost += math.inf if not epoch.noise_std else (shift / epoch.noise_std) ** 2
    assert mu_of(mechanism, "epoch_end") == pytest.approx(math.sqrt(cost), rel=1e-12)
    assert mu_of(mechanism) == pytest.approx(math.sqrt(cost), rel=1e-12)


def test_public_steps_after_epoch_end_noise_may_be_anything() -> None:
    """They are post-processing: any learning rate, any public row."""
    wild = clipped(9, [(1, 2.0)] * 3, placement="epoch_end", rates=[50.0] * 3)
    assert mu_of(wild, "epoch_end") == pytest.approx(math.sqrt(3), rel=1e-12)
    with pytest.raises(PrivacyAssumptionError, match=r"private steps of epoch 1 are"):
        account(
            replace(wild, epochs=(replace(wild.epochs[0], private_rows=2),)),
            "epoch_end",
        )


def test_no_placement_needs_less_noise_in_the_release() -> None:
    """Theorem 3: std >= 2 eta G K/mu, attained by epoch_end."""
    target = {"epsilon": 1.0, "delta": 1e-6}
    mu = db.privacy.gaussian_mu(1.0, 1e-6)
    n, k, clip = 40, 7, 0.5
    for n_d in (1, 20, 40):
        at_end = clipped(n, [(n_d, 1.0)] * k, clip_norm=clip, placement="epoch_end")
        found = calibrate(at_end, **target, analysis="epoch_end")
        least = 2 * clip * k / mu
        assert account(found).released_std == pytest.approx(least, rel=1e-11)
        spread = clipped(n, [(n_d, 1.0)] * k, clip_norm=clip)
        for name in ("paper", "composition", "hidden_state"):
            found = calibrate(spread, **target, analysis=name)
            assert account(found, name).released_std >= least * (1 - 1e-12)


# -- any learning rate ----------------------------------------------------------------

RATE = 9.0  # above 2/L = 8 of the logistic loss at row norm 1


@pytest.mark.parametrize("analysis", ["composition", "paper"])
def test_without_public_rows_any_learning_rate_will_do(analysis: str) -> None:
    """7.5: m = 1 is plain composition, every use paid by its own step."""
    slow = clipped(9, [(9, 3.0)] * 4)
    fast = clipped(9, [(9, 3.0)] * 4, rates=[RATE] * 4)
    for epsilon in (0.5, 2.0):
        assert account(fast, analysis).delta(epsilon) == pytest.approx(
            account(slow, analysis).delta(epsilon), rel=1e-12
        )


def test_interleaved_at_a_large_rate_falls_back() -> None:
    fast = clipped(9, [(4, 3.0)] * 4, rates=[RATE] * 4)
    assert mu_of(fast) == pytest.approx(2 / 3 * math.sqrt(4), rel=1e-12)
    with pytest.raises(PrivacyAssumptionError, match="which the lemma needs"):
        account(fast, "paper")


def test_each_epoch_takes_its_own_way() -> None:
    mixed = clipped(9, [(4, 3.0)] * 3, rates=[1.0, RATE, 1.0])
    cost = (2 / 3) ** 2 * (1 / 6 + 1 + 1 / 6)
    assert mu_of(mixed) == pytest.approx(math.sqrt(cost), rel=1e-12)
    payments = {a.name: a.evidence for a in account(mixed, "composition").assumptions}
    assert "epoch 1: a use is amplified" in payments["payment"]
    assert "epoch 2: a use is paid by the noise of its own step" in payments["payment"]


def test_epoch_end_noise_at_a_large_rate_pays_the_displacement() -> None:
    """7.5 (ii): each of the steps in between adds at most 2 eta C."""
    fast = clipped(9, [(5, 3.0)] * 2, placement="epoch_end", rates=[RATE] * 2)
    shift, noise, extra = 2 * RATE, 3 * RATE, 4 * 2 * RATE
    assert mu_of(fast) == pytest.approx((shift + extra) / noise * math.sqrt(2))
    # the natural bound of the loss limits a step where it is below the clip norm
    loose = replace(fast, clip_norm=5.0)
    shift, extra = 10 * RATE, 4 * 2 * RATE
    assert mu_of(loose) == pytest.approx((shift + extra) / noise * math.sqrt(2))


def test_displacement_bounds_the_real_thing() -> None:
    """Two runs of a steep loss at a large rate, never farther apart than accounted."""
    rng = np.random.default_rng(5)
    loss, eta, clip, steps = db.Squared(), 3.0, 1.0, 6
    worst = 0.0
    for _ in range(2000):
        X, y = rng.normal(size=(steps, 2)), rng.normal(size=steps)
        a, b = np.zeros(2), np.zeros(2)
        for t in range(steps):
            row, label = (-X[t] if t == 0 else X[t]), y[t]
            a = a - eta * loss.gradients(a, X[t : t + 1], y[t : t + 1], clip)[0]
            b = b - eta * loss.gradients(b, row[None], np.array([label]), clip)[0]
        worst = max(worst, float(np.linalg.norm(a - b)))
    limit = 2 * eta * clip + (steps - 1) * 2 * eta * clip
    print(f"largest distance {worst:.3f}, accounted {limit:.3f}")
    assert worst <= limit
    assert worst > 2 * eta * clip  # a shift alone would not have covered it
