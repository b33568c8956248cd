"""The slope function of a loss as machine code that every kernel can call.

The kernels take the slope's address as an argument: they are compiled once for all
losses, and a new loss costs the compilation of its slope function alone. Both land in
Numba's cache on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import cfunc, types
from numba.extending import intrinsic

from dpbraid.losses import Loss, MarginLoss

_SIGNATURE = types.float64(types.float64, types.float64, types.float64)


def address(loss: Loss) -> int:
    """Address of the compiled slope function; 0 for a loss that has none."""
    if not isinstance(loss, MarginLoss):
        return 0
    return int(_compiled(type(loss).slope_function).address)


def parameter(loss: Loss) -> float:
    """The one number that the slope function takes besides margin and label."""
    return loss.parameter if isinstance(loss, MarginLoss) else 0.0


@cache
def _compiled(function: Callable[..., Any]) -> Any:
    """The function as C code, kept here so that its address stays valid."""
    try:
        return cfunc(_SIGNATURE, cache=True, error_model="numpy")(function)
    except RuntimeError:  # a loss typed into a console has no file to cache beside
        return cfunc(_SIGNATURE, error_model="numpy")(function)


@intrinsic
def call(
    _typing: Any, address: Any, margin: Any, label: Any, parameter: Any
) -> tuple[Any, Any]:
    """phi'(margin, label, parameter) by the function at this address."""
    signature = types.float64(types.intp, types.float64, types.float64, types.float64)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * 3)
        pointer = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(pointer, arguments[1:])

    return signature, generate
