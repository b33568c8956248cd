"""How the engine's loops are compiled: once, when first used, and kept on disk.

Numba keeps machine code beside this file or, where that cannot be written, in the
user's cache folder (or in NUMBA_CACHE_DIR). The first run after an installation takes
some seconds longer; say so with `announcing_compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit
from numba.core import event


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's njit without the interpreter's lock, cached where that is possible."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # no folder can be written: compile in every process
            return njit(nogil=True, **options)(function)

    return decorate


class _First(event.Listener):
    """Tells of the first event alone."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, _event: Any) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, _event: Any) -> None:
        pass


@contextmanager
def announcing_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call tell() once if, and when, something has to be compiled in this context."""
    with event.install_listener("numba:compile", _First(tell)):
        yield
