"""Analysis "composition": exact Gaussian composition over epochs (PRIVACY.md 3 B, 7.5).

Theorem 1 with nothing left at the end of each epoch: what epoch k publishes is
mu_k-GDP given its start, and mu^2 = sum_k mu_k^2. It holds if every iterate at the end
of an epoch is published, and uses nothing of the proximal step. Of the ways to pay for
the use at position j of an epoch, the best valid one is taken and named:

- *amplified*: all noise from step j to the end of the epoch, worst at the last private
  step: ``mu_k^2 = (w s)^2 / sum_t (w_t sig)^2``, w the certified contraction to the end
  of the epoch, that is s^2/(m sig^2) without contraction. Needs the steps after the
  use to be nonexpansive;
- *own step*: the use is paid by the noise of its own step, s^2/sig^2. Needs nothing:
  no convexity, no smoothness, any learning rate;
- *one noise after the last private step*, w: s^2/w^2, where the private steps are
  nonexpansive or there is only one;
- *displacement*: as before where they are not. A step moves each of the two iterates by
  at most eta C, C the bound on a gradient, so it adds at most 2 eta C to their distance
  (7.5, ii): ``((s + (steps - 1) 2 eta C) / w)^2``. With noise on every step this way
  never beats the own step, since 2 eta C >= s.
"""

from __future__ import annotations

import math

from dpbraid.mechanism import Mechanism
from dpbraid.privacy import steps
from dpbraid.privacy.iteration import rounded_mu, single_cost
from dpbraid.privacy.profile import Assumption, GaussianCurve, PrivacyProfile
from dpbraid.privacy.registry import register
from dpbraid.privacy.steps import EpochSteps

NAME = "composition"

_AMPLIFIED = "amplified by all noise from the use to the end of the epoch"
_OWN_STEP = "paid by the noise of its own step, valid at any learning rate"
_ONE_NOISE = "paid by the one noise after the last private step"
_DISPLACEMENT = (
    "paid by the one noise after the last private step, with the displacement of the "
    "steps before it, valid at any learning rate"
)


@register(NAME)
def analyse(mechanism: Mechanism) -> PrivacyProfile:
    """Gaussian composition over epochs with the best valid payment in each."""
    plan = steps.read(mechanism)
    cost = 0.0
    payments: list[str] = []
    certified: list[EpochSteps] = []
    for count, epoch in plan.private_runs():
        epoch_cost, how = payment(mechanism, epoch)
        cost += count * epoch_cost
        last = epoch.number + count - 1
        where = f"epoch {last}" if count == 1 else f"epochs {epoch.number} to {last}"
        payments.append(f"{where}: a use is {how}")
        if how in (_AMPLIFIED, _ONE_NOISE):
            certified.append(epoch)
    assumptions = steps.basics(
        plan, "At most the iterates at the ends of epochs are published."
    )
    assumptions += steps.nonexpansive(
        plan,
        [e for e in certified if e.private_steps > 1],
        [e for e in certified if e.every_step and e.public_steps],
    )
    if payments:
        shown = payments if len(payments) <= 4 else [*payments[:3], ".."]
        assumptions.append(
            Assumption(
                "payment",
                "Each epoch pays for its own use of the row; epochs compose.",
                "; ".join(shown),
            )
        )
    products = len(plan.runs) + (plan.total_steps if plan.contracts else 0)
    curve = GaussianCurve(rounded_mu(cost, products))
    return PrivacyProfile(NAME, curve, tuple(assumptions), plan.released_std)


def payment(mechanism: Mechanism, epoch: EpochSteps) -> tuple[float, str]:
    """Smallest valid mu_k^2 of one private epoch, and how it is paid for."""
    private_ok = epoch.private_steps == 1 or epoch.private_rate.failure is None
    if not epoch.every_step:
        if private_ok:
            return single_cost(epoch.shift, epoch.noise), _ONE_NOISE
        bound = steps.gradient_norm(mechanism)
        if bound is None:
            steps.require(
                epoch.private_rate,
                "private",
                epoch,
                "which carries every use to the one noise after them",
            )
        assert bound is not None
        extra = (epoch.private_steps - 1) * 2 * epoch.learning_rate * bound
        return single_cost(epoch.shift + extra, epoch.noise), _DISPLACEMENT
    if private_ok and epoch.public_steps and epoch.public_rate.failure is None:
        moved = epoch.shift * epoch.carry
        return single_cost(moved, math.sqrt(epoch.variance_after)), _AMPLIFIED
    return single_cost(epoch.shift, epoch.noise), _OWN_STEP
