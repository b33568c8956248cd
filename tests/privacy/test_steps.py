"""Conditions, closed on failure: each missing one is an error that helps.

It names the step or epoch, the number, the limit, what to change, and the analyses
that still hold.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import ANALYSES, PrivacyAssumptionError, account, calibrate, steps
from tests.privacy.instances import clipped

FULL = {"composition", "hidden_state", "paper", "secret_order"}


def refusal(mechanism: db.Mechanism, analysis: str) -> PrivacyAssumptionError:
    with pytest.raises(PrivacyAssumptionError) as caught:
        account(mechanism, analysis)
    error = caught.value
    # what it says still holds does, and nothing else does
    assert error.valid is not None
    for name in ANALYSES:
        if name in error.valid:
            account(mechanism, name)
        else:
            with pytest.raises(PrivacyAssumptionError):
                account(mechanism, name)
    assert all(repr(name) in str(error) for name in error.valid)
    with pytest.raises(PrivacyAssumptionError):
        calibrate(mechanism, epsilon=1, delta=1e-6, analysis=analysis)
    return error


HALF: list[tuple[int, float]] = [(4, 2.0)] * 3
CASES: dict[str, tuple[db.Mechanism, str, tuple[str, ...], set[str]]] = {
    "learning rate of private steps": (
        clipped(8, [(8, 2.0)] * 3, rates=[1.0, 8.5, 1.0]),
        "hidden_state",
        (
            "private steps of epoch 2",
            "learning_rate 8.5",
            "limit 2/L = 8",
            "L = 0.25 from row_norm=1.0",
            "lower learning_rate to 8.0 or less",
        ),
        {"composition", "paper", "secret_order"},
    ),
    "learning rate of public steps": (
        clipped(8, HALF, public_row_norm=3.0),
        "hidden_state",
        ("public steps of epoch 1", "learning_rate 1 ", "2/L = 0.888889", "public_row"),
        {"composition", "secret_order"},
    ),
    "the lemma of the paper": (
        clipped(8, HALF, public_row_norm=3.0),
        "paper",
        ("public steps of epoch 1", "to count m=5 noisy steps"),
        {"composition", "secret_order"},
    ),
    "no bound on rows": (
        clipped(8, HALF, row_norm=None),
        "hidden_state",
        ("smoothness of loss 'logistic' has no bound at row_norm=None", "set row_norm"),
        {"composition", "secret_order"},
    ),
    "a bound beyond all numbers": (
        clipped(8, HALF, row_norm=1e200),
        "hidden_state",
        ("has no bound at row_norm=1e+200",),
        {"composition", "secret_order"},
    ),
    "minibatches in the paper": (
        clipped(8, HALF, batch_size=2),
        "paper",
        ("batch_size is 2", "one row a step", "set batch_size to 1"),
        {"composition", "hidden_state", "secret_order"},
    ),
    "placement for the paper": (
        clipped(8, HALF, placement="epoch_end"),
        "paper",
        ("placement of epoch 1 is 'epoch_end'", "set placement to 'every_step'"),
        {"composition", "epoch_end", "hidden_state", "secret_order"},
    ),
    "placement for epoch_end": (
        clipped(8, [(0, 0.0), *HALF]),
        "epoch_end",
        ("placement of epoch 2 is 'every_step'", "set placement to 'epoch_end'"),
        FULL,
    ),
    "private steps before epoch-end noise": (
        clipped(8, HALF, placement="epoch_end", rates=[1.0, 1.0, 9.0]),
        "epoch_end",
        ("private steps of epoch 3", "carries every use to the one noise", "9"),
        {"composition", "secret_order"},
    ),
    "an order that is known": (
        clipped(8, HALF, order=db.Incremental()),
        "secret_order",
        ("order 'incremental' is not a uniform permutation", "use Reshuffle()"),
        {"composition", "hidden_state", "paper"},
    ),
    "an unbounded gradient": (
        clipped(8, HALF, loss=db.Squared(), clip_norm=1.0),
        "",
        (),
        set(),
    ),
}
CASES["an unbounded gradient"] = (
    replace(CASES["an unbounded gradient"][0], clip_norm=None),
    "composition",
    ("clip_norm is None and loss 'squared' has no bound", "set clip_norm"),
    set(),
)


@pytest.mark.parametrize("case", CASES)
def test_a_missing_condition_is_named(case: str) -> None:
    mechanism, analysis, parts, valid = CASES[case]
    error = refusal(mechanism, analysis)
    for part in parts:
        assert part in str(error), str(error)
    assert set(error.valid or ()) == valid


def test_a_loss_without_a_proof_for_clipped_steps() -> None:
    """7.2: clipping destroys nonexpansiveness in general; a loss has to claim it."""

    class Unproved(db.Logistic):
        clipped_steps_nonexpansive = False

    mechanism = clipped(8, HALF)
    object.__setattr__(mechanism, "loss", Unproved())
    error = refusal(mechanism, "hidden_state")
    assert "no proof that a clipped step on loss 'logistic'" in str(error)
    assert set(error.valid or ()) == {"composition", "secret_order"}
    assert account(replace(mechanism, clip_norm=None), "hidden_state").mu is not None


def test_clipping_is_not_nonexpansive_in_general() -> None:
    """The counter-example of 7.2, which is why a claim is asked for."""
    H = np.diag([1.0, 10.0])
    x, y = np.array([0.82, 0.10]), np.array([0.765, 0.072])

    def step(z: np.ndarray, eta: float) -> np.ndarray:
        gradient = H @ z
        return z - eta * gradient / max(1.0, float(np.linalg.norm(gradient)))

    for eta, ratio in ((0.01, 1.0073), (0.05, 1.040), (0.1, 1.089), (0.2, 1.208)):
        found = np.linalg.norm(step(x, eta) - step(y, eta)) / np.linalg.norm(x - y)
        assert found == pytest.approx(ratio, abs=6e-4)


@settings(max_examples=300)
@given(
    st.sampled_from(
        [db.Squared(), db.Logistic(), db.Huber(0.3), db.SmoothedHinge(0.1)]
    ),
    st.floats(1e-3, 1e3),
    st.integers(-3, 3),
)
def test_the_limit_is_closed_in_exact_arithmetic(
    loss: Any, row_norm: float, ulps: int
) -> None:
    """What is accepted has eta L <= 2 in rationals, for rows as `Rows` leaves them."""
    eta = 2 / loss.smoothness(row_norm)
    for _ in range(abs(ulps)):
        eta = math.nextafter(eta, math.inf if ulps > 0 else 0)
    mechanism = clipped(
        4, [(4, 2.0)] * 2, loss=loss, row_norm=row_norm, rates=[eta] * 2
    )
    if eta * loss.smoothness(row_norm) > 2:
        error = refusal(mechanism, "hidden_state")
        assert "above its limit" in error.problem
        # the remedy works
        limit = float(error.remedy.split("lower learning_rate to ")[1].split()[0])
        lower = clipped(
            4, [(4, 2.0)] * 2, loss=loss, row_norm=row_norm, rates=[limit] * 2
        )
        account(lower, "hidden_state")
        assert limit < eta
        return
    account(mechanism, "hidden_state")
    radius = Fraction(row_norm) * (1 - Fraction(1, 10**12)) * (1 + Fraction(1, 10**14))
    assert Fraction(eta) * Fraction(loss.curvature) * radius**2 <= 2
    norms = np.linalg.norm(db.Rows.bounded(np.full((1, 3), 1e6), row_norm=row_norm).X)
    assert Fraction(float(norms)) <= radius


def test_uncertified_steps_where_nothing_depends_on_them() -> None:
    """Before the first use, and after the last noise, any step will do."""
    before = db.Epoch(0, 8, 100.0, 0.0)
    after = db.Epoch(0, 8, 100.0, 0.0)
    base = clipped(8, [(8, 2.0)] * 2)
    wild = replace(base, epochs=(before, *base.epochs, after))
    assert account(wild, "hidden_state").mu == pytest.approx(
        account(base, "hidden_state").mu, rel=1e-12
    )
    between = replace(base, epochs=(base.epochs[0], before, base.epochs[1]))
    assert "public steps of epoch 2" in str(refusal(between, "hidden_state"))
    # noise in the last epoch makes its public steps matter
    noisy = replace(base, epochs=(*base.epochs, replace(after, noise_std=1.0)))
    assert "public steps of epoch 3" in str(refusal(noisy, "hidden_state"))
    # the one private step of the first epoch is the first use: nothing before it
    single = clipped(8, [(1, 2.0)], rates=[100.0], placement="epoch_end")
    assert account(single, "hidden_state").mu == pytest.approx(1, rel=1e-12)
    twice = replace(single, epochs=single.epochs * 2)
    assert "private steps of epoch 1" in str(refusal(twice, "hidden_state"))


def test_contraction_of_a_short_batch() -> None:
    """A batch of r rows divides by b: it averages in b - r identities."""
    epoch = db.Epoch(5, 0, 0.4, 1.0)
    mechanism = db.Mechanism(
        n=5, epochs=(epoch,), loss=db.Mean(), row_norm=1.0, batch_size=3
    )
    ((_, read),) = steps.read(mechanism).runs
    assert read.private_steps == 2
    assert read.private_rate.contraction == pytest.approx(0.6)
    assert read.private_rate.last == pytest.approx((2 * 0.6 + 1) / 3)
    # the real map of that batch: x - eta (1/b) sum over 2 rows of (x - q)
    assert read.private_rate.last == pytest.approx(1 - 0.4 * 2 / 3)
    assert read.shift == pytest.approx(0.4 * 2 / 3)


@pytest.mark.parametrize(
    "order", [db.Incremental(), db.ShuffleBuffer(3), db.Reshuffle()]
)
def test_every_analysis_but_the_secret_one_ignores_the_order(order: db.Order) -> None:
    for name in ("paper", "composition", "hidden_state"):
        base = account(clipped(8, HALF, order=db.Incremental()), name)
        found = account(clipped(8, HALF, order=order), name)
        assert found.delta(1.0) == base.delta(1.0)


def test_the_bound_on_public_rows_never_changes_the_shift() -> None:
    """7.4: only the private rows' gradients count, G* = max(G, G~) is not needed."""
    base = replace(clipped(8, HALF), clip_norm=None)
    wide = replace(base, public_row_norm=2.5)
    assert account(wide, "hidden_state").mu == account(base, "hidden_state").mu


def test_no_module_of_the_accountant_knows_of_rows() -> None:
    """What reads no data can say nothing about it."""
    folder = Path(steps.__file__).parent
    for path in folder.glob("*.py"):
        assert "dpbraid.rows" not in path.read_text(), path.name
