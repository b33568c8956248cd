"""Cells of tables as numbers: total functions, no cell makes them fail.

A private cell can hold anything. Nothing here raises, warns or takes another way for a
reason that lies in a cell: what is no number is NaN. Texts are bytes, so that not even
the encoding of a cell can be wrong.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLANKS = " \t\n\r\v\f"

# A number in a text: decimal, with at most one point and one exponent, and blanks
# around it. Of these the plain ones are within the range of float64 for certain.
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_PLAIN = r"^[+-]?(\d{1,100}(\.\d{0,100})?|\.\d{1,100})([eE][+-]?\d{1,2})?$"
_TRUE = r"(?i)^\s*true\s*$"
_FALSE = r"(?i)^\s*false\s*$"


def supported(kind: pa.DataType) -> bool:
    """Whether a column of this type can be read: numbers, texts, booleans, nothing."""
    if pa.types.is_dictionary(kind):
        return supported(kind.value_type)
    return bool(
        is_text(kind)
        or is_number(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def numbers(cells: pa.Array) -> Array:
    """Each cell as a finite number, or NaN; true and false are 1 and 0."""
    if is_text(cells.type):
        values = _parsed(texts(cells))
    elif pa.types.is_null(cells.type):
        values = np.full(len(cells), np.nan)
    else:
        values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def truths(cells: pa.Array) -> Array:
    """Each cell as 1 (true) or 0 (false), or NaN; a text or a number can say so."""
    values = numbers(cells)
    if is_text(cells.type):
        words = texts(cells)
        values = np.where(_matches(words, _TRUE), 1.0, values)
        values = np.where(_matches(words, _FALSE), 0.0, values)
    return np.where((values == 0) | (values == 1), values, np.nan)


def texts(cells: pa.Array) -> pa.Array:
    """Each cell as bytes without blanks around them; null where there is none."""
    if pa.types.is_null(cells.type):
        return pa.nulls(len(cells), pa.large_binary())
    if not is_text(cells.type):
        cells = cells.cast(pa.string())
    wide = cells.cast(pa.large_binary()).view(pa.large_string())
    return pc.ascii_trim_whitespace(wide).view(pa.large_binary())


def plain(cells: pa.Array) -> pa.Array:
    """A column without dictionary encoding."""
    if pa.types.is_dictionary(cells.type):
        return plain(cells.dictionary_decode())
    return cells


def _parsed(words: pa.Array) -> Array:
    """One grammar for all; what float64 might not hold goes through Python's float."""
    simple = _matches(words, _PLAIN)
    chosen = pc.if_else(pa.array(simple), words, pa.scalar(None, words.type))
    values: Array = (
        chosen.cast(pa.large_string())
        .cast(pa.float64())
        .to_numpy(zero_copy_only=False)
        .astype(np.float64)
    )
    for i in np.flatnonzero(_matches(words, _NUMBER) & ~simple):
        values[i] = float(words[i].as_py())
    return values


def _matches(words: pa.Array, pattern: str) -> NDArray[np.bool_]:
    found = pc.fill_null(pc.match_substring_regex(words, pattern), False)
    matches: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return matches
