"""Start points: each rule, its norm bound, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import dpbraid as db


def test_zeros() -> None:
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(db.Zeros().point(3, rng, None), np.zeros(3))
    assert db.Zeros().norm_bound(3) == 0


def test_normal_is_drawn_and_bounded() -> None:
    start = db.Normal(0.01)
    drawn = start.point(10_000, np.random.default_rng(0), None)
    assert np.std(drawn) == pytest.approx(0.01, rel=0.05)
    assert np.linalg.norm(drawn) <= start.norm_bound(10_000)


def test_given_is_checked() -> None:
    start, rng = db.Given(norm=5), np.random.default_rng(0)
    np.testing.assert_array_equal(start.point(2, rng, np.array([3.0, 4.0])), [3, 4])
    for bad, message in (
        (None, "start is missing"),
        (np.zeros(3), r"shape \(2,\), got shape \(3,\)"),
        (np.array([np.nan, 0]), "start must be a finite array"),
        (["a", "b"], r"start must be a finite array .*, got a value of type list"),
        (np.array([6.0, 0]), r"start must have norm <= 5.0 .*, got 6.0"),
    ):
        with pytest.raises(db.InvalidParameterError, match=message):
            start.point(2, rng, bad)


def test_a_point_nobody_asked_for_is_refused() -> None:
    for start in (db.Zeros(), db.Normal(1)):
        with pytest.raises(db.InvalidParameterError, match="start must be left out"):
            start.point(2, np.random.default_rng(0), np.zeros(2))
