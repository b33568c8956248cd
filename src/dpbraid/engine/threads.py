"""One BLAS thread a run: results do not depend on the number of threads.

A matrix product split over threads can round differently from one that is not. Every
run therefore keeps BLAS at one thread while it works; whoever has many runs uses the
cores by running several of them side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_running = 0
_limiter: Any = None


@cache
def _controller() -> Any:
    import scipy.linalg.blas  # noqa: F401 - loads SciPy's BLAS, to be found below
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread set the limits.

    From 3.7 on threadpoolctl obeys the first thread that set a limit and ignores all
    others without a word. Under the lock no two of ours set one at a time.
    """
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread until the last of the runs side by side has ended."""
    global _running, _limiter
    with _lock:
        if _running == 0:
            _take_control()
            _limiter = _controller().limit(limits=1, user_api="blas")
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                _take_control()
                _limiter.restore_original_limits()
                _limiter = None
