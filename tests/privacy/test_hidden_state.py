"""hidden_state against the same run step by step, and its known answers."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import account, independent
from tests.privacy.instances import clipped
from tests.privacy.literal import accountable, last_steps, random_uses, walk


def hidden(mechanism: db.Mechanism) -> float:
    mu = account(mechanism, "hidden_state").mu
    assert mu is not None
    return mu


@settings(max_examples=400)
@given(accountable())
def test_equals_the_run_step_by_step(mechanism: db.Mechanism) -> None:
    """Mixed epochs, short batches, own rates and noise, contraction, domains."""
    if not any(e.private_rows for e in mechanism.epochs):
        return
    exact = walk(mechanism, last_steps(mechanism)).mu(mechanism.penalty.diameter)
    assert hidden(mechanism) == pytest.approx(exact, rel=1e-11, abs=1e-100)


@settings(max_examples=200)
@given(accountable(), st.floats(0.01, 1))
def test_a_narrow_domain_step_by_step(mechanism: db.Mechanism, radius: float) -> None:
    """So narrow that the cut counts, with what contracts between it and the noise."""
    if not any(e.private_rows for e in mechanism.epochs):
        return
    mechanism = replace(mechanism, penalty=db.Ball(radius))
    exact = walk(mechanism, last_steps(mechanism)).mu(2 * radius)
    assert hidden(mechanism) == pytest.approx(exact, rel=1e-11, abs=1e-100)


@settings(max_examples=300)
@given(accountable(), st.integers(0, 2**32))
def test_no_position_is_worse(mechanism: db.Mechanism, seed: int) -> None:
    """Random positions, and epochs that the row stays out of."""
    uses = random_uses(mechanism, np.random.default_rng(seed))
    other = walk(mechanism, uses).mu(mechanism.penalty.diameter)
    if any(e.private_rows for e in mechanism.epochs):
        # where contractions of 0 leave nothing, both are what underflow is rounded to
        assert other <= hidden(mechanism) * (1 + 1e-11) + 1e-100


@settings(max_examples=100)
@given(
    st.integers(1, 300),
    st.integers(1, 80),
    st.floats(0.05, 20),
    st.floats(0.1, 10),
    st.data(),
)
def test_closed_form(
    n: int, k: int, noise: float, clip_norm: float, data: st.DataObject
) -> None:
    """4.3: mu^2 = (4 G^2/sigma^2) ((K - 1)/n + 1/(n - n_d + 1))."""
    n_d = data.draw(st.integers(1, n))
    mechanism = clipped(n, [(n_d, noise)] * k, clip_norm=clip_norm)
    exact = 2 * clip_norm / noise * math.sqrt((k - 1) / n + 1 / (n - n_d + 1))
    assert 0 <= hidden(mechanism) / exact - 1 < 1e-12


def test_noisy_public_epochs_after_the_last_private_one() -> None:
    """4.3: the hull merges to one edge."""
    n, k, after, noise = 20, 5, 2, 3.0
    private, public = db.Epoch(n, 0, 1.0, noise), db.Epoch(0, n, 1.0, noise)
    mechanism = replace(
        clipped(n, [(n, noise)]), epochs=(private,) * k + (public,) * after
    )
    mu2 = (2 * k / noise) ** 2 / ((k - 1) * n + 1 + n * after)
    assert hidden(mechanism) ** 2 == pytest.approx(mu2, rel=1e-12)


def test_an_idle_epoch_between_two_others_hides_nothing() -> None:
    """Regression: it merged the edges on both sides, and mu came out 5 times less."""
    base = clipped(4, [(4, 10.0), (0, 0.0), (4, 1.0)], placement="epoch_end")
    base = replace(base, clip_norm=0.5)
    assert hidden(base) ** 2 == pytest.approx(1 / 100 + 1, rel=1e-12)
    assert hidden(base) == pytest.approx(account(base, "composition").mu, rel=1e-12)
    # and with a contracting penalty, which takes another way through the code
    ridge = replace(base, penalty=db.Ridge(1e-9))
    assert hidden(ridge) ** 2 == pytest.approx(1 / 100 + 1, rel=1e-6)


def test_post_processing_never_underflows_to_nothing() -> None:
    """Regression: 3000 contracting public steps after the noise gave mu = 0."""
    epoch = db.Epoch(4, 3000, 0.5, 1.0, db.Placement.EPOCH_END)
    mechanism = db.Mechanism(n=4, epochs=(epoch,), loss=db.Mean(), row_norm=1.0)
    assert hidden(mechanism) == pytest.approx(2, rel=1e-10)
    assert independent.recheck(mechanism, "hidden_state", 1.0) == pytest.approx(
        account(mechanism, "hidden_state").delta(1.0), rel=1e-6
    )
    # later epochs too, by their steps or by their penalty
    later = replace(
        mechanism,
        epochs=(replace(epoch, public_rows=0), db.Epoch(0, 4, 0.5, 0.0)) * 1
        + (db.Epoch(0, 4, 0.5, 0.0),) * 600,
        penalty=db.Ridge(2.0),
    )
    assert hidden(later) == pytest.approx(2, rel=1e-10)


def test_contraction_and_domain_only_help() -> None:
    base = clipped(10, [(10, 3.0)] * 6)
    mus = [hidden(replace(base, penalty=p)) for p in (db.NoPenalty(), db.Lasso(0.1))]
    assert mus[0] == mus[1]
    slack = 1 + 1e-12
    for radius in (5.0, 1.0, 0.1, 0.01):
        mus.append(hidden(replace(base, penalty=db.Ball(radius))))
    for weight in (0.001, 0.01, 0.1):
        mus.append(hidden(replace(base, penalty=db.Ridge(weight))))
    domains, ridges = mus[1:6], [mus[0], *mus[6:]]
    for row in (domains, ridges):
        assert all(b <= a * slack for a, b in pairwise(row))
        assert row[-1] < row[0] * 0.999


def test_clipping_takes_the_contraction_of_the_loss_away() -> None:
    """Unclipped means contract by 1 - eta; a clipped one is only nonexpansive (4.4)."""
    free = replace(clipped(10, [(5, 3.0)] * 6), loss=db.Mean(), clip_norm=None)
    free = replace(
        free, epochs=tuple(replace(e, learning_rate=0.1) for e in free.epochs)
    )
    cut = replace(free, clip_norm=1.0)  # the same sensitivity: 2 C = 2 R
    assert hidden(free) < hidden(cut)
    assert hidden(cut) == hidden(replace(cut, loss=db.Logistic()))


def test_released_noise_step_by_step() -> None:
    """released_std is the noise of the last iterate if all maps contract exactly."""
    penalties = (db.NoPenalty(), db.Ridge(0.3))
    for penalty in penalties:
        for clip_norm in (None, 1.0):
            mechanism = db.Mechanism(
                n=7,
                epochs=(
                    db.Epoch(7, 2, 0.3, 1.0),
                    db.Epoch(0, 3, 0.2, 0.5),
                    db.Epoch(5, 4, 0.1, 2.0, db.Placement.EPOCH_END),
                    db.Epoch(5, 4, 0.1, 2.0, db.Placement.EPOCH_END),
                    db.Epoch(0, 3, 0.2, 0.0),
                ),
                loss=db.Mean(),
                penalty=penalty,
                row_norm=1.0,
                clip_norm=clip_norm,
                batch_size=3,
            )
            steps = walk(mechanism, last_steps(mechanism))
            variance = 0.0
            for noise, factor in zip(steps.noise, steps.factors, strict=True):
                variance = variance * factor**2 + noise**2
            for name in ("hidden_state", "composition"):
                assert account(mechanism, name).released_std == pytest.approx(
                    math.sqrt(variance), rel=1e-12
                )


@settings(max_examples=100)
@given(accountable(placements=["epoch_end"], quiet=False))
def test_epoch_end_noise_needs_no_hidden_state(mechanism: db.Mechanism) -> None:
    """Equal ratios: hidden_state adds nothing; else it can only help (6.1)."""
    composed = account(mechanism, "epoch_end").mu
    assert composed is not None
    if any(e.private_rows for e in mechanism.epochs):
        assert hidden(mechanism) <= composed * (1 + 1e-12)
