"""The rules of a whole table: made from public rows, applied to both tables."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.estimators import cells as cell
from dpbraid.estimators.column_rules import (
    Boolean,
    Category,
    Classes,
    ColumnRule,
    Number,
    Real,
    TargetRule,
)
from dpbraid.estimators.table_files import TableError, TableFile

SCHEMA = "dpbraid.table/1"
# More different texts than this are names, not categories.
MOST_CATEGORIES = 256
# Texts that stand for a missing cell, where rules are made.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
_DATE = r"^\d{1,4}([-/.])\d{1,2}[-/.]\d{1,4}([T ].*)?$"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TableRules:
    """Rules for the features' columns, in order, and for the target's, if there is one.

    Columns of a table that are not named here are not read.
    """

    columns: tuple[ColumnRule, ...]
    target: TargetRule | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        names = [rule.name for rule in self.columns]
        if self.target is not None:
            names.append(self.target.name)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if not self.columns or twice:
            raise InvalidParameterError(
                "a table's rules must name one column or more, each once, got "
                + (f"{twice[0]!r} twice" if twice else "none")
            )

    @property
    def features(self) -> tuple[str, ...]:
        """A name for each feature."""
        return tuple(name for rule in self.columns for name in rule.features)

    def read(self, file: TableFile) -> tuple[Array, NDArray[Any] | None]:
        """Features (n, d) and labels (n,) of all rows; None without a target."""
        names = [rule.name for rule in self.columns]
        if self.target is not None:
            names.append(self.target.name)
        return self._read(file, names)

    def read_features(self, file: TableFile) -> Array:
        """Features (n, d) of all rows; the target's column need not be there."""
        return self._read(file, [rule.name for rule in self.columns])[0]

    def _read(
        self, file: TableFile, names: list[str]
    ) -> tuple[Array, NDArray[Any] | None]:
        ends = np.cumsum([len(rule.features) for rule in self.columns]).tolist()
        X = np.empty((file.rows(), ends[-1]))
        labels = []
        rows = 0
        for place, first, cells in file.pieces(names):
            rows = max(rows, first + len(cells))
            if rows > len(X):
                break
            if place < len(self.columns):
                rule = self.columns[place]
                columns = slice(ends[place] - len(rule.features), ends[place])
                rule.fill(cells, X[first : first + len(cells), columns])
            elif self.target is not None:
                labels.append(self.target.labels(cells))
        if len(X) == 0:
            raise TableError(f"{file.path} must have one row or more, got none")
        if rows != len(X):
            raise TableError(f"{file.path} changed while it was read")
        return X, np.concatenate(labels) if labels else None

    def read_public(self, file: TableFile) -> tuple[Array, NDArray[Any] | None]:
        """As `read`, without the rows that have no label: public rows only."""
        X, y = self.read(file)
        if self.target is None or y is None:
            return X, y
        known = self.target.known(y)
        if not known.any():
            raise TableError(f"no row of {file.path} has a label")
        return X[known], y[known]

    def in_units(self, values: Array) -> Array:
        """Values of features, (features,), in the units of their columns."""
        units = []
        for rule in self.columns:
            one = (rule.scale, rule.center) if isinstance(rule, Number) else (1.0, 0.0)
            units += [one] * len(rule.features)
        scales, centers = np.array(units).T
        found: Array = values * scales + centers
        return found

    @property
    def declaration(self) -> str:
        """What a certificate says of the rules."""
        kinds = Counter(rule.kind for rule in self.columns)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        text = json.dumps(self.to_json(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return (
            f"Columns became {len(self.features)} features ({counts}) by rules that "
            "were made without private rows and map each row by itself; sha256 of the "
            f"rules: {digest}."
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `from_json` gives equal rules back."""
        return {
            "schema": SCHEMA,
            "columns": [rule.to_json() for rule in self.columns],
            "target": None if self.target is None else self.target.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any) -> TableRules:
        """The rules that `to_json` wrote; anything else is an error."""
        if not isinstance(data, dict) or set(data) != {"schema", "columns", "target"}:
            raise InvalidParameterError(
                "a table's rules are a JSON object with exactly the fields schema, "
                "columns and target"
            )
        if data["schema"] != SCHEMA:
            raise InvalidParameterError(
                f"schema must be {SCHEMA!r}, got {data['schema']!r}"
            )
        if not isinstance(data["columns"], list):
            raise InvalidParameterError("columns must be a JSON list")
        target = data["target"]
        return cls(
            tuple(ColumnRule.from_json(rule) for rule in data["columns"]),
            None if target is None else TargetRule.from_json(target),
        )


def learn(
    file: TableFile,
    *,
    target: str | None = None,
    classes: bool = False,
    leave_out: Sequence[str] = (),
    categories: Sequence[str] = (),
    scale: bool = True,
) -> TableRules:
    """The rules that a public table gives.

    Columns of numbers are centred and scaled to standard deviation 1 of the public rows
    (as they stand with scale=False), and their missing cells count as the public
    median; texts are numbers where more than half of a column's texts are. Columns of
    true and false become 0 and 1, missing cells as the more frequent one. Columns of
    other texts have the public texts as categories.

    target: the labels' column, classes or else numbers. leave_out: columns that are
    not used. categories: columns of numbers that are categories.
    """
    for name in (*leave_out, *categories, *([] if target is None else [target])):
        if name not in file.names:
            raise TableError(
                f"{file.path} has no column {name!r}; its columns are "
                f"{', '.join(map(repr, file.names))}"
            )
    used = [n for n in file.names if n != target and n not in leave_out]
    rules: list[ColumnRule] = []
    for name in used:
        column = _column(file, name)
        if name in categories:
            rules.append(Category(name, _texts(name, column)))
        else:
            rules.append(_rule(name, column, scale))
    goal: TargetRule | None = None
    if target is not None:
        goal = Real(target)
        if classes:
            goal = Classes(target, _texts(target, _column(file, target)))
    return TableRules(tuple(rules), goal)


def _column(file: TableFile, name: str) -> pa.Array:
    """All cells of a public column that are not missing."""
    parts = [cells for _, _, cells in file.pieces([name])]
    column = pa.concat_arrays(parts) if parts else pa.nulls(0)
    if not cell.is_text(column.type):
        return column.drop_null()
    column = cell.texts(column).drop_null()
    missing = pa.array([word.encode() for word in MISSING], column.type)
    return column.filter(pc.invert(pc.is_in(column, value_set=missing)))


def _rule(name: str, column: pa.Array, scale: bool) -> ColumnRule:
    """The rule for the cells of a public column."""
    values = cell.numbers(column)
    values = values[np.isfinite(values)]
    words = cell.is_text(column.type) and 2 * len(values) <= len(column)
    if len(column) == 0 or (len(values) == 0 and not words):
        raise TableError(
            f"column {name!r} holds nothing in the public table, which makes no rule: "
            "leave it out"
        )
    if words or pa.types.is_boolean(column.type):
        truths = cell.truths(column)
        if np.isfinite(truths).all():
            return Boolean(name, bool(truths.mean() >= 0.5))
        if pc.all(pc.match_substring_regex(column, _DATE)).as_py():
            raise TableError(
                f"column {name!r} holds dates, which are not supported: turn it into "
                "numbers, or leave it out"
            )
        return Category(name, _texts(name, column))
    missing = float(np.median(values))
    if not scale:
        return Number(name, missing)
    values = np.clip(values, -1e150, 1e150)
    center, spread = float(values.mean()), float(values.std())
    return Number(name, missing, center, spread if spread > 0 else 1.0)


def _texts(name: str, column: pa.Array) -> tuple[str, ...]:
    """The different cells of a public column as texts, in order."""
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        found = {_short(x) for x in cell.numbers(column).tolist() if x == x}
    else:
        cells = pc.unique(cell.texts(column)).to_pylist()
        found = {
            word.decode("utf-8", "replace").strip(cell.BLANKS) for word in cells
        } - {""}
    if not 1 <= len(found) <= MOST_CATEGORIES:
        raise TableError(
            f"column {name!r} has {len(found)} different values in the public table; "
            f"categories must be 1 to {MOST_CATEGORIES}: leave it out"
        )
    return tuple(sorted(found))


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
