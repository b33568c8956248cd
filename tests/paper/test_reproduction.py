"""Figure 2 against an independent reproduction on the same data, 10 runs a curve.

Ours are 10 runs or, where these are too few, 100. The reference gives no standard
errors: its runs are given the deviation of ours. A mean agrees within three joint
errors or 2 %; an excess over G* at epoch-end noise within three joint errors or 10 %.
Seeds are fixed, so the outcome repeats on a machine.

Public Only on CIFAR-10 and Crime is left out where it is unstable: the lowest of
several oscillating runs, whose ends are down to rounding (`test_chaos`). DP-GD from the
public solution is left out on Crime, where the public rows are those of another random
matrix, and on COMPAS, where ten lines of NumPy give what we have
(`test_full_batch_steps_have_the_law_of_ten_lines_of_numpy`).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpbraid.engine import costs
from dpbraid.engine.grid import grid_not_private
from dpbraid.mechanism import Placement
from dpbraid.paper import panels, results, study, sweep, tasks
from dpbraid.paper.optimum import objective, reference
from dpbraid.paper.panels import PANELS, PAPER, Algorithm
from dpbraid.paper.results import Rate, Result
from dpbraid.paper.store import Store
from dpbraid.paper.study import Study
from dpbraid.paper.sweep import Settings
from dpbraid.privacy import calibrate

FULL = bool(os.environ.get("DPBRAID_FULL"))
TASKS = ("mnist69", "cifar10", "crime", "compas", "creditcard")
QUICK = ("crime", "creditcard")
JOBS = os.cpu_count() or 1


@dataclass(frozen=True)
class Published:
    """Of one panel: G*, G(0), and the mean ends of the paper's five algorithms."""

    optimum: str
    zero: str
    ends: tuple[float, float, float, float, float]
    winner: Algorithm | None = Algorithm.INTERLEAVED


REFERENCE = {
    "mnist69-eps5": Published("20.887", "46.07", (22.94, 25.38, 39.89, 44.33, 25.38)),
    "mnist69-eps10": Published("20.887", "46.07", (22.45, 25.38, 34.14, 39.44, 25.38)),
    "cifar10-eps1": Published("6.415", "28.5", (13.78, 17.81, 13.87, 17.00, 14.22)),
    "cifar10-eps5": Published(
        "6.415", "28.5", (13.73, 16.98, 10.46, 10.36, 14.22), Algorithm.DP
    ),
    "crime-eps1": Published("0.0263", "0.272", (0.140, 0.206, 0.210, 0.193, 0.160)),
    "crime-eps5": Published("0.0263", "0.272", (0.112, 0.141, 0.140, 0.141, 0.160)),
    "compas-eps5": Published(
        "0.69061",
        "0.69315",
        (0.69243, 0.69316, 0.69316, 0.69319, 0.69176),
        Algorithm.PUBLIC_ONLY,
    ),
    "compas-eps10": Published(
        "0.69061", "0.69315", (0.69173, 0.69315, 0.69315, 0.69316, 0.69176)
    ),
    "creditcard-eps5": Published(
        "0.68817", "0.69315", (0.69315, 0.69315, 0.69315, 0.69317, 0.69315), None
    ),
    "creditcard-eps10": Published(
        "0.68817", "0.69315", (0.69315, 0.69315, 0.69315, 0.69317, 0.69315), None
    ),
}
UNSTABLE = ("cifar10", "crime")

# Excess over G* with one noise at each epoch's end, by the exact Gaussian.
SHOWN = (Algorithm.PUB_PRIV, Algorithm.DP, Algorithm.DP_GD, Algorithm.DP_GD_WARM)
AT_EPOCH_ENDS = {
    "mnist69-eps5": (0.240, 0.373, 0.348, 0.220),
    "mnist69-eps10": (0.096, 0.128, 0.122, 0.087),
    "cifar10-eps1": (3.43, 3.39, 3.40, 3.41),
    "cifar10-eps5": (3.02, 3.14, 3.40, 3.20),
    "crime-eps1": (0.090, 0.0773, 0.0776, 0.0768),
    "crime-eps5": (0.069, 0.0512, 0.0516, 0.0504),
    "compas-eps5": (0.00087, 0.0017, 0.0018, 0.0012),
}
OTHER_STARTS = ("crime", "compas")
REFERENCE_RUNS = 10
# On COMPAS the deviation over runs is half of the excess: two sets of ten of our own
# runs differ by a half. On Crime the least of 18 rates can be so by chance: Priv-Pub at
# epsilon 5 ended at 0.130 +- 0.002 in ten runs, where 300 give 0.143 +- 0.001.
RUNS = {"compas": 100, "crime": 100}


def _run(
    words: list[str],
    settings: Settings,
    algorithms: tuple[Algorithm, ...] = PAPER,
    runs: int = 10,
) -> list[Result]:
    chosen = tuple(
        replace(panel, algorithms=algorithms, runs=runs)
        for panel in study.choose(words)
    )
    asked = Study(chosen, study.task_options(chosen), settings)
    loaded = asked.tasks()
    pairs = [(panel, loaded[panel.task]) for panel in chosen]
    with Store(":memory:", asked.version) as store:
        sweep.sweep(sweep.plan(pairs, settings, store), store, jobs=JOBS)
        return results.read(asked, loaded, store)


def _agree(ours: float, best: Rate, theirs: float, part: float) -> bool:
    """Whether `ours`, the mean end of `best` or its excess, is the reference's."""
    runs = len(best.objectives)
    joint = best.final_std * math.sqrt(1 / runs + 1 / REFERENCE_RUNS)
    return abs(ours - theirs) <= max(3 * joint, part * theirs)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS if FULL else QUICK)
def test_figure_2_is_the_references(task):
    for result in _run([f"fig2-{task}"], Settings(), runs=RUNS.get(task, 10)):
        published = REFERENCE[result.panel.id.removeprefix("fig2-")]
        for value, printed in (
            (result.optimum, published.optimum),
            (result.reference.zero_value, published.zero),
        ):
            decimals = len(printed.partition(".")[2])
            assert f"{value:.{decimals}f}" == printed
        for name, theirs in zip(PAPER, published.ends, strict=True):
            best = result.curve(name).best
            if name is Algorithm.PUBLIC_ONLY and task in UNSTABLE:
                assert result.curve(name).unstable(result.optimum) is not None
                continue
            assert _agree(best.final, best, theirs, 0.02), (
                result.panel.id,
                name,
                best.final,
                best.final_error,
            )
        _check_winner(result, published.winner)


def _check_winner(result: Result, winner: Algorithm | None) -> None:
    """It ends lowest, or three joint errors do not tell it from what does."""
    if winner is None:  # all equal at the zero vector
        ends = [curve.best.final for curve in result.curves]
        assert max(ends) - min(ends) < 1e-4
        return
    named, lowest = result.curve(winner).best, result.best.best
    error = math.hypot(named.final_error, lowest.final_error)
    assert named.final - lowest.final <= 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS[:4] if FULL else QUICK[:1])
def test_noise_at_epoch_ends_is_the_references(task):
    settings = Settings(analysis="best", placement=Placement.EPOCH_END)
    words = [f"fig2-{name}" for name in AT_EPOCH_ENDS if name.startswith(task)]
    for result in _run(words, settings, SHOWN, RUNS.get(task, 10)):
        theirs = AT_EPOCH_ENDS[result.panel.id.removeprefix("fig2-")]
        for name, excess in zip(SHOWN, theirs, strict=True):
            if name.warm and task in OTHER_STARTS:
                continue
            best = result.curve(name).best
            ours = best.final - result.optimum
            assert _agree(ours, best, excess, 0.10), (
                result.panel.id,
                name,
                ours,
                best.final_error,
            )


def test_chaos():
    """Why Public Only on Crime is left out: its best rates end where rounding says.

    The same steps in single and double precision, literal and in blocks of 16: up to
    four times 2/L they end alike, and some thousand times above anywhere.
    """
    task = tasks.load("crime")
    panel = PANELS["fig2-crime-eps1"]
    rates = (1e-2, 5e-3, 1e-5, 1e-6)
    mechanisms = [
        panels.mechanism(panel, Algorithm.PUBLIC_ONLY, task, rate) for rate in rates
    ]
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        for rows in (None, 16):
            patch.setattr(costs, "block_rows", lambda _shape, rows=rows: rows)
            ends += [
                grid_not_private(
                    mechanisms, task.private, task.public, seed=0, dtype=dtype
                ).objectives[:, -1]
                for dtype in ("float32", "float64")
            ]
    spread = np.ptp(ends, axis=0) / np.mean(ends, axis=0)
    assert np.all(spread[:2] > 0.01)
    assert np.all(spread[2:] < 0.01)


@pytest.mark.parametrize(
    ("name", "eta", "theirs"),
    [(Algorithm.DP_GD, 5e-5, 0.0018), (Algorithm.DP_GD_WARM, 1e-5, 0.0012)],
)
def test_full_batch_steps_have_the_law_of_ten_lines_of_numpy(name, eta, theirs):
    """On COMPAS, epsilon 5, where the reference's excess is a third above ours.

    400 runs of the loop below against 100 of the engine, at the best rate; they agree
    within five joint standard errors, which fails falsely once in a million seeds.
    """
    task = tasks.load("compas")
    std, epochs, clip, weight = 138.599859, 50, 10.0, 0.1
    X, y = task.private.X, task.private.y
    n, d = X.shape
    start = panels.start_point(name, task)
    limit = clip / np.linalg.norm(X, axis=1)
    rng = np.random.default_rng(1)
    W = np.tile(np.zeros(d) if start is None else start, (400, 1))
    for _ in range(epochs):
        slopes = np.clip(-y / (1 + np.exp(y * (W @ X.T))), -limit, limit)
        W = W - eta * (slopes @ X) - eta * std * rng.standard_normal(W.shape)
        W = np.sign(W) * np.maximum(np.abs(W) - eta * n * weight, 0)
    loop = np.logaddexp(0, -y * (W @ X.T)).mean(axis=1) + weight * np.abs(W).sum(1)
    panel = PANELS["fig2-compas-eps5"]
    mechanism = panels.mechanism(
        panel, name, task, eta, placement=Placement.EPOCH_END, start=start
    ).with_noise(std / n)
    ours = [
        grid_not_private(
            [mechanism], task.private, seed=seed, dtype="float64", start=start
        ).objectives[0, -1]
        for seed in range(100)
    ]
    error = math.hypot(np.std(loop) / 20, np.std(ours) / 10)
    assert abs(np.mean(loop) - np.mean(ours)) < 5 * error
    # far below the reference's, on either side
    optimum = 0.69061
    print(f"compas-eps5, {name}: excess {np.mean(loop) - optimum:.5f} by the loop")
    assert np.mean(loop) - optimum < 0.85 * theirs
    assert error < 0.0001


# panel, algorithm, its best learning rate, and whether `make test` runs it
SHUFFLED = [
    ("crime-eps1", Algorithm.DP, 5e-6, True),
    ("crime-eps1", Algorithm.PUB_PRIV, 5e-6, True),
    ("compas-eps5", Algorithm.DP, 5e-5, False),
    ("compas-eps5", Algorithm.PUB_PRIV, 5e-5, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("panel", "algorithm", "eta"),
    [case[:3] for case in SHUFFLED if case[3] or FULL],
)
def test_shuffled_steps_have_the_law_of_a_plain_loop(panel, algorithm, eta):
    """With noise at epoch ends, where ten runs leave the reference's excess open.

    400 runs of the loop below against 200 of the engine; they agree within five joint
    standard errors, which fails falsely once in a million seeds.
    """
    task, runs, rng = tasks.load(panel.partition("-")[0]), 400, np.random.default_rng(1)
    chosen = PANELS[f"fig2-{panel}"]
    mechanism = calibrate(
        panels.mechanism(chosen, algorithm, task, eta, placement=Placement.EPOCH_END),
        epsilon=chosen.epsilon,
        delta=chosen.delta,
    )
    W = np.zeros((runs, task.dimension))
    for epoch in mechanism.epochs:
        order = rng.permuted(np.tile(np.arange(task.n), (runs, 1)), axis=1)
        table = np.tile(np.arange(epoch.public_rows), (runs, 1))
        for rows, numbers in (
            (task.private, order[:, : epoch.private_rows]),
            (task.public, table),
        ):
            limits = 10 / np.linalg.norm(rows.X, axis=1)
            for i in numbers.T:
                slopes = mechanism.loss.slope(np.sum(rows.X[i] * W, axis=1), rows.y[i])
                W -= eta * np.clip(slopes, -limits[i], limits[i])[:, None] * rows.X[i]
            if rows is task.private and epoch.private_rows:
                W -= eta * epoch.noise_std * rng.standard_normal(W.shape)
        W = mechanism.penalty.prox(W.T, eta * epoch.rows).T
    theirs = [objective(task.loss, task.penalty, w, task.private) for w in W]
    ours = [
        grid_not_private(
            [mechanism], task.private, task.public, seed=seed, dtype="float64"
        ).objectives[0, -1]
        for seed in range(200)
    ]
    error = math.hypot(np.std(theirs) / math.sqrt(runs), np.std(ours) / math.sqrt(200))
    best = reference(task).optimum.value
    print(f"{panel}, {algorithm}: excess {np.mean(theirs) - best:.5f} by the loop,")
    print(f"{np.mean(ours) - best:.5f} by the engine, joint error {error:.5f}")
    assert abs(np.mean(theirs) - np.mean(ours)) < 5 * error
    assert error < 0.05 * (np.mean(theirs) - best)
