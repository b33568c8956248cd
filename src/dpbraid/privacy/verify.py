"""`verify`: recompute a certificate from the file alone, by a second route.

The numbers of the guarantee are checked with `independent`, which shares no formula
with the analyses that produced them; the conditions are read off the mechanism again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbraid._validate import DpbraidError
from dpbraid.numeric import numeric_model
from dpbraid.privacy import independent
from dpbraid.privacy.certificate import Certificate, declared, guarantee
from dpbraid.privacy.registry import ANALYSES
from dpbraid.release import NoiseSource

# What the quadratures of the second route may add to delta, relative to it; and what
# its sums and its regression may add to mu.
TOLERANCE = 1e-6
MU_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Check:
    """One field of a certificate: whether it holds, and what was found."""

    field: str
    holds: bool
    detail: str


def verify(certificate: Certificate) -> tuple[Check, ...]:
    """All checks of a certificate, field by field; it is valid if every one holds.

    What is checked is whether the promise is kept: one that promises less than its
    analysis proves is kept as well.
    """
    return (
        _noise_source(certificate),
        _analysis(certificate),
        _numeric(certificate),
        _assumptions(certificate),
        _guarantee(certificate),
        _mu(certificate),
        _declarations(certificate),
    )


def _noise_source(c: Certificate) -> Check:
    return Check(
        "noise_source",
        c.noise_source is NoiseSource.OS_ENTROPY,
        c.noise_source.value,
    )


def _analysis(c: Certificate) -> Check:
    """One theorem by name, not the best of several."""
    return Check("analysis", c.analysis in ANALYSES, c.analysis)


def _numeric(c: Certificate) -> Check:
    """The numeric model is what the engine uses for this mechanism and dimension."""
    try:
        expected = numeric_model(c.mechanism, c.numeric.dimension)
    except DpbraidError as error:
        return Check("numeric", False, str(error))
    if expected != c.numeric:
        return Check("numeric", False, f"the engine uses {expected}")
    return Check("numeric", True, f"as the engine has it in {c.numeric.dimension} d")


def _assumptions(c: Certificate) -> Check:
    """The analysis accepts the mechanism, on exactly the assumptions of the file."""
    try:
        profile = guarantee(c.accounted, c.analysis, c.runs)
    except DpbraidError as error:
        return Check("assumptions", False, str(error))
    if profile.assumptions != c.assumptions:
        return Check("assumptions", False, "they differ from those of the analysis")
    return Check("assumptions", True, f"{len(c.assumptions)} conditions hold")


def _guarantee(c: Certificate) -> Check:
    if c.epsilon is None:
        return Check("epsilon", False, "the certificate promises nothing")
    mechanism, limit = c.accounted, c.delta * (1 + TOLERANCE)
    try:
        delta = independent.recheck(mechanism, c.analysis, c.epsilon, target=limit)
    except DpbraidError as error:
        return Check("epsilon", False, str(error))
    detail = f"delta({c.epsilon:.6g}) = {delta:.6g}, promised {c.delta:.6g}"
    return Check("epsilon", delta <= limit, detail)


def _mu(c: Certificate) -> Check:
    """A promised mu is at least what the analysis proves, by both routes."""
    if c.mu is None:
        return Check("mu", True, "none promised")
    if c.epsilon is None:
        return Check("mu", False, "mu without epsilon")
    try:
        first = guarantee(c.accounted, c.analysis, c.runs).mu
        if first is None:
            return Check("mu", False, f"analysis {c.analysis!r} gives none")
        second = independent.recheck_mu(c.accounted, c.analysis)
    except DpbraidError as error:
        return Check("mu", False, str(error))
    holds = (
        math.isfinite(first)
        and first <= c.mu * (1 + 1e-12)
        and second <= c.mu * (1 + MU_TOLERANCE)
    )
    return Check("mu", holds, f"mu = {second!r}, promised {c.mu!r}")


def _declarations(c: Certificate) -> Check:
    """What the mechanism needs to be declared is there, in these words."""
    for text in declared(c.mechanism):
        if text not in c.declarations:
            return Check("declarations", False, f"missing: {text}")
    return Check("declarations", True, "made by the user, not checked by the software")
