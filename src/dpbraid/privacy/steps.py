"""Reads a Mechanism into what the theorems are about: shifts, noise, contractions.

Per epoch k, with learning rate eta and batch size b (all in units of x):

- one use of the replaced row moves the step by at most
  ``eta * mechanism.sensitivity / b``: twice the clip norm where there is one;
- a noisy step adds N(0, (eta noise_std)^2 I);
- a step is certified nonexpansive for eta <= 2/L with L from the *public* bound on the
  norm of any row that could be in the table (7.1), clipped gradients only for losses
  with a proof (7.2). The step of a batch is the average of the b maps x - eta g_i(x),
  hence nonexpansive where they are; a short batch of r rows still divides by b, which
  averages in b - r identities;
- an unclipped strongly convex loss contracts by c < 1; a short batch of r rows then
  contracts by ``(r c + b - r) / b``;
- the proximal step contracts by ``penalty.contraction`` (4.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Epoch, Mechanism, Placement
from dpbraid.privacy.profile import Assumption, PrivacyAssumptionError

# Shifts and noise that can be accounted in float64: see `_in_range`.
_SMALLEST, _LARGEST = 1e-140, 1e140


@dataclass(frozen=True)
class Rate:
    """Whether the steps of one kind in an epoch are certified nonexpansive.

    contraction: Lipschitz factor of a full batch's step, 1 where it is not certified;
    last: that of the last, possibly short batch. failure: why it is not certified, or
    None; remedy: what would help.
    """

    contraction: float = 1.0
    last: float = 1.0
    failure: str | None = None
    remedy: str = ""


@dataclass(frozen=True)
class EpochSteps:
    """One epoch as the theorems see it; `number` counts from 1 and is the first of its
    run of equal epochs."""

    number: int
    private_steps: int
    public_steps: int
    last_private_rows: int
    learning_rate: float
    shift: float
    noise: float
    every_step: bool
    private_rate: Rate
    public_rate: Rate
    prox_contraction: float

    @property
    def steps(self) -> int:
        """All gradient steps of the epoch."""
        return self.private_steps + self.public_steps

    def private_rows(self, batch_size: int) -> int:
        """Private rows of the epoch; the last batch may be short."""
        if not self.private_steps:
            return 0
        return (self.private_steps - 1) * batch_size + self.last_private_rows

    @property
    def public_noise(self) -> bool:
        """Whether the public steps are noisy."""
        return self.every_step and self.noise > 0 and self.public_steps > 0

    @cached_property
    def public_factor(self) -> float:
        """Product of the contraction factors of the public steps."""
        if not self.public_steps:
            return 1.0
        rate = self.public_rate
        return float(rate.contraction ** (self.public_steps - 1)) * rate.last

    @cached_property
    def carry(self) -> float:
        """What a change at the last private step is worth at the epoch's last noise.

        The last noise is the last public step's where public steps are noisy, else the
        last private step's.
        """
        return self.public_factor if self.public_noise else 1.0

    @cached_property
    def tail(self) -> float:
        """Contraction from the last noise of the epoch to its end."""
        return 1.0 if self.public_noise else self.public_factor

    @cached_property
    def lead(self) -> float:
        """Contraction from the start of the epoch to its last noise."""
        if not self.private_steps:
            return self.carry
        rate = self.private_rate
        private = float(rate.contraction ** (self.private_steps - 1)) * rate.last
        return private * self.carry

    @property
    def factor(self) -> float:
        """Product of the contraction factors of all gradient steps."""
        return self.lead * self.tail

    @cached_property
    def variance_after(self) -> float:
        """Noise from the last private step on, as it stands at the last noise.

        In an epoch without private steps: the noise of all of it.
        """
        weight = self.carry**2 if self.private_steps else 0.0
        if self.public_noise:
            rate = self.public_rate
            rest = geometric(rate.contraction**2, self.public_steps - 1)
            weight += 1 + rate.last**2 * rest
        return weight * self.noise**2

    @cached_property
    def variance_before(self) -> float:
        """Noise of the private steps before the last one, at the last noise."""
        if not self.every_step or self.private_steps < 2:
            return 0.0
        rate = self.private_rate
        rest = geometric(rate.contraction**2, self.private_steps - 1)
        return rest * (self.noise * self.carry * rate.last) ** 2

    @property
    def contracts(self) -> bool:
        """Whether any factor is below 1."""
        return self.factor < 1 or self.prox_contraction < 1


@dataclass(frozen=True)
class Plan:
    """A mechanism as runs of (how often, epoch)."""

    mechanism: Mechanism
    runs: tuple[tuple[int, EpochSteps], ...]

    @property
    def uses_private_rows(self) -> bool:
        """Whether any epoch touches the private table."""
        return any(epoch.private_steps for _, epoch in self.runs)

    def private_runs(self) -> Iterator[tuple[int, EpochSteps]]:
        """The runs of epochs that touch the private table."""
        return ((count, epoch) for count, epoch in self.runs if epoch.private_steps)

    @property
    def total_steps(self) -> int:
        """Gradient steps of the whole mechanism."""
        return sum(count * epoch.steps for count, epoch in self.runs)

    @property
    def contracts(self) -> bool:
        """Whether any certified factor is below 1."""
        return any(epoch.contracts for _, epoch in self.runs)

    @cached_property
    def scales(self) -> tuple[float, float]:
        """Largest shift of a use and largest noise std of a step."""
        return (
            max(epoch.shift for _, epoch in self.runs),
            max(epoch.noise for _, epoch in self.runs),
        )

    @cached_property
    def released_std(self) -> float:
        """Std per coordinate of all noise before the last proximal step.

        Every map is taken to contract exactly by its certified factor, 1 without a
        certificate.
        """
        variance, weight, last = 0.0, 1.0, True
        for count, epoch in reversed(self.runs):
            own = (epoch.variance_after + epoch.variance_before) * epoch.tail**2
            if last:  # the proximal step after the last epoch is left out
                variance, weight, count = own, epoch.factor, count - 1
                last = False
            ratio = epoch.factor * epoch.prox_contraction
            first = weight * epoch.prox_contraction
            variance += own * first**2 * geometric(ratio**2, count)
            weight *= float(ratio**count)
        return math.sqrt(variance)


def read(mechanism: Mechanism) -> Plan:
    """The plan of a mechanism; refuses one whose uses have no bounded shift."""
    runs = []
    number = 1
    for count, epoch in mechanism.runs():
        runs.append((count, _read_epoch(mechanism, epoch, number)))
        number += count
    return Plan(mechanism, tuple(runs))


def geometric(ratio: float, terms: int) -> float:
    """1 + ratio + .. + ratio^(terms - 1), for 0 <= ratio <= 1 and terms >= 0."""
    if terms <= 0:
        return 0.0
    if ratio == 1:
        return float(terms)
    if ratio == 0:
        return 1.0
    log_ratio = math.log(ratio)
    return math.expm1(terms * log_ratio) / math.expm1(log_ratio)


def gradient_difference(mechanism: Mechanism) -> float:
    """Largest distance of the (clipped) gradients of two possible private rows."""
    sensitivity = mechanism.sensitivity
    if sensitivity is None:
        raise PrivacyAssumptionError(
            f"the gradient of one private row is unbounded: clip_norm is None and loss "
            f"{mechanism.loss.kind!r} has no bound at row_norm={mechanism.row_norm!r}",
            "set clip_norm",
        )
    return sensitivity


def gradient_norm(mechanism: Mechanism) -> float | None:
    """Largest norm of the (clipped) gradient of a private row; None if unbounded."""
    bounds = []
    if mechanism.clip_norm is not None:
        bounds.append(mechanism.clip_norm)
    lipschitz = mechanism.loss.lipschitz(_bound(mechanism.row_norm))
    if lipschitz is not None and math.isfinite(lipschitz):
        bounds.append(lipschitz)
    return min(bounds) if bounds else None


def _read_epoch(mechanism: Mechanism, epoch: Epoch, number: int) -> EpochSteps:
    b = mechanism.batch_size
    private = mechanism.private_steps(epoch)
    public = mechanism.public_steps(epoch)
    eta = epoch.learning_rate
    shift = eta * gradient_difference(mechanism) / b if private else 0.0
    noise = eta * epoch.noise_std
    _in_range(number, "noise_std", noise, epoch.noise_std == 0)
    _in_range(number, "sensitivity / batch_size", shift, private == 0)
    return EpochSteps(
        number=number,
        private_steps=private,
        public_steps=public,
        last_private_rows=epoch.private_rows - (private - 1) * b if private else 0,
        learning_rate=eta,
        shift=shift,
        noise=noise,
        every_step=epoch.placement is Placement.EVERY_STEP,
        private_rate=_rate(
            mechanism, epoch, "row_norm", mechanism.row_norm, epoch.private_rows
        ),
        public_rate=_rate(
            mechanism,
            epoch,
            "public_row_norm",
            mechanism.public_bound,
            epoch.public_rows,
        ),
        prox_contraction=mechanism.penalty.contraction(mechanism.prox_step(epoch)),
    )


def _in_range(number: int, name: str, value: float, absent: bool) -> None:
    """Squares and quotients of shifts and noise must not leave the range of float."""
    if not absent and not _SMALLEST <= value <= _LARGEST:
        raise InvalidParameterError(
            f"learning_rate * {name} must be within [{_SMALLEST:g}, {_LARGEST:g}], got "
            f"{value!r} in epoch {number}"
        )


def _rate(
    mechanism: Mechanism, epoch: Epoch, name: str, bound: float | None, rows: int
) -> Rate:
    """Certificate of the steps on one table (7.1, 7.2)."""
    loss, eta, b = mechanism.loss, epoch.learning_rate, mechanism.batch_size
    if rows == 0:
        return Rate()
    if mechanism.clip_norm is not None and not loss.clipped_steps_nonexpansive:
        return Rate(
            failure=f"no proof that a clipped step on loss {loss.kind!r} is "
            "nonexpansive",
            remedy="set clip_norm to None, with a bound on the rows",
        )
    smoothness = loss.smoothness(_bound(bound))
    if not math.isfinite(smoothness):
        return Rate(
            failure=f"the smoothness of loss {loss.kind!r} has no bound at "
            f"{name}={bound!r}",
            remedy=f"set {name}, a bound on the norm of every possible row",
        )
    # closed although L is rounded: Rows keeps 1e-12 below the bound on the norm
    if eta * smoothness > 2:
        limit = 2 / smoothness
        if limit * smoothness > 2:
            limit = math.nextafter(limit, 0)
        return Rate(
            failure=f"learning_rate {eta:g} is above its limit 2/L = "
            f"{limit:.6g} (L = {smoothness:.6g} from {name}={bound!r})",
            remedy=f"lower learning_rate to {limit!r} or less",
        )
    if mechanism.clip_norm is not None:
        return Rate()
    full = min(loss.step_contraction(eta), 1.0)
    last = rows % b or b
    short = full if last == b else (last * full + b - last) / b
    first = full if rows >= b else short
    return Rate(first, min(short, 1.0))


def _bound(row_norm: float | None) -> float:
    return math.inf if row_norm is None else row_norm


# -- conditions ---------------------------------------------------------------------


def require(rate: Rate, steps: str, epoch: EpochSteps, reason: str) -> None:
    """Refuse unless the steps are certified."""
    if rate.failure is not None:
        raise PrivacyAssumptionError(
            f"{steps} steps of epoch {epoch.number} are not certified nonexpansive, "
            f"{reason}: {rate.failure}",
            rate.remedy,
        )


def basics(plan: Plan, released: str) -> list[Assumption]:
    """The conditions that every analysis shares."""
    m = plan.mechanism
    assumptions = [
        Assumption(
            "adjacency",
            "Two neighbouring private tables differ in one replaced row; the number of "
            "rows is public.",
            f"n={m.n} is part of the mechanism",
        ),
        Assumption(
            "one use per epoch",
            "Every private row is used at most once in each epoch.",
            f"order {m.order.kind!r} walks through a permutation of the rows",
        ),
        Assumption("release", released, "the engine returns the last iterate only"),
        Assumption(
            "public inputs",
            "Start point, bounds, learning rates, order rule and number of epochs are "
            "chosen without the private rows.",
            f"they are fields of the mechanism; start {m.start.kind!r}",
        ),
    ]
    if plan.uses_private_rows:
        bounds = [] if m.clip_norm is None else [f"clip_norm={m.clip_norm!r}"]
        if m.row_norm is not None:
            bounds.append(f"row_norm={m.row_norm!r}")
        assumptions.append(
            Assumption(
                "sensitivity",
                "Replacing a row changes the gradient sum of its batch by at most "
                f"{gradient_difference(m)!r} in Euclidean norm.",
                f"{', '.join(bounds)}, enforced by Rows and by the clip rule of loss "
                f"{m.loss.kind!r}; fixed divisor batch_size={m.batch_size}",
            )
        )
    return assumptions


def proximal(plan: Plan) -> Assumption:
    """The assumption, with numbers, that the proximal steps are nonexpansive."""
    penalty = plan.mechanism.penalty
    return Assumption(
        "proximal steps nonexpansive",
        "The proximal step of a convex penalty is nonexpansive, and contracts if "
        "the penalty is strongly convex.",
        f"penalty {penalty.kind!r}, smallest contraction factor "
        f"{min(e.prox_contraction for _, e in plan.runs)!r}",
    )


def nonexpansive(
    plan: Plan, private: list[EpochSteps], public: list[EpochSteps]
) -> list[Assumption]:
    """The assumption, with numbers, that the steps of these epochs are nonexpansive."""
    m = plan.mechanism
    assumptions = []
    for table, epochs, bound in (
        ("private", private, m.row_norm),
        ("public", public, m.public_bound),
    ):
        if not epochs:
            continue
        largest = max(epoch.learning_rate for epoch in epochs)
        smoothness = m.loss.smoothness(_bound(bound))
        limit = 2 / smoothness if smoothness > 0 else math.inf
        proof = f"; {m.loss.proof}" if m.clip_norm is not None else ""
        assumptions.append(
            Assumption(
                f"{table} steps nonexpansive",
                f"x - learning_rate * gradient is nonexpansive for every possible "
                f"{table} row: learning_rate <= 2/L (Baillon-Haddad).",
                f"largest learning_rate {largest!r} <= 2/L = {limit!r} with "
                f"L = {smoothness!r} for loss {m.loss.kind!r} at row bound {bound!r}, "
                f"enforced by Rows{proof}",
            )
        )
    return assumptions
