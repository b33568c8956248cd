"""The fast engine has the law of Algorithm 1, where clipping binds and steps are large.

Each comparison rejects a correct engine with probability below 1e-6 (Bonferroni over
its tests); seeds are fixed, so it fails always or never. The same comparison, at the
same size, has to reject three engines with a planted bug. DPBRAID_FULL=1 takes ten
times the runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import dpbraid as db
from dpbraid.engine import literal
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.noise import GIVEN, BlockNoise, Gaussian
from dpbraid.engine.once import run
from dpbraid.losses import MarginLoss

Array = NDArray[np.float64]
FULL = os.environ.get("DPBRAID_FULL") == "1"
RUNS = 100_000 if FULL else 10_000
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Problem:
    mechanism: db.Mechanism
    private: db.Rows
    public: db.Rows


def problem(seed: int, **changes: Any) -> Problem:
    """Three dimensions, 16 rows an epoch, steps so large that noise feeds back."""
    fields: dict[str, Any] = {
        "loss": db.Squared(),
        "private_fraction": 0.5,
        "learning_rate": [0.35, 0.25],
        "noise_std": 0.6,
        "clip_norm": 0.8,
        "row_norm": 1.0,
        "penalty": db.Lasso(0.003),
        "order": db.Incremental(),
        **changes,
    }
    rng = np.random.default_rng(seed)

    def table() -> db.Rows:
        X = rng.standard_normal((16, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return db.Rows.bounded(X, np.sign(X[:, 0] + 0.5), row_norm=1.0)

    return Problem(db.interleaved(16, 2, **fields), table(), table())


PROBLEMS = {
    "squared": problem(0),
    "logistic, minibatches, reshuffled": problem(
        1,
        loss=db.Logistic(),
        learning_rate=7.0,
        noise_std=0.2,
        clip_norm=0.45,
        batch_size=2,
        order=db.Reshuffle(),
        penalty=db.Ridge(0.02),
    ),
    "huber": problem(
        2, loss=db.Huber(0.6), learning_rate=0.8, clip_norm=0.4, private_fraction=0.3
    ),
}


# -- many runs of Algorithm 1 at once --------------------------------------------------


def literal_runs(p: Problem, runs: int, rng: np.random.Generator) -> Array:
    """Last iterates (runs, d): each run has its own order and its own noise."""
    m, clipped = p.mechanism, []
    loss, b = m.loss, m.batch_size
    assert isinstance(loss, MarginLoss)
    assert m.clip_norm is not None
    X = np.zeros((runs, p.private.dimension))
    for epoch in m.epochs:
        order = np.tile(np.arange(m.n), (runs, 1))
        if isinstance(m.order, db.Reshuffle):
            order = rng.permuted(order, axis=1)
        public = np.tile(np.arange(m.n), (runs, 1))
        end = epoch.placement is db.Placement.EPOCH_END
        for table, numbers, rows in (
            (p.private, order, epoch.private_rows),
            (p.public, public, epoch.public_rows),
        ):
            assert table.y is not None
            for first in range(0, rows, b):
                moved = np.zeros_like(X)
                for row in numbers[:, first : min(first + b, rows)].T:
                    a, y = table.X[row], table.y[row]
                    slope = loss.slope(np.sum(a * X, axis=1), y)
                    limit = m.clip_norm / np.linalg.norm(a, axis=1)
                    clipped.append(np.mean(np.abs(slope) > limit))
                    moved += np.clip(slope, -limit, limit)[:, None] * a / b
                last = table is p.private and first + b >= rows
                if last or not end:
                    moved += epoch.noise_std * rng.standard_normal(X.shape)
                X = X - epoch.learning_rate * moved
        X = m.penalty.prox(X.T, m.prox_step(epoch)).T
    assert 0.1 < np.mean(clipped) < 0.9  # clipping binds, and not always
    return X


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("placement", list(db.Placement))
def test_many_runs_at_once_are_the_literal_engine(
    name: str, placement: db.Placement
) -> None:
    """One of them, on the same normals; in the order of the table."""
    p = PROBLEMS[name]
    m = replace(
        p.mechanism,
        order=db.Incremental(),
        epochs=tuple(replace(e, placement=placement) for e in p.mechanism.epochs),
    )
    expected = literal.run(
        m,
        p.private,
        p.public,
        order_rng=np.random.default_rng(0),
        noise_rng=np.random.default_rng(5),
    )
    found = literal_runs(Problem(m, p.private, p.public), 1, np.random.default_rng(5))
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-14)


def fast_runs(
    p: Problem,
    runs: int,
    rng: np.random.Generator,
    *,
    way: int,
    engine: type[Blocked] = Blocked,
    noise: type[Gaussian] = Gaussian,
) -> Array:
    """Last iterates (runs, d) of independent runs of the fast engine, one column."""
    m = p.mechanism
    columns = Columns.of([m])
    tables = [
        Table.of(t, m.loss, m.clip_norm, np.float64) for t in (p.private, p.public)
    ]
    drawn, found = noise(rng), np.empty((runs, p.private.dimension))
    for x in found:
        X = np.zeros((len(x), 1))
        blocked = engine(columns, tables[0], tables[1], X, drawn, rows_per_block=way)
        for _ in blocked.epochs(rng):
            pass
        x[:] = X[:, 0]
    return found


# -- the comparison ----------------------------------------------------------------


def least_p_value(found: Array, expected: Array) -> float:
    """Bonferroni: means, second moments and marginals of coordinates and sums.

    A moment's p-value is that of a z-test on averages of thousands of values.
    """
    p_values = []
    d = found.shape[1]
    center, scale = expected.mean(axis=0), expected.std(axis=0)
    a, b = (found - center) / scale, (expected - center) / scale
    moments = [lambda v, i=i: v[:, i] for i in range(d)]
    moments += [
        lambda v, i=i, j=j: v[:, i] * v[:, j] for i in range(d) for j in range(i + 1)
    ]
    for moment in moments:
        u, v = moment(a), moment(b)
        error = math.sqrt(np.var(u) / len(u) + np.var(v) / len(v))
        p_values.append(2 * stats.norm.sf(abs(np.mean(u) - np.mean(v)) / error))
    directions = np.vstack([np.eye(d), np.ones(d), [(-1) ** i for i in range(d)]])
    for direction in directions:
        p_values.append(stats.ks_2samp(a @ direction, b @ direction).pvalue)
    return float(min(p_values) * len(p_values))


@pytest.fixture(scope="module")
def expected() -> Callable[[str], Array]:
    """Ten times the runs, which cost little at once."""
    kept: dict[str, Array] = {}

    def of(name: str) -> Array:
        if name not in kept:
            rng = np.random.default_rng(100)
            kept[name] = literal_runs(PROBLEMS[name], 10 * RUNS, rng)
        return kept[name]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("way", [0, 4, 64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_runs_have_the_law_of_algorithm_1(
    name: str, way: int, expected: Callable[[str], Array]
) -> None:
    """The loop, short blocks, and one block for all steps of a table."""
    found = fast_runs(PROBLEMS[name], RUNS, np.random.default_rng(way), way=way)
    assert least_p_value(found, expected(name)) > FALSE_ALARM


class NoBridge(Gaussian):
    """The partial sums are their mean given W_B: z_i = (t/B) <a_i, W_B>."""

    def blocks(self, size: int, times: Any, table: Any, rows: Any) -> BlockNoise:
        cuts = range(0, len(rows), size)
        W, z = np.empty((len(cuts), table.shape[1])), np.empty(len(rows))
        self.steps(W)
        for total, first in zip(W, cuts, strict=True):
            block = rows[first : first + size]
            t = times[: len(block)]
            steps = t[-1] + 1
            total *= math.sqrt(steps)
            z[first : first + size] = t / steps * (table[block] @ total)
        return BlockNoise(GIVEN, W, z)


class FivePercent(Blocked):
    """Noise of 1.05 times the std."""

    def _advance(
        self, table: Table, rows: Any, eta: Any, scales: Any, noisy: bool
    ) -> None:
        super()._advance(table, rows, eta, 1.05 * scales, noisy)


class QuietPublicSteps(Blocked):
    """No noise on public steps."""

    def _advance(
        self, table: Table, rows: Any, eta: Any, scales: Any, noisy: bool
    ) -> None:
        super()._advance(table, rows, eta, scales, noisy and table is self._private)


BUGS: dict[str, dict[str, Any]] = {
    "no bridge term": {"noise": NoBridge},
    "noise missing on public steps": {"engine": QuietPublicSteps},
    "noise std off by 5 %": {"engine": FivePercent},
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_planted_bug_is_rejected(
    name: str, bug: str, expected: Callable[[str], Array]
) -> None:
    rng = np.random.default_rng(7)
    found = fast_runs(PROBLEMS[name], RUNS, rng, way=64, **BUGS[bug])
    assert least_p_value(found, expected(name)) < FALSE_ALARM


# -- releases --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("placement", list(db.Placement))
def test_releases_have_the_law_of_algorithm_1(placement: db.Placement) -> None:
    """`run` as people call it, on the operating system's entropy: order, grid, all.

    Fails a correct engine with probability below 1e-6, anew at each call: 1e-9 leaves
    room for the normal approximation of the moments' tails.
    """
    p = problem(3, order=db.Reshuffle(), placement=placement, noise_std=0.9)
    runs = RUNS // 5
    found = np.array([run(p.mechanism, p.private, p.public).x for _ in range(runs)])
    reference = literal_runs(p, 10 * RUNS, np.random.default_rng(8))
    assert least_p_value(found, reference) > 1e-9


# -- the linear case -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", [0, 4, 64])
def test_squared_loss_has_its_exact_gaussian_law(way: int) -> None:
    """Unclipped: x ~ N(mean, covariance) by linear algebra; whitened it is N(0, I)."""
    p = problem(4, clip_norm=None, penalty=db.NoPenalty(), learning_rate=0.2)
    m, d = p.mechanism, 3
    mean, covariance = np.zeros(d), np.zeros((d, d))
    for epoch in m.epochs:
        rows = [(p.private, i) for i in range(epoch.private_rows)]
        rows += [(p.public, i) for i in range(epoch.public_rows)]
        eta = epoch.learning_rate
        for table, i in rows:
            assert table.y is not None
            a, y = table.X[i], table.y[i]
            step = np.eye(d) - 2 * eta * np.outer(a, a)
            mean = step @ mean + 2 * eta * y * a
            std = eta * epoch.noise_std
            covariance = step @ covariance @ step.T + std**2 * np.eye(d)
    found = fast_runs(p, RUNS, np.random.default_rng(20 + way), way=way)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
    p_values = [stats.kstest(w, "norm").pvalue for w in white]
    p_values += [
        2 * stats.norm.sf(abs(np.sqrt(RUNS) * np.mean(white[i] * white[j])))
        for i in range(d)
        for j in range(i)
    ]
    squares = stats.chi2(RUNS * d)
    total = float(np.sum(white**2))
    p_values += [2 * squares.cdf(total), 2 * squares.sf(total)]
    assert min(p_values) * len(p_values) > FALSE_ALARM
