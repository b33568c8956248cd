"""The rule for clip norm, time, epochs and batches, on public facts alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.estimators import defaults
from dpbraid.estimators.defaults import Facts, PublicFacts, plan, public_minimiser
from dpbraid.penalties import FreeLast, Penalty
from dpbraid.rows import Rows

LOSSES = (
    db.Mean(),
    db.Squared(),
    db.Logistic(),
    db.Huber(0.7),
    db.SmoothedHinge(0.5),
)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    loss = draw(st.sampled_from(LOSSES))
    real = loss.labels is db.losses.Labels.REAL
    public = st.builds(
        PublicFacts,
        gradient=st.just(0.0) | st.floats(1e-6, 1e4),
        size=st.floats(1e-3, 1e3),
        curvature=st.floats(0, 1e5),
    )
    return Facts(
        n=draw(st.integers(1, 10**7)),
        dimension=draw(st.integers(1, 10**4)),
        mu=draw(st.floats(1e-6, 1e6)),
        loss=loss,
        row_norm=draw(st.floats(1e-3, 1e3)),
        label_bound=draw(st.floats(1e-3, 1e3)) if real else None,
        public=draw(st.none() | public),
        one_step=draw(st.booleans()),
    )


@given(known=facts())
def test_a_plan_is_one_that_an_analysis_accepts(known: Facts) -> None:
    made = plan(known)
    assert 1 <= made.batch_size <= known.n
    assert 0 < made.clip_norm < math.inf
    assert 0 < made.learning_rate < math.inf
    assert 1 <= len(made.noise) <= 20_000
    assert all(0 < noise < math.inf for noise in made.noise)
    smoothness = known.loss.smoothness(known.row_norm)
    if made.batch_size < known.n:
        assert made.learning_rate * smoothness <= 2
    elif known.public is None:
        assert made.learning_rate * smoothness <= 1 + 1e-12


@given(known=facts(), factor=st.floats(1, 100))
def test_less_noise_never_means_a_smaller_clip_norm(
    known: Facts, factor: float
) -> None:
    quieter = replace(known, mu=known.mu * factor)
    assert defaults.clip_norm(quieter) >= defaults.clip_norm(known)


@given(known=facts())
def test_without_noise_nothing_is_clipped_in_effect(known: Facts) -> None:
    quiet = replace(known, mu=1e30)
    natural = known.loss.lipschitz(known.row_norm)
    if natural is not None:
        assert defaults.clip_norm(quiet) == natural
    elif known.label_bound is not None:
        # the gradient of a residual of two label bounds
        most = 2 * known.row_norm * 2 * known.label_bound
        assert defaults.clip_norm(quiet) == pytest.approx(most)


def test_what_is_given_is_kept() -> None:
    known = Facts(100, 5, 0.5, db.Logistic(), 2.0, None, None, True)
    made = plan(known, clip=0.3, learning_rate=0.01, epochs=7, batch_size=9)
    assert made == defaults.Plan(0.3, 0.01, (1.0,) * 7, 9)


def test_the_time_is_where_noise_and_progress_balance() -> None:
    """T = |x*| n mu / (4 C sqrt(d)): half of where the two bounds have equal slope."""
    known = Facts(1000, 16, 0.5, db.Logistic(), 3.0, None, None, True)
    clip, norm = 1.5, 2.0 / 3.0  # |x*| = d^(1/4) / R
    bound = lambda T: norm**2 / (2 * T) + 2 * clip**2 * 16 * T / (1000 * 0.5) ** 2  # noqa: E731
    best = min(np.linspace(1, 200, 20_000), key=bound)
    assert defaults.time(known, clip) == pytest.approx(best / 2, rel=1e-3)


@given(known=facts(), epochs=st.integers(1, 9))
def test_the_passes_of_a_mean_spend_the_whole_budget(known: Facts, epochs: int) -> None:
    mean = replace(known, loss=db.Mean(), label_bound=None)
    noise = plan(mean, epochs=epochs).noise
    assert len(noise) == epochs
    assert sum(std**-2 for std in noise) == pytest.approx(1)
    assert noise[-1] == min(noise)


@pytest.mark.parametrize(
    "penalty",
    [db.Ridge(0.1), db.Lasso(0.05), db.ElasticNet(0.02, 0.1), FreeLast(db.Lasso(0.05))],
    ids=lambda p: p.kind,
)
@pytest.mark.parametrize("loss", LOSSES[1:4], ids=lambda loss: loss.kind)
def test_the_public_minimiser_is_one(loss: db.losses.Loss, penalty: Penalty) -> None:
    """No small step along any axis or at random lowers the objective."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=50))
    rows = Rows.bounded(X, y)
    x = public_minimiser(loss, penalty, rows)

    def goal(z: np.ndarray) -> float:
        return float(np.mean(loss.value(z, rows.X, rows.y))) + penalty.value(z)

    steps = [*np.eye(4), *-np.eye(4), *rng.normal(size=(20, 4))]
    assert all(goal(x + 1e-3 * step) >= goal(x) for step in steps)
    assert goal(x) < goal(np.zeros(4))
