from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbraid.paper import claims, optimum, panels, results, sweep
from dpbraid.paper.claims import Verdict
from dpbraid.paper.guarantee import guarantee
from dpbraid.paper.panels import PANELS, Algorithm, Panel
from dpbraid.paper.results import Curve, MissingRunsError, Rate, Result
from dpbraid.paper.store import Configuration, Store
from dpbraid.paper.sweep import Cell, Settings
from dpbraid.privacy import PrivacyAssumptionError, account, calibrate

KEY = Configuration("{}", guarantee_void=False)


def test_results_hold_what_the_store_holds(small):
    for panel, result in zip(small.study.panels, small.results, strict=True):
        assert result.panel == panel
        assert [c.algorithm for c in result.curves] == list(panel.algorithms)
        assert result.refused == ()
        for curve in result.curves:
            rates = tuple(rate.learning_rate for rate in curve.rates)
            assert rates == panel.learning_rates
            for rate in curve.rates:
                assert rate.objectives.shape == (3, 13)
                assert rate.seconds > 0


def test_the_best_rate_has_the_lowest_mean_last_iterate(small):
    for result in small.results + small.beside:
        for curve in result.curves:
            ends = [rate.objectives[:, -1].mean() for rate in curve.rates]
            assert curve.best.final == min(ends)
            assert curve.best is curve.rates[int(np.argmin(ends))]
        lowest = min(result.curves, key=lambda c: c.best.final)
        assert result.best is lowest


def test_the_valid_grid_ends_at_two_over_l(small):
    (result, _) = small.results
    norms = (result.task.private.row_norm, result.task.public.row_norm)
    for curve in result.curves:
        n = result.task.n if curve.algorithm is Algorithm.DP_GD else 1
        read = (
            norms[:1]
            if curve.algorithm in (Algorithm.DP, Algorithm.DP_GD)
            else (norms[1:] if curve.algorithm is Algorithm.PUBLIC_ONLY else norms)
        )
        # squared loss: L = 2 max |a|^2
        assert curve.largest_rate == pytest.approx(1 / max(read) ** 2 / n)
        below = [r for r in curve.rates if r.learning_rate <= curve.largest_rate]
        if below:
            assert curve.best_valid is min(below, key=lambda r: r.final)
        else:
            assert curve.best_valid is None


def test_runs_that_are_missing(small):
    tasks = small.study.tasks()
    more = replace(
        small.study, panels=tuple(replace(p, runs=4) for p in small.study.panels)
    )
    with (
        Store(small.folder.store, small.study.version) as store,
        pytest.raises(MissingRunsError, match="lacks 18 of 18 configurations"),
    ):
        results.read(more, tasks, store)


def test_shared_runs_take_their_time_once(small):
    (first, second) = small.results
    shared = first.curve(Algorithm.PUBLIC_ONLY)
    both = results.seconds([first, second])
    apart = results.seconds([first]) + results.seconds([second])
    assert both == pytest.approx(apart - sum(rate.seconds for rate in shared.rates))


def test_equal_runs_have_no_deviation(small):
    curve = small.results[0].curve(Algorithm.PUBLIC_ONLY)
    assert np.array_equal(curve.best.std, np.zeros(13))


def test_a_run_that_diverged():
    objectives = np.array([[1.0, np.inf, np.inf], [1.0, 2.0, np.inf]])
    rate = Rate(_cell(1.0), objectives, 0.0)
    assert np.array_equal(rate.mean, [1.0, np.inf, np.inf])
    assert np.array_equal(rate.std, [0.0, np.inf, np.inf])


# -- oscillation ---------------------------------------------------------------------


def _cell(rate: float, algorithm: Algorithm = Algorithm.PUBLIC_ONLY) -> Cell:
    task = _task()
    mechanism = panels.mechanism(PANELS["fig2-crime-eps1"], algorithm, task, rate)
    return Cell(algorithm, rate, mechanism, KEY)


def _task():
    from dpbraid.paper import tasks

    return tasks.load("crime")


def _curve(*ends: tuple[float, list[float]], algorithm=Algorithm.PUBLIC_ONLY) -> Curve:
    rates = [
        Rate(_cell(rate, algorithm), np.array([values]), 0.0) for rate, values in ends
    ]
    return Curve(algorithm, "a curve", tuple(rates))


SETTLED = [1.0] * 11
MOVING = [1.0, 0.5, 2.0] * 4


def test_an_oscillating_best_rate_is_unstable():
    reason = _curve((1e-2, [*MOVING, 0.8]), (1e-6, SETTLED)).unstable(0.0)
    assert "3.63e+03 times 2/L = 2.76e-06" in reason
    assert "between 0.5 and 2 in the last 10 epochs" in reason
    assert "the last iterate is that of an oscillating run" in reason


def test_an_oscillating_rate_that_ended_high_makes_the_choice_chance():
    reason = _curve((1e-2, [*MOVING, 3.0]), (1e-6, SETTLED)).unstable(0.0)
    assert "that it did not end below 1 is chance" in reason


@pytest.mark.parametrize(
    "curve",
    [
        pytest.param(_curve((1e-2, SETTLED)), id="settled"),
        pytest.param(_curve((1e-6, MOVING)), id="below 2/L"),
        pytest.param(
            _curve((1e-2, [v + 9 for v in MOVING]), (1e-6, SETTLED)), id="far"
        ),
        pytest.param(_curve((1e-2, MOVING), algorithm=Algorithm.DP), id="noisy"),
    ],
)
def test_other_curves_are_stable(curve):
    assert curve.unstable(0.0) is None


# -- claims --------------------------------------------------------------------------


def _result(**ends: tuple[float, float]) -> Result:
    """Curves that end at these means with these standard deviations, 10 runs each."""
    task = _task()
    curves = []
    for name, (mean, std) in ends.items():
        algorithm = Algorithm(name)
        spread = np.linspace(-1, 1, 10)
        last = mean + std * spread / spread.std(ddof=1)
        objectives = np.column_stack([np.full(10, 1.0), last])
        rate = Rate(_cell(1e-7, algorithm), objectives, 0.0)
        curves.append(Curve(algorithm, panels.TITLES[algorithm], (rate,)))
    panel: Panel = PANELS["fig2-crime-eps1"]
    reference = optimum.Reference(
        optimum.Optimum(np.zeros(task.dimension), 0.0, 0.0, 0.0),
        optimum.Optimum(np.zeros(task.dimension), 0.0, 0.0, 0.0),
        1.0,
        1.0,
    )
    return Result(panel, task, Settings(), reference, tuple(curves), ())


def _verdicts(result: Result) -> dict[str, Verdict]:
    return {claim.statement: claim.verdict for claim in claims.claims(result)}


def test_claims_hold_where_the_difference_is_three_errors():
    # a standard error of 0.1 / sqrt(10) each: three joint ones are 0.134
    found = _verdicts(
        _result(interleaved=(0.5, 0.1), dp=(0.64, 0.1), public_only=(0.6, 0.1))
    )
    assert found == {
        claims.INTERLEAVED_LEADS: Verdict.HOLDS,
        claims.DP_SUBOPTIMAL: Verdict.HOLDS,
        claims.PUBLIC_SUBOPTIMAL: Verdict.TIE,
    }
    found = _verdicts(
        _result(interleaved=(0.63, 0.1), dp=(0.5, 0.1), public_only=(0.3, 0.1))
    )
    assert found == {
        claims.INTERLEAVED_LEADS: Verdict.TIE,
        claims.DP_SUBOPTIMAL: Verdict.HOLDS,
        claims.PUBLIC_SUBOPTIMAL: Verdict.FAILS,
    }


def test_interleaved_epochs_is_a_claim_of_its_own():
    found = _verdicts(_result(interleaved=(0.5, 0.1), interleaved_epochs=(0.7, 0.1)))
    assert found == {claims.EPOCHS_BEHIND: Verdict.HOLDS}


def test_extra_curves_do_not_decide_the_papers_claims():
    found = _verdicts(_result(interleaved=(0.5, 0.1), dp=(0.9, 0.1), dp_gd=(0.1, 0.1)))
    assert found[claims.INTERLEAVED_LEADS] is Verdict.HOLDS
    assert found[claims.DP_SUBOPTIMAL] is Verdict.HOLDS


def test_numbers_of_a_claim_show_the_difference():
    (claim, *_) = claims.claims(
        _result(interleaved=(0.6931471, 1e-9), dp=(0.6931599, 1e-9))
    )
    assert claim.numbers.startswith("Interleaved 0.693147")
    assert "DP 0.693160" in claim.numbers


def test_a_panel_where_nothing_is_learned_says_so():
    result = _result(interleaved=(1.0001, 0.0), dp=(1.1, 0.0))
    assert any("no algorithm ends below the zero" in r for r in claims.remarks(result))
    flat = replace(
        result,
        reference=replace(
            result.reference, optimum=optimum.Optimum(np.zeros(2), 0.995, 0.0, 0.0)
        ),
    )
    assert any("within 0.5 % of the optimum" in r for r in claims.remarks(flat))


# -- guarantees ----------------------------------------------------------------------


def test_guarantees_come_from_the_accountant(small):
    for results_ in (small.results, small.beside):
        for result in results_:
            panel, formula = result.panel, result.settings.by_formula
            for curve in result.curves:
                found = guarantee(result, curve.best)
                mechanism = curve.best.cell.mechanism
                if not curve.private:
                    assert (found.noise_std, found.holds) == (0.0, True)
                    continue
                name = "paper" if formula else "best"
                if found.noise_std is None:
                    with pytest.raises(PrivacyAssumptionError):
                        account(mechanism, name)
                    assert not found.holds
                    continue
                assert found.holds
                assert found.words == f"({panel.epsilon:g}, 1e-06)"
                assert found.noise_std == pytest.approx(
                    curve.best.cell.noise_std, rel=1e-9
                )


def test_void_rates_have_no_guarantee(small):
    curve = small.results[0].curve(Algorithm.INTERLEAVED)
    void = [rate for rate in curve.rates if rate.guarantee_void]
    assert [rate.learning_rate for rate in void] == [1e-2, 1e-4]
    for rate in void:
        found = guarantee(small.results[0], rate)
        assert (found.noise_std, found.holds, found.words) == (None, False, "void")


def test_too_little_noise_is_seen(small):
    result = small.results[0]
    best = result.curve(Algorithm.DP).best
    less = replace(best.cell, mechanism=best.cell.mechanism.with_noise(0.999))
    assert guarantee(result, Rate(less, best.objectives, 0.0)).words == (
        "too little noise"
    )


@pytest.mark.parametrize("name", PANELS)
def test_noise_of_every_panel_is_the_accountants(name):
    """At a rate where the lemma holds, in all 30 panels."""
    from dpbraid.paper import tasks

    panel = replace(PANELS[name], learning_rates=(1e-9,))
    task = tasks.load(panel.task)
    for cell in sweep.cells(panel, task, Settings()):
        if cell.algorithm is Algorithm.PUBLIC_ONLY:
            assert cell.noise_std == 0
            continue
        exact = calibrate(
            cell.mechanism, epsilon=panel.epsilon, delta=panel.delta, analysis="paper"
        )
        for ours, theirs in zip(cell.mechanism.epochs, exact.epochs, strict=True):
            assert ours.noise_std == pytest.approx(theirs.noise_std, rel=1e-9)
