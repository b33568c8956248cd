"""Tables on their way to `Rows`: numbers, labels and zero rows.

The private table comes in here as the caller has it. Whatever stands in a private row,
the outcome is the same for everybody but in the numbers: no message names a value, and
there is one exception, the refusal of a table with a value that is not finite. A *zero
row* takes part in the run and moves nothing: its features, its intercept and its label
are 0. Each row becomes one by itself, so one private row stays one private row.
"""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from dpbraid._validate import InvalidParameterError
from dpbraid.rows import InvalidRowsError

Array = NDArray[np.float64]
Whole = NDArray[np.bool_]

# Larger numbers are cut here before anything is squared; the direction of a row stays.
_LARGEST = 1e140
_PIECE = 2**17


class NonFinite(StrEnum):
    """What becomes of a private row that holds a value that is not finite."""

    REFUSE = "refuse"
    ZERO = "zero"


class NonFiniteRowsError(InvalidRowsError, TypeError):
    """A private table holds something that is no finite number. Nothing was released.

    One text for every such value, and no row is named.
    """


_REFUSAL = (
    "the private table must hold finite numbers and nothing else: no NaN, no inf, no "
    "text (each argument must be a number or a string that spells a number), no "
    "complex number (Complex data not supported). Nothing was released. That this fit "
    "refused is a fact about the private rows; non_finite='zero' turns such rows into "
    "zero rows instead"
)


def private_features(X: Any, non_finite: NonFinite) -> tuple[Array, Whole]:
    """The features as (n, d) finite numbers, and which rows are no zero rows.

    The features of a zero row are 0. May be the caller's own array: read only.
    """
    X = _numbers(X, "X")
    if X.ndim != 2:
        raise InvalidRowsError(
            f"X must be a table. Reshape your data: Expected 2D array, got {X.ndim}D"
        )
    n, d = X.shape
    if n == 0 or d == 0:
        what = f"0 {'sample' if n == 0 else 'feature'}(s)"
        raise InvalidRowsError(
            f"Found array with {what} (shape={X.shape}) while a minimum of 1 is "
            "required."
        )
    return _tamed(X, np.ones(n, dtype=bool), non_finite)


def private_targets(y: Any, n: int, non_finite: NonFinite) -> tuple[Array, Whole]:
    """Real labels, shape (n,), and which rows are no zero rows."""
    labels = _numbers(column(y, n), "y")
    values, whole = _tamed(labels[:, None], np.ones(n, dtype=bool), non_finite)
    return values[:, 0], whole


def label_numbers(y: Any, n: int, classes: NDArray[Any]) -> NDArray[np.int64]:
    """For each label its place in `classes` (sorted); -1 for any other label."""
    y = column(y, n)
    if y.dtype.kind in _COMPARABLE.get(classes.dtype.kind, ""):
        places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        numbers: NDArray[np.int64] = np.where(classes[places] == y, places, -1)
        return numbers
    known = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([_place(known, label) for label in y.tolist()], dtype=np.int64)


_COMPARABLE = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "U": "U"}


def _place(known: dict[Any, int], label: Any) -> int:
    try:
        return known.get(label, -1)
    except TypeError:  # not hashable
        return -1


def column(y: Any, n: int) -> NDArray[Any]:
    """Y as an array of shape (n,)."""
    if y is None:
        raise InvalidRowsError(
            "this estimator requires y to be passed, but the target y is None"
        )
    labels = _array(y)
    if labels is None or labels.shape not in ((n,), (n, 1)):
        found = "no array" if labels is None else f"shape {labels.shape}"
        raise InvalidRowsError(
            f"y must have one label a row of X, shape ({n},), got {found}"
        )
    flat: NDArray[Any] = column_or_1d(labels, warn=True)
    return flat


def class_set(classes: Any, y: Any, n: int, y_public: Any) -> NDArray[Any]:
    """The classes, sorted: given, of the public rows, or declared to be those of y."""
    if isinstance(classes, str):
        if classes != "from_y":
            raise InvalidParameterError(
                "classes must be a list of labels, None (those of y_public) or "
                f"'from_y', got {classes!r}"
            )
        found = _declared(_common(column(y, n)))
    elif classes is not None:
        found = np.unique(np.asarray(list(classes)))
        if len(found) != len(list(classes)):
            raise InvalidParameterError(f"classes must differ, got {classes!r}")
    elif y_public is not None:
        found = _declared(column_or_1d(np.asarray(y_public)))
    else:
        raise InvalidParameterError(
            "the classes are unknown: give classes=[...], or public rows with labels, "
            "or say classes='from_y' if the set of labels in y is public knowledge"
        )
    if len(found) < 2:
        raise InvalidParameterError(
            f"a classifier needs two classes or more, got {len(found)} class"
        )
    return found


def _common(y: NDArray[Any]) -> NDArray[Any]:
    """Labels of a list in their common type, where there is one."""
    try:
        return np.asarray(y.tolist()) if y.dtype == object else y
    except Exception:
        return y


def _declared(y: NDArray[Any]) -> NDArray[Any]:
    """The distinct labels of a column of class labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            check_classification_targets(y)
            classes: NDArray[Any] = np.unique(y)
        except Exception:
            classes = np.empty(0)
    if len(classes) == 0:
        raise InvalidRowsError(
            "Unknown label type: the labels must be class labels (integers, strings), "
            "without missing ones"
        )
    return classes


def public_features(X: Any, dimension: int) -> Array:
    """The public features, (m, dimension); messages may say what is wrong with them."""
    checked: Array = check_array(X, dtype=np.float64, input_name="X_public")
    if checked.shape[1] != dimension:
        raise InvalidRowsError(
            f"X_public must have as many columns as X, {dimension}, got "
            f"{checked.shape[1]}"
        )
    return checked


def public_targets(y: Any, m: int) -> Array:
    """Real public labels, shape (m,)."""
    values: Array = check_array(
        column(y, m), dtype=np.float64, ensure_2d=False, input_name="y_public"
    )
    return values


def _numbers(data: Any, name: str) -> Array:
    """As float64; cells that are no numbers become NaN."""
    if sparse.issparse(data):
        raise NonFiniteRowsError(
            f"Sparse data was passed for {name}, but dense data is required"
        )
    array = _array(data)
    if array is None:
        raise InvalidRowsError(f"{name} must be a table of numbers")
    if array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            array = array.astype(np.float64, copy=False)
    elif array.dtype.kind == "c":
        array = np.where(array.imag == 0, array.real, np.nan)
    else:
        array = _parsed(array)
    return array


def _array(data: Any) -> NDArray[Any] | None:
    """As an array; None if that fails.

    Cell by cell from lists: NumPy's common type would let one text among numbers turn
    all of them into texts, so that one private row would change the others.
    """
    try:
        if isinstance(data, list | tuple):
            return np.asarray(data, dtype=object)
        return np.asarray(data)
    except Exception:
        return None


def _parsed(array: NDArray[Any]) -> Array:
    """Cell by cell, so that no cell decides what another one means."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cells = (_number(cell) for cell in array.flat)
        numbers = np.fromiter(cells, np.float64, count=array.size)
    return numbers.reshape(array.shape)


def _number(cell: Any) -> float:
    if isinstance(cell, np.complexfloating):  # float() would drop a part of it
        return float("nan")
    try:
        return float(cell)
    except Exception:
        return float("nan")


def _tamed(X: Array, whole: Whole, non_finite: NonFinite) -> tuple[Array, Whole]:
    """Finite rows, cut at _LARGEST; the others are refused or become zero rows."""
    low, high = X.min(), X.max()
    if low >= -_LARGEST and high <= _LARGEST:  # false for NaN
        return X, whole
    X = X.copy()
    step = max(1, _PIECE // X.shape[1])
    whole = whole.copy()
    for first in range(0, len(X), step):
        piece = X[first : first + step]
        finite = np.isfinite(piece).all(axis=1)
        whole[first : first + step] &= finite
        piece[~finite] = 0.0
        largest = np.maximum(np.abs(piece).max(axis=1, keepdims=True), _LARGEST)
        piece /= largest / _LARGEST
    if non_finite is NonFinite.REFUSE and not whole.all():
        raise NonFiniteRowsError(_REFUSAL)
    return X, whole


def transformed(transform: Any, X: Array, whole: Whole) -> tuple[Array, Whole]:
    """Each private row by the fitted transform; rows it fails on become zero rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            Z = np.asarray(transform.transform(X), dtype=np.float64)
        except Exception:
            Z = _row_by_row(transform, X)
    return _tamed(Z, whole, NonFinite.ZERO)


def _row_by_row(transform: Any, X: Array) -> Array:
    width = transform.n_features_out
    Z = np.full((len(X), width), np.nan)
    for i in range(len(X)):
        try:
            Z[i] = np.asarray(transform.transform(X[i : i + 1]), dtype=np.float64)[0]
        except Exception:
            continue
    return Z
