"""Other mechanisms with the same n, K, batch size and clip norm, for comparison only.

None of these is what the engine runs, and none of these numbers is a guarantee for a
Mechanism. All are for replacing one private row unless they say otherwise. Noise is
given per coordinate and over the learning rate: `noise_std` of one release of noise,
and `released_std` of all noise in the last iterate, plainly summed (PRIVACY.md 6, 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from dpbraid import _validate
from dpbraid.privacy.gaussian import gaussian_mu
from dpbraid.privacy.profile import bracketed_factor


class Adjacency(StrEnum):
    """Which two tables count as neighbours."""

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"


@dataclass(frozen=True)
class Comparison:
    """What another mechanism needs for the same epsilon and delta.

    noise_std: of one noisy step, or of the one release, over the learning rate.
    released_std: of the noise in the last iterate, over the learning rate. final_std:
    of a last burst of noise, where the mechanism has one. comparable: whether the
    guarantee is for the adjacency that dpbraid uses.
    """

    mechanism: str
    noise_std: float
    released_std: float
    final_std: float = 0.0
    comparable: bool = True


def output_perturbation(
    epochs: int, clip_norm: float, *, epsilon: float, delta: float, batch_size: int = 1
) -> Comparison:
    """Bolt-on: K noiseless epochs, then one Gaussian (Wu et al. 2017).

    Nonexpansive steps keep the shifts of K uses: sensitivity 2 G K / b over the
    learning rate. Needs the contraction of every step.
    """
    std = _uses(epochs, clip_norm, batch_size) / _mu(epsilon, delta)
    return Comparison("bolt-on output perturbation", std, std)


def gradient_descent(
    epochs: int, clip_norm: float, *, epsilon: float, delta: float, batch_size: int = 1
) -> Comparison:
    """DP-GD: K noisy steps along the sum of all gradients at one point.

    Each step moves as far as an epoch does, x <- x - eta (sum of gradients / b +
    noise), so its sensitivity over the learning rate is 2 G / b, and K steps compose.
    Needs no contraction and no convexity.
    """
    shift = _uses(1, clip_norm, batch_size)
    _validate.integer(1, epochs=epochs)
    std = shift * math.sqrt(epochs) / _mu(epsilon, delta)
    return Comparison("DP-GD", std, std * math.sqrt(epochs))


def burst(
    n: int,
    epochs: int,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float,
    private_rows: int | None = None,
    batch_size: int = 1,
) -> Comparison:
    """E2: noise on every step, and a final burst worth the steps before the last use.

    With T steps an epoch, the last private one at step t, and a burst of t - 1 steps'
    variance, no use has less than its share of the noise behind it, so that
    mu^2 = K s^2 / (T sig^2) (PRIVACY.md 6.1). The released noise counts all K T steps;
    leaving out the first t - 1 of them costs nothing and attains the lower bound.
    """
    _validate.integer(1, n=n)
    _validate.integer(1, n, batch_size=batch_size)
    rows = n if private_rows is None else private_rows
    _validate.integer(1, n, private_rows=rows)
    shift = _uses(1, clip_norm, batch_size)
    _validate.integer(1, epochs=epochs)
    last = -(-rows // batch_size)
    steps = last + -(-(n - rows) // batch_size)
    std = shift * math.sqrt(epochs / steps) / _mu(epsilon, delta)
    return Comparison(
        "noise on every step and a final burst",
        std,
        std * math.sqrt(epochs * steps + last - 1),
        std * math.sqrt(last - 1),
    )


def poisson_sgd(
    n: int,
    epochs: int,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float,
    batch_size: int = 1,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    discretization: float = 5e-4,
) -> Comparison:
    """DP-SGD with Poisson sampling at rate b/n and K n/b steps, by dp-accounting's PLD.

    Every iterate may be public. Under replace-one the accountant's noise multiplier is
    noise over the bound G on one gradient, as it doubles the sensitivity itself. With
    adjacency "add_or_remove_one" the number is not comparable to any other here.
    discretization: of the privacy loss; the result is pessimistic at every value.
    """
    _validate.integer(1, n=n)
    _validate.integer(1, n, batch_size=batch_size)
    _uses(epochs, clip_norm, batch_size)
    _validate.positive(epsilon=epsilon, discretization=discretization)
    _validate.probability(delta=delta)
    relation = _validate.choice(Adjacency, adjacency=adjacency)
    rounds = epochs * -(-n // batch_size)
    multiplier = 1.0
    # a coarser grid is quick and pessimistic: it finds where to start
    for step in (30 * discretization, 5 * discretization, discretization):
        multiplier = bracketed_factor(
            lambda value, step=step: poisson_delta(  # type: ignore[misc]
                value, batch_size / n, rounds, epsilon, relation, step
            ),
            delta,
            start=multiplier,
            tolerance=1e-4,
        )
    std = multiplier * clip_norm / batch_size
    return Comparison(
        f"DP-SGD, Poisson sampling, {relation.value} adjacency",
        std,
        std * math.sqrt(rounds),
        comparable=relation is Adjacency.REPLACE_ONE,
    )


def poisson_delta(
    noise_multiplier: float,
    sampling_probability: float,
    rounds: int,
    epsilon: float,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    discretization: float = 5e-4,
) -> float:
    """delta of `rounds` Poisson-sampled Gaussian steps, pessimistic PLD."""
    # dp-accounting takes most of a second to import
    import dp_accounting

    relation = dp_accounting.NeighboringRelation[adjacency.name]
    accountant = dp_accounting.pld.PLDAccountant(relation, discretization)
    accountant.compose(
        dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(
                sampling_probability, dp_accounting.GaussianDpEvent(noise_multiplier)
            ),
            rounds,
        )
    )
    return float(accountant.get_delta(epsilon))


def _uses(epochs: int, clip_norm: float, batch_size: int) -> float:
    """Sum of the shifts of one row over the learning rate."""
    _validate.integer(1, epochs=epochs, batch_size=batch_size)
    _validate.positive(clip_norm=clip_norm)
    return 2 * clip_norm * epochs / batch_size


def _mu(epsilon: float, delta: float) -> float:
    return gaussian_mu(epsilon, delta)
