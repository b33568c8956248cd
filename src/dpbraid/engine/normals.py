"""Normals from a bit generator, drawn by compiled code: the ziggurat that NumPy has.

Marsaglia and Tsang (Journal of Statistical Software 5, 2000) as NumPy writes it, with
the same use of every word: from the same generator come the same normals, to 13 digits
(tests/engine/test_normals.py). Kernels take the addresses of the generator's function
and state: to hand a Generator over costs 5 us a call, and its own normals cannot be
drawn in a loop that does something else beside.
"""

# Numba infers the types of the kernels; mypy cannot follow it.
# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dpbraid.engine.compilation import kernel

Array = NDArray[Any]

_LAYERS = 256
# Where the tail begins, for 256 layers of equal area under exp(-x^2/2).
_TAIL = 3.6541528853610088


def _tables() -> tuple[Array, Array, Array]:
    """For each layer: its width and 2^-52, what is inside for sure, its height.

    Layer i lies between the densities of two edges, x_i > x_{i-1}; it is x_i wide, and
    up to x_{i-1} all of it is below the density. Layer 0 holds the tail beyond _TAIL
    and is as wide as if it were one rectangle. Widths have both signs, + then -.
    """

    def density(x: float) -> float:
        return math.exp(-x * x / 2)

    tail = math.sqrt(math.pi / 2) * math.erfc(_TAIL / math.sqrt(2))
    area = _TAIL * density(_TAIL) + tail
    edges = [_TAIL]
    while len(edges) < _LAYERS - 1:
        edges.append(math.sqrt(-2 * math.log(density(edges[-1]) + area / edges[-1])))
    edges.reverse()
    widths = np.array([area / density(_TAIL), *edges])
    inside = np.array([_TAIL, 0.0, *edges[:-1]]) / widths
    heights = np.array([1.0, *map(density, edges)])
    signed = np.concatenate([widths, -widths]) * 2.0**-52
    return signed, (inside * 2.0**52).astype(np.int64), heights


_WIDTHS, _INSIDE, _HEIGHTS = _tables()


@dataclass(frozen=True)
class Words:
    """Where kernels draw 64 random bits: a C function and its state, as addresses.

    rng: keeps both alive. Without its lock: one thread at a time may draw.
    """

    rng: np.random.Generator
    function: int
    state: int

    @classmethod
    def of(cls, rng: np.random.Generator) -> Words:
        """The words of this generator, where it stands."""
        c = rng.bit_generator.ctypes
        function = ctypes.cast(c.next_uint64, ctypes.c_void_p).value
        assert function is not None
        return cls(rng, function, c.state_address)

    @property
    def source(self) -> tuple[int, int]:
        """What kernels take."""
        return self.function, self.state


@intrinsic
def next_word(_typing: Any, source: Any) -> tuple[Any, Any]:
    """64 random bits of the generator."""
    kind = types.UniTuple(types.intp, 2)  # type: ignore[no-untyped-call]
    signature = types.uint64(kind)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function, state = (builder.extract_value(arguments[0], i) for i in (0, 1))
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(64), [pointer])
        function = builder.inttoptr(function, kind.as_pointer())
        return builder.call(function, [builder.inttoptr(state, pointer)])

    return signature, generate


@kernel(inline="always")
def _uniform(source):
    """In [0, 1), of 53 bits."""
    return np.float64(next_word(source) >> np.uint64(11)) * 2.0**-53


@kernel()
def _anew(source, word):
    """The normal of a word that `from_word` cannot tell alone."""
    while True:
        layer = np.int64(word & np.uint64(0xFF))
        inner = np.int64((word >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
        x = inner * _WIDTHS[word & np.uint64(0x1FF)]
        if inner < _INSIDE[layer]:
            return x
        if layer > 0:  # between the layer's heights
            low, high = _HEIGHTS[layer], _HEIGHTS[layer - 1]
            if (high - low) * _uniform(source) + low < np.exp(-0.5 * x * x):
                return x
        else:  # in the tail
            while True:
                over = -np.log1p(-_uniform(source)) / _TAIL
                level = -np.log1p(-_uniform(source))
                if level + level > over * over:
                    return -(_TAIL + over) if (inner >> 8) & 1 else _TAIL + over
        word = next_word(source)


@kernel(inline="always")
def from_word(source, word):
    """A standard normal: 8 bits for the layer, one for the sign, 52 for the place.

    One word in 85 cannot tell alone, and more are drawn.
    """
    inner = np.int64((word >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
    if inner < _INSIDE[word & np.uint64(0xFF)]:
        return inner * _WIDTHS[word & np.uint64(0x1FF)]
    return _anew(source, word)


@kernel()
def fill(source, std, out):
    """Fill `out` with std times standard normals."""
    for k in range(out.shape[0]):
        out[k] = std * from_word(source, next_word(source))
