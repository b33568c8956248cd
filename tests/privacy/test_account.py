"""account and calibrate: names, the best of all, and noise that is re-checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import ANALYSES, PrivacyAssumptionError, registry
from dpbraid.privacy.profile import (
    GaussianCurve,
    MinimumCurve,
    RenyiCurve,
    bracketed_factor,
)
from tests.privacy.instances import clipped
from tests.privacy.literal import accountable


def test_public_names() -> None:
    assert db.account is db.privacy.account
    assert db.calibrate is db.privacy.calibrate
    assert set(ANALYSES) == {
        "paper",
        "composition",
        "hidden_state",
        "secret_order",
        "epoch_end",
    }


def test_unknown_names_and_things() -> None:
    mechanism = clipped(4, [(4, 1.0)])
    message = "analysis must be one of 'best', .* got 'renyi'"
    with pytest.raises(db.InvalidParameterError, match=message):
        db.account(mechanism, "renyi")
    with pytest.raises(db.InvalidParameterError, match=message):
        db.calibrate(mechanism, epsilon=1, delta=1e-6, analysis="renyi")
    with pytest.raises(db.InvalidParameterError, match="must be a Mechanism, got dict"):
        db.account(mechanism.to_json())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("paper")(ANALYSES["paper"])


@pytest.mark.parametrize(
    ("mechanism", "winner"),
    [
        (clipped(20, [(20, 3.0)] * 4, order=db.Incremental()), "hidden_state"),
        (clipped(20, [(20, 3.0)] * 4), "secret_order"),
        (clipped(20, [(20, 3.0)], order=db.Incremental()), "composition"),
        (
            clipped(20, [(20, 3.0)], order=db.Incremental(), row_norm=None),
            "composition",
        ),
        (
            clipped(20, [(20, 3.0)] * 4, order=db.Incremental(), placement="epoch_end"),
            "epoch_end",
        ),
        (clipped(20, [(10, 3.0)] * 4, placement="epoch_end"), "secret_order"),
    ],
)
def test_best_names_the_winner_that_asks_for_least(
    mechanism: db.Mechanism, winner: str
) -> None:
    best = db.account(mechanism)
    assert best.analysis == winner
    assert best.assumptions == db.account(mechanism, winner).assumptions
    assert {c.analysis for c in best.considered} == set(ANALYSES) - {winner}
    for entry in best.considered:
        assert entry.reason.startswith(("not valid: ", "not better: delta "))
    for epsilon in (0.1, 1.0, 5.0):
        assert best.delta(epsilon) <= db.account(mechanism, winner).delta(epsilon)


def test_best_has_the_mu_that_nothing_is_below() -> None:
    """The paper's curve is above that of composition, and so of hidden_state."""
    for epochs in ([(20, 3.0)], [(20, 3.0)] * 4, [(5, 3.0)] * 4):
        best = db.account(clipped(20, epochs, order=db.Incremental()))
        assert {p.analysis for p in best.alternatives} >= {"paper", "composition"}
        assert best.mu == db.account(clipped(20, epochs), "hidden_state").mu
        for epsilon in (0.0, 1e-3, 1.0, 30.0, 1e3):
            assert best.delta(epsilon) == db.privacy.gaussian_delta(epsilon, best.mu)
    # a Renyi curve that may be below the Gaussian somewhere
    low = MinimumCurve((GaussianCurve(2.0), RenyiCurve(0.1)))
    assert low.delta(1.0) < GaussianCurve(2.0).delta(1.0)
    assert low.mu is None
    # an average over positions is no Gaussian
    assert db.account(clipped(20, [(20, 3.0)] * 4)).mu is None


@pytest.mark.parametrize("order", [db.Incremental(), db.ShuffleOnce(), db.Reshuffle()])
@pytest.mark.parametrize("schedule", [db.dp, db.priv_pub, db.pub_priv, db.alternating])
def test_what_is_equal_up_to_rounding_goes_to_the_one_that_asks_for_least(
    schedule: Callable[..., db.Mechanism], order: db.Order
) -> None:
    """All rows, one noise an epoch: every analysis that holds says the same."""
    share = {} if schedule is db.dp else {"private_fraction": 0.5}
    start = schedule(
        60,
        10,
        **share,
        learning_rate=0.1,
        clip_norm=2.0,
        row_norm=1.0,
        loss=db.Logistic(),
        placement="epoch_end",
        order=order,
    )
    found = db.calibrate(start, epsilon=1, delta=1e-6)
    best = db.account(found)
    assert best.analysis == best.at(1.0).analysis == "epoch_end"
    assert db.account(found, "epoch_end").delta(1.0) <= 1e-6
    alone = db.calibrate(start, epsilon=1, delta=1e-6, analysis="epoch_end")
    assert found == alone


def test_best_refuses_where_nothing_holds() -> None:
    mechanism = clipped(4, [(4, 1.0)], loss=db.Squared(), clip_norm=1.0)
    with pytest.raises(PrivacyAssumptionError, match="mechanism: none") as caught:
        db.account(replace(mechanism, clip_norm=None))
    assert caught.value.valid == ()


def test_best_is_never_above_any() -> None:
    mechanism = clipped(12, [(6, 2.0)] * 3)
    best = db.calibrate(mechanism, epsilon=1, delta=1e-6)
    for name in ANALYSES:
        try:
            other = db.calibrate(mechanism, epsilon=1, delta=1e-6, analysis=name)
        except PrivacyAssumptionError:
            continue
        assert best.epochs[0].noise_std <= other.epochs[0].noise_std * (1 + 1e-9)


@settings(max_examples=25)
@given(
    accountable(quiet=False),
    st.sampled_from([0.1, 1.0, 8.0]),
    st.sampled_from([1e-3, 1e-9]),
)
def test_calibrate_is_re_checked(
    mechanism: db.Mechanism, epsilon: float, delta: float
) -> None:
    found = db.calibrate(mechanism, epsilon=epsilon, delta=delta)
    assert db.account(found).delta(epsilon) <= delta
    if any(e.private_rows for e in mechanism.epochs):
        # a mean at learning rate 1 forgets what was before, and needs no noise for it
        forgets = isinstance(mechanism.loss, db.Mean) and mechanism.clip_norm is None
        hardly = forgets and max(e.noise_std for e in found.epochs) < 1e-100
        less = db.account(found.with_noise(1 - 1e-6)).delta(epsilon)
        assert less > delta or hardly
    else:
        assert all(e.noise_std == 0 for e in found.epochs)


def test_calibrate_refuses() -> None:
    mechanism = clipped(4, [(4, 1.0), (4, 0.0)])
    with pytest.raises(db.InvalidParameterError, match="got 0 in epoch 2"):
        db.calibrate(mechanism, epsilon=1, delta=1e-6)
    fine = clipped(4, [(4, 1.0)])
    for epsilon, delta, message in (
        (-1.0, 1e-6, "epsilon must be"),
        (1.0, 0.0, "delta must be"),
        (1.0, 1.0, "delta must be"),
        (math.nan, 0.5, "epsilon must be"),
    ):
        with pytest.raises(db.InvalidParameterError, match=message):
            db.calibrate(fine, epsilon=epsilon, delta=delta)
    with pytest.raises(db.InvalidParameterError, match="no finite noise gives"):
        db.calibrate(fine, epsilon=0.0, delta=1e-6, analysis="paper")
    assert db.calibrate(fine, epsilon=0.0, delta=1e-6).epochs[0].noise_std > 1e5


def test_a_delta_above_the_participation_asks_for_hardly_any_noise() -> None:
    """One of 100 rows is used at all: delta = 0.01 is there without noise."""
    mechanism = clipped(100, [(1, 1.0)], order=db.ShuffleOnce())
    found = db.calibrate(mechanism, epsilon=1, delta=0.02, analysis="secret_order")
    assert 0 < found.epochs[0].noise_std < 1e-100
    assert db.account(found, "secret_order").delta(1) <= 0.02


def test_the_bracket_finds_the_smallest_factor() -> None:
    for slope in (2.0, 5.0, 30.0):
        for delta in (0.9, 1e-6, 1e-250):
            found = bracketed_factor(
                lambda f, s=slope: math.exp(min(-s * math.log(f), 0.0)), delta
            )
            exact = delta ** (-1 / slope)
            assert exact <= found * (1 + 1e-15)
            assert found <= exact * (1 + 1e-10)
    assert bracketed_factor(lambda f: 1.0, 0.5) == math.inf


def test_a_profile_prints_its_name_and_number() -> None:
    text = repr(db.account(clipped(4, [(4, 1.0)]), "composition"))
    assert text.startswith("<PrivacyProfile: composition, mu=2.0")
