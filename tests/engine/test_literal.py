"""The literal engine against numbers derived by hand, and its collapses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.engine import literal
from dpbraid.engine.objective import objective
from dpbraid.engine.trace import trace_not_private
from tests.strategies import LOSSES, PENALTIES


class ScriptedNormals(np.random.Generator):
    """Every vector of standard normals is the same one."""

    def __init__(self, vector: list[float]) -> None:
        super().__init__(np.random.PCG64(0))
        self.vector = np.array(vector)

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        assert size == len(self.vector)
        return self.vector


# -- the worked example ------------------------------------------------------------
#
# n = 3, d = 2, K = 2. Mean loss, f(x; q) = |x - q|^2 / 2, no clipping, eta = 1/2:
#     x - (x - q)/2 - rho/2 = x/2 + q/2 - rho/2
# private rows  q1 = (4, 0), q2 = (0, 8), q3 = (8, 8)
# public rows   p1 = (8, 0), p2 = (0, 8), p3 = (4, 4)
# every normal vector is (1, -1) and sigma = 2: a noisy step adds (-1, 1)
# ridge with weight 2/3: prox step eta n = 3/2, so the prox divides by 1 + 1 = 2

PRIVATE = db.Rows.bounded([[4, 0], [0, 8], [8, 8]])
PUBLIC = db.Rows.bounded([[8, 0], [0, 8], [4, 4]])
EXAMPLE: dict[str, Any] = {
    "loss": db.Mean(),
    "penalty": db.Ridge(2 / 3),
    "order": db.Incremental(),
    "learning_rate": 0.5,
}
NOISY: dict[str, Any] = {**EXAMPLE, "noise_std": 2.0}


def run(mechanism: db.Mechanism) -> list[list[float]]:
    """The iterates after each epoch."""

    def generators() -> dict[str, np.random.Generator]:
        return {
            "order_rng": np.random.default_rng(0),
            "noise_rng": ScriptedNormals([1, -1]),
        }

    first, *epochs = literal.iterates_not_private(
        mechanism, PRIVATE, PUBLIC, **generators()
    )
    assert first.tolist() == [0, 0]
    last = literal.run(mechanism, PRIVATE, PUBLIC, **generators())
    assert last.tolist() == epochs[-1].tolist()
    return [x.tolist() for x in epochs]


def close(found: list[list[float]], expected: list[list[float]]) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_dp_by_hand() -> None:
    # q1: (0, 0)/2 + (2, 0) + (-1, 1) = (1, 1)
    # q2: (.5, .5) + (0, 4) + (-1, 1) = (-.5, 5.5)
    # q3: (-.25, 2.75) + (4, 4) + (-1, 1) = (2.75, 7.75);  prox (1.375, 3.875)
    # q1: (.6875, 1.9375) + (2, 0) + (-1, 1) = (1.6875, 2.9375)
    # q2: (.84375, 1.46875) + (0, 4) + (-1, 1) = (-.15625, 6.46875)
    # q3: (-.078125, 3.234375) + (4, 4) + (-1, 1) = (2.921875, 8.234375);  prox
    close(run(db.dp(3, 2, **NOISY)), [[1.375, 3.875], [1.4609375, 4.1171875]])


def test_interleaved_by_hand() -> None:
    # n_d = 2, then p1, noise on all three
    # q1 (1, 1); q2 (-.5, 5.5); p1: (-.25, 2.75) + (4, 0) + (-1, 1) = (2.75, 3.75)
    # prox (1.375, 1.875)
    # q1: (.6875, .9375) + (2, 0) + (-1, 1) = (1.6875, 1.9375)
    # q2: (.84375, .96875) + (0, 4) + (-1, 1) = (-.15625, 5.96875)
    # p1: (-.078125, 2.984375) + (4, 0) + (-1, 1) = (2.921875, 3.984375);  prox
    m = db.interleaved(3, 2, private_fraction=2 / 3, **NOISY)
    close(run(m), [[1.375, 1.875], [1.4609375, 1.9921875]])


def test_interleaved_with_noise_at_the_epoch_end_by_hand() -> None:
    # noise after q2, the last private step, alone
    # q1 (2, 0); q2: (1, 0) + (0, 4) + (-1, 1) = (0, 5); p1: (0, 2.5) + (4, 0)
    # prox (2, 1.25)
    # q1: (1, .625) + (2, 0) = (3, .625)
    # q2: (1.5, .3125) + (0, 4) + (-1, 1) = (.5, 5.3125)
    # p1: (.25, 2.65625) + (4, 0) = (4.25, 2.65625);  prox
    m = db.interleaved(3, 2, private_fraction=2 / 3, placement="epoch_end", **NOISY)
    close(run(m), [[2, 1.25], [2.125, 1.328125]])


def test_priv_pub_by_hand() -> None:
    # epoch 1 as dp: (1.375, 3.875); epoch 2 public, without noise:
    # p1: (.6875, 1.9375) + (4, 0) = (4.6875, 1.9375)
    # p2: (2.34375, .96875) + (0, 4) = (2.34375, 4.96875)
    # p3: (1.171875, 2.484375) + (2, 2) = (3.171875, 4.484375);  prox
    expected = [[1.375, 3.875], [1.5859375, 2.2421875]]
    close(run(db.priv_pub(3, 2, private_fraction=0.5, **NOISY)), expected)
    # one private, one public epoch: alternating is the same
    close(run(db.alternating(3, 2, private_fraction=0.5, **NOISY)), expected)


def test_pub_priv_by_hand() -> None:
    # p1 (4, 0); p2: (2, 0) + (0, 4) = (2, 4); p3: (1, 2) + (2, 2) = (3, 4)
    # prox (1.5, 2)
    # q1: (.75, 1) + (2, 0) + (-1, 1) = (1.75, 2)
    # q2: (.875, 1) + (0, 4) + (-1, 1) = (-.125, 6)
    # q3: (-.0625, 3) + (4, 4) + (-1, 1) = (2.9375, 8);  prox
    m = db.pub_priv(3, 2, private_fraction=0.5, **NOISY)
    close(run(m), [[1.5, 2], [1.46875, 4]])


def test_alternating_by_hand() -> None:
    # three epochs, private fraction 1/3: private, public, public
    # epochs 1 and 2 as priv_pub; then from (1.5859375, 2.2421875):
    # p1: (.79296875, 1.12109375) + (4, 0) = (4.79296875, 1.12109375)
    # p2: (2.396484375, .560546875) + (0, 4) = (2.396484375, 4.560546875)
    # p3: (1.1982421875, 2.2802734375) + (2, 2);  prox (1.59912109375, 2.14013671875)
    m = db.alternating(3, 3, private_fraction=1 / 3, **NOISY)
    expected = [[1.375, 3.875], [1.5859375, 2.2421875], [1.59912109375, 2.14013671875]]
    close(run(m), expected)


def test_public_only_by_hand() -> None:
    # epoch 1 as pub_priv (1.5, 2)
    # p1: (.75, 1) + (4, 0) = (4.75, 1); p2: (2.375, .5) + (0, 4) = (2.375, 4.5)
    # p3: (1.1875, 2.25) + (2, 2) = (3.1875, 4.25);  prox
    close(run(db.public_only(3, 2, **EXAMPLE)), [[1.5, 2], [1.59375, 2.125]])


def test_nonprivate_by_hand() -> None:
    # q1 (2, 0); q2: (1, 0) + (0, 4) = (1, 4); q3: (.5, 2) + (4, 4) = (4.5, 6)
    # prox (2.25, 3)
    # q1: (1.125, 1.5) + (2, 0) = (3.125, 1.5)
    # q2: (1.5625, .75) + (0, 4) = (1.5625, 4.75)
    # q3: (.78125, 2.375) + (4, 4) = (4.78125, 6.375);  prox
    expected = [[2.25, 3], [2.390625, 3.1875]]
    close(run(db.nonprivate(3, 2, **EXAMPLE)), expected)


def test_a_short_batch_divides_by_b_by_hand() -> None:
    # b = 2: x - (x - q1)/4 - (x - q2)/4 = x/2 + (q1 + q2)/4, from 0: (1, 2)
    # then x - (x - q3)/4 = 3x/4 + q3/4 = (.75, 1.5) + (2, 2) = (2.75, 3.5)
    # prox step eta 3/2 = 3/4, divides by 1 + 1/2: (11/6, 7/3)
    m = db.dp(3, 1, batch_size=2, noise_std=0, **EXAMPLE)
    close(run(m), [[11 / 6, 7 / 3]])


def test_clipping_by_hand() -> None:
    # squared loss on one row a = (3, 4), y = 10, clip 5, eta = .1:
    # at 0 the gradient is 2 (0 - 10) a, norm 100, clipped to 5: -(3, 4)
    # x = (.3, .4): <x, a> = 2.5, gradient 2 (2.5 - 10) a clipped again: x = (.6, .8)
    rows = db.Rows.bounded([[3, 4]], [10])
    rng = np.random.default_rng(0)
    x = literal.run(
        db.nonprivate(1, 2, loss=db.Squared(), learning_rate=0.1, clip_norm=5),
        rows,
        order_rng=rng,
        noise_rng=rng,
    )
    np.testing.assert_allclose(x, [0.6, 0.8])


# -- a schedule of its own -----------------------------------------------------------


def test_the_general_framework_runs_by_hand() -> None:
    # its own n_d, sigma, learning rate, placement and public rows in each epoch
    m = db.Mechanism(
        n=3,
        epochs=(
            db.Epoch(1, 1, learning_rate=0.5, noise_std=2, public_start=2),
            db.Epoch(
                2, 1, learning_rate=0.25, noise_std=4, placement=db.Placement.EPOCH_END
            ),
        ),
        loss=db.Mean(),
        order=db.Incremental(),
    )
    # q1 (1, 1); p3: (.5, .5) + (2, 2) + (-1, 1) = (1.5, 3.5)
    # eta = 1/4: x <- 3x/4 + q/4 - rho/4, rho = (4, -4)
    # q1: (1.125, 2.625) + (1, 0) = (2.125, 2.625)
    # q2: (1.59375, 1.96875) + (0, 2) + (-1, 1) = (.59375, 4.96875)
    # p1: (.4453125, 3.7265625) + (2, 0)
    close(run(m), [[1.5, 3.5], [2.4453125, 3.7265625]])


# -- collapses -----------------------------------------------------------------------


def rows_for(loss: db.losses.Loss, n: int, d: int, seed: int) -> db.Rows:
    rng = np.random.default_rng(seed)
    return db.Rows.bounded(rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n))


@given(
    loss=st.sampled_from(LOSSES),
    penalty=st.sampled_from(PENALTIES),
    clip=st.sampled_from([None, 0.5]),
    seed=st.integers(0, 100),
)
def test_batches_of_n_are_proximal_gradient_descent(
    loss: Any, penalty: Any, clip: float | None, seed: int
) -> None:
    rows = rows_for(loss, 6, 3, seed)
    m = db.nonprivate(
        6,
        4,
        loss=loss,
        penalty=penalty,
        clip_norm=clip,
        batch_size=6,
        learning_rate=0.1,
    )
    rng = np.random.default_rng(seed)
    found = literal.run(m, rows, order_rng=rng, noise_rng=rng)
    x = np.zeros(3)
    for _ in range(4):
        gradient = loss.gradients(x, rows.X, rows.y, clip).mean(axis=0)
        x = penalty.prox(x - 0.1 * gradient, 0.1)
    assert np.max(np.abs(found - x)) <= 1e-12 * np.max(np.abs(x))


@given(
    loss=st.sampled_from(LOSSES),
    rule=st.sampled_from([db.Incremental(), db.ShuffleOnce(), db.Reshuffle()]),
    seed=st.integers(0, 100),
)
def test_no_noise_and_no_public_rows_is_the_vanilla_method(
    loss: Any, rule: Any, seed: int
) -> None:
    """Paper, Algorithm 2: IG, SO and RR."""
    rows = rows_for(loss, 5, 2, seed)
    m = db.interleaved(
        5, 3, private_fraction=1, noise_std=0, loss=loss, learning_rate=0.1, order=rule
    )
    found = literal.run(
        m,
        rows,
        order_rng=np.random.default_rng(seed),
        noise_rng=np.random.default_rng(99),
    )
    order, x = np.random.default_rng(seed), np.zeros(2)
    pi = np.arange(5) if rule == db.Incremental() else order.permutation(5)
    for k in range(3):
        if k > 0 and rule == db.Reshuffle():
            pi = order.permutation(5)
        for i in pi:
            one = slice(i, i + 1)
            x = x - 0.1 * loss.gradients(x, rows.X[one], rows.y[one], None)[0]
    assert np.max(np.abs(found - x)) <= 1e-12 * np.max(np.abs(x))


@given(seed=st.integers(0, 1000), n=st.integers(1, 8))
def test_interleaved_with_all_rows_private_is_dp(seed: int, n: int) -> None:
    common: dict[str, Any] = {
        "loss": db.Logistic(),
        "learning_rate": 0.2,
        "noise_std": 0.3,
    }
    rows = rows_for(db.Logistic(), n, 3, seed)

    def last(m: db.Mechanism) -> np.ndarray:
        return literal.run(
            m,
            rows,
            order_rng=np.random.default_rng(seed),
            noise_rng=np.random.default_rng(seed + 1),
        )

    one = last(db.interleaved(n, 3, private_fraction=1, **common))
    np.testing.assert_array_equal(one, last(db.dp(n, 3, **common)))


def test_public_only_needs_no_private_row() -> None:
    """Its result does not depend on the private table."""
    m = db.public_only(3, 2, **EXAMPLE)
    other = db.Rows.bounded(np.full((3, 2), 77.0))
    results = [
        literal.run(
            m,
            private,
            PUBLIC,
            order_rng=np.random.default_rng(1),
            noise_rng=np.random.default_rng(2),
        )
        for private in (PRIVATE, other)
    ]
    np.testing.assert_array_equal(*results)


def test_public_rows_can_be_reshuffled() -> None:
    fixed = db.public_only(3, 1, **EXAMPLE)
    moving = db.public_only(3, 1, public_order=db.Reshuffle(), **EXAMPLE)

    def ends(m: db.Mechanism) -> set[tuple[float, ...]]:
        return {
            tuple(
                literal.run(
                    m,
                    PRIVATE,
                    PUBLIC,
                    order_rng=np.random.default_rng(seed),
                    noise_rng=np.random.default_rng(0),
                ).tolist()
            )
            for seed in range(60)
        }

    assert len(ends(fixed)) == 1
    assert len(ends(moving)) == 6


def test_noise_has_the_stated_size() -> None:
    """Sum of N(0, (eta sigma)^2) over the noisy steps; false alarm 1e-6 a placement."""
    d = 4000
    rows = db.Rows.bounded(np.zeros((3, d)), np.ones(3))
    for placement, steps in (("every_step", 6), ("epoch_end", 2)):
        m = db.dp(
            3,
            2,
            loss=db.Logistic(),
            learning_rate=0.2,
            noise_std=5,
            placement=placement,
        )
        x = literal.run(
            m,
            rows,
            order_rng=np.random.default_rng(0),
            noise_rng=np.random.default_rng(3),
        )
        # x.x / variance is chi-square with d degrees: within 4.9 sqrt(2/d) of 1
        assert x @ x / d == pytest.approx(steps, rel=4.9 * np.sqrt(2 / d))


def test_objective_by_hand() -> None:
    # x = (2, 0): |x - q|^2/2 = 2, 34, 50: mean 86/3; ridge (2/3)/2 * 4 = 4/3; sum 30
    x = np.array([2.0, 0.0])
    assert objective(db.Mean(), db.Ridge(2 / 3), x, PRIVATE) == pytest.approx(30)


# -- tables that do not fit ------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "private", "public", "message"),
    [
        ({}, np.ones((2, 2)), PUBLIC, "the private table must have n=3 rows, got 2"),
        ({}, PRIVATE.X, None, "the schedule needs 1 public rows, got no public table"),
        (
            {"private_fraction": 0},
            PRIVATE.X,
            np.ones((2, 2)),
            "the schedule needs 3 public rows, got 2",
        ),
        (
            {},
            PRIVATE.X,
            np.ones((3, 4)),
            "the public table must have as many columns as the private one, 2, got 4",
        ),
        (
            {"row_norm": 3.0},
            PRIVATE.X,
            PUBLIC,
            "the private table must be bounded at row_norm <= 3.0 (the mechanism's "
            "bound), got row_norm=None",
        ),
        (
            {"public_row_norm": 3.0},
            PRIVATE.X,
            PUBLIC,
            "the public table must be bounded at row_norm <= 3.0 (the mechanism's "
            "bound), got row_norm=None",
        ),
        (
            {"loss": db.Squared()},
            PRIVATE.X,
            PUBLIC,
            "y of the private table is missing: the squared loss needs labels",
        ),
    ],
)
def test_tables_that_do_not_fit(
    change: Any, private: Any, public: Any, message: str
) -> None:
    def rows(table: Any) -> db.Rows | None:
        if table is None or isinstance(table, db.Rows):
            return table
        return db.Rows.bounded(table)

    m = db.interleaved(3, 1, **{"private_fraction": 2 / 3, **EXAMPLE, **change})
    rng = np.random.default_rng(0)
    table = rows(private)
    assert table is not None
    with pytest.raises(db.InvalidRowsError) as error:
        literal.run(m, table, rows(public), order_rng=rng, noise_rng=rng)
    assert str(error.value) == message


def test_tables_that_are_no_rows_and_generators_that_are_none() -> None:
    m = db.dp(3, 1, **NOISY)
    rng = np.random.default_rng(0)
    mistakes: list[tuple[dict[str, Any], str]] = [
        (
            {"private": np.full((3, 2), 12345.0)},
            "the private table must be Rows, as Rows.bounded makes them, got a value "
            "of type ndarray",
        ),
        (
            {"public": [[12345.0]]},
            "the public table must be Rows, as Rows.bounded makes them, got a value "
            "of type list",
        ),
        ({"order_rng": 0}, "order_rng must be a numpy.random.Generator, got 0"),
        ({"noise_rng": None}, "noise_rng must be a numpy.random.Generator, got None"),
    ]
    for change, message in mistakes:
        fields = {"private": PRIVATE, "order_rng": rng, "noise_rng": rng, **change}
        for engine in (literal.run, trace_not_private):
            with pytest.raises(db.DpbraidError) as error:
                engine(m, **fields)
            assert str(error.value) == message


@pytest.mark.parametrize("y", [[0.0, 1.0], [1.0, 2.0], [-1.0, 0.5]])
def test_labels_that_are_not_two_classes(y: list[float]) -> None:
    rng = np.random.default_rng(0)
    m = db.dp(2, 1, loss=db.Logistic(), learning_rate=0.1)
    with pytest.raises(db.InvalidRowsError) as error:
        literal.run(m, db.Rows.bounded(np.eye(2), y), order_rng=rng, noise_rng=rng)
    assert str(error.value) == (
        "y of the private table must hold nothing but -1 and +1 for the logistic loss"
    )
