"""Secret orders, averaged over the position of the row (PRIVACY.md 5, D1 and D2).

Given the order, the run is a chain of Theorem 1; the guarantee is the average of the
Gaussian profiles of the orders by joint convexity of the hockey-stick divergence.
Contraction factors are taken as 1 here, which can only raise mu.

**D1, one permutation for all epochs.** The row has the same slot in every epoch and
takes part in those that reach it. With p the share of slots that any epoch reaches,

    delta(epsilon) <= p mean_j delta_G(e; mu_j),  e = ln(1 + (exp(epsilon) - 1)/p)

over the slots j that are reached. The run without the row is coupled by putting another
row in its slot, which again shifts the same steps by at most s.

**D2, a fresh permutation for every epoch.** By Lemma M the uses before the last private
epoch are put at its last private step; there the slot j is uniform, and with
probability 1 - p the row does not take part. mu_j is the cost of Theorem 2.

Slots are binned where there are very many; each bin takes its largest mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpbraid.privacy import composition
from dpbraid.privacy.iteration import (
    LEAST,
    NEGLIGIBLE,
    rounded_mu,
    segments_cost,
    single_cost,
)
from dpbraid.privacy.profile import MixtureCurve
from dpbraid.privacy.steps import EpochSteps, Plan

Array = NDArray[np.float64]

# Steps from the end that have a bin of their own, and bins per factor e beyond them.
_EXACT = 1024


def shuffle_once(plan: Plan, hidden: bool) -> MixtureCurve:
    """D1. hidden: whether Theorem 2 may be used over all epochs, or epochs compose."""
    m = plan.mechanism
    reached = sorted({e.private_rows(m.batch_size) for _, e in plan.private_runs()})
    mus, weights = [], []
    cost_at = _chain_cost if hidden else _composition_cost
    first = 1
    for last in reached:
        for step, slots in bins(first, last, m.batch_size, _longest(plan)):
            cost = cost_at(plan, _uses(plan, m.batch_size, first, step))
            mus.append(rounded_mu(cost, len(plan.runs)))
            weights.append(slots / reached[-1])
        first = last + 1
    return MixtureCurve(np.array(mus), np.array(weights), reached[-1] / m.n)


def reshuffle(plan: Plan) -> MixtureCurve:
    """D2, with participation in the last private epoch."""
    b = plan.mechanism.batch_size
    n = plan.mechanism.n
    last = [e for _, e in plan.private_runs()][-1]
    rows = last.private_rows(b)
    # the last private epoch apart from the run that it ends
    split: list[tuple[int, EpochSteps]] = []
    for count, epoch in plan.runs:
        if epoch is last and count > 1:
            split.append((count - 1, epoch))
            count = 1
        split.append((count, epoch))
    index = max(i for i, (_, epoch) in enumerate(split) if epoch is last)
    alone = Plan(plan.mechanism, tuple(split))
    uses = [epoch.private_steps for _, epoch in split]
    mus, weights = [], []
    for step, slots in [*bins(1, rows, b, last.steps), (0, n - rows)]:
        if slots:
            uses[index] = step
            cost = _chain_cost(alone, uses)
            if cost > 0:
                mus.append(rounded_mu(cost, len(uses)))
                weights.append(slots / n)
    return MixtureCurve(np.array(mus), np.array(weights))


def bins(
    first: int, last: int, batch_size: int, horizon: int
) -> Iterator[tuple[int, int]]:
    """Bins of the slots first..last as (latest step in the bin, number of slots).

    horizon: the length of the epoch. Steps within `_EXACT` of its end have bins of
    their own; farther ones share, by the logarithm of their distance from the end.
    """
    step = -(-last // batch_size)
    lowest = -(-first // batch_size)
    while step >= lowest:
        distance = max(horizon - step + 1, 1)
        width = max(distance // _EXACT, 1)
        earliest = max(step - width + 1, lowest)
        low_slot = max(first, (earliest - 1) * batch_size + 1)
        high_slot = min(last, step * batch_size)
        yield step, high_slot - low_slot + 1
        step = earliest - 1


def noisy_steps(epoch: EpochSteps, step: int) -> int:
    """Noisy steps from a use at `step` to as far as certified steps carry it.

    Fewer for later steps, as bins need it: where private steps have no certificate the
    last one of several is given no more noise than those before it.
    """
    if not epoch.every_step:
        return 1
    if epoch.private_steps > 1 and epoch.private_rate.failure is not None:
        return 1
    if epoch.public_rate.failure is not None:
        return epoch.private_steps - step + 1
    return epoch.steps - step + 1


def _uses(plan: Plan, batch_size: int, slot: int, step: int) -> list[int]:
    """The step of the use in each run, 0 where the epoch does not reach the slot."""
    return [
        step if epoch.private_rows(batch_size) >= slot else 0 for _, epoch in plan.runs
    ]


def _chain_cost(plan: Plan, uses: list[int]) -> float:
    """Cost of Theorem 2 with the row at step `uses[i]` of every epoch of run i."""
    segments: list[tuple[float, float, float]] = []
    following = 0.0
    farthest, loudest = plan.scales
    for (count, epoch), use in zip(reversed(plan.runs), reversed(uses), strict=True):
        # relative to the largest, and what underflows is not free, as in `iteration`
        variance = (epoch.noise / loudest) ** 2
        if variance < NEGLIGIBLE:
            variance = 0.0
        if epoch.every_step:
            before = max(use - 1, 0) * variance
            after = (epoch.steps - max(use - 1, 0)) * variance
        else:
            before, after = 0.0, variance
        shift = max(epoch.shift / farthest, LEAST) if use else 0.0
        segments.append((after + following, shift, math.inf))
        if count > 1:
            own = (count - 1) * (after + before)
            segments.append((own, (count - 1) * shift, math.inf))
        following = before
    ratio = farthest / loudest
    cost = segments_cost(segments) * ratio * ratio
    return max(cost, LEAST**2) if any(uses) else 0.0


def _composition_cost(plan: Plan, uses: list[int]) -> float:
    """Sum over epochs of what each pays by itself, in `composition`'s ways."""
    cost = 0.0
    for (count, epoch), use in zip(plan.runs, uses, strict=True):
        if use:
            cost += count * epoch_cost(plan, epoch, use)
    return cost


def epoch_cost(plan: Plan, epoch: EpochSteps, step: int) -> float:
    """mu^2 of one epoch by itself for a row at `step`."""
    if not epoch.every_step:
        return composition.payment(plan.mechanism, epoch)[0]
    return single_cost(epoch.shift, epoch.noise) / noisy_steps(epoch, step)


def _longest(plan: Plan) -> int:
    return max(epoch.steps for _, epoch in plan.private_runs())
