"""Mechanism: equality, printing, files, the named schedules and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import dpbraid as db
from tests.strategies import mechanisms

COMMON: dict[str, Any] = {"loss": db.Squared(), "learning_rate": 0.1}


def pattern(mechanism: db.Mechanism) -> list[tuple[int, int]]:
    return [(e.private_rows, e.public_rows) for e in mechanism.epochs]


@given(mechanisms())
def test_json_goes_both_ways(mechanism: db.Mechanism) -> None:
    again = db.Mechanism.loads(mechanism.dumps())
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert repr(again) == repr(mechanism)


@given(mechanisms(), mechanisms())
def test_equal_if_and_only_if_they_print_the_same(
    one: db.Mechanism, other: db.Mechanism
) -> None:
    assert (one == other) == (repr(one) == repr(other))


def test_numpy_numbers_make_the_same_mechanism() -> None:
    def make(integer: Any, number: Any) -> db.Mechanism:
        return db.Mechanism(
            n=integer(4),
            epochs=(db.Epoch(integer(2), integer(1), number(1), number(2)),),
            loss=db.Huber(number(1)),
            penalty=db.Ridge(number(2)),
            clip_norm=number(3),
        )

    reference = make(int, float)
    for integer, number in ((np.int64, np.float64), (np.int8, int)):
        made = make(integer, number)
        assert made == reference
        assert repr(made) == repr(reference)
        assert made.dumps() == reference.dumps()


def test_small_numpy_integers_do_not_wrap_around() -> None:
    one = db.Epoch(np.uint8(200), np.uint8(56), 0.1, 0.0)
    assert one.rows == 256
    made = db.alternating(np.int8(100), np.int8(120), private_fraction=0.5, **COMMON)
    assert made == db.alternating(100, 120, private_fraction=0.5, **COMMON)
    half = np.float16(0.5)  # half of 200 000 is beyond float16
    assert db.interleaved(200_000, 1, private_fraction=half, **COMMON).epochs[
        0
    ] == db.Epoch(100_000, 100_000, 0.1, 1.0)


def test_a_zero_has_no_sign() -> None:
    plus, minus = (db.dp(3, 2, noise_std=z, **COMMON) for z in (0.0, -0.0))
    assert repr(plus) == repr(minus)
    assert plus.dumps() == minus.dumps()


def test_repr_is_short_for_many_epochs() -> None:
    text = repr(db.priv_pub(100, 500, private_fraction=0.5, **COMMON))
    assert "250 * Epoch(private_rows=100, public_rows=0, " in text
    assert "250 * Epoch(private_rows=0, public_rows=100, " in text
    assert len(text) < 1000


def test_the_schema_is_checked() -> None:
    data = db.dp(3, 2, **COMMON).to_json()
    for change, message in (
        ({"schema": "dpbraid.mechanism/2"}, "schema must be 'dpbraid.mechanism/1'"),
        ({"surprise": 1}, "mechanism takes exactly the fields"),
        ({"epochs": []}, "epochs must hold 1 to"),
        ({"epochs": 3}, "epochs must be a list"),
        ({"epochs": [{"repeat": 10**9}]}, "epoch takes exactly the fields"),
        ({"loss": {"kind": "cubed"}}, "loss kind must be one of mean, squared"),
        ({"loss": {"kind": "huber"}}, "loss 'huber' takes exactly the fields"),
        ({"n": "three"}, r"n must be an integer in \[1, 9\d+\], got 'three'"),
        ({"clip_norm": 10**400}, "clip_norm must be a finite number > 0"),
    ):
        with pytest.raises(db.InvalidParameterError, match=message):
            db.Mechanism.from_json({**data, **change})
    huge = json.loads(json.dumps(data))
    huge["epochs"][0]["repeat"] = 10**9
    with pytest.raises(db.InvalidParameterError, match="repeat must be an integer in"):
        db.Mechanism.from_json(huge)
    with pytest.raises(db.InvalidParameterError, match="not a JSON text"):
        db.Mechanism.loads("{")
    with pytest.raises(db.InvalidParameterError, match="must be a JSON object"):
        db.Mechanism.loads("[]")


# -- schedules ---------------------------------------------------------------------


def test_patterns_of_the_schedules() -> None:
    assert pattern(db.dp(4, 2, **COMMON)) == [(4, 0)] * 2
    half: dict[str, Any] = {"private_fraction": 0.5, **COMMON}
    assert pattern(db.interleaved(4, 2, **half)) == [(2, 2)] * 2
    assert pattern(db.priv_pub(4, 4, **half)) == [(4, 0)] * 2 + [(0, 4)] * 2
    assert pattern(db.pub_priv(4, 4, **half)) == [(0, 4)] * 2 + [(4, 0)] * 2
    assert pattern(db.alternating(4, 4, **half)) == [(4, 0), (0, 4)] * 2
    assert pattern(db.public_only(4, 2, **COMMON)) == [(0, 4)] * 2
    assert pattern(db.nonprivate(4, 2, **COMMON)) == [(4, 0)] * 2


def test_private_epochs_are_spread_evenly_by_alternating() -> None:
    third = db.alternating(2, 6, private_fraction=1 / 3, **COMMON)
    assert [e.private_rows > 0 for e in third.epochs] == [1, 0, 0, 1, 0, 0]


def test_fractions_round_to_the_nearest_integer_halves_up() -> None:
    for fraction, n, rows in ((0.29, 100, 29), (0.5, 5, 3), (0.24, 5, 1), (0.7, 10, 7)):
        made = db.interleaved(n, 1, private_fraction=fraction, **COMMON)
        assert made.epochs[0].private_rows == rows
        private = [
            e
            for e in db.priv_pub(9, n, private_fraction=fraction, **COMMON).epochs
            if e.private_rows
        ]
        assert len(private) == rows


def test_schedules_collapse() -> None:
    whole: dict[str, Any] = {"private_fraction": 1, **COMMON}
    none: dict[str, Any] = {"private_fraction": 0, **COMMON}
    dp = db.dp(7, 5, **COMMON)
    for schedule in (db.interleaved, db.priv_pub, db.pub_priv, db.alternating):
        assert schedule(7, 5, **whole) == dp
    public = db.public_only(7, 5, **COMMON)
    for schedule in (db.interleaved, db.priv_pub, db.pub_priv, db.alternating):
        assert schedule(7, 5, **none) == public
    assert db.nonprivate(7, 5, **COMMON) == db.dp(7, 5, noise_std=0, **COMMON)
    assert db.nonprivate(7, 5, **COMMON) == dp.with_noise(0)


def test_only_epochs_with_private_rows_are_noisy() -> None:
    made = db.alternating(3, 4, noise_std=2, **COMMON)
    assert [e.noise_std for e in made.epochs] == [2, 0, 2, 0]
    assert [e.noise_std for e in made.with_noise(3).epochs] == [6, 0, 6, 0]


def test_a_rate_an_epoch() -> None:
    for rates in ([0.3, 0.2, 0.1], (0.3, 0.2, 0.1), np.array([0.3, 0.2, 0.1])):
        made = db.dp(3, 3, loss=db.Squared(), learning_rate=rates)
        assert [e.learning_rate for e in made.epochs] == [0.3, 0.2, 0.1]


def test_steps_and_prox_steps() -> None:
    m = db.Mechanism(
        n=7,
        epochs=(db.Epoch(7, 2, learning_rate=0.3, noise_std=1),),
        loss=db.Squared(),
        batch_size=3,
    )
    (epoch,) = m.epochs
    assert (m.private_steps(epoch), m.public_steps(epoch)) == (3, 1)
    assert m.prox_step(epoch) == pytest.approx(0.3 * 9 / 3)
    assert m.public_rows == 2


def test_walk_follows_order_and_public_window() -> None:
    m = db.Mechanism(
        n=3,
        epochs=(
            db.Epoch(2, 2, 0.1, 0.0, public_start=1),
            db.Epoch(3, 0, 0.1, 0.0),
        ),
        loss=db.Squared(),
        order=db.Incremental(),
    )
    first, second = m.walk(5, np.random.default_rng(0))
    assert first[1].tolist() == [0, 1]
    assert first[2].tolist() == [1, 2]
    assert second[1].tolist() == [0, 1, 2]
    assert second[2].tolist() == []


# -- errors ------------------------------------------------------------------------


def epoch(**change: Any) -> db.Epoch:
    fields: dict[str, Any] = {
        "private_rows": 2,
        "public_rows": 1,
        "learning_rate": 0.1,
        "noise_std": 1.0,
    }
    return db.Epoch(**{**fields, **change})


def mechanism(**change: Any) -> db.Mechanism:
    fields: dict[str, Any] = {"n": 4, "epochs": (epoch(),), "loss": db.Squared()}
    return db.Mechanism(**{**fields, **change})


def interleaved(**change: Any) -> db.Mechanism:
    fields: dict[str, Any] = {"n": 4, "epochs": 3, "private_fraction": 0.5, **COMMON}
    return db.interleaved(**{**fields, **change})


N = "n must be an integer in [1, 9223372036854775807]"
EPOCHS = "epochs must be an integer in [1, 1000000]"
RATE = "learning_rate must be a finite number > 0"


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (epoch, {"private_rows": -1}, "private_rows must be an integer >= 0, got -1"),
        (epoch, {"public_rows": 1.5}, "public_rows must be an integer >= 0, got 1.5"),
        (epoch, {"public_start": -2}, "public_start must be an integer >= 0, got -2"),
        (
            epoch,
            {"private_rows": 0, "public_rows": 0},
            "private_rows + public_rows must be >= 1 in every epoch, got 0",
        ),
        (
            epoch,
            {"learning_rate": 0},
            "learning_rate must be a finite number > 0, got 0",
        ),
        (
            epoch,
            {"noise_std": float("nan")},
            "noise_std must be a finite number >= 0, got nan",
        ),
        (epoch, {"noise_std": -1}, "noise_std must be a finite number >= 0, got -1"),
        (
            epoch,
            {"placement": "middle"},
            "placement must be one of 'every_step', 'epoch_end', got 'middle'",
        ),
        (
            epoch,
            {"private_rows": 0, "placement": "epoch_end"},
            "noise_std must be 0 in an epoch without private rows where placement is "
            "'epoch_end', got 1.0",
        ),
        (epoch, {"learning_rate": np.bool_(True)}, f"{RATE}, got True"),
        (epoch, {"learning_rate": "0.1"}, f"{RATE}, got '0.1'"),
        (epoch, {"learning_rate": np.float32("nan")}, f"{RATE}, got nan"),
        (epoch, {"learning_rate": Decimal("0.1")}, f"{RATE}, got Decimal('0.1')"),
        # positive, but zero as a float
        (
            epoch,
            {"learning_rate": Fraction(1, 10**400)},
            f"{RATE}, got Fraction(1, 1{'0' * 47}...",
        ),
        (
            epoch,
            {"learning_rate": 10**5000},
            f"{RATE}, got a number of more than 4300 digits",
        ),
        (
            epoch,
            {"public_rows": 2**63},
            "private_rows + public_rows + public_start must be at most "
            "9223372036854775807 in every epoch, got 9223372036854775810",
        ),
        (mechanism, {"n": 0}, f"{N}, got 0"),
        (mechanism, {"n": True}, f"{N}, got True"),
        (mechanism, {"n": 4.0}, f"{N}, got 4.0"),
        (mechanism, {"n": 2**63}, f"{N}, got 9223372036854775808"),
        (mechanism, {"epochs": 3}, "epochs must hold Epoch objects, got 3"),
        (
            mechanism,
            {"epochs": epoch()},
            "epochs must hold Epoch objects, got a value of type Epoch",
        ),
        (
            mechanism,
            {"batch_size": 5},
            "batch_size must be an integer in [1, 4], got 5",
        ),
        (mechanism, {"clip_norm": 0}, "clip_norm must be a finite number > 0, got 0"),
        (mechanism, {"row_norm": -1}, "row_norm must be a finite number > 0, got -1"),
        (
            mechanism,
            {"public_row_norm": "x"},
            "public_row_norm must be a finite number > 0, got 'x'",
        ),
        (mechanism, {"epochs": ()}, "epochs must hold 1 to 1000000 Epochs, got 0"),
        (
            mechanism,
            {"epochs": (3,)},
            "epochs must hold Epoch objects, got 3 as number 1",
        ),
        (
            mechanism,
            {"epochs": (epoch(), epoch(private_rows=5))},
            "private_rows must be an integer in [0, n=4], got 5 in epoch 2",
        ),
        (
            mechanism,
            {"loss": "squared"},
            "loss must be a Loss, one of mean, squared, logistic, huber, "
            "smoothed_hinge, got 'squared'",
        ),
        (
            mechanism,
            {"order": None},
            "order must be an Order, one of incremental, shuffle_once, reshuffle, "
            "shuffle_buffer, got None",
        ),
        (
            mechanism,
            {"public_order": db.Reshuffle},
            "public_order must be an Order, one of incremental, shuffle_once, "
            "reshuffle, shuffle_buffer, got the class Reshuffle",
        ),
        (interleaved, {"epochs": 0}, f"{EPOCHS}, got 0"),
        (interleaved, {"epochs": 2.0}, f"{EPOCHS}, got 2.0"),
        (interleaved, {"epochs": 10**15}, f"{EPOCHS}, got 1000000000000000"),
        (interleaved, {"n": 0}, f"{N}, got 0"),
        (interleaved, {"n": 10**30}, f"{N}, got {10**30}"),
        (
            interleaved,
            {"private_fraction": 1.2},
            "private_fraction must be a number in [0, 1], got 1.2",
        ),
        (
            interleaved,
            {"private_fraction": float("nan")},
            "private_fraction must be a number in [0, 1], got nan",
        ),
        (
            interleaved,
            {"private_fraction": True},
            "private_fraction must be a number in [0, 1], got True",
        ),
        (interleaved, {"learning_rate": "0.1"}, f"{RATE}, got '0.1'"),
        (interleaved, {"learning_rate": [0.1, None, 0.1]}, f"{RATE}, got None"),
        (
            interleaved,
            {"learning_rate": [0.1, 0.2]},
            "learning_rate must be one number or 3 numbers (one an epoch), got 2",
        ),
        (
            interleaved,
            {"noise_std": -2},
            "noise_std must be a finite number >= 0, got -2",
        ),
    ],
)
def test_bad_parameters_are_one_sentence(
    make: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(db.InvalidParameterError) as error:
        make(**change)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "schedule",
    [db.interleaved, db.priv_pub, db.pub_priv, db.alternating],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"private_fraction": -0.1},
            "private_fraction must be a number in [0, 1], got ",
        ),
        ({"n": 0}, N),
        ({"epochs": 0}, EPOCHS),
    ],
)
def test_every_schedule_refuses(
    schedule: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    fields = {"n": 4, "epochs": 3, "private_fraction": 0.5, **COMMON, **change}
    with pytest.raises(db.InvalidParameterError) as error:
        schedule(**fields)
    assert str(error.value).startswith(message)


SECRET = np.array([[12345.678, 1.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: db.dp(SECRET, 2, **COMMON),
        lambda: db.dp(2, SECRET, **COMMON),
        lambda: db.dp(2, 2, loss=SECRET, learning_rate=0.1),
        lambda: db.dp(2, 2, loss=db.Squared(), learning_rate=SECRET),
        lambda: db.priv_pub(2, 2, private_fraction=SECRET, **COMMON),
        lambda: db.Mechanism(n=2, epochs=SECRET, loss=db.Squared()),
        lambda: db.Ridge(SECRET),
        lambda: db.FreeLast(SECRET),
        lambda: db.ShuffleBuffer(SECRET),
        lambda: db.Rows.bounded(np.eye(2), row_norm=SECRET),
        lambda: db.Mechanism.from_json({"schema": SECRET}),
    ],
)
def test_a_table_in_the_place_of_a_parameter_is_not_printed(
    mistake: Callable[[], Any],
) -> None:
    with pytest.raises(db.InvalidParameterError) as error:
        mistake()
    assert "12345" not in str(error.value)
