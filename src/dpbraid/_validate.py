"""Checks of public parameters: one sentence with name, value and what is allowed.

The keyword name becomes the name in the message, so a call reads like the rule it
enforces: ``positive(learning_rate=eta)``. Only public parameters come through here;
a message never carries anything computed from private rows, not even where a caller
mixed up a table and a parameter (see ``shown``).
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

_E = TypeVar("_E", bound=StrEnum)
# Characters of a value that a message prints.
_SHOWN = 60


class DpbraidError(ValueError):
    """Base of every error that dpbraid raises for bad input: one clear sentence."""


class InvalidParameterError(DpbraidError):
    """A public parameter is outside of its allowed range."""


def shown(value: Any) -> str:
    """A value as messages print it: one number or text, shortened; else its type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is not None and not isinstance(value, numbers.Number | str):
        return f"a value of type {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # Python prints no longer integers
        return "a number of more than 4300 digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
                f"{name} must be an integer {allowed}, got {shown(value)}"
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
                f"{name} must be a finite number, got {shown(value)}"
            )


def positive(**values: Any) -> None:
    """Each value is a finite number > 0."""
    for name, value in values.items():
        if not _finite(value) or float(value) <= 0:
            raise InvalidParameterError(
                f"{name} must be a finite number > 0, got {shown(value)}"
            )


def nonnegative(**values: Any) -> None:
    """Each value is a finite number >= 0."""
    for name, value in values.items():
        if not _finite(value) or value < 0:
            raise InvalidParameterError(
                f"{name} must be a finite number >= 0, got {shown(value)}"
            )


def in_range(low: float, high: float, **values: Any) -> None:
    """Each value is a finite number in [low, high]."""
    for name, value in values.items():
        if not _finite(value) or not low <= value <= high:
            raise InvalidParameterError(
                f"{name} must be a number in [{low:g}, {high:g}], got {shown(value)}"
            )


def probability(**values: Any) -> None:
    """Each value is a number strictly between 0 and 1."""
    for name, value in values.items():
        if not _finite(value) or not 0 < float(value) < 1:
            raise InvalidParameterError(
                f"{name} must be a number strictly between 0 and 1, got {shown(value)}"
            )


def boolean(**values: Any) -> None:
    """Each value is True or False."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise InvalidParameterError(
                f"{name} must be True or False, got {shown(value)}"
            )


def text(**values: Any) -> None:
    """Each value is a text with something in it."""
    for name, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise InvalidParameterError(f"{name} must be a text, got {shown(value)}")


def choice(enum: type[_E], **values: Any) -> _E:
    """The one value as a member of the enumeration."""
    ((name, value),) = values.items()
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in enum)
        raise InvalidParameterError(
            f"{name} must be one of {allowed}, got {shown(value)}"
        ) from None


def plain(instance: Any) -> None:
    """Turn the numbers of a frozen dataclass into Python's own int and float.

    Equal descriptions then print, hash and serialise alike, whether they were built
    from NumPy scalars, an integer where the field is a float, or a zero with a sign.
    """
    for field in dataclasses.fields(instance):
        value: Any = getattr(instance, field.name)
        if not _number(value):
            continue
        plain_value = int(value) if field.type == "int" else float(value) + 0.0
        object.__setattr__(instance, field.name, plain_value)
