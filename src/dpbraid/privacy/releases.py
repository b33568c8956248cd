"""Several releases on one private table: what they guarantee together.

**Settings chosen freely** (`gaussian_total`). Release i is mu_i-GDP, and everything
about it, mu_i included, may be chosen after seeing the releases before it. If
``sum_i mu_i^2 <= m^2`` whatever happens, all releases together are m-GDP (Smith and
Thakurta 2022, arXiv:2210.17520).

*Proof.* For two neighbouring tables the law of a release is the image of N(mu_i, 1) and
of N(0, 1) under one kernel, given what came before (Blackwell). Take a Brownian motion
on the time from 0 to m^2, with drift 1 for the one table and 0 for the other. Release i
uses up the next mu_i^2 of the time: the increment over its square root, mu_i, is
N(mu_i, 1) or N(0, 1), independent of the past. So all releases together are an image of
the path, and what the path says about its drift is in its end point, N(m^2, m^2) or
N(0, m^2): that pair is m-GDP. ∎

The same is false of profiles in general: whoever sees that an unlikely value has told
the tables apart may spend the rest of the budget where it tells them apart further.

**Settings fixed beforehand** (`composed`). Where the mechanisms of all releases were
chosen before the first, each has a dominating pair, and the product of these pairs
dominates all releases together, each of which may use the values of those before it
(Zhu, Dong and Wang 2022, Theorem 10). The product of Gaussian pairs is Gaussian,
``mu^2 = sum_i mu_i^2``; others are multiplied numerically, rounded up
(`dpbraid.privacy.subsampling`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbraid._validate import InvalidParameterError
from dpbraid.privacy import composition
from dpbraid.privacy.account import account
from dpbraid.privacy.certificate import Certificate, guarantee
from dpbraid.privacy.iteration import rounded_mu
from dpbraid.privacy.profile import (
    Curve,
    GaussianCurve,
    MinimumCurve,
    MixtureCurve,
    PrivacyAssumptionError,
    RenyiCurve,
)
from dpbraid.privacy.registry import ANALYSES
from dpbraid.privacy.subsampling import ComposedCurve, EpochLaw, merged

# A secret position has at most this many different mus in the product of pairs.
_MOST_MUS = 2000


def curve(certificate: Certificate) -> Curve:
    """The one curve behind a certificate, by its theorem, read off its mechanism.

    Where several theorems hold, the one that is best at the certificate's epsilon; for
    the Renyi bound of analysis "paper" the exact composition, which holds under the
    same conditions and proves as mu-GDP what that bound says about orders alone.
    """
    epsilon = certificate.epsilon
    if epsilon is None:
        raise InvalidParameterError(
            "a release must have a guarantee to count with others: this one's "
            f"certificate promises nothing (noise: {certificate.noise_source.value})"
        )
    mechanism = certificate.accounted
    profile = guarantee(mechanism, certificate.analysis, certificate.runs)
    best = _single(profile.curve, epsilon)
    if isinstance(best, RenyiCurve):
        return account(mechanism, composition.NAME).curve
    return best


def _single(curve: Curve, epsilon: float) -> Curve:
    if not isinstance(curve, MinimumCurve):
        return curve
    best = min(curve.curves, key=lambda one: one.delta(epsilon))
    return _single(best, epsilon)


def gaussian_mu_of(certificate: Certificate) -> float:
    """The mu of a release: its own theorem's, or else the smallest that holds for it.

    A theorem that averages over a secret order proves no useful mu; the others ask for
    no secret order and hold for the same mechanism.
    """
    own = curve(certificate).mu
    if own is not None:
        return own
    mechanism = certificate.accounted
    mus: list[float] = []
    for analysis in ANALYSES.values():
        try:
            mu = analysis(mechanism).mu
        except PrivacyAssumptionError:
            continue
        if mu is not None:
            mus.append(mu)
    return min(mus, default=math.inf)


def gaussian_total(mus: Sequence[float]) -> float:
    """The mu of all releases together, rounded up."""
    if len(mus) == 1:
        return mus[0]
    return rounded_mu(sum(mu * mu for mu in mus), len(mus))


def composed(curves: Sequence[Curve]) -> Curve:
    """The curve of all releases together, their mechanisms fixed beforehand."""
    if len(curves) == 1:
        return curves[0]
    gaussians = [one.mu for one in curves if one.mu is not None]
    mu = gaussian_total(gaussians)
    others = [one for one in curves if one.mu is None]
    if not others or math.isinf(mu):
        return GaussianCurve(mu)
    laws: list[tuple[int, EpochLaw]] = []
    if mu > 0:
        laws.append((1, EpochLaw(np.array([mu]), np.array([1.0]), 1.0)))
    for one in others:
        laws += _laws(one)
    return ComposedCurve(tuple(laws))


def _laws(curve: Curve) -> list[tuple[int, EpochLaw]]:
    if isinstance(curve, ComposedCurve):
        return list(curve.laws)
    assert isinstance(curve, MixtureCurve)
    kept = curve.mus > 0
    if not np.any(kept):
        return []
    mus, weights = merged(curve.mus[kept], curve.weights[kept], _MOST_MUS)
    return [(1, EpochLaw(mus, weights, curve.participation))]
