"""Releases, traces and grids: what people call, and what it gives back."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import dpbraid as db
from dpbraid.engine import grid_not_private, run, trace_not_private
from dpbraid.engine.objective import objective
from dpbraid.release import NoiseSource, Release
from tests.strategies import LOSSES, PENALTIES


def table(loss: db.losses.Loss, n: int, d: int, seed: int) -> db.Rows:
    rng = np.random.default_rng(seed)
    y = None if loss.labels == "none" else np.sign(rng.standard_normal(n))
    return db.Rows.bounded(rng.standard_normal((n, d)), y, row_norm=1.0)


def mechanism(loss: db.losses.Loss, **changes: Any) -> db.Mechanism:
    given: dict[str, Any] = {
        "private_fraction": 0.5,
        "learning_rate": 0.1,
        "noise_std": 0.5,
        "clip_norm": 1.0,
        "row_norm": 1.0,
        **changes,
    }
    return db.interleaved(60, 3, loss=loss, **given)


def tables(loss: db.losses.Loss, d: int = 4) -> tuple[db.Rows, db.Rows]:
    return table(loss, 60, d, 0), table(loss, 60, d, 1)


# -- releases --------------------------------------------------------------------------


@pytest.mark.parametrize("placement", list(db.Placement))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
def test_only_a_run_on_secret_noise_is_private(
    loss: db.losses.Loss, placement: db.Placement
) -> None:
    m, (private, public) = mechanism(loss, placement=placement), tables(loss)
    secret = [run(m, private, public) for _ in range(2)]
    seeded = [run(m, private, public, seed=5) for _ in range(2)]
    other = run(m, private, public, seed=6)
    assert all(release.is_private for release in secret)
    assert not any(release.is_private for release in (*seeded, other))
    assert str(other.noise_source) == "user seed: reproducible, not private"
    assert secret[0].noise_source is NoiseSource.OS_ENTROPY
    assert np.array_equal(seeded[0].x, seeded[1].x)
    assert not np.array_equal(seeded[0].x, other.x)
    assert not np.array_equal(secret[0].x, secret[1].x)


def test_a_release_holds_the_last_iterate_and_public_facts_alone() -> None:
    m, (private, public) = mechanism(db.Logistic()), tables(db.Logistic())
    release = run(m, private, public)
    names = {f.name for f in fields(Release)}
    assert names == {"x", "mechanism", "noise_source", "numeric"} == set(vars(release))
    assert release.x.shape == (4,)
    assert release.mechanism is m
    assert release.x.base is None  # no view of a larger state


def test_a_given_start_and_the_tables_are_left_alone() -> None:
    m = mechanism(db.Mean(), start=db.Given(2.0))
    private, public = tables(db.Mean())
    start = np.ones(4)
    before = private.X.copy()
    run(m, private, public, start=start)
    assert np.array_equal(start, np.ones(4))
    assert np.array_equal(private.X, before)


# -- traces ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
def test_a_trace_without_noise_ends_where_the_run_ends(loss: db.losses.Loss) -> None:
    m = mechanism(loss, order=db.Incremental()).with_noise(0)
    private, public = tables(loss)
    trace = trace_not_private(
        m,
        private,
        public,
        order_rng=np.random.default_rng(0),
        noise_rng=np.random.default_rng(0),
    )
    assert trace.iterates.shape == (4, 4)
    assert np.array_equal(trace.iterates[-1], run(m, private, public, seed=0).x)
    for x, value in zip(trace.iterates, trace.objectives, strict=True):
        assert value == objective(loss, m.penalty, x, private)


# -- grids -----------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: p.kind)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
def test_each_column_of_a_grid_is_its_own_run(
    loss: db.losses.Loss, penalty: db.Lasso
) -> None:
    """A grid of one with the same seed has the same draws: equal to rounding."""
    m = mechanism(loss, penalty=penalty)
    private, public = tables(loss)
    columns = [
        replace(
            m,
            epochs=tuple(
                replace(e, learning_rate=rate, noise_std=std) for e in m.epochs
            ),
        )
        for rate in (0.02, 0.1)
        for std in (0.0, 0.5, 3.0)
    ]
    found = grid_not_private(columns, private, public, seed=3, dtype="float64")
    assert found.iterates.shape == (6, 4)
    assert found.objectives.shape == (6, 4)
    single = grid_not_private(columns, private, public, seed=3)
    for i, column in enumerate(columns):
        if column.epochs[0].noise_std == 0 and i % 3 == 0:
            continue  # alone it would not draw what the others draw
        alone = grid_not_private([column], private, public, seed=3, dtype="float64")
        scale = np.max(np.abs(alone.iterates))
        assert np.max(np.abs(found.iterates[i] - alone.iterates[0])) <= 1e-10 * scale
        np.testing.assert_allclose(found.objectives[i], alone.objectives[0], rtol=1e-9)
        np.testing.assert_allclose(single.iterates[i], alone.iterates[0], atol=1e-4)
        last = objective(loss, penalty, found.iterates[i], private)
        assert found.objectives[i, -1] == pytest.approx(last, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_may_start_apart(dtype: Any) -> None:
    private, public = tables(db.Logistic())
    m = mechanism(db.Logistic(), start=db.Given(3.0))
    starts = np.random.default_rng(0).uniform(-1, 1, (3, 4))
    found = grid_not_private(
        [m] * 3, private, public, seed=1, start=starts, dtype=dtype
    )
    for i, start in enumerate(starts):
        alone = grid_not_private([m], private, public, seed=1, start=start, dtype=dtype)
        assert found.objectives[i] == pytest.approx(alone.objectives[0], rel=1e-5)
        assert found.iterates[i] == pytest.approx(alone.iterates[0], abs=1e-5)
    with pytest.raises(
        db.InvalidParameterError, match="each of the 3 mechanisms, got 2"
    ):
        grid_not_private([m] * 3, private, public, seed=1, start=starts[:2])
    with pytest.raises(db.InvalidParameterError, match="norm <= 3"):
        grid_not_private([m] * 3, private, public, seed=1, start=9 * np.ones((3, 4)))


def test_a_run_that_diverges_is_infinite_and_disturbs_no_other() -> None:
    private, public = tables(db.Squared())
    m = mechanism(db.Squared(), clip_norm=None)
    wild = replace(m, epochs=tuple(replace(e, learning_rate=1e200) for e in m.epochs))
    found = grid_not_private([m, wild], private, public, seed=0, dtype="float64")
    alone = grid_not_private([m], private, public, seed=0, dtype="float64")
    assert np.isinf(found.objectives[1, 1:]).all()
    np.testing.assert_allclose(found.objectives[0], alone.objectives[0], rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda p: p.kind)
def test_objectives_in_pieces(
    loss: db.losses.Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows are evaluated a few at a time: the value is the same."""
    from dpbraid.engine import costs
    from dpbraid.engine.objective import objectives

    private, _ = tables(loss)
    X = np.random.default_rng(2).standard_normal((4, 3))
    monkeypatch.setattr(costs, "EVALUATED", 21)
    found = objectives(loss, db.Ridge(0.1), X, private, private.X)
    expected = [objective(loss, db.Ridge(0.1), x, private) for x in X.T]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_engine_names_stay_functions_whatever_is_imported() -> None:
    """No submodule may share the name of a function that the package hands out."""
    import importlib
    import pkgutil

    from dpbraid import engine

    modules = {module.name for module in pkgutil.iter_modules(engine.__path__)}
    for name in modules:
        importlib.import_module(f"dpbraid.engine.{name}")
    assert modules.isdisjoint(engine.__all__)
