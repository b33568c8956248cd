"""The audit as an object: what it runs on, its budget, its files, its verdicts."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dpbraid as db
from dpbraid.audit import attack, audit, claim, neighbours, one_run
from dpbraid.engine import inputs
from dpbraid.numeric import numeric_model
from dpbraid.privacy import PrivacyAssumptionError, calibrate, gaussian_epsilon
from dpbraid.privacy.certificate import Certificate, certify
from dpbraid.release import NoiseSource
from tests.strategies import mechanisms

FULL = os.environ.get("DPBRAID_FULL") == "1"
SMALL = db.dp(
    4,
    2,
    loss=db.Squared(),
    clip_norm=1.0,
    row_norm=1.0,
    learning_rate=0.1,
    noise_std=1.0,
    placement="epoch_end",
    order=db.Incremental(),
)


def certificate(mechanism: db.Mechanism, d: int = 2) -> Certificate:
    return certify(
        mechanism,
        delta=1e-6,
        noise_source=NoiseSource.OS_ENTROPY,
        numeric=numeric_model(mechanism, d),
    )


@settings(max_examples=60)
@given(mechanisms())
def test_every_pair_fits_the_mechanism_and_differs_in_one_row(
    mechanism: db.Mechanism,
) -> None:
    if not any(e.private_rows for e in mechanism.epochs):
        with pytest.raises(db.InvalidParameterError, match="no private row"):
            neighbours(mechanism, 2, rng=np.random.default_rng(0))
        return
    for d in (1, 3):
        found = neighbours(mechanism, d, rng=np.random.default_rng(0))
        assert len({pair.name for pair in found}) == len(found)
        for pair in found:
            for side in (pair.left, pair.right):
                inputs.check(mechanism, side, pair.public)
                assert side.dimension == d
            same = np.all(pair.left.X == pair.right.X, axis=1)
            if pair.left.y is not None and pair.right.y is not None:
                same &= pair.left.y == pair.right.y
            assert np.sum(~same) == 1
            assert pair.direction is not None
            assert np.linalg.norm(pair.direction) == pytest.approx(1)


@settings(max_examples=12)
@given(mechanisms())
def test_any_mechanism_is_audited_or_refused(mechanism: db.Mechanism) -> None:
    """True claims: one of these fails with probability 1e-9."""
    try:
        found = audit(mechanism, runs=20, confidence=1 - 1e-9)
    except (PrivacyAssumptionError, db.InvalidParameterError):
        return  # no claim, no private row, or too little noise for float64
    assert found.holds
    assert json.dumps(found.to_json(), allow_nan=False)
    assert found.table


def test_a_diverged_release_is_told_apart_like_any_other() -> None:
    """Without noise, at a rate that expands: iterates of 1e289, and no guarantee."""
    mechanism = db.dp(
        16, 20, loss=db.Mean(), row_norm=1.0, learning_rate=9.0, noise_std=0.0
    )
    found = audit(mechanism, runs=20, analysis="composition")
    assert found.claim.epsilon == math.inf
    assert found.evidence.mu > 0.5
    assert found.holds


def test_the_gradients_of_a_linear_pair_are_twice_the_clip_norm_apart() -> None:
    for loss in (db.Mean(), db.Squared(), db.Logistic(), db.Huber(2.0)):
        mechanism = replace(SMALL, loss=loss, clip_norm=0.4)
        pair = neighbours(mechanism, 2, rng=np.random.default_rng(0))[0]
        assert pair.name == "linear"
        for x in (np.zeros(2), np.array([0.1, -0.1])):
            a, b = (
                loss.gradients(
                    x, side.X[-1:], None if side.y is None else side.y[-1:], 0.4
                )
                for side in (pair.left, pair.right)
            )
            assert np.linalg.norm(a - b) == pytest.approx(0.8, rel=1e-2)


def test_the_same_seed_gives_the_same_audit() -> None:
    first, again, other = (audit(SMALL, runs=50, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.evidence.left, again.evidence.left)
    assert first.evidence.mu == again.evidence.mu
    assert not np.array_equal(first.evidence.left, other.evidence.left)
    # no two runs share their noise
    scores = np.concatenate((first.evidence.left, first.evidence.right))
    assert len(np.unique(scores)) == len(scores)


@pytest.mark.slow
def test_a_default_audit_of_a_logistic_model_takes_less_than_a_minute() -> None:
    """The size of the Crime data. Reduced: a tenth of all, untimed."""
    n, epochs = (2103, 56) if FULL else (210, 6)
    mechanism = db.dp(
        n,
        epochs,
        loss=db.Logistic(),
        penalty=db.Ridge(5e-4),
        clip_norm=2.0,
        row_norm=3.2,
        learning_rate=0.2,
        noise_std=0.06,
        batch_size=n,
        placement="epoch_end",
    )
    model = certificate(mechanism, 11)
    audit(model, runs=2)  # compiles
    began = time.monotonic()
    found = audit(model) if FULL else audit(model, runs=100)
    assert found.holds
    assert found.evidence.runs == (1000 if FULL else 100)
    assert not FULL or time.monotonic() - began < 60


def test_a_budget_of_time_is_kept_and_the_runs_so_far_count() -> None:
    seen: list[tuple[int, int]] = []
    audit(SMALL, runs=10)  # compiles
    began = time.monotonic()
    found = audit(
        SMALL,
        runs=10**6,
        seconds=1.0,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert time.monotonic() - began < 4
    assert 2 <= found.evidence.runs < 10**6
    assert len(found.evidence.left) == len(found.evidence.right) == found.evidence.runs
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(done <= total for done, total in seen)


def test_long_runs_in_threads_give_the_same_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = audit(SMALL, runs=60)
    monkeypatch.setattr(attack, "_LONG_RUN", 0.0)
    shared = audit(SMALL, runs=60)
    assert np.array_equal(alone.evidence.left, shared.evidence.left)
    assert np.array_equal(alone.evidence.right, shared.evidence.right)


def test_bounds_exceed_an_exact_claim_no_more_often_than_they_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole audits of releases N(+-mu/2, 1), claimed as what they are: mu-GDP.

    The pair, the direction and the thresholds are chosen from data as ever. Of what a
    bound may be wrong in, 4 standard errors are added; the fit is wrong as often as it
    says, no less either.
    """
    mu, confidence, audits = 1.5, 0.6, 300

    def release(_: Any, rows: db.Rows, *__: Any, seed: Any, **___: Any) -> Any:
        x = np.random.Generator(np.random.SFC64(seed)).standard_normal(2)
        x[1] += math.copysign(mu / 2, rows.X[-1, 1])
        return SimpleNamespace(x=x)

    monkeypatch.setattr(attack, "run", release)
    pairs = neighbours(SMALL, 2, rng=np.random.default_rng(0))[:2]
    wrong = dict.fromkeys(("mu", "epsilon", "both", "fit"), 0)
    for seed in range(audits):
        found = attack.gather(
            SMALL,
            runs=60,
            confidence=confidence,
            delta=0.2,
            pairs=pairs,
            seed=seed,
        )
        mu_wrong = found.mu > mu
        epsilon_wrong = found.epsilon > gaussian_epsilon(mu, 0.2)
        wrong["mu"] += mu_wrong
        wrong["epsilon"] += epsilon_wrong
        wrong["both"] += mu_wrong or epsilon_wrong
        wrong["fit"] += found.fitted_mu > mu
    with capsys.disabled():
        print(f"\nof {audits} audits of exact claims at {confidence}, wrong: {wrong}")
    for name, error in (("mu", 0.2), ("epsilon", 0.2), ("both", 0.4), ("fit", 0.4)):
        spread = 4 * math.sqrt(audits * error * (1 - error))
        assert wrong[name] <= audits * error + spread
        assert name != "fit" or wrong[name] >= audits * error - spread


def test_what_is_audited_is_the_claim() -> None:
    found = audit(SMALL, runs=400, analysis="hidden_state")
    assert found.claim == claim(SMALL, analysis="hidden_state")
    assert found.holds
    assert 0 < found.ratio < 1
    assert found.claimed_mu == found.claim.mu
    assert found.evidence.gaussian_epsilon < found.claim.epsilon
    for word in ("hidden_state", "Clopper-Pearson", "Gaussian fit", "holds", "linear"):
        assert word in found.table
    facts = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert facts["holds"]
    assert facts["lower_bounds"]["mu_threshold_test"] == found.evidence.mu
    assert db.Mechanism.from_json(facts["mechanism"]) == SMALL


def test_a_certificate_that_promises_too_much_is_refuted() -> None:
    honest = certificate(SMALL)
    assert audit(honest, runs=800).holds
    assert honest.mu is not None
    for lie in (replace(honest, mu=honest.mu / 3), replace(honest, epsilon=0.1)):
        found = audit(lie, runs=800, confidence=0.99)
        assert not found.holds
        assert "REFUTED" in found.table
        assert not found.to_json()["holds"]


def test_several_releases_are_attacked_together() -> None:
    """4 runs of a mu-GDP mechanism are 2 mu-GDP, and the auditor sees that much."""
    four = certify(
        SMALL,
        delta=1e-6,
        noise_source=NoiseSource.OS_ENTROPY,
        numeric=numeric_model(SMALL, 2),
        analysis="epoch_end",
        runs=4,
    )
    mu = claim(SMALL, analysis="epoch_end").mu
    assert mu is not None
    assert four.mu == pytest.approx(2 * mu)
    found = audit(replace(four, mu=1.2 * mu), runs=600, confidence=0.99)
    assert not found.holds
    assert audit(four, runs=100).holds
    assert one_run(four, canaries=2).holds


def test_a_secret_order_is_kept_and_a_known_one_is_used() -> None:
    """With one row of ten in an epoch, whoever knows the order sees far more."""
    secret = db.interleaved(
        10,
        4,
        private_fraction=0.1,
        loss=db.Squared(),
        clip_norm=1.0,
        row_norm=1.0,
        learning_rate=0.1,
        noise_std=1.0,
        placement="epoch_end",
    )
    hidden = audit(secret, runs=600, analysis="secret_order")
    assert hidden.claim.needs_secret_order
    assert hidden.claimed_mu > 0
    everybody = audit(secret, runs=600, analysis="epoch_end")
    assert hidden.holds
    assert everybody.holds
    assert everybody.evidence.mu > 2 * hidden.evidence.mu


def test_canaries_hide_in_public_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    X[:, 0] += 0.5
    public = db.Rows.bounded(X, np.sign(X[:, 0]), row_norm=1.0)
    mechanism = calibrate(
        db.interleaved(
            20,
            2,
            private_fraction=0.5,
            loss=db.Logistic(),
            clip_norm=0.4,
            row_norm=1.0,
            learning_rate=0.5,
        ),
        epsilon=8,
        delta=1e-6,
        analysis="hidden_state",
    )
    found = audit(
        mechanism, runs=100, dimension=3, public=public, analysis="hidden_state"
    )
    names = [pilot.neighbours for pilot in found.evidence.pilots]
    assert names[-2:] == ["random canary", "aligned canary"]
    assert found.holds
    with pytest.raises(db.InvalidParameterError, match="public must have 2 columns"):
        audit(mechanism, runs=10, public=public)


def test_a_mechanism_without_any_noise_claims_nothing_and_holds() -> None:
    found = audit(replace(SMALL, epochs=SMALL.with_noise(0).epochs), runs=40)
    assert found.holds
    assert found.to_json()["claim"]["epsilon"] is None
    assert found.ratio == 0.0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"runs": 1}, "runs must be an integer >= 2"),
        ({"confidence": 1.0}, "confidence must be a number strictly between"),
        ({"delta": 0.0}, "delta must be a number strictly between"),
        ({"dimension": 0}, "dimension must be an integer >= 1"),
        ({"seconds": -1}, "seconds must be a finite number > 0"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"analysis": "magic"}, "analysis must be one of"),
        ({"pairs": ()}, "pairs must hold at least one pair"),
    ],
)
def test_bad_arguments(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(db.InvalidParameterError, match=message):
        audit(SMALL, **argument)


# -- one run ---------------------------------------------------------------------------


def test_one_run_with_many_canaries() -> None:
    """200 coins in 200 columns; the lower bound stays below the claim and above 0."""
    mechanism = db.dp(
        200,
        2,
        loss=db.Squared(),
        clip_norm=1.0,
        row_norm=1.0,
        learning_rate=0.1,
        noise_std=1.0,
        placement="epoch_end",
    )
    found = one_run(mechanism, dimension=200)
    assert (found.canaries, found.runs) == (200, 1)
    assert found.guesses <= 200
    assert found.holds
    assert found.epsilon > 1
    several = one_run(mechanism, dimension=50, runs=4)
    assert several.canaries == 200
    assert several.holds
    crowded = one_run(mechanism, dimension=3, canaries=100)
    assert crowded.holds
    assert crowded.epsilon < found.epsilon
    assert json.loads(json.dumps(found.to_json()))["correct"] == found.correct
    assert "200 canaries" in found.table


def test_one_run_refutes_a_claim_that_is_far_too_small() -> None:
    mechanism = db.dp(
        200,
        1,
        loss=db.Huber(1.0),
        row_norm=1.0,
        learning_rate=0.1,
        noise_std=0.4,
        placement="epoch_end",
    )
    lie = replace(certificate(mechanism, 200), epsilon=1.0, mu=None)
    assert one_run(certificate(mechanism, 200)).holds
    assert not one_run(lie).holds


def test_one_run_with_public_rows_in_between() -> None:
    rng = np.random.default_rng(0)
    public = db.Rows.bounded(
        rng.standard_normal((9, 4)), rng.standard_normal(9), row_norm=1.0
    )
    mechanism = replace(SMALL, n=4)
    assert one_run(mechanism, dimension=4, canaries=2, public=public).canaries == 2
    with pytest.raises(db.InvalidParameterError, match="public must have 2 columns"):
        one_run(mechanism, dimension=2, public=public)
    with pytest.raises(db.InvalidParameterError, match="canaries must be an integer"):
        one_run(mechanism, canaries=5)
