"""JSON texts, strictly: what a reader sees is what is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dpbraid._validate import InvalidParameterError

# No file of dpbraid is nested half as deeply.
_DEEPEST = 32
_TOO_DEEP = "it is nested too deeply"


def read(path: str | Path) -> Any:
    """The JSON value in a file; one that holds none is an error of the user's."""
    path = Path(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InvalidParameterError(f"{path} is not a text file") from None
    except ValueError as error:
        raise InvalidParameterError(f"{path} is not a JSON file: {error}") from None


def parse(source: str) -> Any:
    """The value of a JSON text.

    Raises ValueError for what is not JSON, and for what JSON readers understand in
    different ways: a field that is there twice, NaN and infinities, numbers beyond
    float64, halves of a character.
    """
    try:
        value = json.loads(source, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check(value, 0)
    return value


def fields(error: type[Exception], data: Any, what: str, names: str) -> dict[str, Any]:
    """An object with exactly these fields, names with spaces between; or that error."""
    wanted = set(names.split())
    if not isinstance(data, dict):
        raise error(f"{what} must be a JSON object")
    if set(data) != wanted:
        raise error(
            f"{what} takes exactly the fields {sorted(wanted)}, got {sorted(data)}"
        )
    return data


def items(error: type[Exception], data: Any, what: str) -> list[Any]:
    """A list; or that error."""
    if not isinstance(data, list):
        raise error(f"{what} must be a JSON list")
    return data


def text(error: type[Exception], data: Any, what: str) -> str:
    """A text; or that error."""
    if not isinstance(data, str):
        raise error(f"{what} must be a text, got {data!r}")
    return data


def _check(value: Any, depth: int) -> None:
    if isinstance(value, dict | list):
        if depth == _DEEPEST:
            raise ValueError(_TOO_DEEP)
        for inside in value:
            _check(inside, depth + 1)
        if isinstance(value, dict):
            for inside in value.values():
                _check(inside, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it has a number beyond the range of float64")
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("it has half a character in a text") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is there twice")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
