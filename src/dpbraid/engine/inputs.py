"""What a table must be for a mechanism to run on it, checked before anything runs."""

from __future__ import annotations

import numpy as np

from dpbraid import _validate
from dpbraid.losses import Labels
from dpbraid.mechanism import Mechanism
from dpbraid.rows import InvalidRowsError, Rows


def check(mechanism: Mechanism, private: Rows, public: Rows | None) -> None:
    """Raise InvalidRowsError where the tables do not fit the mechanism.

    Messages name sizes and bounds, which are public, never a value of a row.
    """
    for name, table in (("private", private), ("public", public)):
        if not isinstance(table, Rows) and (name == "private" or table is not None):
            raise InvalidRowsError(
                f"the {name} table must be Rows, as Rows.bounded makes them, got "
                f"{_validate.shown(table)}"
            )
    if len(private) != mechanism.n:
        raise InvalidRowsError(
            f"the private table must have n={mechanism.n} rows, got {len(private)}"
        )
    _check_table(mechanism, private, mechanism.row_norm, "private")
    needed = mechanism.public_rows
    if public is None:
        if needed:
            raise InvalidRowsError(
                f"the schedule needs {needed} public rows, got no public table"
            )
        return
    if len(public) < needed:
        raise InvalidRowsError(
            f"the schedule needs {needed} public rows, got {len(public)}"
        )
    if public.dimension != private.dimension:
        raise InvalidRowsError(
            "the public table must have as many columns as the private one, "
            f"{private.dimension}, got {public.dimension}"
        )
    _check_table(mechanism, public, mechanism.public_bound, "public")


def check_generators(**generators: np.random.Generator) -> None:
    """Raise InvalidParameterError for what is no generator, such as a seed."""
    for name, generator in generators.items():
        if not isinstance(generator, np.random.Generator):
            raise _validate.InvalidParameterError(
                f"{name} must be a numpy.random.Generator, got "
                f"{_validate.shown(generator)}"
            )


def _check_table(
    mechanism: Mechanism, rows: Rows, bound: float | None, name: str
) -> None:
    if bound is not None and (rows.row_norm is None or rows.row_norm > bound):
        raise InvalidRowsError(
            f"the {name} table must be bounded at row_norm <= {bound!r} (the "
            f"mechanism's bound), got row_norm={rows.row_norm!r}"
        )
    labels = mechanism.loss.labels
    if labels is Labels.NONE:
        return
    if rows.y is None:
        raise InvalidRowsError(
            f"y of the {name} table is missing: the {mechanism.loss.kind} loss needs "
            "labels"
        )
    if labels is Labels.BINARY and not np.all(np.abs(rows.y) == 1):
        raise InvalidRowsError(
            f"y of the {name} table must hold nothing but -1 and +1 for the "
            f"{mechanism.loss.kind} loss"
        )
