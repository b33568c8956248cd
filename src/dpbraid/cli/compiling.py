"""The first run of the engine takes some seconds longer, and says why."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def compiles(command: Callable[..., None]) -> Callable[..., None]:
    """A command that runs the engine: tells on stderr if it has to be compiled."""

    @functools.wraps(command)
    def wrapper(*args: Any, **values: Any) -> None:
        from dpbraid.engine import announcing_compilation

        with announcing_compilation(_tell):
            command(*args, **values)

    return wrapper


def _tell() -> None:
    print("Compiling (once, some seconds) ...", file=sys.stderr, flush=True)
