"""The numeric model holds: every rounding of the real kernels is within its bound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbraid as db
from dpbraid import numeric
from dpbraid.engine import noise, slopes
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.once import run
from dpbraid.losses import Loss, MarginLoss
from dpbraid.numeric import UNIT, numeric_model
from tests.strategies import LOSSES, MARGIN_LOSSES, PENALTIES, mechanisms

EPOCH_END: dict[str, Any] = {"placement": "epoch_end"}


def exact_slope(loss: MarginLoss, margin: Any, y: Any) -> Any:
    """phi' in mpmath; a new loss adds its own line, and is held to its rounding."""
    match loss:
        case db.Squared():
            return 2 * (margin - y)
        case db.Logistic():
            return -y / (1 + mpmath.exp(y * margin))
        case db.Huber():
            return min(max(margin - y, -loss.transition), loss.transition)
        case db.SmoothedHinge():
            return -y * min(max((1 - y * margin) / loss.width, 0), 1)
    raise AssertionError(f"no exact slope of {loss.kind}")


def test_every_margin_loss_is_held_to_its_rounding() -> None:
    kinds = {type(loss).kind for loss in MARGIN_LOSSES}
    built_in = [k for k in Loss._kinds.values() if k.__module__ == "dpbraid.losses"]
    assert {k.kind for k in built_in if issubclass(k, MarginLoss)} == kinds


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=lambda loss: loss.kind)
def test_slopes_are_within_their_ulps(loss: MarginLoss) -> None:
    """The compiled slope, relative to the exact one, over all sizes of margin."""
    call = slopes._compiled(type(loss).slope_function).ctypes
    rng = np.random.default_rng(0)
    margins = rng.standard_normal(2000) * 10.0 ** rng.uniform(-8, 3, 2000)
    labels = np.sign(rng.standard_normal(2000))
    if loss.labels == "real":
        labels = labels * rng.standard_normal(2000)
    margins[:500] = labels[:500] * (1 + 1e-9 * rng.standard_normal(500))
    worst = 0.0
    with mpmath.workdps(40):
        for margin, y in zip(margins, labels, strict=True):
            exact = exact_slope(loss, mpmath.mpf(float(margin)), mpmath.mpf(float(y)))
            found = call(margin, y, loss.parameter)
            if abs(exact) < 1e-290:
                assert abs(found) < 1e-290
            else:
                worst = max(worst, float(abs(found - exact) / abs(exact)))
    assert worst <= numeric.SLOPE_ULPS * UNIT


def exact_step(
    m: db.Mechanism, x: list[Any], rows: db.Rows, table: Table, eta: float
) -> list[Any]:
    """One step on all rows of the table, in mpmath, on the clip limits of the table."""
    moved = [mpmath.mpf(0)] * len(x)
    for i in range(len(rows)):
        a = [mpmath.mpf(float(v)) for v in rows.X[i]]
        if isinstance(m.loss, MarginLoss):
            assert rows.y is not None
            margin = mpmath.fdot(a, x)
            limit = mpmath.mpf(float(table.limits[i]))
            slope = exact_slope(m.loss, margin, mpmath.mpf(float(rows.y[i])))
            slope = min(max(slope, -limit), limit)
            gradient = [slope * v for v in a]
        else:
            gradient = [p - q for p, q in zip(x, a, strict=True)]
            norm = mpmath.sqrt(mpmath.fdot(gradient, gradient))
            if m.clip_norm is not None and norm > m.clip_norm:
                gradient = [g * m.clip_norm / norm for g in gradient]
        moved = [s + g for s, g in zip(moved, gradient, strict=True)]
    factor = mpmath.mpf(eta) / m.batch_size
    return [p - factor * s for p, s in zip(x, moved, strict=True)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
@pytest.mark.parametrize(("d", "batch"), [(1, 1), (7, 1), (300, 1), (40, 3), (30, 60)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_a_computed_step_is_within_its_bound(
    loss: Loss, d: int, batch: int, size: float
) -> None:
    """|computed - exact| <= h of `_StepError` at X = |x|: mpmath decides.

    Rows of norm next to the bound, along x and across, clipping and not.
    """
    rng = np.random.default_rng(d + batch)
    for clip_norm in (0.5, 1e3):
        row_norm, eta = 2.0, 0.4
        m = db.dp(
            batch,
            1,
            loss=loss,
            learning_rate=eta,
            clip_norm=clip_norm,
            row_norm=row_norm,
            batch_size=batch,
            **EPOCH_END,
        ).with_noise(0)
        bounds = numeric._Bounds.of(m)
        assert bounds is not None
        x = rng.standard_normal(d)
        x *= size / np.linalg.norm(x)
        X = rng.standard_normal((batch, d)) + 3 * rng.choice([-1, 0, 1]) * x / size
        y = np.sign(rng.standard_normal(batch))
        rows = db.Rows.bounded(
            1e9 * X, None if loss.labels == "none" else y, row_norm=row_norm
        )
        table = Table.of(rows, loss, clip_norm, np.float64)
        state = x[:, None].copy()
        engine = Blocked(
            Columns.of([m]),
            table,
            None,
            state,
            noise.Gaussian(np.random.default_rng(0)),
        )
        for _ in engine.epochs(np.random.default_rng(0)):
            pass
        with mpmath.workdps(60):
            exact = exact_step(m, [mpmath.mpf(float(v)) for v in x], rows, table, eta)
            error = mpmath.sqrt(
                sum(
                    (e - float(v)) ** 2 for e, v in zip(exact, state[:, 0], strict=True)
                )
            )
        largest = max(size, float(np.linalg.norm(state)))
        bound = numeric._StepError(m, d, largest, bounds.row, bounds.gradient).of(eta)
        assert error <= bound
        # a bound that is far from what happens would hide a mistake in units
        assert bound < 1e-8 * max(size, 1)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
@pytest.mark.parametrize("d", [1, 11, 256, 400])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_steps_in_a_row_are_within_their_bounds(
    loss: Loss, d: int, size: float
) -> None:
    """Exact steps are nonexpansive, so errors add up: at most one bound a step.

    Margins are taken ahead, of one step or of two: this is their bound too.
    """
    rng, steps, eta, row_norm = np.random.default_rng(d), 5, 0.2, 2.0
    m = db.dp(
        steps,
        1,
        loss=loss,
        learning_rate=eta,
        clip_norm=0.5,
        row_norm=row_norm,
        order=db.Incremental(),
        **EPOCH_END,
    ).with_noise(0)
    bounds = numeric._Bounds.of(m)
    assert bounds is not None
    x = rng.standard_normal(d)
    x *= size / np.linalg.norm(x)
    X = rng.standard_normal((steps, d)) + 3 * x / size
    y = None if loss.labels == "none" else np.sign(rng.standard_normal(steps))
    rows = db.Rows.bounded(1e9 * X, y, row_norm=row_norm)
    state = x[:, None].copy()
    engine = Blocked(
        Columns.of([m]),
        Table.of(rows, loss, 0.5, np.float64),
        None,
        state,
        noise.Gaussian(rng),
    )
    for _ in engine.epochs(rng):
        pass
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(v)) for v in x]
        for i in range(steps):
            one = db.Rows.bounded(
                rows.X[i : i + 1], None if y is None else y[i : i + 1]
            )
            table = Table.of(one, loss, 0.5, np.float64)
            exact = exact_step(m, exact, one, table, eta)
        error = mpmath.sqrt(
            sum((e - float(v)) ** 2 for e, v in zip(exact, state[:, 0], strict=True))
        )
    largest = size + steps * eta * 0.5
    bound = numeric._StepError(m, d, largest, bounds.row, bounds.gradient).of(eta)
    assert 0 < error <= steps * bound


@given(
    d=st.integers(1, 300),
    n=st.integers(1, 4),
    seed=st.integers(0, 99),
    clip_norm=st.sampled_from([0.1, 3.0, 1e200]),
)
def test_clipped_gradients_obey_the_clip_norm_exactly(
    d: int, n: int, seed: int, clip_norm: float
) -> None:
    """|a| limit <= C in exact arithmetic: the lowered limit covers its rounding."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-100, 100, (n, 1))
    rows = db.Rows.bounded(X, np.ones(n))
    limits = Table.of(rows, db.Logistic(), clip_norm, np.float64).limits
    for a, limit in zip(X, limits, strict=True):
        square = sum(Fraction(float(v)) ** 2 for v in a)
        assert square * Fraction(float(limit)) ** 2 <= Fraction(clip_norm) ** 2
        assert square * Fraction(float(limit)) ** 2 >= Fraction(
            clip_norm
        ) ** 2 * Fraction(1 - 1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: p.kind)
def test_a_computed_prox_is_within_its_bound(penalty: db.Ridge) -> None:
    """(d + 16) u |x|, against the same prox in extended precision."""
    rng = np.random.default_rng(0)
    for d in (1, 10, 1000):
        for size in (1e-2, 1.0, 1e3):
            x = rng.standard_normal((d, 1)) * size
            step = float(rng.uniform(0.01, 2))
            found = penalty.prox(x, np.array([step]))
            exact = penalty.prox(x.astype(np.longdouble), np.longdouble(step))
            error = float(np.linalg.norm((found - exact).astype(np.float64)))
            at_zero = float(np.linalg.norm(penalty.prox(np.zeros(d), step)))
            bound = (d + 16) * UNIT * (float(np.linalg.norm(x)) + at_zero)
            assert error <= bound


# -- the model as a whole --------------------------------------------------------------


def model(n: int = 20, K: int = 5, d: int = 8, **changes: Any) -> numeric.NumericModel:
    given: dict[str, Any] = {
        "loss": db.Logistic(),
        "learning_rate": 0.1,
        "noise_std": 4.0,
        "clip_norm": 1.0,
        "row_norm": 1.0,
        **EPOCH_END,
        **changes,
    }
    fraction = given.pop("private_fraction", None)
    if fraction is not None:
        m = db.interleaved(n, K, private_fraction=fraction, **given)
    else:
        m = db.dp(n, K, **given)
    return numeric_model(m, d)


def test_the_grid_is_a_small_power_of_two() -> None:
    found = model()
    assert found.grid is not None
    assert found.iterate_bound is not None
    mantissa = np.frexp(found.grid)[0]
    assert mantissa == 0.5
    assert 2.0**-31 < found.grid / (0.1 * 4.0) <= 2.0**-30
    # drift n eta C and noise std (2 sqrt d + 16), five times
    expected = 5 * (20 * 0.1 + 0.4 * (2 * 8**0.5 + 16))
    assert found.iterate_bound == pytest.approx(expected, rel=1e-5)
    # the grid's share alone, 2 gamma sqrt(d) / (2 eta C)
    assert found.noise_loss > found.grid * 8**0.5 / 0.1
    assert found.noise_loss < 1e-6


def test_no_grid_without_bounds_or_with_noise_on_every_step() -> None:
    for real in (
        model(placement="every_step"),
        model(row_norm=None),
        model(clip_norm=None, loss=db.Squared()),
        model(clip_norm=None, loss=db.Mean(), row_norm=None),
        model(noise_std=0.0),
    ):
        assert real.grid is None
        assert real.iterate_bound is None
        assert real.noise_loss == 0
    for bounded in (
        model(clip_norm=None),
        model(clip_norm=None, loss=db.Mean()),
        model(loss=db.Mean(), row_norm=None),
    ):
        assert bounded.grid is not None


def test_more_of_everything_loses_more() -> None:
    base = model().noise_loss
    assert model(n=200).noise_loss > base
    assert model(K=50).noise_loss > base
    assert model(d=800).noise_loss > base
    assert model(noise_std=400.0).noise_loss > base
    # the same rows, which may now stay out: K times as much, and public steps
    assert model(n=40, private_fraction=0.5).noise_loss > 5 * base
    ball = model(K=50, penalty=db.Ball(1.0))
    free = model(K=50)
    assert ball.iterate_bound is not None
    assert free.iterate_bound is not None
    assert ball.iterate_bound < free.iterate_bound


def test_a_coarser_grid_where_iterates_are_large_and_an_error_beyond() -> None:
    fine = model(start=db.Given(1.0))
    coarse = model(start=db.Given(1e11))
    assert coarse.grid is not None
    assert fine.grid is not None
    assert coarse.grid > fine.grid
    assert coarse.noise_loss > fine.noise_loss
    with pytest.raises(db.InvalidParameterError, match="too small for float64"):
        model(start=db.Given(1e14))


def test_public_epochs_before_the_first_private_one_are_free() -> None:
    def schedule(before: int) -> float:
        private = db.Epoch(20, 0, 0.1, 4.0, db.Placement.EPOCH_END)
        public = db.Epoch(0, 2000, 1e-9, 0.0)
        m = db.Mechanism(
            20,
            (public,) * before + (private,) + (public,) * (1 - before) + (private,),
            db.Logistic(),
            clip_norm=1.0,
            row_norm=1.0,
        )
        return numeric_model(m, 8).noise_loss

    assert schedule(0) > schedule(1) > 0


@given(m=mechanisms(max_n=6), seed=st.integers(0, 99))
def test_states_stay_on_the_grid_and_within_the_bound(
    m: db.Mechanism, seed: int
) -> None:
    """For every mechanism with a grid: after each noise, and at any epoch's end."""
    m = replace(m, row_norm=m.row_norm or 1.0, clip_norm=m.clip_norm or 1.0)
    found = numeric_model(m, 3)
    if found.grid is None:
        return
    assert found.iterate_bound is not None
    rng = np.random.default_rng(seed)

    def table(n: int, bound: float | None) -> db.Rows:
        y = None if m.loss.labels == "none" else np.sign(rng.standard_normal(n))
        return db.Rows.bounded(rng.standard_normal((n, 3)), y, row_norm=bound)

    private, public = table(m.n, m.row_norm), table(m.public_rows + 1, m.public_bound)
    X = m.start.point(3, rng, None)[:, None].copy()

    class Watched(noise.OnGrid):
        def end(self, X: Any, rates: Any, stds: Any) -> None:
            super().end(X, rates, stds)
            assert np.all(X / self.grid == np.rint(X / self.grid))
            assert np.linalg.norm(X) <= self.bound

    engine = Blocked(
        Columns.of([m]),
        Table.of(private, m.loss, m.clip_norm, np.float64),
        Table.of(public, m.loss, m.clip_norm, np.float64),
        X,
        Watched(rng, found.grid, found.iterate_bound),
    )
    for _ in engine.epochs(rng):
        assert np.linalg.norm(X) <= found.iterate_bound


def test_the_projection_brings_a_stray_state_back() -> None:
    X = np.full((4, 1), 100.0)
    watched = noise.OnGrid(np.random.default_rng(0), 2.0**-10, 5.0)
    watched.end(X, np.array([1.0]), np.array([0.5]))
    assert np.linalg.norm(X) <= 5.0
    assert np.linalg.norm(X) > 4.99


@pytest.mark.parametrize("loss", [db.Mean(), db.Logistic()], ids=lambda p: p.kind)
def test_two_neighbouring_runs_stay_within_the_promised_distance(loss: Loss) -> None:
    """Two tables that differ in the last row, the same order and the same noise bits.

    Just before each noise the states are at most |difference after the last noise| +
    shift (1 + noise_loss) apart; the rows are extreme, so the shift is nearly attained.
    """
    n, d, K, eta, C = 30, 5, 6, 0.5, 1.0
    m = db.dp(
        n,
        K,
        loss=loss,
        learning_rate=eta,
        clip_norm=C,
        row_norm=2.0,
        noise_std=3.0,
        order=db.Incremental(),
        **EPOCH_END,
    )
    found = numeric_model(m, d)
    assert found.grid is not None
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    other = X.copy()
    X[-1], other[-1] = 2.0 * np.eye(d)[0], -2.0 * np.eye(d)[0]
    y = None if loss.labels == "none" else np.ones(n)
    before: list[np.ndarray] = []
    after: list[np.ndarray] = []

    class Watched(noise.OnGrid):
        def end(self, X: Any, rates: Any, stds: Any) -> None:
            before.append(X[:, 0].copy())
            super().end(X, rates, stds)
            after.append(X[:, 0].copy())

    for data in (X, other):
        state = np.zeros((d, 1))
        engine = Blocked(
            Columns.of([m]),
            Table.of(db.Rows.bounded(data, y, row_norm=2.0), loss, C, np.float64),
            None,
            state,
            Watched(np.random.default_rng(1), found.grid, found.iterate_bound or 0.0),
        )
        for _ in engine.epochs(np.random.default_rng(0)):
            pass
    shift, reached = 2 * eta * C, 0.0
    for k in range(K):
        apart = float(np.linalg.norm(before[k] - before[K + k]))
        last = 0.0 if k == 0 else float(np.linalg.norm(after[k - 1] - after[K + k - 1]))
        assert apart <= last + shift * (1 + found.noise_loss)
        reached = max(reached, (apart - last) / shift)
    assert reached > 0.5


@pytest.mark.parametrize("stays_out", [False, True])
def test_errors_in_the_worst_direction_are_paid_for(stays_out: bool) -> None:
    """Two real chains, every error at its bound and pushing them apart.

    All rows lie far off along (1, .., 1), so clipped steps keep distances; the two
    tables differ in the last row, which is used in every epoch or in the first alone.
    Before each noise the chains are at most uses * shift * (1 + noise_loss) apart; and
    nearly as far, or the loss would be larger than it has to be.
    """
    n, d, K, eta, C = 6, 4, 5, 0.5, 1.0
    later = n - 1 if stays_out else n
    epochs = [
        db.Epoch(n if k == 0 else later, 0, eta, 3.0, db.Placement.EPOCH_END)
        for k in range(K)
    ]
    m = db.Mechanism(n, tuple(epochs), db.Mean(), clip_norm=C, order=db.Incremental())
    found = numeric_model(m, d)
    assert found.grid is not None
    bounds = numeric._Bounds.of(m)
    assert bounds is not None
    most = numeric._Norms(m, d, bounds).everywhere
    step_error = numeric._StepError(m, d, most, bounds.row, bounds.gradient).of(eta)
    prox_error = (d + 16) * UNIT * most
    direction = np.ones(d, np.longdouble) / np.sqrt(np.longdouble(d))
    states = []
    for sign in (1, -1):
        x, path = np.zeros(d, np.longdouble), []
        rounding = sign * np.longdouble(found.grid) / 2
        for k, epoch in enumerate(m.epochs):
            if k > 0:  # the noise, without its rounding; then prox and projection
                x = x + rounding
                x = x + sign * 2 * prox_error * direction
            for row in range(epoch.private_rows):
                side = sign if row == n - 1 else 1
                q = 1e4 * side * direction
                x = x - eta * m.loss.gradients(x, q[None], None, C)[0]
                x = x + sign * step_error * direction
            x = x + rounding
            path.append(x)
        states.append(path)
    shift, allowed = np.longdouble(2 * eta * C), 1 + np.longdouble(found.noise_loss)
    for k in range(K):
        uses = 1 if stays_out else k + 1
        apart = np.linalg.norm(states[0][k] - states[1][k])
        assert shift * uses < apart <= shift * uses * allowed
    assert apart - shift * uses > 0.75 * (allowed - 1) * shift * uses


def test_run_uses_the_grid() -> None:
    rows = db.Rows.bounded(
        np.random.default_rng(0).standard_normal((50, 4)), np.ones(50), row_norm=1.0
    )
    m = db.dp(
        50,
        2,
        loss=db.Logistic(),
        learning_rate=0.1,
        noise_std=2.0,
        clip_norm=1.0,
        row_norm=1.0,
        **EPOCH_END,
    )
    for seed in (None, 3):
        release = run(m, rows, seed=seed)
        grid = release.numeric.grid
        assert release.numeric == numeric_model(m, 4)
        assert grid is not None
        # no penalty follows the last noise
        assert np.all(release.x / grid == np.rint(release.x / grid))
        # and on no coarser one: by chance with probability 2^-64
        coarse = release.x / (2**16 * grid)
        assert np.any(coarse != np.rint(coarse))
