"""C_i: certified bounds above everything that can be reached, exact where said."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import dpbraid as db
from dpbraid import InvalidParameterError
from dpbraid.theory.constants import (
    constants_not_private,
    difference_smoothness_not_private,
)
from dpbraid.theory.dissimilarity import (
    Quadratic,
    dissimilarity_not_private,
    quadratic_difference,
)
from tests.strategies import LOSSES


def tables(seed: int, n: int, d: int, shift: float = 0.3) -> tuple[db.Rows, db.Rows]:
    rng = np.random.default_rng(seed)
    X, P = rng.standard_normal((2, n, d))
    y, py = np.sign(rng.standard_normal((2, n)))
    return db.Rows.bounded(X, y), db.Rows.bounded(P + shift, py)


def brute_force(
    loss: db.losses.Loss, private: db.Rows, public: db.Rows, m: int, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Max and mean square over all subsets at one x, for t = 1..m."""
    G = loss.gradients(x, private.X, private.y, None)
    sums = np.cumsum(loss.gradients(x, public.X[:m], public.y[:m], None), axis=0)  # type: ignore[index]
    largest, squares = [], []
    for t in range(1, m + 1):
        norms = [
            np.linalg.norm(G[list(T)].sum(axis=0) - sums[t - 1])
            for T in itertools.combinations(range(len(G)), t)
        ]
        largest.append(max(norms))
        squares.append(np.mean(np.square(norms)))
    return np.array(largest), np.array(squares)


@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(LOSSES),
    radius=st.sampled_from([0.5, 2.0, math.inf]),
    m=st.integers(1, 5),
    d=st.integers(1, 3),
)
def test_upper_bounds_hold_for_every_subset_and_x(
    seed: int, loss: db.losses.Loss, radius: float, m: int, d: int
) -> None:
    private, public = tables(seed, 5, d)
    C = dissimilarity_not_private(loss, private, public, m, radius=radius)
    assert np.all(C.lower <= C.upper)
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.5, 1.0):
        x = rng.standard_normal(d)
        x *= scale * min(radius, 5.0) / np.linalg.norm(x)
        largest, squares = brute_force(loss, private, public, m, x)
        assert np.all(largest <= C.upper * (1 + 1e-9))
        assert np.all(squares <= C.mean_square * (1 + 1e-9) + 1e-12)
        mean = np.linalg.norm(
            m * loss.gradients(x, private.X, private.y, None).mean(axis=0)
            - loss.gradients(x, public.X[:m], public.y[:m], None).sum(axis=0)  # type: ignore[index]
        )
        assert mean <= C.last_mean * (1 + 1e-9) + 1e-12


@given(seed=st.integers(0, 10_000), loss=st.sampled_from(LOSSES), m=st.integers(1, 5))
def test_upper_bounds_hold_for_the_order_of_the_table(
    seed: int, loss: db.losses.Loss, m: int
) -> None:
    private, public = tables(seed, 5, 2)
    C = dissimilarity_not_private(
        loss, private, public, m, radius=1.0, table_order=True
    )
    assert np.all(C.lower <= C.upper)
    x = np.random.default_rng(seed).standard_normal(2)
    x /= np.linalg.norm(x)
    gap = np.cumsum(loss.gradients(x, private.X, private.y, None)[5 - m :], axis=0)
    gap -= np.cumsum(loss.gradients(x, public.X[:m], public.y[:m], None), axis=0)  # type: ignore[index]
    assert np.all(np.linalg.norm(gap, axis=1) <= C.upper * (1 + 1e-9))


@pytest.mark.parametrize("m", [1, 3, 6])
def test_mean_in_one_dimension_is_exact(m: int) -> None:
    private, public = tables(1, 6, 1)
    C = dissimilarity_not_private(db.Mean(), private, public, m)
    largest, squares = brute_force(db.Mean(), private, public, m, np.zeros(1))
    assert np.all(C.exact)
    np.testing.assert_allclose(C.upper, largest, rtol=1e-8)
    np.testing.assert_allclose(C.mean_square, squares, rtol=1e-8)
    np.testing.assert_allclose(C.lower, largest, rtol=1e-8)


def test_mean_square_is_exact_for_the_mean() -> None:
    private, public = tables(2, 6, 3)
    C = dissimilarity_not_private(db.Mean(), private, public, 6)
    _, squares = brute_force(db.Mean(), private, public, 6, np.zeros(3))
    np.testing.assert_allclose(C.mean_square, squares, rtol=1e-8)


def test_quadratic_on_a_ball_is_exact_for_c_n() -> None:
    """The dual meets the best x of a fine search."""
    private, public = tables(3, 6, 2)
    C = dissimilarity_not_private(db.Squared(), private, public, 6, radius=1.5)
    angles = np.linspace(0, 2 * np.pi, 20_001)
    circle = 1.5 * np.column_stack([np.cos(angles), np.sin(angles)])
    H = 2 * (private.X.T @ private.X - public.X.T @ public.X)
    b = 2 * (private.X.T @ private.y - public.X.T @ public.y)
    reached = np.linalg.norm(circle @ H - b, axis=1).max()
    assert C.last == pytest.approx(reached, rel=1e-6)
    assert C.last >= reached
    # the partial sums of a quadratic are bounded, not exact
    assert list(C.exact) == 5 * [False] + [True]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 5))
def test_largest_norm_on_a_ball(seed: int, d: int) -> None:
    """Above every sampled point; the fixed points of the ascent come close."""
    rng = np.random.default_rng(seed)
    values, b = rng.standard_normal((2, d))
    b *= rng.choice([0.0, 1.0, 10.0])
    bound = Quadratic(values, b).largest_on_ball(2.0)
    x = rng.standard_normal((20, d))
    for _ in range(300):
        x = values * (values * x - b)
        x = 2.0 * x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    best = float(np.linalg.norm(values * x - b, axis=1).max())
    assert best <= bound * (1 + 1e-9)
    assert bound <= best * (1 + 1e-3) + 1e-9


def test_quadratic_difference_is_the_difference_of_gradients() -> None:
    """Wide rows (d > rows) and tall ones: the norms of the gradients themselves."""
    for d in (2, 30):
        private, public = tables(11, 6, d)
        Q = quadratic_difference(private.X, private.y, public.X, public.y)  # type: ignore[arg-type]
        H = 2 * (private.X.T @ private.X - public.X.T @ public.X)
        b = 2 * (private.X.T @ private.y - public.X.T @ public.y)
        assert Q.norm == pytest.approx(np.abs(np.linalg.eigvalsh(H)).max())
        assert np.linalg.norm(Q.b) == pytest.approx(np.linalg.norm(b))
        assert np.linalg.norm(Q.values * Q.b) == pytest.approx(np.linalg.norm(H @ b))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_the_papers_example_public_is_private_permuted(loss: db.losses.Loss) -> None:
    """C_n = 0 while C_i > 0 for i < n: what a measure by single rows cannot see."""
    private, _ = tables(4, 7, 3)
    assert private.y is not None
    turn = np.random.default_rng(0).permutation(7)
    public = db.Rows.bounded(private.X[turn], private.y[turn])
    C = dissimilarity_not_private(loss, private, public, 7, radius=1.0)
    assert C.last == 0
    assert C.last_mean == 0
    assert np.all(C.lower[:-1] > 0)
    assert C.lower[-1] == 0
    part = dissimilarity_not_private(loss, private, public, 3, radius=1.0)
    # "clearly C_n^part <= C_n^full" (paper, sec. subsec:comparison) does not hold
    assert part.lower[-1] > C.last


def test_more_samples_never_lower_the_lower_bound() -> None:
    private, public = tables(5, 30, 4)
    lowers = [
        dissimilarity_not_private(
            db.Logistic(), private, public, 20, radius=2.0, samples=samples
        ).lower
        for samples in (1, 2, 4, 16)
    ]
    for less, more in itertools.pairwise(lowers):
        assert np.all(less <= more)
    assert np.any(lowers[0] < lowers[-1])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(LOSSES),
    radius=st.sampled_from([1.0, math.inf]),
    d=st.integers(1, 4),
)
def test_bounds_are_monotone_in_the_public_rows_used(
    seed: int, loss: db.losses.Loss, radius: float, d: int
) -> None:
    """Both bounds on C_{n_d + t}, for each t < m, and so the sum over t.

    C_n itself is not: it is 0 where the public rows are the private ones.
    """
    private, public = tables(seed, 9, d)
    every = [
        dissimilarity_not_private(loss, private, public, m, radius=radius)
        for m in range(1, 10)
    ]
    for less, more in itertools.pairwise(every):
        t = len(less.upper) - 1
        assert np.all(less.lower[:t] <= more.lower[:t])
        assert np.all(less.upper[:t] <= more.upper[:t] * (1 + 1e-9))
        assert np.all(less.mean_square[:t] <= more.mean_square[:t] * (1 + 1e-9))


def test_a_shift_of_public_rows_shows() -> None:
    private, _ = tables(7, 20, 3)
    shifts = [0.0, 1.0, 2.0, 4.0]
    last = []
    for shift in shifts:
        public = db.Rows.bounded(private.X + shift)
        C = dissimilarity_not_private(db.Mean(), private, public, 20)
        last.append(C.last)
    # n |shift (1, 1, 1)|
    np.testing.assert_allclose(last, [20 * s * math.sqrt(3) for s in shifts], rtol=1e-8)


def test_smoothness_of_the_difference() -> None:
    private, public = tables(8, 6, 3)
    assert (
        difference_smoothness_not_private(db.Mean(), private, public.X, None, False)[0]
        == 0
    )
    exact, reason = difference_smoothness_not_private(
        db.Squared(), private, public.X, public.y, False
    )
    H = 2 * (private.X.T @ private.X - public.X.T @ public.X) / 6
    assert exact == pytest.approx(np.abs(np.linalg.eigvalsh(H)).max())
    assert "exact" in reason
    part, reason = difference_smoothness_not_private(
        db.Squared(), private, public.X[:3], public.y[:3], False  # type: ignore[index]
    )  # fmt: skip
    assert "upper bound" in reason
    for T in itertools.combinations(range(6), 3):
        rows = private.X[list(T)]
        H = 2 * (rows.T @ rows - public.X[:3].T @ public.X[:3]) / 6
        assert np.abs(np.linalg.eigvalsh(H)).max() <= part * (1 + 1e-9)


@given(seed=st.integers(0, 1000))
def test_smoothness_of_the_difference_for_logistic_gradients(seed: int) -> None:
    private, public = tables(seed, 5, 2)
    loss = db.Logistic()
    L_H, _ = difference_smoothness_not_private(loss, private, public.X, public.y, False)
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, 2))

    def gradient(at: np.ndarray) -> np.ndarray:
        mine = loss.gradients(at, private.X, private.y, None).mean(axis=0)
        return mine - loss.gradients(at, public.X, public.y, None).mean(axis=0)

    change = np.linalg.norm(gradient(x) - gradient(z))
    assert change <= L_H * np.linalg.norm(x - z) * (1 + 1e-9)


def test_what_does_not_fit_is_refused() -> None:
    private, public = tables(9, 4, 2)
    with pytest.raises(InvalidParameterError, match="public_rows"):
        dissimilarity_not_private(db.Mean(), private, public, 5)
    with pytest.raises(InvalidParameterError, match="public table"):
        dissimilarity_not_private(db.Mean(), private, public, 3, public_start=2)
    none = dissimilarity_not_private(db.Mean(), private, None, 0)
    assert none.last == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "loss"), [(1000, 784, db.Mean()), (1000, 3072, db.Squared())]
)
def test_the_papers_sizes_take_seconds(n: int, d: int, loss: db.losses.Loss) -> None:
    """MNIST-69 and CIFAR-10 sizes: C_i, L_H and the other constants under 10 s."""
    rng = np.random.default_rng(0)
    X, P = rng.random((2, n, d))
    y, py = rng.integers(0, 10, (2, n)).astype(float)
    private, public = db.Rows.bounded(X, y), db.Rows.bounded(P, py)
    for schedule in (db.priv_pub, db.interleaved):
        mechanism = schedule(
            n, 2, private_fraction=0.5, learning_rate=1e-6, loss=loss,
            penalty=db.Ball(1.0),
        )  # fmt: skip
        x = np.zeros(d)
        # CPU time of one thread: other jobs on the machine do not count
        with threadpool_limits(1):
            started = time.process_time()
            constants_not_private(mechanism, private, public, minimiser=x)
            elapsed = time.process_time() - started
        assert elapsed < 10, elapsed
