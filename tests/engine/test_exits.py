"""Runs end cleanly, tell only counts, and stay within the stated memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import dpbraid as db
from dpbraid.engine import costs, grid_not_private, run
from tests.engine.interrupted import RUNS

ROOT = Path(__file__).parents[2]


def test_ctrl_c_ends_every_kind_of_run_at_once(tmp_path: Path) -> None:
    """Within 200 ms, by KeyboardInterrupt; no file, no thread limit stays behind."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.interrupted"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert child.stdout is not None
    late = {}
    try:
        for name in RUNS:
            assert child.stdout.readline().split(maxsplit=1) == ["ready", name + "\n"]
            time.sleep(0.05)
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            word, when = child.stdout.readline().split()
            assert word == "stopped"
            late[name] = float(when) - sent
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out.split() == ["bye", "None"], err
    assert not list(tmp_path.iterdir())
    assert max(late.values()) < 0.2, late


def table(loss: db.losses.Loss, n: int, d: int) -> db.Rows:
    rng = np.random.default_rng(0)
    y = None if loss.labels == "none" else np.sign(rng.standard_normal(n))
    return db.Rows.bounded(rng.standard_normal((n, d)), y, row_norm=1.0)


def peak(start: Callable[[], Any]) -> int:
    """Bytes at the highest point of a second call: the first one compiles."""
    start()
    tracemalloc.start()
    start()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("loss", [db.Logistic(), db.Mean()], ids=lambda p: p.kind)
def test_memory_of_a_long_table_is_a_few_numbers_a_row(loss: db.losses.Loss) -> None:
    """Where nothing else counts the formula is not far above."""
    n = 2_000_000
    m = db.dp(n, 2, loss=loss, learning_rate=0.1, clip_norm=1.0, row_norm=1.0)
    rows = table(loss, n, 1)
    bound = costs.memory_bytes(n, 1, 1)
    assert 0.7 * bound < peak(lambda: run(m, rows)) <= bound


@pytest.mark.parametrize("loss", [db.Logistic(), db.Mean()], ids=lambda p: p.kind)
@pytest.mark.parametrize("placement", list(db.Placement))
@pytest.mark.parametrize("batch", [1, 5, 400])
@pytest.mark.parametrize(("n", "d"), [(400, 6000), (60_000, 5), (3_000, 300)])
def test_memory_stays_within_the_stated_formula(
    loss: db.losses.Loss, placement: db.Placement, batch: int, n: int, d: int
) -> None:
    """Everything allocated by NumPy and Python beside the tables, at its peak.

    The formula says less than a second table and 8 MB for a run in float64.
    """
    m = db.dp(
        n,
        2,
        loss=loss,
        learning_rate=0.1,
        clip_norm=1.0,
        row_norm=1.0,
        batch_size=batch,
        placement=placement,
    )
    rows = table(loss, n, d)
    columns = [m.with_noise(1 + i) for i in range(12)]
    one = peak(lambda: run(m, rows))
    bound = costs.memory_bytes(n, d, 1)
    assert one <= bound <= rows.X.nbytes + 2**23
    for dtype, itemsize in (("float64", 8), ("float32", 4)):
        many = peak(
            lambda dtype=dtype: grid_not_private(columns, rows, seed=0, dtype=dtype)
        )
        bound = costs.memory_bytes(n, d, 12, itemsize=itemsize)
        assert many <= bound


def test_progress_is_told_counts_alone() -> None:
    """Two whole numbers, the same for other private rows."""
    m = db.dp(300, 3, loss=db.Logistic(), learning_rate=0.1, clip_norm=1.0)
    told: list[list[tuple[Any, ...]]] = []
    for sign in (1, -1):
        X = sign * np.random.default_rng(0).standard_normal((300, 40))
        seen: list[tuple[Any, ...]] = []
        run(
            m,
            db.Rows.bounded(X, np.ones(300)),
            seed=1,
            progress=lambda *counts, seen=seen: seen.append(counts),
        )
        told.append(seen)
    assert told[0] == told[1]
    assert told[0][-1] == (900, 900)
    assert {tuple(map(type, counts)) for counts in told[0]} == {(int, int)}


def test_an_error_in_the_callback_ends_the_run_cleanly() -> None:
    """The thread limits are back, and a run afterwards is not disturbed."""
    m = db.dp(300, 3, loss=db.Logistic(), learning_rate=0.1, clip_norm=1.0)
    rows = table(db.Logistic(), 300, 4)
    before = [i["num_threads"] for i in threadpool_info()]
    expected = run(m, rows, seed=1).x

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run(m, rows, seed=1, progress=stop)
    assert [i["num_threads"] for i in threadpool_info()] == before
    assert np.array_equal(run(m, rows, seed=1).x, expected)
