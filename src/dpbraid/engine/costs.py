"""What a piece of a run costs in time and memory, from shapes alone.

Times are nanoseconds on one core, measured on an AMD EPYC 9005 at 2.6 to 4 GHz with
AVX-512; only their ratios matter, and those are similar on other machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

# Work that one Python-level piece may take, in multiply-adds: about 10 ms, so that
# Ctrl-C is answered in well under 200 ms.
PIECE = 20_000_000
# The same in nanoseconds, where the cost is known.
PIECE_TIME = 10e6
# Rows that are copied side by side for the matrix products.
MAX_ROWS = 256
# Short rows of a wide minibatch: more of them, up to so many numbers (256 kB), since
# each piece costs a few microseconds of Python.
WIDE_NUMBERS = 2**15
# Numbers at once where a grid computes its objective values.
EVALUATED = 2**17
# From this many columns on, steps without noise take two rows in one pass.
LONG_ROW = 128
# From this many rows a step on, margins come from matrix products.
WIDE_BATCH = 48
_BLOCK_SIZES = (10, 15, 20, 25, 30, 40, 60, 80, 120)

_FLOP = 0.035  # a multiply-add of a loop over one row in cache, float64
_PRODUCT = 0.03  # a multiply-add of a matrix product
_GRAM = 0.0275  # a multiply-add of the Gram kernel (half of the square is computed)
_FACTOR = 0.18  # a multiply-add of the bridge's factor
_SLOPE = 18.0  # one slope
_INNER = 1.5  # entering and leaving a loop over columns, too short to fill vectors
_SHORT = 1.85  # the same for the loops of factor and recursion
_ROW = 50.0  # the compiled code around one row of a block
_CALL = 10_000.0  # the Python around one block of many columns
# A standard normal, drawn and added: 3 here, several times as much on machines without
# instructions for AES.
_NORMAL = 4.5
# What costs are nearly the same: the model knows them no better.
_CLOSE = 1.06


@dataclass(frozen=True)
class Shape:
    """d, columns, rows a step, whether steps are noisy, bytes a number (4 or 8)."""

    dimension: int
    columns: int
    batch: int
    noisy: bool
    itemsize: int

    @property
    def _narrow(self) -> float:
        return self.itemsize / 8


def loop_cost(shape: Shape) -> float:
    """Nanoseconds a row of the literal loop.

    Each column reads and writes the whole state at every row, beside a normal for each
    coordinate at every noisy step.
    """
    d, columns = shape.dimension, shape.columns
    flops = 2 * d * columns * _FLOP * shape._narrow
    if columns > 1 and d * columns * shape.itemsize > 2**18:
        flops *= 2  # the state no longer stays in the first caches
    if columns > 1:
        flops += 2 * d * _INNER
    return flops + columns * _SLOPE + shape.noisy * d * _NORMAL / shape.batch


def block_cost(shape: Shape, rows: int) -> float:
    """Nanoseconds a row of blocks of `rows` rows.

    Margins and updates are matrix products, 2 d a column; the Gram matrix costs
    rows / 2 products of length d a row; one W_B of d normals a block; the Cholesky
    factor rows^2 / 6 and the recursion rows / 2 a column, in short loops.
    """
    d, columns = shape.dimension, shape.columns
    products = 2 * d * columns * _PRODUCT * shape._narrow
    gram = d * rows / 2 * _GRAM * shape._narrow
    normals = shape.noisy * d * _NORMAL / rows
    factor = shape.noisy * rows**2 / 6 * _FACTOR
    inner = factor + rows * (columns * _FLOP + _SHORT)
    around = _ROW + (columns > 1) * _CALL / rows
    return products + gram + normals + inner + columns * _SLOPE + d * _FLOP + around


def block_rows(shape: Shape) -> int | None:
    """Rows a block, the cheapest of a few; None where the literal loop is cheaper.

    Of those that cost nearly the same the largest: it draws the least noise.
    """
    sizes = [rows for rows in _BLOCK_SIZES if rows >= shape.batch]
    costs = {rows: block_cost(shape, rows) for rows in sizes}
    cheapest = min(costs.values(), default=math.inf)
    if cheapest >= loop_cost(shape):
        return None
    return max(rows for rows, cost in costs.items() if cost <= _CLOSE * cheapest)


@lru_cache
def blocks_at_once(d: int, rows: int) -> int:
    """Blocks of `rows` rows on one column in one piece, by their time."""
    shape = Shape(d, 1, 1, noisy=True, itemsize=8)
    return max(1, int(PIECE_TIME / (rows * block_cost(shape, rows))))


def memory_bytes(n: int, d: int, columns: int, *, itemsize: int = 8) -> int:
    """Bound on the bytes that a run allocates beside its tables, n rows in all.

    For each row its number in two epochs, a norm, a limit and a label; the state, its
    minibatch buffer and a temporary of its size; noise vectors for one piece; the rows
    of one block, its products and two squares; six temporaries where a grid evaluates
    its objective; 1 MB for Python objects. A float32 grid adds a copy of the tables,
    n * d * 4.
    """
    per_row = 5 * 8
    state = 4 * d * columns * max(itemsize, 8)
    noise = noise_steps(d, itemsize) * d * itemsize
    squares = 2 * max(_BLOCK_SIZES) ** 2
    block = (MAX_ROWS + 2) * d * itemsize + (2 * MAX_ROWS * columns + squares) * 8
    copy = n * d * 4 if itemsize == 4 else 0
    evaluation = 6 * EVALUATED * 8
    return n * per_row + state + noise + block + evaluation + copy + 2**20


def noise_steps(d: int, itemsize: int) -> int:
    """Noise vectors drawn at once for literal steps: 512 kB of them, at least one."""
    return max(1, 2**19 // (d * itemsize))
