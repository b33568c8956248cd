"""The fast engine: epochs of many columns, exact in law (docs/engine.md).

Three ways of doing the same steps, chosen by their cost:

- the literal loop, compiled, all columns at once;
- blocks of B steps, for margin losses: the margins of all steps from one matrix
  product, a recursion on the block's Gram matrix, and one product back. Of the B noise
  vectors of a block only W_B and the B numbers <a_t, W_t> are drawn;
- wide minibatches: a step is a block by itself, in pieces of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine import block_kernels, costs, kernels, normals
from dpbraid.engine.columns import AnyArray, Array, Columns, Slope, Table
from dpbraid.engine.noise import GIVEN, BlockNoise, Noise
from dpbraid.losses import MarginLoss
from dpbraid.mechanism import Placement
from dpbraid.orders import Draws
from dpbraid.penalties import NoPenalty

Progress = Callable[[int, int], None]
RowNumbers = NDArray[np.int64]


class Blocked:
    """A run of some columns on their tables; `epochs` moves the state on."""

    def __init__(
        self,
        columns: Columns,
        private: Table,
        public: Table | None,
        X: AnyArray,
        noise: Noise,
        *,
        progress: Progress | None = None,
        rows_per_block: int | None = None,
    ) -> None:
        """X: (d, columns), C order, changed in place.

        progress: called with (steps done, all steps). rows_per_block: for tests; 0 for
        the literal loop everywhere, None for the choice by cost.
        """
        self._columns = columns
        self._private = private
        self._public = public
        self._X = X
        self._noise = noise
        self._progress = progress
        self._rows_per_block = rows_per_block
        self._done = 0
        self._total = columns.steps
        d, count = X.shape
        self._slope = Slope.of(columns.shared, d)
        self._batch = columns.shared.batch_size
        self._is_margin = isinstance(columns.shared.loss, MarginLoss)
        self._step = np.empty(count, X.dtype)
        self._D = np.zeros_like(X)
        self._gemm = _gemm(X.dtype)
        self._rows = {noisy: self._block_rows(noisy) for noisy in (False, True)}

    def epochs(self, order_rng: Draws) -> Iterator[None]:
        """Yields after each epoch."""
        mechanism = self._columns.shared
        public_rows = 0 if self._public is None else len(self._public.X)
        walk = mechanism.walk(public_rows, order_rng)
        all_rates, all_stds = self._columns.learning_rates, self._columns.noise_stds
        all_scales, all_etas = all_rates * all_stds, all_rates / self._batch
        all_noisy = np.any(all_scales > 0, axis=1).tolist()
        numbers = zip(all_rates, all_stds, all_scales, all_etas, all_noisy, strict=True)
        for (epoch, private, public), given in zip(walk, numbers, strict=True):
            rates, stds, scales, eta, noisy = given
            every_step = noisy and epoch.placement is Placement.EVERY_STEP
            self._advance(self._private, private, eta, scales, every_step)
            if noisy and not every_step:
                # rho of the last private step; x - eta g is already there
                self._noise.end(self._X, rates, stds)
            if self._public is not None:
                self._advance(self._public, public, eta, scales, every_step)
            if not isinstance(mechanism.penalty, NoPenalty):
                steps = rates * epoch.rows / self._batch
                self._X[...] = mechanism.penalty.prox(self._X, steps)  # type: ignore[arg-type]
            yield

    def _advance(
        self, table: Table, rows: RowNumbers, eta: Array, scales: Array, noisy: bool
    ) -> None:
        """Take the steps on these rows; noise on each of them where `noisy`."""
        one, single = self._X.shape[1] == 1, self._batch == 1
        if len(rows) == 0:
            return
        if self._batch >= costs.WIDE_BATCH:
            self._wide(table, rows, eta, scales, noisy)
        elif self._rows[noisy]:
            scales = scales if noisy else np.zeros_like(scales)
            blocks = self._blocks_one if one else self._blocks_many
            blocks(table, rows, eta, scales, noisy, self._rows[noisy])
        elif one and single and self._is_margin and not noisy:
            self._quiet(table, rows, eta)
        else:
            self._loop(table, rows, eta, scales, noisy)

    def _block_rows(self, noisy: bool) -> int:
        """Rows a block, whole steps of them; 0 for the literal loop."""
        if not self._is_margin:
            return 0
        rows = self._rows_per_block
        if rows is None:
            d, count = self._X.shape
            shape = costs.Shape(d, count, self._batch, noisy, self._X.itemsize)
            rows = costs.block_rows(shape) or 0
        return rows // self._batch * self._batch

    def _report(self, rows: int) -> None:
        self._done += -(-rows // self._batch)
        if self._progress is not None:
            self._progress(self._done, self._total)

    # -- literal steps ---------------------------------------------------------------

    def _quiet(self, table: Table, rows: RowNumbers, eta: Array) -> None:
        """Steps of one column on single rows, without noise."""
        s, x = self._slope, self._X[:, 0]
        data, loss = (table.X, table.y, table.limits), (s.address, s.parameter)
        steps = max(2, costs.PIECE // (4 * len(x)) * 2)
        for first in range(0, len(rows), steps):
            piece = rows[first : first + steps]
            paired = len(piece) // 2 * 2 if len(x) >= costs.LONG_ROW else 0
            if paired:
                kernels.quiet_pairs_one(x, *data, piece[:paired], eta[0], *loss)
            if paired < len(piece):
                kernels.quiet_steps_one(x, *data, piece[paired:], eta[0], *loss)
            self._report(len(piece))

    def _loop(
        self, table: Table, rows: RowNumbers, eta: Array, scales: Array, noisy: bool
    ) -> None:
        d, count = self._X.shape
        b = self._batch
        steps = max(1, costs.PIECE // (2 * d * count * b))
        if noisy:
            steps = min(steps, costs.noise_steps(d, self._X.itemsize))
        steps = min(steps, -(-len(rows) // b))
        buffer = np.empty((steps if noisy else 0, d), self._X.dtype)
        for first in range(0, len(rows), steps * b):
            piece = rows[first : first + steps * b]
            noise = buffer[: -(-len(piece) // b)]
            if noisy:
                self._noise.steps(noise)
            self._literal(table, piece, eta, scales.astype(self._X.dtype), noise)
            self._report(len(piece))

    def _literal(
        self,
        table: Table,
        rows: RowNumbers,
        eta: Array,
        scales: AnyArray,
        noise: AnyArray,
    ) -> None:
        s, X, D, step = self._slope, self._X, self._D, self._step
        one, b = X.shape[1] == 1, self._batch
        data = (table.X, table.y, table.limits, rows)
        loss = (s.address, s.parameter)
        if self._is_margin and one and b == 1:
            kernels.steps_one(X[:, 0], *data, eta[0], *loss, noise, scales[0])
        elif self._is_margin and one:
            x, moved = X[:, 0], D[:, 0]
            kernels.minibatches_one(x, moved, *data, b, eta[0], *loss, noise, scales[0])
        elif self._is_margin and b == 1:
            kernels.steps_many(X, *data, eta, *loss, noise, scales, step)
        elif self._is_margin:
            kernels.minibatches_many(X, D, *data, b, eta, *loss, noise, scales, step)
        elif one and b == 1:
            x = X[:, 0]
            kernels.mean_steps_one(
                x, table.X, rows, eta[0], s.clip_norm, noise, scales[0]
            )
        elif b == 1:
            kernels.mean_steps_many(
                X,
                table.X,
                rows,
                eta,
                s.clip_norm,
                noise,
                scales,
                step,
                np.empty_like(step),
                X.dtype.type(_tiny(X.dtype)),
            )
        else:
            kernels.mean_minibatches(
                X, D, table.X, rows, b, eta, s.clip_norm, noise, scales, step
            )

    # -- wide minibatches ------------------------------------------------------------

    def _wide(
        self, table: Table, rows: RowNumbers, eta: Array, scales: Array, noisy: bool
    ) -> None:
        d, count = self._X.shape
        most = max(costs.MAX_ROWS, costs.WIDE_NUMBERS // (d + count))
        size = min(self._batch, len(rows), most)
        size = max(1, min(size, costs.PIECE // (4 * d * count)))
        A = np.empty((size, d), self._X.dtype)
        M = np.empty((size, count), self._X.dtype)
        noise = np.empty((int(noisy), d), self._X.dtype)
        for first in range(0, len(rows), self._batch):
            step = rows[first : first + self._batch]
            for begin in range(0, len(step), size):
                piece = step[begin : begin + size]
                self._accumulate(table, piece, eta, A[: len(piece)], M[: len(piece)])
                if self._progress is not None:  # an interrupt can land here too
                    self._progress(self._done, self._total)
            if noisy:
                self._noise.steps(noise)
            kernels.finish_step(
                self._X, self._D, noise, 0, scales.astype(self._X.dtype)
            )
            self._report(len(step))

    def _accumulate(
        self, table: Table, rows: RowNumbers, eta: Array, A: AnyArray, M: AnyArray
    ) -> None:
        """D <- D + eta * sum of the clipped gradients of these rows."""
        s = self._slope
        if not self._is_margin:
            kernels.add_mean_gradients(
                self._X, self._D, table.X, rows, eta, s.clip_norm, self._step
            )
            return
        np.take(table.X, rows, axis=0, out=A, mode="clip")
        np.matmul(A, self._X, out=M)
        block_kernels.slopes(
            M, rows, table.y, table.limits, eta, s.address, s.parameter, _tiny(A.dtype)
        )
        self._add_product(1.0, A, M, self._D)

    def _add_product(
        self, sign: float, A: AnyArray, M: AnyArray, out: AnyArray
    ) -> None:
        """Out <- out + sign A^T M, in place (BLAS sees the transposes)."""
        self._gemm(sign, M.T, A.T, 1.0, out.T, trans_b=1, overwrite_c=1)

    # -- blocks ----------------------------------------------------------------------

    def _blocks_one(
        self,
        table: Table,
        rows: RowNumbers,
        eta: Array,
        scales: Array,
        noisy: bool,
        size: int,
    ) -> None:
        """Blocks of one column, some at a time: rows are read where they are."""
        b = self._batch
        size = min(size, -(-len(rows) // b) * b)
        at_once = costs.blocks_at_once(len(self._X), size)
        times, after = _steps(size, b)
        slope = (self._slope.address, self._slope.parameter)
        data = (self._X[:, 0], table.X, table.y, table.limits, table.norms)
        for first in range(0, len(rows), at_once * size):
            piece = rows[first : first + at_once * size]
            cut = (piece, size, times, after)
            noise = self._block_noise(noisy, size, times, table, piece)
            block_kernels.blocks_one(*data, *cut, eta[0], slope, scales[0], *noise)
            self._report(len(piece))

    def _block_noise(
        self, noisy: bool, size: int, times: RowNumbers, table: Table, rows: RowNumbers
    ) -> BlockNoise:
        if noisy:
            return self._noise.blocks(size, times, table.X, rows)
        blocks = -(-len(rows) // size)
        W = np.zeros((blocks, len(self._X)), self._X.dtype)
        return BlockNoise(GIVEN, W, np.zeros(len(rows)))

    def _blocks_many(
        self,
        table: Table,
        rows: RowNumbers,
        eta: Array,
        scales: Array,
        noisy: bool,
        size: int,
    ) -> None:
        """Blocks of many columns: their rows are copied for the matrix products."""
        X, s, b = self._X, self._slope, self._batch
        size = min(size, -(-len(rows) // b) * b)
        # the rows of a block side by side, and their margins; W_B and its coefficients
        # stand below them
        rows_A, rows_M = (np.empty((size + 1, k), X.dtype) for k in X.shape)
        G, U = np.empty((size, size), X.dtype), np.empty((size, size))
        sums, numbers = np.empty(size, X.dtype), np.arange(size)
        all_times, after = _steps(size, b)
        loss = (s.address, s.parameter)
        for first in range(0, len(rows), size):
            piece = rows[first : first + size]
            count, times = len(piece), all_times[: len(piece)]
            A, M = rows_A[: count + 1], rows_M[: count + 1]
            source, W, z = self._block_noise(noisy, size, times, table, piece)
            if source != GIVEN:
                normals.fill(source, math.sqrt(times[-1] + 1), W[0])
                normals.fill(source, 1.0, z[:count])
            A[count], M[count] = W[0], scales
            block_kernels.gather(table.X, piece, A)
            np.matmul(A[:count], X, out=M[:count])
            block_kernels.products(
                A, numbers[:count], A[count], A[count], G, sums, sums
            )
            if source != GIVEN:
                block_kernels.bridge(times, table.norms[piece], sums, G, z, U)
            row_data = (piece, table.y, table.limits, after)
            block_kernels.descend_many(
                M[:count], G, *row_data, eta, *loss, z, scales, _tiny(X.dtype)
            )
            # X_B = X_0 - A^T (eta c) - W_B scale
            self._add_product(-1.0, A, M, X)
            self._report(count)


@lru_cache
def _steps(size: int, batch: int) -> tuple[RowNumbers, RowNumbers]:
    """For each row of a block: its step, and the first row of the next step."""
    steps = np.arange(size) // batch
    return steps, (steps + 1) * batch


def _gemm(dtype: np.dtype[Any]) -> Any:
    from scipy.linalg import blas

    return blas.sgemm if dtype == np.float32 else blas.dgemm


def _tiny(dtype: np.dtype[Any]) -> float:
    """Steps below this are 0 in single precision; in double nothing is."""
    return 1e-30 if dtype == np.float32 else 0.0
