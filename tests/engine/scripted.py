"""Noise vectors given one by one, for both engines: what each step adds is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpbraid as db
from dpbraid.engine import literal
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.engine.noise import GIVEN, BlockNoise

Array = NDArray[Any]


class Scripted:
    """rho_1, rho_2, .. of a numbered stream, as the fast engine asks for them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def steps(self, out: Array) -> None:
        for row in out:
            row[:] = self.rng.standard_normal(len(row))

    def blocks(self, size: int, times: Array, table: Array, rows: Array) -> BlockNoise:
        d = table.shape[1]
        W, z = np.empty((-(-len(rows) // size), d), table.dtype), np.empty(len(rows))
        for j, total in enumerate(W):
            block = rows[j * size : (j + 1) * size]
            t = times[: len(block)]
            rho = np.empty((t[-1] + 1, d))
            self.steps(rho)
            sums = np.vstack([np.zeros(d), np.cumsum(rho, axis=0)])
            total[:] = sums[-1]
            # z_i = <a_i, W_t>
            z[j * size : j * size + len(block)] = np.sum(table[block] * sums[t], axis=1)
        return BlockNoise(GIVEN, W, z)

    def end(self, X: Array, rates: Array, stds: Array) -> None:
        X -= self.rng.standard_normal(len(X))[:, None] * (rates * stds)


class ScriptedGenerator(np.random.Generator):
    """The same stream as the literal engine asks for it: one vector a noisy step."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed).bit_generator)


def fast(
    mechanisms: list[db.Mechanism],
    private: db.Rows,
    public: db.Rows | None,
    *,
    seed: int,
    start: Array,
    rows_per_block: int | None,
    dtype: type = np.float64,
    order_seed: int = 0,
) -> Array:
    """Last iterates of the fast engine, (columns, d), on the scripted noise."""
    m = mechanisms[0]
    X = np.repeat(start[:, None], len(mechanisms), axis=1).astype(dtype)
    tables = [
        None if rows is None else Table.of(rows, m.loss, m.clip_norm, dtype)
        for rows in (private, public)
    ]
    assert tables[0] is not None
    engine = Blocked(
        Columns.of(mechanisms),
        tables[0],
        tables[1],
        X,
        Scripted(seed),
        rows_per_block=rows_per_block,
    )
    for _ in engine.epochs(np.random.default_rng(order_seed)):
        pass
    return X.T


def slow(
    mechanism: db.Mechanism,
    private: db.Rows,
    public: db.Rows | None,
    *,
    seed: int,
    start: Array,
    order_seed: int = 0,
) -> list[Array]:
    """All iterates of the literal engine on the same noise."""
    given = start if isinstance(mechanism.start, db.Given) else None
    return list(
        literal.iterates_not_private(
            mechanism,
            private,
            public,
            order_rng=np.random.default_rng(order_seed),
            noise_rng=ScriptedGenerator(seed),
            start=given,
        )
    )
