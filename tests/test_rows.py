"""Rows: the door holds its bounds, and its errors tell nothing about a row."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpbraid as db

tables = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e149, 1e149),
)


@given(X=tables, bound=st.floats(1e-3, 1e3) | st.sampled_from([1e-100, 1e150]))
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
        np.array([[1, 2], [3, Decimal(4)]], dtype=object),
        pd.DataFrame({"a": pd.array([1, 3], "Int64"), "b": pd.Categorical([2, 4])}),
        pl.DataFrame({"a": [1.0, 3.0], "b": [Decimal(2), Decimal(4)]}),
    ],
    ids=[
        "list",
        "int8",
        "fortran",
        "pandas",
        "polars",
        "object",
        "pandas nullable",
        "polars decimal",
    ],
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


def test_the_constructor_is_the_same_door() -> None:
    rows = db.Rows([[3.0, 4.0]], [7.0], row_norm=1.0, label_bound=2.0)
    assert np.linalg.norm(rows.X) <= 1
    assert rows.y is not None
    assert rows.y.tolist() == [2.0]


def test_other_labels_for_the_same_rows() -> None:
    rows = db.Rows.bounded(np.eye(2), [7.0, 8.0], row_norm=1.0, label_bound=2.0)
    other = rows.with_labels([1.0, -1.0])
    assert other.X is rows.X
    assert (other.row_norm, other.label_bound) == (1.0, None)
    np.testing.assert_array_equal(other.y, [1.0, -1.0])
    np.testing.assert_array_equal(rows.y, [2.0, 2.0])
    with pytest.raises(db.InvalidRowsError, match="y must have one label a row"):
        rows.with_labels([1.0])


SECRET = 12345.678


class Quoting:
    """A foreign table whose conversion fails with a value in the message."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError(f"row 0 has {SECRET}")


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
        (Quoting(), None, "X must be a table of numbers"),
        ([[SECRET, 10**400]], None, "X must be a table of numbers"),
        ([[SECRET, object()]], None, "X must be a table of numbers"),
        (np.array([[SECRET + 1j]]), None, "X must be a table of numbers"),
        (
            np.array([[SECRET, np.complex128(1j)]], dtype=object),
            None,
            "X must be a table of numbers",
        ),
        (
            np.array([[SECRET, np.timedelta64(1, "D")]], dtype=object),
            None,
            "X must be a table of numbers",
        ),
        (np.array([["2020-01-01"]], "M8[D]"), None, "X must be a table of numbers"),
        (pd.DataFrame({"a": ["secret"]}), None, "X must be a table of numbers"),
        (pl.DataFrame({"a": [[SECRET], []]}), None, "X must be a table of numbers"),
        (
            scipy.sparse.csr_array([[SECRET]]),
            None,
            "X must be a table of numbers, not a sparse matrix; toarray() makes it "
            "dense",
        ),
        (
            np.ma.masked_array([[SECRET, 1.0]], [[1, 0]]),
            None,
            "X must be finite (no NaN, no entry beyond 1e150)",
        ),
        (
            pl.DataFrame({"a": [SECRET, None]}),
            None,
            "X must be finite (no NaN, no entry beyond 1e150)",
        ),
        ([[1.0]], np.array([SECRET * 1j]), "y must be a column of numbers"),
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
    # below 1e-100 the squares of rows beyond the bound could vanish
    for bad in (0, -1, np.inf, "1", True, 1e-180, 5e-324):
        with pytest.raises(
            db.InvalidParameterError,
            match=r"row_norm must be a number in \[1e-100, 1e\+150\], got",
        ):
            db.Rows.bounded([[1e-170]], row_norm=bad)  # type: ignore[arg-type]
    with pytest.raises(db.InvalidParameterError, match="label_bound must be a finite"):
        db.Rows.bounded([[1.0]], [1.0], label_bound=0)


def test_repr_shows_no_value() -> None:
    rows = db.Rows.bounded([[SECRET]], [SECRET], row_norm=2e4)
    assert repr(rows) == "<Rows: 1 x 1, labels, row_norm=20000.0, label_bound=None>"
