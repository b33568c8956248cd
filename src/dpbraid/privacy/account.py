"""Account and calibrate: from a Mechanism to its guarantee, and back to its noise."""

from __future__ import annotations

import math

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Mechanism
from dpbraid.privacy import composition, epoch_end, hidden_state, paper, secret_order
from dpbraid.privacy.gaussian import gaussian_epsilon
from dpbraid.privacy.profile import (
    Considered,
    MinimumCurve,
    PrivacyAssumptionError,
    PrivacyProfile,
    first_smallest,
)
from dpbraid.privacy.registry import ANALYSES

BEST = "best"

# The order in which equally good analyses win: the one that asks for least comes first.
_PREFERENCE = (
    epoch_end.NAME,
    composition.NAME,
    hidden_state.NAME,
    secret_order.NAME,
    paper.NAME,
)

# Where "best" compares the analyses to name one: at the epsilon of the best Gaussian
# profile for this delta. The guarantee itself is the smallest at every epsilon.
_REFERENCE_DELTA = 1e-6


def account(mechanism: Mechanism, analysis: str = BEST) -> PrivacyProfile:
    """The guarantee that an analysis proves for a mechanism.

    mechanism: what the engine runs. analysis: the name of a theorem, or "best" for the
    smallest delta at each epsilon among all theorems whose conditions hold.

    Raises PrivacyAssumptionError if a condition does not hold; the message says which,
    where, with what numbers, and which analyses do hold.
    """
    _check(mechanism, analysis)
    if analysis == BEST:
        return _best(mechanism)
    try:
        return ANALYSES[analysis](mechanism)
    except PrivacyAssumptionError as error:
        valid = tuple(_valid(mechanism)[0])
        raise PrivacyAssumptionError(error.problem, error.remedy, valid) from None


def calibrate(
    mechanism: Mechanism, *, epsilon: float, delta: float, analysis: str = BEST
) -> Mechanism:
    """The mechanism with all its noise scaled to the smallest that gives the guarantee.

    All noise_stds are multiplied by one factor. With "best", the analysis that needs
    the least noise counts. ``account(result, analysis).delta(epsilon) <= delta`` holds
    for the result after rounding.

    Raises PrivacyAssumptionError as `account` does.
    """
    _check(mechanism, analysis)
    _validate.nonnegative(epsilon=epsilon)
    _validate.probability(delta=delta)
    for k, epoch in enumerate(mechanism.epochs, start=1):
        if epoch.private_rows and epoch.noise_std == 0:
            raise InvalidParameterError(
                f"noise_std must be > 0 in every epoch with private rows before it can "
                f"be scaled, got 0 in epoch {k}"
            )
    profile = account(mechanism, analysis)
    if not any(epoch.private_rows for epoch in mechanism.epochs):
        return mechanism.with_noise(0.0)
    factor = profile.curve.noise_factor(float(epsilon), float(delta))
    nudge = 2e-16
    while True:
        if not math.isfinite(factor):
            raise InvalidParameterError(
                f"no finite noise gives epsilon={epsilon!r}, delta={delta!r} by "
                f"analysis {analysis!r}"
            )
        result = mechanism.with_noise(factor)
        if account(result, analysis).delta(epsilon) <= delta:
            return result
        factor, nudge = factor * (1 + nudge), 2 * nudge


def _check(mechanism: Mechanism, analysis: str) -> None:
    if not isinstance(mechanism, Mechanism):
        raise InvalidParameterError(
            f"mechanism must be a Mechanism, got {type(mechanism).__name__}"
        )
    if analysis != BEST and analysis not in ANALYSES:
        raise InvalidParameterError(
            f"analysis must be one of {', '.join(map(repr, [BEST, *ANALYSES]))}, "
            f"got {analysis!r}"
        )


def _valid(
    mechanism: Mechanism,
) -> tuple[dict[str, PrivacyProfile], list[Considered], PrivacyAssumptionError | None]:
    """The profiles of all analyses that hold, and why the others do not."""
    profiles: dict[str, PrivacyProfile] = {}
    refused: list[Considered] = []
    first: PrivacyAssumptionError | None = None
    for name in sorted(ANALYSES, key=_rank):
        try:
            profiles[name] = ANALYSES[name](mechanism)
        except PrivacyAssumptionError as error:
            # without its frames, which would keep the caller's tables alive
            first = first or error.with_traceback(None)
            refused.append(
                Considered(name, f"not valid: {error.problem}; {error.remedy}")
            )
    return profiles, refused, first


def _rank(name: str) -> tuple[int, str]:
    known = name in _PREFERENCE
    return (_PREFERENCE.index(name) if known else len(_PREFERENCE), name)


def _best(mechanism: Mechanism) -> PrivacyProfile:
    profiles, considered, first = _valid(mechanism)
    if not profiles:
        assert first is not None
        raise PrivacyAssumptionError(first.problem, first.remedy, ())
    mus = [p.mu for p in profiles.values() if p.mu is not None]
    mu = min(mus, default=1.0)
    epsilon = gaussian_epsilon(mu, _REFERENCE_DELTA) if 0 < mu < math.inf else 1.0
    deltas = {name: profile.delta(epsilon) for name, profile in profiles.items()}
    # they come in the order of what they ask for
    winner = list(profiles)[first_smallest(list(deltas.values()))]
    for name, value in deltas.items():
        if name != winner:
            considered.append(
                Considered(
                    name,
                    f"not better: delta {value:.4g} at epsilon {epsilon:.4g}, "
                    f"{winner} gives {deltas[winner]:.4g}",
                )
            )
    return PrivacyProfile(
        winner,
        MinimumCurve(tuple(profile.curve for profile in profiles.values())),
        profiles[winner].assumptions,
        profiles[winner].released_std,
        tuple(considered),
        tuple(profiles.values()),
    )
