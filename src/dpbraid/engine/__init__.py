"""Engines: they read a Mechanism and Rows and return the last iterate.

The names below load the compiled engine when they are first asked for, so that
importing dpbraid stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbraid.engine.compilation import announcing_compilation
    from dpbraid.engine.grid import NotPrivateGrid, grid_not_private
    from dpbraid.engine.once import run
    from dpbraid.engine.trace import NotPrivateTrace, trace_not_private
    from dpbraid.release import NoiseSource, NumericModel, Release

__all__ = [
    "NoiseSource",
    "NotPrivateGrid",
    "NotPrivateTrace",
    "NumericModel",
    "Release",
    "announcing_compilation",
    "grid_not_private",
    "run",
    "trace_not_private",
]

_HOMES = {
    "NoiseSource": "dpbraid.release",
    "NotPrivateGrid": "dpbraid.engine.grid",
    "NotPrivateTrace": "dpbraid.engine.trace",
    "NumericModel": "dpbraid.release",
    "Release": "dpbraid.release",
    "announcing_compilation": "dpbraid.engine.compilation",
    "grid_not_private": "dpbraid.engine.grid",
    "run": "dpbraid.engine.once",
    "trace_not_private": "dpbraid.engine.trace",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
