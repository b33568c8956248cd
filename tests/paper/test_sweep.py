from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from dpbraid import InvalidParameterError
from dpbraid.mechanism import Placement
from dpbraid.paper import embedded, panels, sweep, tasks
from dpbraid.paper.options import CreditCardOptions
from dpbraid.paper.panels import Algorithm
from dpbraid.paper.store import Store
from dpbraid.privacy import account, calibrate

RATES = (1e-4, 1e-6)
SMALL = [
    replace(panels.panel(name), runs=2, epochs=3, learning_rates=RATES)
    for name in ("fig2-crime-eps1", "fig2-crime-eps5")
]


@pytest.fixture(scope="module")
def crime():
    return tasks.load("crime")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite", "v1") as store:
        yield store


def test_units_hold_all_rates_and_epsilons(crime, store):
    chosen = [(panel, crime) for panel in SMALL]
    units = sweep.plan(chosen, sweep.Settings(), store)
    assert len(units) == 5 * 2  # algorithms, runs
    columns = {unit.algorithm: len(unit.cells) for unit in units}
    # Public Only has no noise, so it is the same run for both epsilons
    assert columns.pop(Algorithm.PUBLIC_ONLY) == 2
    assert set(columns.values()) == {4}


def test_panels_share_their_runs(store):
    """The panels of Interleaved-Epochs repeat Figure 2 but for one algorithm."""
    task = tasks.load("creditcard")
    figure, epochs = (
        [(panels.panel(f"{kind}-creditcard-eps{e}"), task) for e in (5, 10)]
        for kind in ("fig2", "epochs")
    )
    settings = sweep.Settings()
    alone = sweep.plan(figure, settings, store)
    both = sweep.plan(figure + epochs, settings, store)
    assert len(both) - len(alone) == 10
    assert {u.algorithm for u in both[len(alone) :]} == {Algorithm.INTERLEAVED_EPOCHS}


def test_a_sweep_is_done_once(crime, store):
    chosen = [(panel, crime) for panel in SMALL]
    settings = sweep.Settings()
    units = sweep.plan(chosen, settings, store)
    seen = []
    sweep.sweep(units[:3], store, progress=seen.append)
    assert {id(unit) for unit in seen} == {id(unit) for unit in units[:3]}
    rest = sweep.plan(chosen, settings, store)
    assert len(rest) == len(units) - 3
    sweep.sweep(rest, store, jobs=2)
    assert sweep.plan(chosen, settings, store) == []
    # two more runs of the same are two more units an algorithm
    more = [(replace(panel, runs=4), crime) for panel in SMALL]
    assert len(sweep.plan(more, settings, store)) == 2 * 5


def test_the_number_of_jobs_changes_no_number(crime, tmp_path):
    chosen = [(SMALL[0], crime)]
    keys = [c.configuration.key for c in sweep.cells(SMALL[0], crime, sweep.Settings())]
    found = []
    for jobs in (1, 2):
        with Store(tmp_path / f"{jobs}.sqlite", "v1") as store:
            sweep.sweep(sweep.plan(chosen, sweep.Settings(), store), store, jobs=jobs)
            found.append(store.curves(keys, 2))
    assert found[0].keys() == found[1].keys() == set(keys)
    for key in keys:
        assert found[0][key].shape == (2, 4)
        assert np.array_equal(found[0][key], found[1][key])


def test_curves_start_at_the_zero_vector(crime, store):
    settings = sweep.Settings(precision="float64")
    sweep.sweep(sweep.plan([(SMALL[0], crime)], settings, store), store)
    zero = np.mean(crime.private.y**2)
    for cell in sweep.cells(SMALL[0], crime, settings):
        curves = store.curves([cell.configuration.key], 2)[cell.configuration.key]
        np.testing.assert_allclose(curves[:, 0], zero)


def test_configurations_differ_in_all_that_decides(crime):
    def keys(panel=SMALL[0], task=crime, **settings):
        return {
            cell.configuration.key
            for cell in sweep.cells(panel, task, sweep.Settings(**settings))
        }

    plain = keys()
    assert len(plain) == 5 * 2
    other = tasks.load("crime", replace(crime.options, rotation_seed=1))
    for changed in (
        keys(seed=1),
        keys(precision="float64"),
        keys(task=other),
        keys(replace(SMALL[0], epochs=4)),
        keys(replace(SMALL[0], clip_norm=9.0)),
    ):
        assert plain.isdisjoint(changed)
    # what concerns the noise leaves Public Only as it is
    for changed in (keys(analysis="paper-code"), keys(SMALL[1])):
        assert len(plain & changed) == 2


def test_other_files_are_other_runs(crime):
    """One cell of the original files that changed, under the same options."""

    def keys(task):
        cells = sweep.cells(SMALL[0], task, sweep.Settings())
        return {cell.configuration.key for cell in cells}

    cut = embedded.read("crime")
    assert keys(tasks.load("crime", cut=cut)) == keys(crime)
    cut["hundredths"][0, 5] += 1
    assert keys(tasks.load("crime", cut=cut)).isdisjoint(keys(crime))


def test_warm_starts_run_from_the_public_solution(store):
    task = tasks.load("creditcard", CreditCardOptions(lasso=0.001))
    panel = replace(
        panels.panel("fig2-creditcard-eps5"),
        algorithms=(Algorithm.DP, Algorithm.DP_WARM),
        runs=1,
        epochs=2,
        learning_rates=(1e-3,),
    )
    settings = sweep.Settings(precision="float64")
    sweep.sweep(sweep.plan([(panel, task)], settings, store), store)
    cold, warm = (
        store.curves([cell.configuration.key], 1)[cell.configuration.key]
        for cell in sweep.cells(panel, task, settings)
    )
    assert cold[0, 0] == pytest.approx(np.log(2))
    assert warm[0, 0] == pytest.approx(0.7646289054)  # test_optimum, lasso 0.001


def test_void_learning_rates_are_marked(crime):
    found = sweep.cells(SMALL[0], crime, sweep.Settings())
    marked = {c.algorithm for c in found if c.configuration.guarantee_void}
    assert marked == {Algorithm.INTERLEAVED}
    largest = panels.largest_valid_rate(found[0].mechanism)
    for cell in found:
        if cell.algorithm is Algorithm.INTERLEAVED:
            assert cell.configuration.guarantee_void is (cell.learning_rate > largest)


# DP-GD is not in the lemma, which is for one row a step
IN_THE_LEMMA = (*panels.PAPER, Algorithm.INTERLEAVED_EPOCHS, Algorithm.DP_WARM)


@pytest.mark.parametrize("algorithm", IN_THE_LEMMA)
@pytest.mark.parametrize("rate", [1e-7, 0.5])
def test_the_formula_is_the_accountants(crime, algorithm, rate):
    """Same noise where the lemma holds; void exactly where the accountant refuses."""
    panel = SMALL[0]
    start = panels.start_point(algorithm, crime)
    plain = panels.mechanism(panel, algorithm, crime, rate, start=start)
    formula = panels.paper_noise(plain, panel.epsilon, panel.delta)
    budget = {"epsilon": panel.epsilon, "delta": panel.delta, "analysis": "paper"}
    if panels.guarantee_void(plain):
        with pytest.raises(ValueError, match="public"):
            calibrate(plain, **budget)
        return
    exact = calibrate(plain, **budget)
    for ours, theirs in zip(formula.epochs, exact.epochs, strict=True):
        assert ours.noise_std == pytest.approx(theirs.noise_std, rel=1e-9)


@pytest.mark.parametrize("placement", list(Placement))
def test_other_analyses_come_from_the_accountant(crime, placement):
    panel = replace(SMALL[0], learning_rates=(1e-7,))
    settings = sweep.Settings(analysis="best", placement=placement)
    found = sweep.cells(panel, crime, settings)
    assert {cell.algorithm for cell in found} == set(panels.PAPER)
    for cell in found:
        assert not cell.configuration.guarantee_void
        assert account(cell.mechanism).delta(panel.epsilon) <= panel.delta
    paper = sweep.cells(panel, crime, sweep.Settings(placement=placement))
    for ours, lemma in zip(found, paper, strict=True):
        if ours.noise_std:
            assert ours.noise_std < lemma.noise_std


def test_rates_that_the_accountant_refuses_are_left_out(crime):
    panel = replace(SMALL[0], learning_rates=(0.5, 1e-7))
    found = sweep.cells(
        panel, crime, sweep.Settings(analysis="epoch_end", placement="epoch_end")
    )
    assert {c.learning_rate for c in found if c.algorithm is Algorithm.DP} == {1e-7}


def test_an_unknown_analysis(crime):
    with pytest.raises(InvalidParameterError, match="analysis must be one of"):
        sweep.cells(SMALL[0], crime, sweep.Settings(analysis="guess"))


def test_a_unit_can_be_stopped(crime, store):
    stop = threading.Event()
    stop.set()
    unit = sweep.plan([(SMALL[0], crime)], sweep.Settings(), store)[0]
    with pytest.raises(sweep.Stopped):
        sweep.run(unit, stop)


def test_an_interrupt_keeps_what_is_written(crime, store):
    units = sweep.plan([(SMALL[0], crime)], sweep.Settings(), store)

    def interrupt(unit):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.sweep(units, store, progress=interrupt)
    assert len(store.done()) == len(units[0].cells)


def test_the_code_version_is_a_release_and_a_digest():
    release, digest = sweep.code_version().split("+")
    assert release
    assert len(digest) == 12
