"""Several releases together: exact for Gaussians, bracketed for secret orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf

import dpbraid as db
from dpbraid._validate import InvalidParameterError
from dpbraid.numeric import numeric_model
from dpbraid.privacy import gaussian_delta, gaussian_mu, releases
from dpbraid.privacy.certificate import certify
from dpbraid.privacy.profile import Curve, GaussianCurve, MixtureCurve
from dpbraid.release import NoiseSource
from tests.privacy.test_certificate import CASES, certificate

MIXTURE = MixtureCurve(np.array([0.1, 0.3, 0.8]), np.array([0.5, 0.45, 0.05]))
SUBSAMPLED = MixtureCurve(np.array([0.4, 0.7]), np.array([0.5, 0.5]), 0.3)


def by_dp_accounting(curves: list[Curve], epsilon: float, h: float) -> float:
    """Connect-the-dots and FFT of dp-accounting, on a fine grid: an upper bound."""
    total: Any = None
    for curve in curves:
        grid = np.arange(0, math.ceil(12 / h) + 1)
        deltas = np.array([curve.delta(i * h) for i in grid])
        negative = 1 - np.exp(-h * grid[:0:-1]) * (1 - deltas[:0:-1])
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            h, -len(grid) + 1, len(grid) - 1, np.concatenate((negative, deltas))
        )
        total = pmf if total is None else total.compose(pmf)
    return float(total.get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0])
@pytest.mark.parametrize(
    "curves",
    [
        [MIXTURE, MIXTURE],
        [MIXTURE, SUBSAMPLED, GaussianCurve(0.5)],
        [SUBSAMPLED, GaussianCurve(0.3), GaussianCurve(0.4)],
    ],
    ids=["mixtures", "mixed", "gaussians"],
)
def test_composition_of_profiles(curves: list[Curve], epsilon: float) -> None:
    """Two discretisations of the same product: 2 % covers that of either."""
    delta = releases.composed(curves).delta(epsilon)
    other = by_dp_accounting(curves, epsilon, 0.004)
    assert delta == pytest.approx(other, rel=0.02)
    assert delta > max(curve.delta(epsilon) for curve in curves)


def test_composition_is_above_the_truth() -> None:
    """A mixture of one Gaussian is that Gaussian, whose product is known exactly."""
    one = MixtureCurve(np.array([0.4]), np.array([1.0]))
    for epsilon in (0.1, 1.0, 4.0):
        truth = gaussian_delta(epsilon, 0.4 * math.sqrt(5))
        found = releases.composed([one] * 5).delta(epsilon)
        assert truth <= found <= truth * 1.02


def test_gaussians_compose_exactly() -> None:
    mus = [0.3, 0.4, 1.2]
    total = releases.composed([GaussianCurve(mu) for mu in mus])
    assert total.mu == pytest.approx(1.3, rel=1e-14)
    assert total.mu is not None
    assert total.mu >= math.hypot(*mus)
    assert releases.gaussian_total(mus) == total.mu


def test_nothing_private_costs_nothing() -> None:
    free = GaussianCurve(0.0)
    assert releases.composed([free, free]).delta(0.0) == 0
    together = releases.composed([free, MIXTURE])
    assert together.delta(1.0) == pytest.approx(MIXTURE.delta(1.0), rel=0.02)


@pytest.mark.parametrize(
    "case",
    ["composition", "hidden_state", "epoch_end"],
)
def test_the_curve_is_that_of_the_certificate(case: str) -> None:
    made = certificate(case)
    assert releases.curve(made).mu == pytest.approx(made.mu, rel=1e-12)
    assert releases.gaussian_mu_of(made) == releases.curve(made).mu


@pytest.mark.parametrize("case", ["secret_order_once", "secret_order_fresh"])
def test_a_secret_order_has_a_larger_mu(case: str) -> None:
    made = certificate(case)
    assert made.epsilon is not None
    curve = releases.curve(made)
    assert curve.mu is None
    assert curve.epsilon(made.delta) == pytest.approx(made.epsilon, rel=1e-9)
    assert releases.gaussian_mu_of(made) > gaussian_mu(made.epsilon, made.delta)


def test_the_renyi_bound_is_composed_exactly() -> None:
    """R = mu^2/2: the same allocation, by GDP instead of orders."""
    made = certificate("paper")
    assert made.epsilon is not None
    mu = releases.curve(made).mu
    assert mu is not None
    rate = mu**2 / 2
    epsilon = rate + 2 * math.sqrt(rate * math.log(1 / made.delta))
    assert epsilon == pytest.approx(made.epsilon, rel=1e-9)


def test_all_runs_of_a_release_count() -> None:
    """One-vs-rest: k runs of mu are one release of sqrt(k) mu."""
    mechanism, analysis = CASES["epoch_end"]()
    mus = [
        releases.gaussian_mu_of(
            certify(
                mechanism,
                delta=1e-6,
                noise_source=NoiseSource.OS_ENTROPY,
                numeric=numeric_model(mechanism, 5),
                analysis=analysis,
                runs=runs,
            )
        )
        for runs in (1, 9)
    ]
    assert mus[1] == pytest.approx(3 * mus[0], rel=1e-12)


def test_a_seeded_release_does_not_count() -> None:
    seeded = certificate(source=NoiseSource.USER_SEED)
    with pytest.raises(InvalidParameterError, match="promises nothing"):
        releases.curve(seeded)
    assert issubclass(InvalidParameterError, db.DpbraidError)
