"""Analysis "epoch_end": one Gaussian an epoch, after the last private step (6.1, E).

Up to that noise the two runs of an epoch differ by at most s, since the private steps
are nonexpansive (with one private step an epoch nothing is needed). The epoch is then a
Gaussian mechanism of sensitivity s and std w, and K epochs compose:

    mu^2 = sum_k s_k^2 / w_k^2.

The public steps and the proximal step are post-processing: no contraction, no limit on
their learning rate, and the iterate of every epoch end may be published. No schedule of
Gaussian noise can release less of it for the same mu (Theorem 3), so
``w = 2 eta G sqrt(K) / mu`` is optimal.
"""

from __future__ import annotations

from dpbraid.mechanism import Mechanism
from dpbraid.privacy import steps
from dpbraid.privacy.iteration import rounded_mu, single_cost
from dpbraid.privacy.profile import (
    GaussianCurve,
    PrivacyAssumptionError,
    PrivacyProfile,
)
from dpbraid.privacy.registry import register

NAME = "epoch_end"


@register(NAME)
def analyse(mechanism: Mechanism) -> PrivacyProfile:
    """Composition of one Gaussian mechanism per private epoch."""
    plan = steps.read(mechanism)
    cost = 0.0
    for count, epoch in plan.private_runs():
        if epoch.every_step:
            raise PrivacyAssumptionError(
                f"placement of epoch {epoch.number} is 'every_step', and this analysis "
                "is for one noise after the last private step",
                "set placement to 'epoch_end'",
            )
        if epoch.private_steps > 1:
            steps.require(
                epoch.private_rate,
                "private",
                epoch,
                "which carries every use to the one noise after them",
            )
        cost += count * single_cost(epoch.shift, epoch.noise)
    assumptions = steps.basics(
        plan, "At most the iterates at the ends of epochs are published."
    )
    assumptions += steps.nonexpansive(
        plan, [e for _, e in plan.private_runs() if e.private_steps > 1], []
    )
    curve = GaussianCurve(rounded_mu(cost, len(plan.runs)))
    return PrivacyProfile(NAME, curve, tuple(assumptions), plan.released_std)
