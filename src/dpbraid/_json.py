"""JSON texts, strictly: what a reader sees is what is read."""

from __future__ import annotations

import json
from typing import Any


def parse(text: str) -> Any:
    """The value of a JSON text.

    Raises ValueError for what is not JSON, and for what JSON readers understand in
    different ways: a field that is there twice, NaN and infinities.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is there twice")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
