"""Learning rate, epochs, batch size and clip norm from public facts: docs/defaults.md.

Everything is stated in *time*: T = sum over epochs of learning_rate * rows /
batch_size, the total step along the mean gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbraid.losses import Loss, MarginLoss, Mean

MOST_EPOCHS = 100
MOST_STEPS = 16


@dataclass(frozen=True)
class Facts:
    """What the rule may know; all of it public.

    n: private rows. dimension: of the parameters. mu: the Gaussian guarantee of one
    run. row_norm: bound on rows, with the intercept. label_bound: on |y|, None for
    classes.
    """

    n: int
    dimension: int
    mu: float
    loss: Loss
    row_norm: float
    label_bound: float | None


@dataclass(frozen=True)
class Plan:
    """The numbers that a schedule needs."""

    clip_norm: float
    learning_rate: float
    epochs: int
    batch_size: int


def clip_norm(facts: Facts) -> float:
    """The largest gradient that a row can have at x = 0."""
    if isinstance(facts.loss, Mean):
        return facts.row_norm
    natural = facts.loss.lipschitz(facts.row_norm)
    if natural is not None:
        return natural
    assert isinstance(facts.loss, MarginLoss)
    assert facts.label_bound is not None
    return facts.loss.curvature * facts.row_norm * facts.label_bound


def time(facts: Facts, clip: float) -> float:
    """T = |x*| n mu / (2 C sqrt(d)) for |x*| = sqrt(d) scale / R."""
    scale = 1.0 if facts.label_bound is None else facts.label_bound
    return scale * facts.n * facts.mu / (2 * clip * facts.row_norm)


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
    smoothness = facts.loss.smoothness(facts.row_norm)
    if isinstance(facts.loss, Mean):
        return Plan(clip, learning_rate or 1.0, epochs or 1, batch_size or facts.n)
    steps = max(1.0, time(facts, clip) * smoothness)
    K = min(MOST_EPOCHS, math.ceil(steps)) if epochs is None else epochs
    if batch_size is None:
        per_epoch = min(MOST_STEPS, facts.n, max(1, math.ceil(steps / K)))
        batch_size = -(-facts.n // per_epoch)
    per_epoch = -(-facts.n // batch_size)
    if learning_rate is None:
        learning_rate = min(1.0, steps / (K * per_epoch)) / smoothness
    return Plan(clip, learning_rate, K, batch_size)
