"""Losses: values, gradients, constants and the contraction claim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.losses import Labels, Loss
from tests.strategies import LOSSES, MARGIN_LOSSES

losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)


def labels_for(loss: Loss, rng: np.random.Generator, n: int) -> np.ndarray | None:
    if loss.labels is Labels.NONE:
        return None
    if loss.labels is Labels.BINARY:
        return rng.choice([-1.0, 1.0], n)
    return rng.normal(size=n)


@losses
def test_gradients_are_finite_differences(loss: Loss) -> None:
    rng = np.random.default_rng(1)
    X, x = rng.normal(size=(50, 4)), rng.normal(size=4)
    y = labels_for(loss, rng, 50)
    step = 1e-6
    numeric = np.column_stack(
        [
            (loss.value(x + step * e, X, y) - loss.value(x - step * e, X, y)) / 2 / step
            for e in np.eye(4)
        ]
    )
    np.testing.assert_allclose(loss.gradients(x, X, y, None), numeric, atol=3e-6)


def test_values_by_hand() -> None:
    X, y = np.array([[2.0]]), np.array([1.0])
    # margins m = 2 x
    assert db.Squared().value(np.array([2.0]), X, y) == 9.0  # (4 - 1)^2
    assert db.Logistic().value(np.array([0.0]), X, y) == pytest.approx(np.log(2))
    assert db.Huber(1.0).value(np.array([2.0]), X, y) == 2.5  # 1 * (3 - 1/2)
    assert db.Huber(1.0).value(np.array([0.75]), X, y) == 0.125  # (1/2)^2 / 2
    assert db.SmoothedHinge(0.5).value(np.array([0.0]), X, y) == 0.75  # 1 - 1/4
    assert db.SmoothedHinge(0.5).value(np.array([0.375]), X, y) == 0.0625
    assert db.Mean().value(np.array([0.0]), X, None) == 2.0


@losses
@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 50.0])
def test_clipping_scales_down_to_the_norm(loss: Loss, clip_norm: float) -> None:
    rng = np.random.default_rng(2)
    X, x = rng.normal(size=(200, 3)), 3 * rng.normal(size=3)
    X[0] = 0
    y = labels_for(loss, rng, 200)
    raw = loss.gradients(x, X, y, None)
    clipped = loss.gradients(x, X, y, clip_norm)
    norms = np.linalg.norm(raw, axis=1, keepdims=True)
    expected = raw * np.minimum(1, clip_norm / np.maximum(norms, 1e-300))
    np.testing.assert_allclose(clipped, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=lambda loss: loss.kind)
def test_extreme_margins_are_finite(loss: Loss) -> None:
    margins = np.array([-1e300, -1e5, -800.0, 0.0, 800.0, 1e5, 1e150])
    for label in (-1.0, 1.0):
        slopes = loss.slope(margins, np.full(7, label))
        assert np.all(np.isfinite(slopes))
        values = loss.margin_value(margins[1:6], np.full(5, label))
        assert np.all(np.isfinite(values))
        assert np.all(values >= 0)


def test_logistic_slope_limits() -> None:
    slope = db.Logistic().slope(np.array([-1e5, 1e5]), np.ones(2))
    assert slope[0] == -1
    assert -1e-300 < slope[1] <= 0


@losses
def test_smoothness_is_attained_and_never_exceeded(loss: Loss) -> None:
    """|grad f(x) - grad f(z)| <= L |x - z|, with near equality somewhere."""
    rng = np.random.default_rng(3)
    R, n = 2.0, 4000
    X = rng.normal(size=(n, 3))
    X *= R / np.linalg.norm(X, axis=1, keepdims=True)
    y = labels_for(loss, rng, n)
    worst = 0.0
    for size in (1e-3, 0.1, 1.0):
        x = np.array([0.0, 0.4, 0.0])  # margins up to 0.8: where the losses curve
        z = (1 - size) * x
        gap = loss.gradients(x, X, y, None) - loss.gradients(z, X, y, None)
        worst = max(worst, np.linalg.norm(gap, axis=1).max() / np.linalg.norm(x - z))
    assert worst <= loss.smoothness(R) * (1 + 1e-6)
    assert worst >= 0.9 * loss.smoothness(R)


@losses
def test_lipschitz_and_sensitivity_hold(loss: Loss) -> None:
    rng = np.random.default_rng(4)
    R, n = 1.5, 4000
    X = rng.normal(size=(n, 2))
    X *= R / np.linalg.norm(X, axis=1, keepdims=True)
    y = labels_for(loss, rng, n)
    lipschitz, sensitivity = loss.lipschitz(R), loss.sensitivity(R)
    for scale in (0.1, 10, 1e4):
        gradients = loss.gradients(scale * rng.normal(size=2), X, y, None)
        if lipschitz is not None:
            assert np.linalg.norm(gradients, axis=1).max() <= lipschitz * (1 + 1e-12)
        if sensitivity is not None:
            gaps = np.linalg.norm(gradients - gradients[:1], axis=1)
            assert gaps.max() <= sensitivity * (1 + 1e-9)


def expansion(
    step: float, clip: float | None, loss: Loss, x: np.ndarray, z: np.ndarray, seed: int
) -> float:
    """Largest |step(x) - step(z)| / |x - z| over random rows of norm 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(64, len(x)))
    X *= 2.0 / np.linalg.norm(X, axis=1, keepdims=True)
    y = labels_for(loss, rng, 64)
    moved = (x - z) - step * (
        loss.gradients(x, X, y, clip) - loss.gradients(z, X, y, clip)
    )
    return float(np.linalg.norm(moved, axis=1).max() / np.linalg.norm(x - z))


vectors = st.lists(st.floats(-3, 3), min_size=3, max_size=3).map(np.array)


@losses
@given(
    x=vectors,
    offset=vectors,
    clip=st.sampled_from([None, 0.05, 0.5, 2.0]),
    seed=st.integers(0, 1000),
)
def test_steps_are_nonexpansive_up_to_the_limit(
    loss: Loss, x: np.ndarray, offset: np.ndarray, clip: float | None, seed: int
) -> None:
    assert loss.clipped_steps_nonexpansive
    if np.linalg.norm(offset) < 1e-6:
        return
    step = 2 / loss.smoothness(2.0)
    assert expansion(step, clip, loss, x, x + offset, seed) <= 1 + 1e-8


@losses
def test_steps_expand_beyond_the_limit(loss: Loss) -> None:
    """The limit is sharp: 5 % over it some row expands."""
    step = 1.05 * 2 / loss.smoothness(2.0)
    worst = max(
        expansion(step, None, loss, x, x + 1e-3 * z, seed)
        for seed in range(40)
        for x, z in [np.random.default_rng(seed).normal(size=(2, 3)) * 0.3]
    )
    assert worst > 1.005


class Quadratic(Loss):
    """f(x) = x' H x / 2 with H = diag(1, 10), whatever the row: L = 10."""

    labels = Labels.NONE
    H = np.array([1.0, 10.0])

    def value(self, x, X, y):  # type: ignore[no-untyped-def]
        return np.full(len(X), 0.5 * np.sum(self.H * x * x))

    def gradients(self, x, X, y, clip_norm):  # type: ignore[no-untyped-def]
        gradient = self.H * x
        if clip_norm is not None:
            gradient = gradient * min(1.0, clip_norm / np.linalg.norm(gradient))
        return np.tile(gradient, (len(X), 1))

    def smoothness(self, row_norm):  # type: ignore[no-untyped-def]
        return 10.0

    def lipschitz(self, row_norm):  # type: ignore[no-untyped-def]
        return None


def test_the_contraction_test_sees_a_violation() -> None:
    """A clipped quadratic, H = diag(1, 10), expands even at 1/L (PRIVACY.md 7.2)."""
    loss = Quadratic()
    x, z = np.array([0.82, 0.10]), np.array([0.765, 0.072])
    for rate, ratio in ((0.01, 1.0073), (0.05, 1.040), (0.1, 1.089), (0.2, 1.208)):
        assert expansion(rate, 1.0, loss, x, z, 0) == pytest.approx(ratio, abs=5e-4)
        assert expansion(rate, None, loss, x, z, 0) <= 1


@losses
@given(rate=st.floats(0.01, 2.0))
def test_step_contraction_holds(loss: Loss, rate: float) -> None:
    rate = rate / loss.smoothness(2.0)
    claimed = loss.step_contraction(rate)
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, 3))
    assert expansion(rate, None, loss, x, z, 6) <= claimed + 1e-9


@losses
def test_every_loss_cites_its_proof(loss: Loss) -> None:
    assert "PRIVACY.md 7.2" in loss.proof
