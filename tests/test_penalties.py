"""Penalties: the prox against a numerical minimiser, and its contraction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import dpbraid as db
from dpbraid.penalties import Penalty
from tests.strategies import PENALTIES

penalties = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: p.kind)
vectors = st.lists(st.floats(-4, 4), min_size=2, max_size=2).map(np.array)


def numerical_prox(penalty: Penalty, x: np.ndarray, step: float) -> np.ndarray:
    """argmin step psi(z) + |z - x|^2 / 2 without knowing the closed form."""

    def goal(z: np.ndarray) -> float:
        return step * penalty.value(z) + 0.5 * float(np.sum((z - x) ** 2))

    if isinstance(penalty, db.Ball):
        # on the boundary circle, or inside where x is
        if np.linalg.norm(x) <= penalty.radius:
            return x
        angle = optimize.minimize_scalar(
            lambda a: np.sum(
                (penalty.radius * np.array([np.cos(a), np.sin(a)]) - x) ** 2
            ),
            bounds=(np.arctan2(x[1], x[0]) - 1, np.arctan2(x[1], x[0]) + 1),
            method="bounded",
            options={"xatol": 1e-12},
        ).x
        return penalty.radius * np.array([np.cos(angle), np.sin(angle)])
    # separable: minimise each coordinate on a bracket that contains the answer
    low, high = (-5.0, 5.0)
    if isinstance(penalty, db.Box):
        low, high = penalty.lower, penalty.upper
    answer = []
    for i in range(len(x)):

        def one(t: float, i: int = i) -> float:
            z = np.zeros_like(x)
            z[i] = t
            inside = penalty.value(z) if not isinstance(penalty, db.Box) else 0.0
            return step * inside + 0.5 * (t - x[i]) ** 2

        answer.append(
            optimize.minimize_scalar(
                one, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
            ).x
        )
    assert np.isfinite(goal(penalty.prox(x, step)))
    return np.array(answer)


@penalties
@given(x=vectors, step=st.floats(0.05, 3))
def test_prox_minimises(penalty: Penalty, x: np.ndarray, step: float) -> None:
    found = numerical_prox(penalty, x, step)
    np.testing.assert_allclose(penalty.prox(x, step), found, atol=2e-6)


@penalties
@given(x=vectors, z=vectors, step=st.floats(0.01, 10))
def test_prox_contracts_by_its_factor(
    penalty: Penalty, x: np.ndarray, z: np.ndarray, step: float
) -> None:
    apart = np.linalg.norm(penalty.prox(x, step) - penalty.prox(z, step))
    assert apart <= penalty.contraction(step) * np.linalg.norm(x - z) + 1e-12


@penalties
def test_prox_of_columns_is_the_prox_of_each(penalty: Penalty) -> None:
    rng = np.random.default_rng(0)
    x, steps = 2 * rng.normal(size=(3, 5)), rng.uniform(0.1, 2, 5)
    columns = penalty.prox(x, steps)
    for j in range(5):
        np.testing.assert_allclose(columns[:, j], penalty.prox(x[:, j], steps[j]))


@penalties
def test_prox_does_not_touch_its_argument(penalty: Penalty) -> None:
    x = np.array([3.0, -4.0])
    penalty.prox(x, 1.0)
    np.testing.assert_array_equal(x, [3.0, -4.0])


def test_values_by_hand() -> None:
    x = np.array([3.0, -4.0])
    assert db.NoPenalty().value(x) == 0
    assert db.Ridge(0.2).value(x) == pytest.approx(2.5)
    assert db.Lasso(0.5).value(x) == 3.5
    assert db.ElasticNet(0.5, 0.2).value(x) == 6.0
    assert db.Ball(5.0).value(x) == 0
    assert db.Ball(4.9).value(x) == np.inf
    assert db.Box(-4.0, 3.0).value(x) == 0
    assert db.Box(-3.9, 3.0).value(x) == np.inf


def test_the_balls_diameter() -> None:
    assert db.Ball(10).diameter == 20
    assert db.Ridge(1).diameter is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: db.Ridge(-1), "weight must be a finite number > 0, got -1"),
        (lambda: db.Lasso(0), "weight must be a finite number > 0, got 0"),
        (lambda: db.ElasticNet(1, np.nan), "l2 must be a finite number > 0, got nan"),
        (lambda: db.Ball(np.inf), "radius must be a finite number > 0, got inf"),
        (lambda: db.Box(1, 1), "lower must be below upper, got lower=1.0, upper=1.0"),
        (lambda: db.Huber(0), "transition must be a finite number > 0, got 0"),
        (lambda: db.SmoothedHinge("1"), "width must be a finite number > 0, got '1'"),
    ],
)
def test_bad_parameters(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(db.InvalidParameterError) as error:
        make()
    assert str(error.value) == message
