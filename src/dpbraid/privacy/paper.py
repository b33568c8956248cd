"""Analysis "paper": the lemmas as printed (PRIVACY.md 3, A).

Privacy of DP-ShuffleG and of Public Data Assisted Optimization, generalised to epochs
of their own: with m_k steps from the last private step to the end of epoch k, the
iterate at its end is (alpha, 2 alpha G^2/(sigma_k^2 m_k))-RDP by amplification by
iteration; epochs compose; and Mironov's conversion to (epsilon, delta) has the optimum
epsilon = R + 2 sqrt(R ln(1/delta)) for the rate R = sum_k 2 G^2/(sigma_k^2 m_k).

Conditions: noise on every step, one row a step. For m_k > 1 the steps of the epoch
must be nonexpansive: the paper prints learning_rate <= 1/L, and 2/L is enough
(Baillon-Haddad), which is what is enforced. For m_k = 1 the number is that of plain
composition, where the noise of each step pays for its own row, and it is valid at any
learning rate (7.5).
"""

from __future__ import annotations

from dpbraid.mechanism import Mechanism
from dpbraid.privacy import steps
from dpbraid.privacy.iteration import single_cost
from dpbraid.privacy.profile import (
    PrivacyAssumptionError,
    PrivacyProfile,
    RenyiCurve,
)
from dpbraid.privacy.registry import register

NAME = "paper"


@register(NAME)
def analyse(mechanism: Mechanism) -> PrivacyProfile:
    """Renyi amplification within each epoch, composition over epochs, as printed."""
    plan = steps.read(mechanism)
    if mechanism.batch_size != 1:
        raise PrivacyAssumptionError(
            f"batch_size is {mechanism.batch_size}, and the paper's lemmas are for one "
            "row a step",
            "set batch_size to 1",
        )
    rate = 0.0
    amplified = []
    for count, epoch in plan.private_runs():
        if not epoch.every_step:
            raise PrivacyAssumptionError(
                f"placement of epoch {epoch.number} is 'epoch_end', and the paper's "
                "lemmas are for noise on every step",
                "set placement to 'every_step'",
            )
        m = epoch.public_steps + 1
        if m > 1:
            reason = f"which the lemma needs to count m={m} noisy steps"
            steps.require(epoch.public_rate, "public", epoch, reason)
            if epoch.private_steps > 1:
                steps.require(epoch.private_rate, "private", epoch, reason)
            amplified.append(epoch)
        # 2 G^2 / (sigma^2 m) with shift = 2 eta G and noise = eta sigma
        rate += count * 0.5 * single_cost(epoch.shift, epoch.noise) / m
    assumptions = steps.basics(
        plan, "At most the iterates at the ends of epochs are published."
    )
    assumptions += steps.nonexpansive(
        plan, [e for e in amplified if e.private_steps > 1], amplified
    )
    rounded = rate * (1 + 1e-15 * (8 + len(plan.runs)))
    return PrivacyProfile(
        NAME, RenyiCurve(rounded), tuple(assumptions), plan.released_std
    )
