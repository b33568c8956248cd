"""Rows: the door holds its bounds, and its errors tell nothing about a row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpbraid as db

tables = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e149, 1e149),
)


@given(X=tables, bound=st.floats(1e-3, 1e3))
def test_rows_obey_the_bound(X: np.ndarray, bound: float) -> None:
    rows = db.Rows.bounded(X, row_norm=bound)
    assert np.all(np.linalg.norm(rows.X, axis=1) <= bound)
    inside = np.linalg.norm(X, axis=1) <= bound * (1 - 2e-12)
    np.testing.assert_array_equal(rows.X[inside], X[inside])


def test_scaling_keeps_the_direction_and_uses_the_bound() -> None:
    rows = db.Rows.bounded([[3.0, 4.0], [0.3, 0.4]], row_norm=1)
    np.testing.assert_allclose(rows.X, [[0.6, 0.8], [0.3, 0.4]], rtol=2e-12)


def test_labels_are_cut_to_their_bound() -> None:
    rows = db.Rows.bounded(np.ones((3, 1)), [-5, 0.5, 9], label_bound=2)
    np.testing.assert_array_equal(rows.y, [-2, 0.5, 2])


@pytest.mark.parametrize(
    "table",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.float32, order="F"),
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        pl.DataFrame({"a": [1, 3], "b": [2, 4]}),
    ],
    ids=["list", "int8", "fortran", "pandas", "polars"],
)
def test_tables_of_all_kinds(table: object) -> None:
    rows = db.Rows.bounded(table, pd.Series([1, -1]))
    assert rows.X.dtype == np.float64
    assert rows.X.flags.c_contiguous
    np.testing.assert_array_equal(rows.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(rows.y, [1, -1])
    assert (len(rows), rows.dimension) == (2, 2)


def test_rows_are_a_read_only_copy() -> None:
    X = np.ones((2, 2))
    rows = db.Rows.bounded(X, np.ones(2))
    X[0, 0] = 9
    assert rows.X[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        rows.X[0, 0] = 2


SECRET = 12345.678


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[SECRET, np.nan]], None, "X must be finite (no NaN, no entry beyond 1e150)"),
        ([[SECRET, np.inf]], None, "X must be finite (no NaN, no entry beyond 1e150)"),
        ([[SECRET, 1e200]], None, "X must be finite (no NaN, no entry beyond 1e150)"),
        ([[1.0]], [np.nan], "y must be finite (no NaN, no entry beyond 1e150)"),
        ([["12345.678x"]], None, "X must be a table of numbers"),
        ([[1.0]], ["12345.678x"], "y must be a column of numbers"),
        ([[SECRET], [1, 2]], None, "X must be a table of numbers"),
        (
            [SECRET],
            None,
            "X must be a table of shape (n, d) with n >= 1 and d >= 1, got shape (1,)",
        ),
        (
            np.empty((0, 3)),
            None,
            "X must be a table of shape (n, d) with n >= 1 and d >= 1, got shape "
            "(0, 3)",
        ),
        (
            [[SECRET]],
            [1, 2],
            "y must have one label a row of X, shape (1,), got shape (2,)",
        ),
    ],
)
def test_bad_tables_are_one_sentence_without_values(
    X: object, y: object, message: str
) -> None:
    with pytest.raises(db.InvalidRowsError) as error:
        db.Rows.bounded(X, y)
    assert str(error.value) == message
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


def test_bad_bounds() -> None:
    for bad in (0, -1, np.inf, "1"):
        with pytest.raises(db.InvalidParameterError, match="row_norm must be a finite"):
            db.Rows.bounded([[1.0]], row_norm=bad)  # type: ignore[arg-type]
    with pytest.raises(db.InvalidParameterError, match="label_bound must be a finite"):
        db.Rows.bounded([[1.0]], [1.0], label_bound=0)


def test_repr_shows_no_value() -> None:
    rows = db.Rows.bounded([[SECRET]], [SECRET], row_norm=2e4)
    assert repr(rows) == "<Rows: 1 x 1, labels, row_norm=20000.0, label_bound=None>"
