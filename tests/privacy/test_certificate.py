"""Certificates: lossless files, an honest page, and `verify` sees every change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import dpbraid as db
from dpbraid.numeric import numeric_model
from dpbraid.privacy import calibrate, independent
from dpbraid.privacy import verify as verification
from dpbraid.privacy.certificate import Certificate, certify
from dpbraid.privacy.profile import GaussianCurve, PrivacyProfile
from dpbraid.privacy.verify import verify
from dpbraid.release import NoiseSource

COMMON: dict[str, Any] = {
    "loss": db.Logistic(),
    "penalty": db.Lasso(0.1),
    "clip_norm": 1.0,
    "row_norm": 1.0,
    "learning_rate": 0.1,
}
CASES: dict[str, Callable[[], tuple[db.Mechanism, str]]] = {
    "paper": lambda: (
        db.interleaved(60, 10, private_fraction=0.5, **COMMON),
        "paper",
    ),
    "composition": lambda: (
        db.pub_priv(60, 10, private_fraction=0.5, **COMMON),
        "composition",
    ),
    "hidden_state": lambda: (db.dp(60, 10, **COMMON), "hidden_state"),
    "epoch_end": lambda: (db.dp(60, 10, placement="epoch_end", **COMMON), "epoch_end"),
    "secret_order_once": lambda: (
        db.interleaved(60, 10, private_fraction=0.5, order=db.ShuffleOnce(), **COMMON),
        "secret_order",
    ),
    "secret_order_fresh": lambda: (
        db.interleaved(60, 10, private_fraction=0.5, placement="epoch_end", **COMMON),
        "secret_order",
    ),
    "ridge": lambda: (
        db.dp(60, 10, placement="epoch_end", **{**COMMON, "penalty": db.Ridge(0.2)}),
        "hidden_state",
    ),
}


def certificate(
    case: str = "epoch_end", source: NoiseSource = NoiseSource.OS_ENTROPY
) -> Certificate:
    mechanism, analysis = CASES[case]()
    mechanism = calibrate(mechanism, epsilon=2, delta=1e-6, analysis=analysis)
    return certify(
        mechanism,
        delta=1e-6,
        noise_source=source,
        numeric=numeric_model(mechanism, 7),
        analysis=analysis,
    )


@pytest.mark.parametrize("case", CASES)
def test_a_certificate_verifies_and_survives_its_file(case: str) -> None:
    made = certificate(case)
    assert Certificate.loads(made.dumps()) == made
    assert made.is_private
    assert made.epsilon == pytest.approx(2, rel=1e-4)
    failed = [check for check in verify(made) if not check.holds]
    assert failed == []


def test_rounding_is_paid_for() -> None:
    """Epoch-end noise is on a grid: the promise is a hair weaker than the target."""
    made = certificate("epoch_end")
    assert made.numeric.grid is not None
    assert made.numeric.noise_loss > 0
    assert made.epsilon is not None
    assert made.epsilon > 2


@pytest.mark.parametrize("case", ["hidden_state", "epoch_end", "secret_order_fresh"])
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("epsilon", lambda c: replace(c, epsilon=c.epsilon * 0.999)),
        ("epsilon", lambda c: replace(c, delta=c.delta * 0.99)),
        ("epsilon", lambda c: replace(c, mechanism=c.mechanism.with_noise(0.999))),
        ("assumptions", lambda c: replace(c, assumptions=c.assumptions[1:])),
        ("declarations", lambda c: replace(c, declarations=())),
        ("noise_source", lambda c: replace(c, noise_source=NoiseSource.USER_SEED)),
        (
            "numeric",
            lambda c: replace(c, numeric=replace(c.numeric, noise_loss=1e-12)),
        ),
        (
            "assumptions",
            lambda c: replace(
                c,
                mechanism=replace(
                    c.mechanism,
                    epochs=tuple(
                        replace(e, learning_rate=8.1) for e in c.mechanism.epochs
                    ),
                ),
            ),
        ),
    ],
    ids=[
        "epsilon",
        "delta",
        "noise",
        "assumptions",
        "declarations",
        "seed",
        "rounding",
        "learning rate",
    ],
)
def test_verify_sees_a_change(
    case: str, field: str, change: Callable[[Certificate], Certificate]
) -> None:
    checks = {c.field: c.holds for c in verify(change(certificate(case)))}
    assert not checks[field]


def test_a_smaller_mu_is_seen() -> None:
    made = certificate("hidden_state")
    assert made.mu is not None
    checks = {c.field: c.holds for c in verify(replace(made, mu=made.mu * 0.999))}
    assert not checks["mu"]
    assert checks["epsilon"]


@pytest.mark.parametrize("case", ["composition", "hidden_state", "epoch_end", "ridge"])
def test_mu_is_checked_by_the_second_route_too(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first route that says half of mu is found out."""
    made = certificate(case)
    assert made.mu is not None
    honest = verification.guarantee(made.accounted, made.analysis, 1)

    def wrong(*_: object) -> PrivacyProfile:
        return replace(honest, curve=GaussianCurve(0.5 * made.mu))

    monkeypatch.setattr(verification, "guarantee", wrong)
    half = replace(made, mu=0.5 * made.mu)
    checks = {c.field: c for c in verify(half)}
    assert not checks["mu"].holds
    second = independent.recheck_mu(made.accounted, made.analysis)
    assert second == pytest.approx(made.mu, rel=1e-9)


def test_a_mu_where_the_analysis_has_none_is_seen() -> None:
    for case in ("paper", "secret_order_fresh"):
        checks = {c.field: c for c in verify(replace(certificate(case), mu=1e9))}
        assert not checks["mu"].holds


def test_a_seeded_run_is_never_certified() -> None:
    made = certificate(source=NoiseSource.USER_SEED)
    assert not made.is_private
    assert made.epsilon is None
    assert made.mu is None
    assert "NOT CERTIFIED" in made.text()
    assert "reproducible, not private" in made.text()
    assert Certificate.loads(made.dumps()) == made
    assert not all(check.holds for check in verify(made))


def test_the_page_says_everything_in_order() -> None:
    made = certificate()
    page = made.text()
    places = [page.index(f"\n{k}. ") for k in range(1, 8)]
    assert places == sorted(places)
    for needed in (
        "by the analysis 'epoch_end'",
        "one private row is replaced",
        "n = 60 private rows",
        "learning_rate <= 2/L",
        "exactly rounded Gaussian",
        "not checked by the software",
        "dpbraid 0.1.0",
    ):
        assert needed in " ".join(page.split()), needed
    assert all(len(line) <= 88 for line in page.splitlines())


def test_the_page_rounds_up() -> None:
    made = replace(certificate(), epsilon=2.0000001, mu=0.5)
    assert "(2.00001, 1e-06)-differential privacy; in full, 0.5-Gaussian" in " ".join(
        made.text().split()
    )


def test_a_given_start_is_declared() -> None:
    mechanism = db.dp(9, 2, start=db.Given(3), placement="epoch_end", **COMMON)
    made = certify(
        mechanism,
        delta=1e-6,
        noise_source=NoiseSource.OS_ENTROPY,
        numeric=numeric_model(mechanism, 2),
    )
    assert any("start point (norm at most 3)" in text for text in made.declarations)
    silent = replace(made, declarations=made.declarations[:1])
    assert {c.field for c in verify(silent) if not c.holds} == {"declarations"}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema",), "dpbraid.certificate/9", "schema must be"),
        (("guarantee", "adjacency"), "add one row", "adjacency must read"),
        (("guarantee", "released"), "all iterates", "released must read"),
        (("guarantee", "delta"), 2, "delta must be a number strictly between"),
        (("guarantee", "epsilon"), "1", "epsilon must be a finite number"),
        (("noise_source",), "dice", "noise_source must be one of"),
        (("numeric", "dimension"), 0, "dimension must be an integer in"),
        (("numeric", "noise_loss"), -1, "noise_loss must be a finite number >= 0"),
        (("assumptions",), {}, "assumptions must be a JSON list"),
        (("versions",), [], "versions must be a JSON object"),
        (("mechanism", "n"), 0, "n must be an integer in"),
        (("declarations",), [3], "declaration must be a text"),
    ],
)
def test_a_bad_file_is_one_sentence(
    path: tuple[str, ...], value: object, message: str
) -> None:
    data = certificate().to_json()
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(db.InvalidParameterError, match=message):
        Certificate.loads(json.dumps(data))
