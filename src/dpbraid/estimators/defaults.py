"""Clip norm, learning rate, epochs and batch size from public facts.

The rule and its derivation are in docs/defaults.md. Everything is stated in *time*,
T = sum over epochs of learning_rate * rows / batch_size: the total step along the mean
gradient, which decides how far the run gets and how much noise the guarantee asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbraid.losses import Loss, MarginLoss, Mean
from dpbraid.penalties import Penalty
from dpbraid.rows import Array, Rows

# The clip norm grows beyond its base value where noise is small against the gradients.
_QUIET = 100.0
# The base clip norm with public rows: this share of their gradients is not clipped.
_UNCLIPPED = 0.8
# Steps per unit of curvature * time. Public curvature is an estimate, so be careful.
_STEPS_BOUND, _STEPS_PUBLIC = 2.0, 4.0
# Epochs: what a pass over the table allows, between the two.
_WORK = 1e9
_EPOCHS = (20, 1000)
# Minibatches of an epoch, where a step per epoch is too little: up to so many, and for
# no more than this many steps at 1/L a dimension (rows in all directions: h = L / d).
_BATCHES = 16
_USEFUL = 20.0
# A coarse pass of a mean moves by less than a third of the clip norm through noise.
_COARSE = 6.0


@dataclass(frozen=True)
class PublicFacts:
    """What public rows tell: all of it at the start point.

    gradient: the norm that a share of _UNCLIPPED of the gradients stays below. size:
    root mean square of the row norms. curvature: top eigenvalue of a bound on the mean
    Hessian.
    """

    gradient: float
    size: float
    curvature: float

    @classmethod
    def of(cls, loss: Loss, rows: Rows, x: Array) -> PublicFacts:
        """Of public rows, with labels if the loss has any."""
        norms = np.linalg.norm(rows.X, axis=1)
        size = float(np.sqrt(np.mean(norms**2)))
        if isinstance(loss, MarginLoss):
            assert rows.y is not None
            gradients = np.abs(loss.slope(rows.X @ x, rows.y)) * norms
            top = np.linalg.norm(rows.X, 2) ** 2 / len(rows)
            curvature = loss.curvature * float(top)
        else:
            gradients = np.linalg.norm(rows.X - x, axis=1)
            curvature = 1.0
        gradient = float(np.quantile(gradients, _UNCLIPPED))
        return cls(gradient, size, curvature)


@dataclass(frozen=True)
class Facts:
    """What the rule may know; all of it public.

    n: private rows. dimension: of the parameters. mu: the Gaussian guarantee of one
    run. row_norm: bound on rows, with the intercept. label_bound: on |y|, None for
    classes. public: None without public rows. one_step: whether an epoch with a full
    batch needs no nonexpansive step (noise at its end).
    """

    n: int
    dimension: int
    mu: float
    loss: Loss
    row_norm: float
    label_bound: float | None
    public: PublicFacts | None
    one_step: bool

    @property
    def quiet(self) -> float:
        """n mu / sqrt(d): how far a gradient stands out of the noise of one pass."""
        return self.n * self.mu / math.sqrt(self.dimension)


@dataclass(frozen=True)
class Plan:
    """The numbers that a schedule needs; noise: relative stds, one an epoch."""

    clip_norm: float
    learning_rate: float
    noise: tuple[float, ...]
    batch_size: int


def plan(
    facts: Facts,
    *,
    clip: float | None = None,
    learning_rate: float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
) -> Plan:
    """The rule; what is given is kept."""
    clip = clip_norm(facts) if clip is None else clip
    if isinstance(facts.loss, Mean):
        batch_size = batch_size or facts.n
        rate = learning_rate or batch_size / facts.n
        return Plan(clip, rate, _passes(facts, epochs), batch_size)
    public = facts.public
    smoothness = facts.loss.smoothness(facts.row_norm)
    full = facts.one_step and batch_size in (None, facts.n)
    if public is not None and full and public.curvature > 0:
        curvature, steps = min(public.curvature, smoothness), _STEPS_PUBLIC
        batch_size = facts.n
    else:
        curvature, steps = smoothness, _STEPS_BOUND
    total = time(facts, clip)
    if epochs is None:
        epochs = max(1, min(math.ceil(steps * curvature * total), most_epochs(facts)))
    if batch_size is None:
        # no more minibatches than time is useful for: they leave a bias of their own
        useful = min(curvature * total, _USEFUL * facts.dimension)
        batches = min(_BATCHES, facts.n, max(1, math.ceil(useful / epochs)))
        batch_size = math.ceil(facts.n / batches)
    if learning_rate is None:
        rate = total / epochs * batch_size / facts.n
        learning_rate = min(rate, 1 / curvature)
    return Plan(clip, learning_rate, (1.0,) * epochs, batch_size)


def clip_norm(facts: Facts) -> float:
    """The base value, larger where the noise is small, up to no clipping in effect."""
    base, most = _base_clip(facts)
    return min(most, base * max(1.0, math.sqrt(facts.quiet / _QUIET)))


def _base_clip(facts: Facts) -> tuple[float, float]:
    """The base clip norm, and the one above which nothing is gained."""
    R, loss, public = facts.row_norm, facts.loss, facts.public
    if isinstance(loss, Mean):
        if public is None or public.gradient == 0:
            return R, R
        return public.gradient, 2 * R
    assert isinstance(loss, MarginLoss)
    if loss.slope_bound is not None:
        most = loss.slope_bound * R
    else:
        assert facts.label_bound is not None
        # residuals of predictions within the label bound
        most = 2 * loss.curvature * facts.label_bound * R
    slope = 0.5 if facts.label_bound is None else loss.curvature * facts.label_bound / 4
    base = slope * R
    if public is not None and public.gradient > 0:
        base = min(base, public.gradient)
    return min(base, most), most


def scale(facts: Facts) -> float:
    """The size of margins that fit the labels: 1 for classes, else the label bound."""
    return 1.0 if facts.label_bound is None else facts.label_bound


def time(facts: Facts, clip: float) -> float:
    """T = |x*| n mu / (4 C sqrt(d)) with |x*| = scale d^(1/4) / R."""
    size = facts.row_norm if facts.public is None else facts.public.size
    norm = scale(facts) * math.sqrt(math.sqrt(facts.dimension)) / size
    return norm * facts.quiet / (4 * clip)


def most_epochs(facts: Facts) -> int:
    """Passes that are affordable: fewer on large tables."""
    low, high = _EPOCHS
    return int(min(high, max(low, _WORK / (facts.n * facts.dimension))))


def _passes(facts: Facts, epochs: int | None) -> tuple[float, ...]:
    """A mean: coarse passes that find the region, and a last one with what is left.

    The share of mu^2 of a coarse pass is the square of its relative 1/noise.
    """
    if epochs is None:
        epochs = 1 if facts.public is None else 3
    coarse = epochs - 1
    share = min(1 / epochs, max(0.02, (_COARSE / facts.quiet) ** 2))
    last = 1 - coarse * share
    return (*((share**-0.5,) * coarse), last**-0.5)


def public_minimiser(loss: Loss, penalty: Penalty, rows: Rows) -> Array:
    """Argmin of the objective on public rows, by accelerated proximal steps."""
    if isinstance(loss, Mean):
        return penalty.prox(rows.X.mean(axis=0), 1.0)
    assert isinstance(loss, MarginLoss)
    assert rows.y is not None
    X, y, n = rows.X, rows.y, len(rows)
    curvature = loss.curvature * float(np.linalg.norm(X, 2)) ** 2 / n
    step = 1 / curvature if curvature > 0 else 1.0
    x = z = np.zeros(X.shape[1])
    t = 1.0
    for _ in range(2000):
        gradient = X.T @ loss.slope(X @ z, y) / n
        moved = penalty.prox(z - step * gradient, step)
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        z = moved + (t - 1) / following * (moved - x)
        done = float(np.linalg.norm(moved - x)) <= 1e-9 * (1 + np.linalg.norm(x))
        x, t = moved, following
        if done:
            break
    return x
