from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dpbraid import InvalidParameterError, Rows
from dpbraid.engine.trace import trace_not_private
from dpbraid.losses import Squared
from dpbraid.mechanism import Mechanism, Placement
from dpbraid.paper import panels, tasks
from dpbraid.paper.options import CrimeOptions
from dpbraid.paper.panels import PANELS, Algorithm, lemma_noise_std
from dpbraid.penalties import Ridge

BOTH = tuple(Placement)


@pytest.fixture(scope="module")
def crime():
    return tasks.load("crime")


def test_the_panels_of_the_paper():
    assert len(PANELS) == 30
    assert Counter(panel.figure for panel in PANELS.values()) == {
        "Figure 2": 10,
        "IG": 4,
        "SO": 4,
        "p = 0.25": 4,
        "p = 0.75": 4,
        "Interleaved-Epochs": 4,
    }
    for name, panel in PANELS.items():
        assert panel.id == name
        assert panel.task in tasks.names()
        expected = (1, 5) if panel.task in ("cifar10", "crime") else (5, 10)
        assert panel.epsilon in expected
        assert (panel.epochs, panel.clip_norm, panel.delta) == (50, 10.0, 1e-6)
        assert panel.runs == 10


def test_no_two_panels_are_the_same():
    assert len({replace(panel, id="x") for panel in PANELS.values()}) == 30


def test_the_grid():
    grid = panels.LEARNING_RATES
    assert len(grid) == 18
    assert grid[:3] == (0.5, 0.1, 0.05)
    assert grid[-2:] == (5e-9, 1e-9)
    assert list(grid) == sorted(grid, reverse=True)


def test_titles():
    titles = [
        panels.title(Algorithm.DP, PANELS[name].order)
        for name in ("fig2-crime-eps1", "ig-mnist69-eps5", "so-mnist69-eps5")
    ]
    assert titles == ["DP-RR", "DP-IG", "DP-SO"]
    assert panels.title(Algorithm.PUBLIC_ONLY, PANELS["fig2-crime-eps1"].order) == (
        "Public Only"
    )


def test_an_unknown_panel():
    with pytest.raises(
        InvalidParameterError, match="panel must be one of fig2-mnist69"
    ):
        panels.panel("fig3")


def built(panel, algorithm, task, rate=1e-3, **kwargs):
    start = panels.start_point(algorithm, task)
    return panels.mechanism(panel, algorithm, task, rate, start=start, **kwargs)


# private rows, public rows of the epochs at n = 159, K = 50, p = 0.5
SCHEDULES = {
    Algorithm.INTERLEAVED: [(80, 79)] * 50,
    Algorithm.PRIV_PUB: [(159, 0)] * 25 + [(0, 159)] * 25,
    Algorithm.PUB_PRIV: [(0, 159)] * 25 + [(159, 0)] * 25,
    Algorithm.DP: [(159, 0)] * 50,
    Algorithm.PUBLIC_ONLY: [(0, 159)] * 50,
    Algorithm.INTERLEAVED_EPOCHS: [(159, 0), (0, 159)] * 25,
    Algorithm.DP_GD: [(159, 0)] * 50,
    Algorithm.DP_WARM: [(159, 0)] * 50,
    Algorithm.DP_GD_WARM: [(159, 0)] * 50,
}


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("placement", BOTH)
def test_mechanisms(crime, algorithm, placement):
    panel = PANELS["fig2-crime-eps1"]
    mechanism = built(panel, algorithm, crime, placement=placement)
    rows = [(e.private_rows, e.public_rows) for e in mechanism.epochs]
    assert rows == SCHEDULES[algorithm]
    assert mechanism.n == 159
    assert mechanism.loss == Squared()
    assert mechanism.penalty == Ridge(0.1)
    assert mechanism.clip_norm == 10
    assert (mechanism.row_norm, mechanism.public_bound) == (
        crime.private.row_norm,
        crime.public.row_norm,
    )
    gd = algorithm in (Algorithm.DP_GD, Algorithm.DP_GD_WARM)
    assert mechanism.batch_size == (159 if gd else 1)
    assert Mechanism.from_json(mechanism.to_json()) == mechanism


def test_private_fraction_reaches_the_schedule(crime):
    panel = replace(PANELS["p25-mnist69-eps5"], task="crime")
    mechanism = built(panel, Algorithm.INTERLEAVED, crime)
    assert mechanism.epochs[0].private_rows == 40


@pytest.mark.parametrize("algorithm", Algorithm)
def test_mechanisms_run(algorithm):
    """Two epochs in the literal engine, from the start that the algorithm asks for."""
    task = tasks.load("crime", CrimeOptions(columns="predictive", rotation="none"))
    panel = replace(PANELS["fig2-crime-eps5"], epochs=2)
    start = panels.start_point(algorithm, task)
    mechanism = panels.mechanism(panel, algorithm, task, 1e-3, start=start)
    mechanism = panels.paper_noise(mechanism, panel.epsilon, panel.delta)
    trace = trace_not_private(
        mechanism,
        task.private,
        task.public,
        order_rng=np.random.default_rng(1),
        noise_rng=np.random.default_rng(2),
        start=start,
    )
    assert trace.objectives.shape == (3,)
    assert np.all(np.isfinite(trace.objectives))
    if start is not None:
        assert np.array_equal(trace.iterates[0], start)


def test_start_has_to_fit_the_algorithm(crime):
    panel = PANELS["fig2-crime-eps1"]
    with pytest.raises(InvalidParameterError, match="start must be given"):
        panels.mechanism(panel, Algorithm.DP_WARM, crime, 0.1)
    with pytest.raises(InvalidParameterError, match="start must be left out"):
        panels.mechanism(panel, Algorithm.DP, crime, 0.1, start=np.zeros(124))


def test_a_zero_public_solution_is_a_start():
    task = tasks.load("creditcard")
    start = panels.start_point(Algorithm.DP_WARM, task)
    panel = PANELS["fig2-creditcard-eps5"]
    mechanism = panels.mechanism(panel, Algorithm.DP_WARM, task, 0.1, start=start)
    assert mechanism.start.norm > 0


# -- the lemma ---------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "std"), [(1, 756.6), (5, 161.1), (10, 86.0)])
def test_lemma_against_the_note(epsilon, std):
    """n_d = n, K = 50, G = 10, delta = 1e-6: PRIVACY.md, section 0 and section 3."""
    found = lemma_noise_std(
        epsilon, 1e-6, clip_norm=10, private_epochs=50, noisy_steps=1
    )
    assert found == pytest.approx(std, abs=0.05)


def test_lemma_solves_its_own_renyi_bound():
    """eps = R + 2 sqrt(R L), R = 2 K G^2 / (m sigma^2), at the best Renyi order."""
    for epsilon, delta, K, m in ((0.1, 1e-9, 3, 7), (20, 0.5, 100, 1)):
        sigma = lemma_noise_std(
            epsilon, delta, clip_norm=2.5, private_epochs=K, noisy_steps=m
        )
        R = 2 * K * 2.5**2 / (m * sigma**2)
        spent = R + 2 * math.sqrt(R * math.log(1 / delta))
        assert spent == pytest.approx(epsilon, rel=1e-12)


# K private epochs, m noisy steps from the last private one on, batch, at n = 159
FACTS = {
    (Algorithm.INTERLEAVED, "every_step"): (50, 80, 1),
    (Algorithm.INTERLEAVED, "epoch_end"): (50, 1, 1),
    (Algorithm.PRIV_PUB, "every_step"): (25, 1, 1),
    (Algorithm.PUB_PRIV, "every_step"): (25, 1, 1),
    (Algorithm.INTERLEAVED_EPOCHS, "every_step"): (25, 1, 1),
    (Algorithm.DP, "every_step"): (50, 1, 1),
    (Algorithm.DP, "epoch_end"): (50, 1, 1),
    (Algorithm.DP_GD, "every_step"): (50, 1, 159),
}


@pytest.mark.parametrize(("algorithm", "placement"), FACTS)
def test_paper_noise(crime, algorithm, placement):
    K, m, batch = FACTS[algorithm, placement]
    plain = built(PANELS["fig2-crime-eps1"], algorithm, crime, placement=placement)
    expected = lemma_noise_std(
        1, 1e-6, clip_norm=10 / batch, private_epochs=K, noisy_steps=m
    )
    for analysis, factor in (("paper", 1), ("paper-code", 2)):
        noisy = panels.paper_noise(plain, 1, 1e-6, analysis)
        for epoch in noisy.epochs:
            noise = factor * expected if epoch.private_rows else 0
            assert epoch.noise_std == pytest.approx(noise, rel=1e-12)


def test_paper_noise_of_public_only_is_none(crime):
    plain = built(PANELS["fig2-crime-eps1"], Algorithm.PUBLIC_ONLY, crime)
    assert panels.paper_noise(plain, 1, 1e-6) == plain


def test_paper_noise_wants_its_conditions(crime):
    plain = built(PANELS["fig2-crime-eps1"], Algorithm.DP, crime)
    with pytest.raises(InvalidParameterError, match="clip_norm must be given"):
        panels.paper_noise(replace(plain, clip_norm=None), 1, 1e-6)
    with pytest.raises(InvalidParameterError, match="noise_std must be 1"):
        panels.paper_noise(panels.paper_noise(plain, 1, 1e-6), 1, 1e-6)
    with pytest.raises(InvalidParameterError, match="analysis must be one of"):
        panels.paper_noise(plain, 1, 1e-6, "best")


# -- void guarantees ---------------------------------------------------------------


def test_what_has_to_contract(crime):
    panel = PANELS["fig2-crime-eps1"]
    private = 2 / (2 * crime.private.row_norm**2)
    public = 2 / (2 * crime.public.row_norm**2)
    assert public < private
    largest = {
        (algorithm, placement): panels.largest_valid_rate(
            built(panel, algorithm, crime, placement=placement)
        )
        for algorithm in Algorithm
        for placement in BOTH
    }
    every, end = BOTH
    paid_at_once = {a for a in Algorithm if largest[a, every] is None}
    assert paid_at_once == set(Algorithm) - {Algorithm.INTERLEAVED}
    assert largest[Algorithm.INTERLEAVED, every] == pytest.approx(public)
    one_step = {Algorithm.PUBLIC_ONLY, Algorithm.DP_GD, Algorithm.DP_GD_WARM}
    assert {a for a in Algorithm if largest[a, end] is None} == one_step
    for algorithm in set(Algorithm) - one_step:
        assert largest[algorithm, end] == pytest.approx(private)


def test_void_begins_above_two_over_l(crime):
    panel = PANELS["fig2-crime-eps1"]
    largest = panels.largest_valid_rate(built(panel, Algorithm.INTERLEAVED, crime))
    for rate, void in ((largest, False), (largest * (1 + 1e-12), True)):
        mechanism = built(panel, Algorithm.INTERLEAVED, crime, rate)
        assert panels.guarantee_void(mechanism) is void


def test_unknown_rows_void_everything_that_has_to_contract(crime):
    mechanism = built(PANELS["fig2-crime-eps1"], Algorithm.INTERLEAVED, crime, 1e-9)
    assert panels.guarantee_void(replace(mechanism, row_norm=None))


def test_two_over_l_is_where_steps_begin_to_expand():
    """At the largest rate a step on the longest row keeps distances, above it not."""
    x = np.array([1.0])
    rows = Rows.bounded([[3.0]], [0.0], row_norm=3.0)
    loss = Squared()
    largest = 2 / loss.smoothness(3.0)
    for rate, expands in ((largest, False), (1.01 * largest, True)):
        moved = x - rate * loss.gradients(x, rows.X, rows.y, None)[0]
        assert bool(abs(moved[0]) > 1 + 1e-9) is expands
