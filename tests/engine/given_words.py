"""A generator whose 64-bit words are given: what compiled code makes of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cfunc, types
from numpy.typing import NDArray


@cfunc(types.uint64(types.CPointer(types.uint64)))
def _next(state: Any) -> Any:
    """state[0] counts the words that were asked for; they stand behind it."""
    state[0] += np.uint64(1)
    return state[state[0]]


class GivenWords:
    """Stands for a Generator where its bit generator's C interface is asked for."""

    def __init__(self, words: Any) -> None:
        self._state: NDArray[np.uint64] = np.array([0, *words], np.uint64)
        address = self._state.ctypes.data
        self.ctypes = SimpleNamespace(next_uint64=_next.ctypes, state_address=address)
        self.bit_generator = self

    @property
    def used(self) -> int:
        """Number of words that were asked for; an error if there were not so many."""
        assert self._state[0] < len(self._state)
        return int(self._state[0])
