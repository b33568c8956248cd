"""The constants of a problem: the minimiser is one, measured numbers by hand."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest

import dpbraid as db
import dpbraid.theory
from dpbraid import InvalidParameterError
from dpbraid.theory.constants import constants_not_private, minimiser_not_private

PENALTIES = (
    db.NoPenalty(), db.Ridge(0.3), db.Lasso(0.05), db.ElasticNet(0.05, 0.2),
    db.Ball(0.3), db.Box(-0.1, 0.2),
)  # fmt: skip
LOSSES = (db.Mean(), db.Squared(), db.Logistic(), db.Huber(0.5), db.SmoothedHinge(0.5))


@pytest.mark.parametrize("shape", [(30, 4), (4, 30)])
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: p.kind)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_the_minimiser_is_a_fixed_point_of_proximal_steps(
    loss: db.losses.Loss, penalty: db.penalties.Penalty, shape: tuple[int, int]
) -> None:
    wide_and_free = shape[0] < shape[1] and isinstance(penalty, db.NoPenalty)
    if wide_and_free and isinstance(loss, db.Logistic):
        pytest.skip("separable rows: there is no minimiser")
    rng = np.random.default_rng(0)
    rows = db.Rows.bounded(
        rng.standard_normal(shape), np.sign(rng.normal(size=shape[0]))
    )
    x = minimiser_not_private(loss, penalty, rows)
    gradient = loss.gradients(x, rows.X, rows.y, None).mean(axis=0)
    step = 0.1
    np.testing.assert_allclose(penalty.prox(x - step * gradient, step), x, atol=1e-7)


def test_no_minimiser_is_said() -> None:
    rows = db.Rows.bounded(np.eye(2), np.ones(2))
    with pytest.raises(InvalidParameterError, match="may have none"):
        minimiser_not_private(db.Logistic(), db.NoPenalty(), rows, max_steps=100)


def test_measured_constants_by_hand() -> None:
    """Rows (1, 0), (0, 2), labels 1, 2: x* = (1, 1) without residuals."""
    rows = db.Rows.bounded(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 2.0]))
    mechanism = db.dp(2, 3, learning_rate=0.01, loss=db.Squared())
    c = constants_not_private(mechanism, rows)
    assert c.smoothness == pytest.approx((2 + 8) / 2)
    assert c.largest_smoothness == pytest.approx(8)
    assert c.distance_squared == pytest.approx(2)
    assert c.gradient_variance == pytest.approx(0, abs=1e-20)
    assert c.minimum == pytest.approx(0, abs=1e-20)
    assert c.strong_convexity == 0
    assert "NOT PRIVATE" in c.source
    ((count, epoch),) = c.runs()
    assert (count, epoch.dissimilarity, epoch.public_smoothness) == (3, 0, 0)
    # with a ridge there are residuals
    ridge = db.dp(2, 3, learning_rate=0.01, loss=db.Squared(), penalty=db.Ridge(2.0))
    c = constants_not_private(ridge, rows)
    # 1/2 sum (a x - y)^2 + |x|^2: x_1 = 1/3, x_2 = 2/3
    assert c.distance_squared == pytest.approx(1 / 9 + 4 / 9)
    gradients = 2 * np.array([1 * (1 / 3 - 1), 2 * (4 / 3 - 2)])
    assert c.gradient_variance == pytest.approx(np.mean(gradients**2))


def test_the_largest_mean_smoothness_is_over_the_objective_and_all_epochs() -> None:
    """L = 5; worst epoch: the second private row and the first public one, 8 each."""
    X, labels = np.array([[1.0], [2.0]]), np.zeros(2)
    private, public = db.Rows.bounded(X, labels), db.Rows.bounded(2 * X, labels)
    options = {"learning_rate": 1e-3, "loss": db.Squared()}
    mixed = db.interleaved(2, 2, private_fraction=0.5, **options)
    c = constants_not_private(mixed, private, public, radius=1.0)
    assert c.smoothness == pytest.approx(5)
    assert c.mean_smoothness == pytest.approx(8)
    small = db.Rows.bounded(X / 10, labels)
    only = db.public_only(2, 2, **options)
    c = constants_not_private(only, private, small, radius=1.0)
    assert c.mean_smoothness == c.smoothness


def public_functions() -> list[tuple[str, Callable[..., object]]]:
    found = []
    for info in pkgutil.iter_modules(dpbraid.theory.__path__):
        module = importlib.import_module(f"dpbraid.theory.{info.name}")
        for name, member in vars(module).items():
            own = getattr(member, "__module__", None) == module.__name__
            if own and inspect.isfunction(member) and not name.startswith("_"):
                found.append((name, member))
    return found


def test_what_reads_private_rows_says_so_in_name_and_docstring() -> None:
    reading = [
        (name, function)
        for name, function in public_functions()
        if any("Rows" in str(t) for t in inspect.get_annotations(function).values())
    ]
    assert len(reading) >= 4
    for name, function in reading:
        assert name.endswith("_not_private"), name
        assert "NOT PRIVATE" in (function.__doc__ or ""), name
    # and nothing else of the theory takes a table
    free = {name for name, _ in public_functions()} - {name for name, _ in reading}
    assert {"facts", "advise", "convergence_bound", "proved_table"} <= free


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e149])
@pytest.mark.parametrize("where", ["private", "public", "label"])
def test_sizes_beyond_arithmetic_are_refused_without_a_value(
    size: float, where: str
) -> None:
    X, y = np.ones((2, 2)), np.ones(2)
    tables = {"private": db.Rows.bounded(X, y), "public": db.Rows.bounded(X, y)}
    if where == "label":
        tables["private"] = db.Rows.bounded(X, y * size)
    else:
        tables[where] = db.Rows.bounded(X * size, y)
    mechanism = db.priv_pub(
        2, 2, private_fraction=0.5, learning_rate=0.1, loss=db.Squared()
    )
    with pytest.raises(InvalidParameterError, match="scale the columns") as error:
        constants_not_private(mechanism, tables["private"], tables["public"])
    assert str(size) not in str(error.value)
