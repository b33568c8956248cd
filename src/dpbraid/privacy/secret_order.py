"""Analysis "secret_order": a uniform order that nobody learns (PRIVACY.md 5).

Valid for `ShuffleOnce` and `Reshuffle` with secret=True and for the last iterate. The
smallest, at each epsilon, of the theorems that hold:

- one permutation for all epochs: D1 (`dpbraid.privacy.positions`), with the hidden
  state across epochs where its conditions hold and composition over epochs otherwise;
- a fresh permutation for every epoch: D2 (`positions`) and D3 or D3'
  (`dpbraid.privacy.participation`) where the conditions of "hidden_state" hold, and D4
  (`dpbraid.privacy.subsampling`), which asks no more than composition does, and is
  never above composition without the secret.

D3 and D3' are for equal private epochs; the noise of epochs without private rows is
left out there, which can only raise delta. A shuffle buffer is no uniform permutation.
"""

from __future__ import annotations

import math

import numpy as np

from dpbraid.mechanism import Mechanism
from dpbraid.orders import Reshuffle, ShuffleOnce
from dpbraid.privacy import hidden_state, participation, positions, steps, subsampling
from dpbraid.privacy.iteration import rounded_mu
from dpbraid.privacy.profile import (
    Assumption,
    Curve,
    GaussianCurve,
    MinimumCurve,
    PrivacyAssumptionError,
    PrivacyProfile,
)
from dpbraid.privacy.registry import register
from dpbraid.privacy.steps import EpochSteps, Plan

NAME = "secret_order"


@register(NAME)
def analyse(mechanism: Mechanism) -> PrivacyProfile:
    """The average over secret orders, by the best of D1 to D5."""
    plan = steps.read(mechanism)
    order = mechanism.order
    if not isinstance(order, ShuffleOnce | Reshuffle):
        raise PrivacyAssumptionError(
            f"order {order.kind!r} is not a uniform permutation",
            "use Reshuffle() or ShuffleOnce()",
        )
    if not order.secret:
        raise PrivacyAssumptionError(
            f"order {order.kind!r} has secret=False, so the row's position is known",
            "let the engine draw the order and keep it: secret=True",
        )
    private: list[EpochSteps] = []
    public: list[EpochSteps] = []
    hidden = True
    try:
        private, public = hidden_state.certify(plan)
    except PrivacyAssumptionError:
        hidden = False
    curves, theorems = _curves(plan, hidden)
    assumptions = steps.basics(plan, "Only the last iterate is published.")
    if hidden:
        assumptions.append(steps.proximal(plan))
    else:
        private, public = _amplified(plan)
    assumptions += steps.nonexpansive(plan, private, public)
    assumptions.append(
        Assumption(
            "secret order",
            "The permutations are uniform, independent of the data, and unknown to "
            "everybody.",
            f"order {order.kind!r} with secret=True, drawn by the engine and forgotten",
        )
    )
    assumptions.append(
        Assumption(
            "theorem",
            "The smallest delta at each epsilon of the theorems that hold.",
            ", ".join(theorems) or "no private row is used",
        )
    )
    curve = curves[0] if len(curves) == 1 else MinimumCurve(tuple(curves))
    return PrivacyProfile(NAME, curve, tuple(assumptions), plan.released_std)


def _amplified(plan: Plan) -> tuple[list[EpochSteps], list[EpochSteps]]:
    """The epochs whose steps carry a use to later noise of the same epoch."""
    epochs = [epoch for _, epoch in plan.private_runs()]
    return (
        [e for e in epochs if e.private_steps > 1 and e.private_rate.failure is None],
        [e for e in epochs if e.public_noise and e.public_rate.failure is None],
    )


def _curves(plan: Plan, hidden: bool) -> tuple[list[Curve], list[str]]:
    if not plan.uses_private_rows:
        return [GaussianCurve(0.0)], []
    if any(epoch.noise == 0 for _, epoch in plan.private_runs()):
        return [GaussianCurve(math.inf)], ["a private epoch without noise"]
    if isinstance(plan.mechanism.order, ShuffleOnce):
        return [positions.shuffle_once(plan, hidden)], ["D1"]
    curves: list[Curve] = []
    theorems = []
    if hidden:
        curves.append(positions.reshuffle(plan))
        theorems.append("D2")
        third = _participation(plan)
        if third is not None:
            curves.append(third)
            theorems.append("D3")
    curves.append(_subsampling(plan))
    theorems.append("D4")
    return curves, theorems


def _participation(plan: Plan) -> Curve | None:
    """D3 or D3', where all private epochs are equal and some rows stay out."""
    m = plan.mechanism
    runs = list(plan.private_runs())
    first = runs[0][1]
    rows = first.private_rows(m.batch_size)
    epochs = sum(count for count, _ in runs)
    equal = all(
        (
            epoch.private_rows(m.batch_size),
            epoch.public_steps,
            epoch.every_step,
            epoch.shift,
            epoch.noise,
        )
        == (rows, first.public_steps, first.every_step, first.shift, first.noise)
        for _, epoch in runs
    )
    if not equal or rows == m.n or not 2 <= epochs <= participation.MOST_EPOCHS:
        return None
    ratio = first.shift / first.noise
    if not first.every_step:
        return participation.epoch_end(epochs, rows, m.n, ratio)
    return participation.every_step(
        epochs, rows, m.n, m.batch_size, first.private_steps, first.steps, ratio
    )


def _subsampling(plan: Plan) -> Curve:
    """D4; the exact Gaussian composition where nothing is secret in any epoch."""
    m = plan.mechanism
    laws: list[tuple[int, subsampling.EpochLaw]] = []
    for count, epoch in plan.private_runs():
        law = _epoch_law(plan, epoch, epoch.private_rows(m.batch_size))
        # epochs that differ in their learning rate alone have one law
        if laws and laws[-1][1].resembles(law):
            before, last = laws.pop()
            law, count = last.joined(law), before + count
        laws.append((count, law))
    if all(law.participation == 1 and len(law.mus) == 1 for _, law in laws):
        cost = sum(count * float(law.mus[0]) ** 2 for count, law in laws)
        return GaussianCurve(rounded_mu(cost, len(laws)))
    return subsampling.ComposedCurve(tuple(laws))


def _epoch_law(plan: Plan, epoch: EpochSteps, rows: int) -> subsampling.EpochLaw:
    m = plan.mechanism
    costs: dict[float, float] = {}
    for step, slots in positions.bins(1, rows, m.batch_size, epoch.steps):
        cost = positions.epoch_cost(plan, epoch, step)
        costs[cost] = costs.get(cost, 0.0) + slots / rows
    mus = np.array([rounded_mu(cost, 1) for cost in costs])
    weights = np.array(list(costs.values()))
    mus, weights = subsampling.merged(mus, weights)
    return subsampling.EpochLaw(mus, weights, rows / m.n)
