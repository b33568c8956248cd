"""Analysis "hidden_state": amplification by iteration over all epochs (PRIVACY.md 4).

Theorems 1 and 2 of `dpbraid.privacy.iteration` on the whole run, first use to end: the
optimal allocation of every later noise to every use, with the contraction of the
proximal steps and of unclipped strongly convex losses (4.4), and with a bounded domain
at the epoch ends (4.5). It holds for the last iterate only, in every order.

*Worst position.* By Lemma M the cost does not decrease when a shift moves to a later
step, with all c_t <= 1, and cutting z to the diameter at epoch ends is monotone, which
is all that its proof uses. So the worst row is used at the last private step of every
epoch, whatever the order: K corners, with prefix sums in closed form.

For equal epochs of T steps without contraction, with m steps from the last private one
to the epoch's end: mu^2 = (s^2/sig^2) ((K - 1)/T + 1/m).
"""

from __future__ import annotations

import math

import numpy as np

from dpbraid.mechanism import Mechanism
from dpbraid.privacy import steps
from dpbraid.privacy.iteration import LEAST, final_weights, segments_mu
from dpbraid.privacy.profile import Assumption, GaussianCurve, PrivacyProfile
from dpbraid.privacy.registry import register
from dpbraid.privacy.steps import EpochSteps, Plan

NAME = "hidden_state"


@register(NAME)
def analyse(mechanism: Mechanism) -> PrivacyProfile:
    """The exact optimal allocation over all epochs, last iterate only."""
    plan = steps.read(mechanism)
    private, public = certify(plan)
    assumptions = steps.basics(plan, "Only the last iterate is published.")
    assumptions += steps.nonexpansive(plan, private, public)
    assumptions.append(steps.proximal(plan))
    diameter = mechanism.penalty.diameter
    if diameter is not None:
        assumptions.append(
            Assumption(
                "bounded domain",
                "The iterates at the ends of epochs lie in one set of known diameter.",
                f"penalty {mechanism.penalty.kind!r} projects onto it, diameter "
                f"{diameter!r}",
            )
        )
    curve = GaussianCurve(optimal_mu(plan, diameter))
    return PrivacyProfile(NAME, curve, tuple(assumptions), plan.released_std)


def certify(plan: Plan) -> tuple[list[EpochSteps], list[EpochSteps]]:
    """The epochs whose private and public steps must be nonexpansive, and are.

    They are the steps between the first use of any row and the last noise: before,
    the two runs are the same; after, all is post-processing.
    """
    noisy_runs = [i for i, (_, epoch) in enumerate(plan.runs) if epoch.noise > 0]
    last_noisy = noisy_runs[-1] if noisy_runs else -1
    used = False
    private, public = [], []
    for i, (count, epoch) in enumerate(plan.runs[: last_noisy + 1]):
        again = used or (count > 1 and epoch.private_steps > 0)
        if epoch.private_steps > 1 or (epoch.private_steps and again):
            steps.require(
                epoch.private_rate,
                "private",
                epoch,
                "which every step from the first use to the last noise must be",
            )
            private.append(epoch)
        used = used or epoch.private_steps > 0
        noise_later = i < last_noisy or count > 1 or epoch.public_noise
        if epoch.public_steps and used and noise_later:
            steps.require(
                epoch.public_rate,
                "public",
                epoch,
                "which every step from the first use to the last noise must be",
            )
            public.append(epoch)
    return private, public


def optimal_mu(plan: Plan, diameter: float | None) -> float:
    """Mu of Theorem 2 with the row at the last private step of every epoch."""
    if not plan.uses_private_rows:
        return 0.0
    if diameter is None and not plan.contracts:
        return _mu_by_runs(plan)
    counts = [count for count, _ in plan.runs]
    before, after, shift, carry, lead, link = (
        np.repeat(np.array(column, dtype=np.float64), counts)
        for column in zip(
            *(
                (
                    math.sqrt(epoch.variance_before),
                    math.sqrt(epoch.variance_after),
                    epoch.shift,
                    epoch.carry,
                    epoch.lead,
                    epoch.tail * epoch.prox_contraction,
                )
                for _, epoch in plan.runs
            ),
            strict=True,
        )
    )
    # epochs after the last noise are post-processing, unless they use private rows
    noisy, used = np.flatnonzero(after), np.flatnonzero(shift)
    if len(noisy) == 0 or used[-1] > noisy[-1]:
        return math.inf
    epochs = int(noisy[-1]) + 1
    # what the last noise of epoch k is worth at the last noise of all
    weights = final_weights(np.append(1.0, link[: epochs - 1] * lead[1:epochs]))
    noise = np.column_stack((before[:epochs], after[:epochs])) * weights[:, None]
    moved = np.column_stack((np.zeros(epochs), shift[:epochs]))
    worth = np.column_stack((weights, carry[:epochs] * weights))
    if diameter is None:
        # a segment is the noise from one use to the next
        starts, caps = np.arange(1, noise.size, 2), None
    else:
        # segments also begin with every epoch; the cut is after the proximal step
        starts, caps = np.arange(noise.size), np.full(noise.size, math.inf)
        caps[2::2] = diameter * np.maximum(lead[1:epochs] * weights[1:], LEAST)
    return segments_mu(
        starts, noise.ravel(), moved.ravel(), worth.ravel(), caps, plan.total_steps
    )


def _mu_by_runs(plan: Plan) -> float:
    """Without contraction the uses of a run of equal epochs share one slope."""
    variances, shifts = [], []
    following = [epoch.variance_before for _, epoch in plan.runs[1:]] + [0.0]
    for (count, epoch), next_before in zip(plan.runs, following, strict=True):
        if count > 1:
            own = epoch.variance_after + epoch.variance_before
            variances.append((count - 1) * own)
            shifts.append((count - 1) * epoch.shift)
        variances.append(epoch.variance_after + next_before)
        shifts.append(epoch.shift)
    return segments_mu(
        np.arange(len(shifts)),
        np.sqrt(np.array(variances)),
        np.array(shifts),
        np.ones(len(shifts)),
        None,
        len(shifts),
    )
