"""Checks of public parameters: one sentence with name, value and what is allowed.

The keyword name becomes the name in the message, so a call reads like the rule it
enforces: ``positive(learning_rate=eta)``. Only public parameters come through here;
a message never carries anything computed from private rows.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

_E = TypeVar("_E", bound=StrEnum)


class DpbraidError(ValueError):
    """Base of every error that dpbraid raises for bad input: one clear sentence."""


class InvalidParameterError(DpbraidError):
    """A public parameter is outside of its allowed range."""


def integer(minimum: int, maximum: int | None = None, **values: Any) -> None:
    """Each value is an integer in [minimum, maximum]."""
    for name, value in values.items():
        allowed = f">= {minimum}" if maximum is None else f"in [{minimum}, {maximum}]"
        if (
            isinstance(value, bool)
            or not isinstance(value, int | np.integer)
            or value < minimum
            or (maximum is not None and value > maximum)
        ):
            raise InvalidParameterError(
                f"{name} must be an integer {allowed}, got {value!r}"
            )


def _number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _finite(value: Any) -> bool:
    if not _number(value):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float
        return False


def finite(**values: Any) -> None:
    """Each value is a finite number."""
    for name, value in values.items():
        if not _finite(value):
            raise InvalidParameterError(
                f"{name} must be a finite number, got {value!r}"
            )


def positive(**values: Any) -> None:
    """Each value is a finite number > 0."""
    for name, value in values.items():
        if not _finite(value) or value <= 0:
            raise InvalidParameterError(
                f"{name} must be a finite number > 0, got {value!r}"
            )


def nonnegative(**values: Any) -> None:
    """Each value is a finite number >= 0."""
    for name, value in values.items():
        if not _finite(value) or value < 0:
            raise InvalidParameterError(
                f"{name} must be a finite number >= 0, got {value!r}"
            )


def in_range(low: float, high: float, **values: Any) -> None:
    """Each value is a finite number in [low, high]."""
    for name, value in values.items():
        if not _finite(value) or not low <= value <= high:
            raise InvalidParameterError(
                f"{name} must be a number in [{low:g}, {high:g}], got {value!r}"
            )


def probability(**values: Any) -> None:
    """Each value is a number strictly between 0 and 1."""
    for name, value in values.items():
        if not _finite(value) or not 0 < value < 1:
            raise InvalidParameterError(
                f"{name} must be a number strictly between 0 and 1, got {value!r}"
            )


def boolean(**values: Any) -> None:
    """Each value is True or False."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise InvalidParameterError(f"{name} must be True or False, got {value!r}")


def text(**values: Any) -> None:
    """Each value is a text with something in it."""
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise InvalidParameterError(f"{name} must be a text, got {value!r}")


def choice(enum: type[_E], **values: Any) -> _E:
    """The one value as a member of the enumeration."""
    ((name, value),) = values.items()
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in enum)
        raise InvalidParameterError(
            f"{name} must be one of {allowed}, got {value!r}"
        ) from None


def plain(instance: Any) -> None:
    """Turn the numbers of a frozen dataclass into Python's own int and float.

    Equal descriptions then print, hash and serialise alike, whether they were built
    from NumPy scalars or an integer where the field is a float.
    """
    for field in dataclasses.fields(instance):
        value: Any = getattr(instance, field.name)
        if not _number(value):
            continue
        plain_value = int(value) if field.type == "int" else float(value)
        object.__setattr__(instance, field.name, plain_value)
