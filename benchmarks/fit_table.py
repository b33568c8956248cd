"""A fit from a Parquet table: seconds, and memory as a multiple of the table.

    python benchmarks/fit_table.py            100,000 rows x 100 columns
    python benchmarks/fit_table.py 20000 50   any other size

The table is written first, and a small one is fitted first, so that compiling and
importing do not count. cpu is the processor time of all threads: on a busy machine it
says more than the seconds. Memory is the peak of the resident set during the fit over
what it was before, divided by rows * columns * 8 bytes; the peak is Linux's VmHWM.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpbraid.estimators import from_files
from dpbraid.estimators.table_files import open_table

PUBLIC_ROWS = 1000


def main(rows: int, columns: int) -> None:
    """Print one row a task."""
    size = rows * columns * 8
    print(f"{rows} x {columns} from Parquet, {size / 1e6:.0f} MB as float64")
    print(f"{'task':<12}{'seconds':>9}{'cpu':>9}{'memory':>9}")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for seed, count in enumerate((rows, PUBLIC_ROWS, PUBLIC_ROWS)):
            path = Path(folder) / f"{seed}.parquet"
            pq.write_table(table(count, columns, seed), path)
            files.append(open_table(path))
        big, small, public = files
        for task in ("logistic", "ridge"):
            fit(task, small, public)
            before = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
            start, cpu = time.perf_counter(), time.process_time()
            fit(task, big, public)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            share = (memory("VmHWM") - before) / size
            print(f"{task:<12}{seconds:>9.2f}{cpu:>9.2f}{share:>8.2f}x", flush=True)


def table(rows: int, columns: int, seed: int) -> pa.Table:
    """Standard normal features, and a label that leans on the first ten."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    z = X[:, :10].sum(axis=1) + rng.standard_normal(rows)
    names = {f"x{j}": X[:, j] for j in range(columns)}
    return pa.table({**names, "number": z, "sign": np.where(z > 0, "up", "down")})


def fit(task: str, private: object, public: object) -> None:
    """As `dpbraid fit` does."""
    target, other = ("sign", "number") if task == "logistic" else ("number", "sign")
    rules = from_files.learn_for(task, public, target=target, leave_out=[other])
    estimator = from_files.estimator(task, {"epsilon": 3.0, "delta": 1e-6})
    from_files.fit(estimator, rules, private, public)


def memory(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


if __name__ == "__main__":
    main(*(map(int, sys.argv[1:]) if sys.argv[1:] else (100_000, 100)))
