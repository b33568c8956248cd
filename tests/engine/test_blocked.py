"""The fast engine is the literal one on the same noise vectors, by all its ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.engine import block_kernels, blocked, costs
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.grid import grid_not_private
from dpbraid.engine.noise import Gaussian
from dpbraid.mechanism import Epoch
from tests.engine.given_words import GivenWords
from tests.engine.scripted import fast, slow
from tests.strategies import LOSSES, PENALTIES, mechanisms

# 0: the literal loop; 1000: blocks as long as they can be; None: the engine's choice
WAYS = (0, 1, 3, 1000, None)


def tables(m: db.Mechanism, d: int, seed: int) -> tuple[db.Rows, db.Rows]:
    """Bounded tables with a zero row and a repeated one where there is room."""
    rng = np.random.default_rng(seed)

    def table(n: int, bound: float | None) -> db.Rows:
        X = rng.standard_normal((n, d)) * 0.7
        if n > 2:
            X[1] = 0
            X[2] = X[0]
        y = np.sign(rng.standard_normal(n))
        if m.loss.labels == "none":
            return db.Rows.bounded(X, row_norm=bound)
        return db.Rows.bounded(X, y, row_norm=bound)

    return table(m.n, m.row_norm), table(m.public_rows + 2, m.public_bound)


def assert_same(found: np.ndarray, path: list[np.ndarray]) -> None:
    """To 1e-10 of the largest iterate on the way."""
    scale = max(float(np.max(np.abs(x))) for x in path)
    assert np.max(np.abs(found - path[-1])) <= 1e-10 * scale


@given(
    m=mechanisms(max_n=9),
    d=st.integers(1, 6),
    seed=st.integers(0, 99),
    way=st.sampled_from(WAYS),
)
def test_one_column_is_the_literal_engine(
    m: db.Mechanism, d: int, seed: int, way: int | None
) -> None:
    m = replace(m, start=db.Given(10))
    private, public = tables(m, d, seed)
    start = np.full(d, 0.3)
    path = slow(m, private, public, seed=seed, start=start)
    (found,) = fast([m], private, public, seed=seed, start=start, rows_per_block=way)
    assert_same(found, path)


@given(
    m=mechanisms(max_n=9),
    d=st.integers(1, 6),
    seed=st.integers(0, 99),
    way=st.sampled_from(WAYS),
    rates=st.lists(st.floats(0.25, 1.5), min_size=2, max_size=4),
)
def test_columns_are_single_runs(
    m: db.Mechanism, d: int, seed: int, way: int | None, rates: list[float]
) -> None:
    """Each column has its own learning rates and its own noise."""
    m = replace(m, start=db.Given(10))
    private, public = tables(m, d, seed)
    start = np.full(d, -0.2)
    # the noise of an epoch is drawn if any column has some: give it to all or none
    columns = [
        replace(
            m,
            epochs=tuple(
                replace(
                    e,
                    learning_rate=e.learning_rate * rate,
                    noise_std=e.noise_std * (1 + i),
                )
                for e in m.epochs
            ),
        )
        for i, rate in enumerate(rates)
    ]
    found = fast(columns, private, public, seed=seed, start=start, rows_per_block=way)
    for mechanism, x in zip(columns, found, strict=True):
        assert_same(x, slow(mechanism, private, public, seed=seed, start=start))


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: p.kind)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
@pytest.mark.parametrize("batch", [1, 2, 7, 50, 130])
@pytest.mark.parametrize("placement", list(db.Placement))
def test_every_loss_penalty_batch_and_placement(
    loss: Any, penalty: Any, batch: int, placement: db.Placement
) -> None:
    """Private then public steps with noise, several blocks and a short last batch."""
    m = db.interleaved(
        130,
        2,
        private_fraction=0.7,
        loss=loss,
        penalty=penalty,
        learning_rate=[0.2, 0.1],
        noise_std=0.3,
        clip_norm=0.5,
        row_norm=1.2,
        batch_size=batch,
        placement=placement,
        start=db.Given(5),
    )
    private, public = tables(m, 5, 1)
    start = np.linspace(-1, 1, 5)
    path = slow(m, private, public, seed=3, start=start)
    faster = replace(
        m,
        epochs=tuple(replace(e, learning_rate=2 * e.learning_rate) for e in m.epochs),
    )
    other = slow(faster, private, public, seed=3, start=start)
    for way in (0, 16, None):
        given: Any = {"seed": 3, "start": start, "rows_per_block": way}
        assert_same(fast([m], private, public, **given)[0], path)
        pair = fast([m, faster], private, public, **given)
        assert_same(pair[0], path)
        assert_same(pair[1], other)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
@pytest.mark.parametrize("placement", list(db.Placement))
def test_long_rows(loss: Any, placement: db.Placement) -> None:
    """Many cache lines, the last one not whole; an odd number of rows."""
    d = 301
    m = db.interleaved(
        21,
        2,
        private_fraction=0.6,
        loss=loss,
        penalty=db.Lasso(0.01),
        learning_rate=0.1,
        noise_std=0.2,
        clip_norm=0.5,
        row_norm=1.2,
        placement=placement,
        start=db.Given(5),
    )
    private, public = tables(m, d, 1)
    start = np.linspace(-0.1, 0.1, d)
    path = slow(m, private, public, seed=3, start=start)
    for way in (0, 8, None):
        given: Any = {"seed": 3, "start": start, "rows_per_block": way}
        assert_same(fast([m], private, public, **given)[0], path)
        assert_same(fast([m, m], private, public, **given)[1], path)


def test_a_zero_noise_column_beside_noisy_ones_has_none() -> None:
    m = db.dp(40, 2, loss=db.Logistic(), learning_rate=0.1, start=db.Given(1))
    private, _ = tables(m, 4, 0)
    start = np.zeros(4)
    quiet = m.with_noise(0)
    for way in (0, 8):
        found = fast([quiet, m], private, None, seed=1, start=start, rows_per_block=way)
        assert_same(found[0], slow(quiet, private, None, seed=1, start=start))
        assert_same(found[1], slow(m, private, None, seed=1, start=start))


def test_single_precision_is_the_same_to_single_precision() -> None:
    m = db.dp(
        100,
        3,
        loss=db.Logistic(),
        learning_rate=0.1,
        clip_norm=0.5,
        noise_std=0.2,
        start=db.Given(1),
    )
    private, _ = tables(m, 30, 0)
    start = np.zeros(30)
    path = slow(m, private, None, seed=1, start=start)
    for way in (0, 16):
        for columns in (1, 3):
            found = fast(
                [m] * columns,
                private,
                None,
                seed=1,
                start=start,
                rows_per_block=way,
                dtype=np.float32,
            )
            assert np.max(np.abs(found - path[-1])) < 1e-5
            # the arithmetic is in single precision indeed
            assert np.max(np.abs(found - path[-1])) > 1e-9


@pytest.mark.parametrize("rows", [0, 64])
def test_wide_steps_in_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of many rows is taken a few rows at a time, at the same x."""
    monkeypatch.setattr(costs, "MAX_ROWS", 16)
    monkeypatch.setattr(costs, "WIDE_NUMBERS", 100)
    for loss in (db.Logistic(), db.Mean()):
        m = db.dp(
            100, 2, loss=loss, learning_rate=0.3, batch_size=75, start=db.Given(1)
        )
        private, _ = tables(m, 4, 0)
        start = np.ones(4) / 4
        found = fast([m], private, None, seed=1, start=start, rows_per_block=rows)
        assert_same(found[0], slow(m, private, None, seed=1, start=start))


# -- products and the bridge -----------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 4, 5, 6, 10, 17, 25])
def test_products_are_those_of_numpy(count: int, dtype: type) -> None:
    """Whole and broken tiles of rows that stand anywhere, and repeat."""
    rng = np.random.default_rng(count)
    T = rng.standard_normal((12, 37)).astype(dtype)
    x, w = rng.standard_normal((2, 37)).astype(dtype)
    rows = rng.integers(0, 12, count)
    G = np.full((30, 30), np.nan, dtype)
    margins, sums = np.empty(30, dtype), np.empty(30, dtype)
    block_kernels.products(T, rows, x, w, G, margins, sums)
    A = T[rows].astype(np.float64)
    precise = {"rtol": 1e-13, "atol": 1e-13} if dtype is np.float64 else {"atol": 1e-4}
    np.testing.assert_allclose(margins[:count], A @ x, **precise)
    np.testing.assert_allclose(sums[:count], A @ w, **precise)
    upper = np.triu_indices(count, 1)
    np.testing.assert_allclose(G[:count, :count][upper], (A @ A.T)[upper], **precise)


@given(
    steps=st.integers(2, 9),
    batch=st.integers(1, 3),
    d=st.integers(1, 5),
    seed=st.integers(0, 50),
    zero=st.booleans(),
    single=st.booleans(),
)
@example(steps=40, batch=1, d=2, seed=0, zero=False, single=True)
@example(steps=20, batch=3, d=1, seed=0, zero=True, single=False)
@example(steps=6, batch=16, d=2, seed=0, zero=False, single=True)
def test_the_bridge_has_exactly_the_law_of_the_partial_sums(
    steps: int, batch: int, d: int, seed: int, zero: bool, single: bool
) -> None:
    """Feed unit vectors for the normals: the linear map has the right covariances.

    With z = P W_B + L xi, W_B ~ N(0, B I): Cov(z_i, z_j) = min(t_i, t_j) <a_i, a_j> and
    Cov(z_i, W_B) = t_i a_i, as for z_i = <a_i, W_t> of a sum W_t of t normal vectors.
    In single precision as well as its Gram matrix allows, rows of one step collinear.
    """
    rng = np.random.default_rng(seed)
    rows = steps * batch
    A = rng.standard_normal((rows, d)) * np.exp(3 * rng.standard_normal((rows, 1)))
    if rows > 3:
        A[3] = A[1]
    if zero:
        A[rows // 2] = 0
    times = np.arange(rows) // batch
    G = np.triu(A @ A.T, 1).astype(np.float32 if single else np.float64)
    norms, room = np.linalg.norm(A, axis=1), np.empty((rows, rows))

    def z(W: np.ndarray, xi: np.ndarray) -> np.ndarray:
        out = xi.copy()
        block_kernels.bridge(times, norms, A @ W, G, out, room)
        return out

    L = np.column_stack([z(np.zeros(d), e) for e in np.eye(rows)])
    P = np.column_stack([z(e, np.zeros(rows)) for e in np.eye(d)])
    np.testing.assert_allclose(steps * P, times[:, None] * A, rtol=1e-13, atol=0)
    covariance = steps * P @ P.T + L @ L.T
    expected = np.minimum.outer(times, times) * (A @ A.T)
    sizes = np.sqrt(np.maximum(np.diag(expected), 1e-300))
    # relative to the standard deviations, to the jitter of singular minibatches
    error = np.abs(covariance - expected) / np.outer(sizes, sizes)
    limits = (1e-5, 3e-4) if single else (1e-12, 1e-10)
    assert np.max(error) < limits[batch > 1]


# 64 bits of which the ziggurat makes 0, and others inside of the same layer
ZERO, HOT = 0x002, 0x800000000000 << 9 | 0x002


class OneNormal(Gaussian):
    """Zeros but for one normal, number `hot` of all that are asked for."""

    def __init__(self, hot: int) -> None:
        self.words = GivenWords(HOT if i == hot else ZERO for i in range(3000))
        super().__init__(self.words)  # type: ignore[arg-type]


def hot_normal() -> float:
    out = np.empty(1)
    OneNormal(0).steps(out)
    return float(out[0])


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("n", "d", "columns", "way"),
    [
        *((14, 3, columns, way) for columns in (1, 2) for way in (0, 6, 64)),
        (40, 70, 1, 12),  # tiles across, and longer rows than lines
        (40, 70, 1, None),
    ],
)
def test_squared_loss_has_its_exact_mean_and_covariance(
    n: int, d: int, columns: int, way: int | None, batch: int
) -> None:
    """The unclipped iterate is affine in the normals: read the map off, one by one.

    x <- (I - eta H_t) x + eta g_t - eta rho, H_t = 2/b sum a a^T, g_t = 2/b sum y a.
    """
    m = db.interleaved(
        n,
        2,
        private_fraction=0.6,
        loss=db.Squared(),
        penalty=db.Ridge(0.05),
        learning_rate=0.45 / d,
        noise_std=0.8,
        order=db.Incremental(),
        batch_size=batch,
    )
    private, public = tables(m, d, 4)
    mean, covariance = np.zeros(d), np.zeros((d, d))
    for epoch in m.epochs:
        for table, rows in ((private, epoch.private_rows), (public, epoch.public_rows)):
            for first in range(0, rows, batch):
                part = slice(first, min(first + batch, rows))
                assert table.y is not None
                a, y = table.X[part], table.y[part]
                step = np.eye(d) - epoch.learning_rate * 2 / batch * a.T @ a
                mean = step @ mean + epoch.learning_rate * 2 / batch * a.T @ y
                std = epoch.learning_rate * epoch.noise_std
                covariance = step @ covariance @ step.T + std**2 * np.eye(d)
        shrink = 1 / (1 + m.prox_step(epoch) * 0.05)
        mean, covariance = shrink * mean, shrink**2 * covariance

    def run(hot: int) -> tuple[np.ndarray, int]:
        noise = OneNormal(hot)
        X = np.zeros((d, columns))
        engine = Blocked(
            Columns.of([m] * columns),
            Table.of(private, m.loss, None, np.float64),
            Table.of(public, m.loss, None, np.float64),
            X,
            noise,
            rows_per_block=way,
        )
        for _ in engine.epochs(np.random.default_rng(0)):
            pass
        return X[:, -1], noise.words.used

    center, asked = run(-1)
    np.testing.assert_allclose(center, mean, rtol=1e-12)
    J = np.column_stack([run(hot)[0] - center for hot in range(asked)]) / hot_normal()
    np.testing.assert_allclose(
        J @ J.T, covariance, rtol=1e-10, atol=1e-12 * np.max(covariance)
    )
    if way == 64:  # two blocks an epoch: W_B and a number a row, not d a step
        rows = sum(e.rows for e in m.epochs)
        assert asked == 4 * d + rows


# -- choices ---------------------------------------------------------------------------


def test_the_choice_of_a_way_follows_the_shapes() -> None:
    def choice(d: int, columns: int, noisy: bool) -> int | None:
        return costs.block_rows(costs.Shape(d, columns, 1, noisy, 8))

    assert choice(3072, 1, False) is None  # the compiled loop is at its limit
    assert choice(11, 1, True) is None
    assert choice(11, 36, True) is None
    assert choice(3072, 1, True) in range(8, 129)
    assert choice(3072, 36, True) in range(16, 129)
    assert choice(3072, 36, False) in range(16, 129)


def test_releases_on_a_grid_never_take_blocks() -> None:
    """numeric.py bounds the rounding of literal steps, one column without noise."""
    for d in (1, 10, 100, 1000, 10_000, 1_000_000):
        for batch in (1, 2, 20, 47):
            shape = costs.Shape(d, 1, batch, noisy=False, itemsize=8)
            assert costs.block_rows(shape) is None


def test_columns_must_share_all_but_rates_and_noise() -> None:
    m = db.dp(5, 2, loss=db.Mean(), learning_rate=0.1)
    Columns.of([m, m.with_noise(3)])
    for other in (
        replace(m, clip_norm=1.0),
        replace(m, epochs=m.epochs[:1]),
        replace(m, epochs=(Epoch(4, 1, 0.1, 1.0), m.epochs[1])),
    ):
        with pytest.raises(db.InvalidParameterError, match="number 1 differs"):
            Columns.of([m, other])
    with pytest.raises(db.InvalidParameterError, match="at least one"):
        Columns.of([])


def recorder(seen: list[tuple[int, ...]]) -> Any:
    return lambda *counts: seen.append(counts)


def test_progress_counts_steps_and_nothing_else() -> None:
    m = db.interleaved(
        100,
        3,
        private_fraction=0.5,
        loss=db.Logistic(),
        learning_rate=0.1,
        batch_size=3,
    )
    private, public = tables(m, 4, 0)
    for way in (0, 9, None):
        seen: list[tuple[int, ...]] = []
        engine = Blocked(
            Columns.of([m]),
            Table.of(private, m.loss, None, np.float64),
            Table.of(public, m.loss, None, np.float64),
            np.zeros((4, 1)),
            Gaussian(np.random.default_rng(0)),
            progress=recorder(seen),
            rows_per_block=way,
        )
        for _ in engine.epochs(np.random.default_rng(0)):
            pass
        assert [done for done, _ in seen] == sorted({done for done, _ in seen})
        assert seen[-1] == (3 * 2 * 17, 3 * 2 * 17)
        assert {total for _, total in seen} == {102}


def test_the_blas_product_is_in_place() -> None:
    """`_add_product` relies on BLAS writing into the state itself."""
    for dtype in (np.float32, np.float64):
        X = np.ones((5, 2), dtype)
        A, M = np.ones((3, 5), dtype), np.ones((3, 2), dtype)
        gemm = blocked._gemm(np.dtype(dtype))
        gemm(-1.0, M.T, A.T, 1.0, X.T, trans_b=1, overwrite_c=1)
        assert np.all(X == -2)


def test_a_mean_in_single_precision_ends_at_zero_and_not_next_to_it() -> None:
    """Halving 1.4e-45 rounds back to it, and such numbers are slow to work with."""
    n, d = 200, 3
    rows = db.Rows.bounded(np.zeros((n, d)), row_norm=1.0)
    mechanisms = [
        db.nonprivate(n, 2, learning_rate=rate, loss=db.Mean(), start=db.Given(3.0))
        for rate in (0.5, 0.01)
    ]
    grid = grid_not_private(mechanisms, rows, seed=1, start=np.ones(d))
    assert np.array_equal(grid.iterates[0], np.zeros(d))
    np.testing.assert_allclose(grid.iterates[1], 0.99**400, rtol=1e-4)
