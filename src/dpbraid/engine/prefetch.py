"""Ask for a row of a table before it is needed: a hint that changes no result."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(_typing: Any, table: Any, row: Any, column: Any) -> tuple[Any, Any]:
    """Start loading the cache line of table[row, column]."""
    signature = types.void(table, row, column)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = context.make_array(table)(context, builder, arguments[0])
        entry = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, table, array, list(arguments[1:])
        )
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = number(0), number(3), number(1)
        builder.call(hint, [builder.bitcast(entry, byte), read, keep, data])
        return context.get_dummy_value()

    return signature, generate
