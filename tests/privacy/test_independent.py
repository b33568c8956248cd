"""The two routes to a guarantee agree on any mechanism, from both sides."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

import dpbraid as db
from dpbraid.privacy import ANALYSES, PrivacyAssumptionError, gaussian, independent
from tests.privacy.instances import clipped
from tests.privacy.literal import accountable
from tests.strategies import mechanisms

FULL = os.environ.get("DPBRAID_FULL") == "1"


def agree(mechanism: db.Mechanism) -> None:
    """Every analysis: above the second route, and with one theorem equal to it."""
    for name in ANALYSES:
        try:
            profile = db.account(mechanism, name)
        except PrivacyAssumptionError:
            with pytest.raises(PrivacyAssumptionError):
                independent.recheck(mechanism, name, 1.0)
            continue
        for epsilon in (0.0, 0.7, 3.0):
            first = profile.delta(epsilon)
            limit = first * (1 + 1e-6) + 1e-14
            target = limit if name == "secret_order" else 0.0
            second = independent.recheck(mechanism, name, epsilon, target=target)
            assert second <= limit, name
            if name != "secret_order":
                assert first <= second * (1 + 1e-6) + 1e-14, name


@settings(max_examples=1500 if FULL else 80)
@given(mechanisms())
def test_on_any_mechanism(mechanism: db.Mechanism) -> None:
    agree(mechanism)


@settings(max_examples=1500 if FULL else 80)
@given(accountable())
def test_on_mechanisms_that_hold(mechanism: db.Mechanism) -> None:
    agree(mechanism)


def test_divergence_by_quadrature() -> None:
    for epsilon in (0.0, 0.1, 1.0, 10.0, 300.0):
        for mu in (1e-4, 0.1, 1.0, 5.0, 30.0):
            exact = gaussian.gaussian_delta(epsilon, mu)
            if exact > 1e-290:
                found = independent.gaussian_divergence(epsilon, mu)
                assert found == pytest.approx(exact, rel=1e-8)
    assert independent.gaussian_divergence(1, 0) == 0
    assert independent.gaussian_divergence(1, float("inf")) == 1


def test_epochs_that_differ_compose_in_the_second_route() -> None:
    """Regression: a small and a large grid of dp-accounting did not go together."""
    mechanism = clipped(
        3, [(1, 0.5), (1, 0.5), (2, 9.0)], rates=[0.01, 0.1, 1.0], row_norm=None
    )
    first = db.account(mechanism, "secret_order").delta(1.0)
    second = independent.recheck(mechanism, "secret_order", 1.0)
    assert first * 0.98 < second <= first * (1 + 1e-6)


def test_an_unknown_analysis_is_not_rechecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANALYSES, "new", ANALYSES["composition"])
    with pytest.raises(db.InvalidParameterError, match="to be checked by a second"):
        independent.recheck(clipped(4, [(4, 1.0)]), "new", 1.0)
