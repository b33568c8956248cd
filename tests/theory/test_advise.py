"""Advice from public facts: the least of the proved bounds, and an honest reason."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import dpbraid as db
from dpbraid import InvalidParameterError
from dpbraid.theory.advise import (
    Advice,
    Facts,
    advise,
    best_candidate,
    epoch_grid,
    known_constants,
    planned_mechanism,
    possible_schedules,
)
from dpbraid.theory.bounds import TERMS, convergence_bound
from dpbraid.theory.constants import constants_not_private, facts
from dpbraid.theory.excess_risk import Setting
from dpbraid.theory.figures import (
    LABELS,
    bound_figure,
    excess_risk_curves,
    excess_risk_figure,
)

SMALL = {
    "dimension": 5,
    "delta": 1e-6,
    "smoothness": 1.0,
    "lipschitz": 1.0,
    "radius": 1.0,
    "max_epochs": 32,
}


def ask(n: int = 2000, epsilon: float = 2.0, **more) -> Advice:  # type: ignore[no-untyped-def]
    return advise(n=n, epsilon=epsilon, **{**SMALL, **more})


def test_the_advice_is_the_best_candidate_and_its_bound_is_a_theorem() -> None:
    advice = ask(public_rows=2000, public_gap=0.02)
    assert advice.bound.is_theorem
    assert advice.bound.source == "public facts"
    totals = [c.bound.total for c in advice.candidates]
    assert totals == sorted(totals)
    assert advice.bound.total == totals[0]
    best = advice.candidates[0]
    assert (best.schedule, best.epochs) == (advice.schedule, advice.epochs)
    assert {c.schedule for c in advice.candidates} == {
        "dp", "interleaved", "priv_pub", "pub_priv", "alternating", "public_only",
    }  # fmt: skip
    # the plan can be built and has the bound that was promised
    known = Facts(
        Setting(2000, 5, 2.0, 1e-6, 0.5), 1.0, public_rows=2000, public_gap=0.02
    )
    mechanism = planned_mechanism(
        known, best.schedule, best.epochs, best.learning_rate, best.placement
    )
    again = convergence_bound(known_constants(known, mechanism), mechanism)
    assert again.total == pytest.approx(best.bound.total)


def test_no_other_learning_rate_or_epoch_count_is_much_better() -> None:
    known = Facts(Setting(2000, 5, 2.0, 1e-6), 1.0)
    best = best_candidate(known, "dp", db.Placement.EPOCH_END, 32)
    for K in (2, 5, 17, 32):
        for factor in np.geomspace(0.05, 2, 30):
            rate = best.learning_rate * best.epochs / K * factor
            mechanism = planned_mechanism(known, "dp", K, rate, db.Placement.EPOCH_END)
            bound = convergence_bound(known_constants(known, mechanism), mechanism)
            if bound.is_theorem:
                assert best.bound.total <= bound.total * 1.01


def test_noise_at_the_epoch_end_is_preferred() -> None:
    totals = {c.placement: c.bound.total for c in ask().candidates}
    assert totals[db.Placement.EPOCH_END] < totals[db.Placement.EVERY_STEP]
    assert ask().placement is db.Placement.EPOCH_END
    only = ask(placements=["every_step"])
    assert only.placement is db.Placement.EVERY_STEP


def test_nothing_known_about_public_rows_means_none_is_used() -> None:
    advice = ask(public_rows=2000, epsilon=0.2)
    assert advice.schedule == "dp"
    assert advice.break_even_gap is not None
    assert advice.break_even_gap > 0
    assert "pay off" in advice.reason


def test_break_even() -> None:
    """Below the gap public rows win, far above it they lose."""
    gap = ask(public_rows=2000, epsilon=0.2).break_even_gap
    assert gap is not None
    below = ask(public_rows=2000, epsilon=0.2, public_gap=0.9 * gap)
    assert below.schedule != "dp"
    above = ask(public_rows=2000, epsilon=0.2, public_gap=30 * gap)
    assert above.schedule == "dp"


def test_more_of_anything_good_never_hurts() -> None:
    for change in ("n", "epsilon"):
        values = {"n": [500, 2000, 8000], "epsilon": [0.5, 1.0, 4.0]}[change]
        totals = [ask(**{change: value}).bound.total for value in values]
        assert totals == sorted(totals, reverse=True)
    gaps = [
        ask(public_rows=2000, public_gap=gap, epsilon=0.2).bound.total
        for gap in (0.0, 0.01, 0.1)
    ]
    assert gaps == sorted(gaps)


@pytest.mark.parametrize(
    ("public_rows", "possible"),
    [
        (0, ("dp",)),
        (499, ("dp",)),
        (500, ("dp", "interleaved")),
        (
            1000,
            ("dp", "interleaved", "priv_pub", "pub_priv", "alternating", "public_only"),
        ),
    ],
)
def test_schedules_need_their_public_rows(
    public_rows: int, possible: tuple[str, ...]
) -> None:
    known = Facts(Setting(1000, 5, 1.0, 1e-6, 0.5), 1.0, public_rows)
    assert possible_schedules(known, 256) == possible


def test_a_share_without_a_private_epoch_leaves_no_such_schedule() -> None:
    known = Facts(Setting(1000, 5, 1.0, 1e-6, 0.01), 1.0, 1000)
    assert possible_schedules(known, 8) == ("dp", "interleaved", "public_only")
    assert "priv_pub" in possible_schedules(known, 256)


def test_a_plan_without_noise_is_said_to_have_none() -> None:
    advice = ask(n=100, epsilon=0.1, public_rows=100, public_gap=0.0)
    assert advice.schedule == "public_only"
    assert "public_only with no noise" in advice.reason
    assert str(advice).startswith("public_only, no noise, K = ")


def test_a_hopeless_size_is_called_hopeless() -> None:
    assert "promises nothing" in ask(n=20, epsilon=0.1).reason
    assert "promises nothing" not in ask(n=20_000, epsilon=2.0).reason
    assert "largest allowed (32)" in ask(n=20_000, epsilon=2.0).reason
    assert "excess risk <=" in str(ask())


def test_the_epoch_grid() -> None:
    assert epoch_grid(20) == [2, 3, 4, 6, 8, 12, 16, 20]
    assert epoch_grid(2) == [2]


def test_refusals() -> None:
    with pytest.raises(InvalidParameterError, match="placements"):
        ask(placements=[])
    for radius in (0.0, 1e300):
        with pytest.raises(InvalidParameterError, match="radius"):
            ask(radius=radius)
    with pytest.raises(InvalidParameterError, match="public_gap"):
        ask(public_rows=2000, public_gap=-1.0)
    with pytest.raises(InvalidParameterError, match="max_epochs"):
        ask(max_epochs=1)


@pytest.mark.parametrize("order", [db.Reshuffle(), db.ShuffleOnce()])
@pytest.mark.parametrize("schedule", [db.priv_pub, db.interleaved])
def test_facts_bound_what_is_measured(schedule, order: db.orders.Order) -> None:  # type: ignore[no-untyped-def]
    """True facts about tables give constants above the measured ones.

    In every order of the public rows, also the worst: sorted along a direction.
    """
    rng = np.random.default_rng(0)
    n, d = 40, 3
    X, P = rng.standard_normal((2, n, d)) / 2
    P += 0.2
    private = db.Rows.bounded(X)
    x = X.mean(axis=0)
    mechanism = schedule(
        n, 4, private_fraction=0.5, learning_rate=1e-3, loss=db.Mean(), order=order,
        penalty=db.Ridge(1.0),
    )  # fmt: skip
    used = mechanism.epochs[-1].public_rows
    spread = [np.sum((A - A.mean(axis=0)) ** 2, axis=1).mean() for A in (X, P[:used])]
    given = facts(
        mechanism,
        dimension=d,
        smoothness=1.0,
        distance=float(np.linalg.norm(x)),
        gradient_std=math.sqrt(max(spread)),
        strong_convexity=1.0,
        public_gap=float(np.linalg.norm(x - P[:used].mean(axis=0))),
    )
    theirs = given.epochs[-1]
    assert theirs.fresh_order == isinstance(order, db.Reshuffle)
    sorted_rows = P[:used][np.argsort(P[:used, 0])]
    for rows in (P[:used], sorted_rows, sorted_rows[::-1]):
        public = db.Rows.bounded(np.vstack([rows, P[used:]]))
        measured = constants_not_private(mechanism, private, public)
        mine = measured.epochs[-1]
        for name in (
            "dissimilarity", "dissimilarity_squares", "worst_dissimilarity",
            "mean_dissimilarity", "smoothness", "difference_smoothness",
        ):  # fmt: skip
            assert getattr(mine, name) <= getattr(theirs, name) * (1 + 1e-8), name
        assert measured.gradient_variance <= given.gradient_variance * (1 + 1e-12)
        totals = [
            convergence_bound(constants, mechanism).total
            for constants in (measured, given)
        ]
        assert totals[0] <= totals[1] * (1 + 1e-8)


class TestFigures:
    def test_bound_figure_draws_the_terms_and_their_sum(self) -> None:
        rng = np.random.default_rng(0)
        X, P = rng.standard_normal((2, 8, 2))
        mechanism = db.pub_priv(
            8, 6, private_fraction=0.5, learning_rate=1e-3, loss=db.Mean(),
            penalty=db.Ridge(1.0),
        )  # fmt: skip
        constants = constants_not_private(
            mechanism, db.Rows.bounded(X), db.Rows.bounded(P)
        )
        figure = bound_figure(constants, mechanism)
        (axes,) = figure.axes
        bound = convergence_bound(constants, mechanism)
        ends = {
            line.get_label().removesuffix(" (below)"): line.get_ydata()[-1]
            for line in axes.lines
        }
        assert ends.pop("bound (their sum)") == pytest.approx(bound.total)
        assert ends == {LABELS[term]: getattr(bound, term) for term in TERMS}
        assert "NOT PRIVATE" in axes.get_title()
        assert "(proved)" in axes.get_title()
        failing = dataclasses.replace(mechanism, clip_norm=1.0)
        assert "NOT proved" in bound_figure(constants, failing).axes[0].get_title()

    def test_excess_risk_curves(self) -> None:
        known = Facts(Setting(1000, 5, 1.0, 1e-6, 0.5), 1.0, 500, 0.01)
        for against, values in (("n", [500, 1000]), ("epsilon", [0.5, 2.0])):
            curves = excess_risk_curves(known, against, values, max_epochs=8)
            assert len(curves) == 4  # dp and interleaved, two placements
            for curve in curves:
                assert curve.risks[0] >= curve.risks[1]
            figure = excess_risk_figure(curves, against, trivial=1.0)
            assert len(figure.axes[0].lines) == 5
            assert against in figure.axes[0].get_xlabel()
        with pytest.raises(InvalidParameterError, match="against"):
            excess_risk_curves(known, "delta", [1.0])
