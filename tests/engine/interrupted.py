"""Run as a program: long runs, one for each way of the engine, each ended by Ctrl-C.

For each it prints "ready NAME" from within the run, and after the interrupt the time
of the monotonic clock, the size of the BLAS pools and what became of the state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_info

import dpbraid as db
from dpbraid.engine import grid_not_private, run


def rows(loss: db.losses.Loss, n: int, d: int) -> db.Rows:
    rng = np.random.default_rng(0)
    y = None if loss.labels == "none" else np.sign(rng.standard_normal(n))
    return db.Rows.bounded(rng.standard_normal((n, d)), y, row_norm=1.0)


def mechanism(
    loss: db.losses.Loss, n: int, placement: str = "every_step", batch: int = 1
) -> db.Mechanism:
    return db.dp(
        n,
        1_000,
        loss=loss,
        learning_rate=1e-3,
        clip_norm=1.0,
        row_norm=1.0,
        placement=placement,
        batch_size=batch,
    )


def release(
    n: int,
    d: int,
    placement: str = "every_step",
    batch: int = 1,
    loss: db.losses.Loss = db.Logistic(),  # noqa: B008
) -> Callable[[Callable[[int, int], None]], object]:
    m = mechanism(loss, n, placement, batch)
    return lambda progress: run(m, rows(loss, n, d), progress=progress)


def grid(
    n: int, d: int, columns: int, batch: int = 1
) -> Callable[[Callable[[int, int], None]], object]:
    m = mechanism(db.Logistic(), n, batch=batch)
    noises = [m.with_noise(1 + i) for i in range(columns)]
    return lambda progress: grid_not_private(
        noises, rows(db.Logistic(), n, d), seed=0, progress=progress
    )


RUNS = {
    "loop, noise at epoch ends": release(5_000, 500, "epoch_end"),
    "loop, short rows": release(50_000, 11, "epoch_end"),
    "loop, noise at every step": release(20_000, 11),
    "loop, minibatches": release(5_000, 200, "epoch_end", batch=20),
    "blocks": release(500, 3072),
    "blocks of a grid": grid(500, 3072, 36),
    "loop of a grid": grid(5_000, 11, 36),
    "wide minibatches": release(5_000, 500, batch=5_000),
    "wide minibatches of a grid": grid(5_000, 500, 36, batch=5_000),
    "mean": release(1_000, 2_000, loss=db.Mean()),
}


def main() -> None:
    before = [(i["filepath"], i["num_threads"]) for i in threadpool_info()]
    for name, start in RUNS.items():
        told = 0

        def progress(done: int, total: int, name: str = name) -> None:
            nonlocal told
            assert 0 <= done <= total
            told += 1
            if told == 5:
                print("ready", name, flush=True)

        result = "finished"
        try:
            start(progress)
        except KeyboardInterrupt:
            result = "stopped"
        print(result, time.monotonic(), flush=True)
        after = [(i["filepath"], i["num_threads"]) for i in threadpool_info()]
        assert [a for a in after if a in before] == before
    print("bye", sys.exc_info()[0], flush=True)


if __name__ == "__main__":
    main()
