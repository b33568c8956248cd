"""The paper's figures: how long they take, and how long a plain loop would.

    python benchmarks/paper.py             all claims, some minutes
    python benchmarks/paper.py --only a
    python benchmarks/paper.py --tiny      small sizes, for a look at whether it runs

For figures worth quoting let the machine do nothing else.

a   the runs of Figure 2 against a literal loop in Numba: one column after the other,
    NumPy's normals drawn by compiled code at every noisy step. Both on one core, in
    processor time. Measured are, for every task and algorithm, one epoch of each kind
    of the loop and one whole run of the engine (all learning rates and epsilons); both
    are multiplied by how often Figure 2 has them
b   `dpbraid paper` from its start to its end, wall time and memory, compiled before
c   the same with all 30 panels
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dpbraid.engine.objective import objective
from dpbraid.losses import Logistic, Mean, Squared
from dpbraid.mechanism import Epoch, Mechanism
from dpbraid.paper import study, sweep
from dpbraid.paper.store import Store
from dpbraid.paper.sweep import Settings, Unit
from dpbraid.paper.tasks import Task

Array = NDArray[Any]
KINDS = {Mean: 0, Squared: 1, Logistic: 2}


@dataclass(frozen=True)
class Line:
    """One row of the printed table; `holds` is None for what is no claim."""

    claim: str
    what: str
    found: str
    claimed: str = ""
    holds: bool | None = None


# -- the literal loop ------------------------------------------------------------------


@numba.njit(error_model="numpy", fastmath=True)
def literal(x, T, y, norms, rows, kind, clip, eta, scale, rng):  # type: ignore[no-untyped-def]
    """One clipped step a row; with scale > 0 a normal for every coordinate."""
    d = x.shape[0]
    for r in rows:
        total = 0.0
        if kind == 0:
            for k in range(d):
                total += (x[k] - T[r, k]) ** 2
            step = eta * min(1.0, clip / np.sqrt(total)) if total > 0 else eta
            for k in range(d):
                x[k] -= step * (x[k] - T[r, k])
        else:
            for k in range(d):
                total += T[r, k] * x[k]
            if kind == 1:
                slope = 2 * (total - y[r])
            else:
                slope = -y[r] / (1 + np.exp(y[r] * total))
            limit = clip / norms[r]
            step = eta * min(max(slope, -limit), limit)
            for k in range(d):
                x[k] -= step * T[r, k]
        if scale > 0:
            for k in range(d):
                x[k] -= scale * rng.standard_normal()


def loop_seconds(task: Task, mechanism: Mechanism) -> float:
    """Processor time of one run of one column, from one epoch of each kind."""
    tables = [
        (
            np.ascontiguousarray(rows.X, dtype=np.float32),
            np.zeros(len(rows)) if rows.y is None else rows.y,
            np.linalg.norm(rows.X, axis=1),
        )
        for rows in (task.private, task.public)
    ]
    rng = np.random.default_rng(0)
    return sum(
        count * _epoch_seconds(task, mechanism, epoch, tables, rng)
        for count, epoch in mechanism.runs()
    )


def _epoch_seconds(
    task: Task,
    mechanism: Mechanism,
    epoch: Epoch,
    tables: Sequence[tuple[Array, Array, Array]],
    rng: np.random.Generator,
) -> float:
    assert mechanism.clip_norm is not None
    kind = KINDS[type(mechanism.loss)]
    scale = epoch.learning_rate * epoch.noise_std
    x = np.zeros(task.dimension, np.float32)
    start = process_time()
    for (T, y, norms), count in zip(
        tables, (epoch.private_rows, epoch.public_rows), strict=True
    ):
        rows = rng.permutation(len(T))[:count]
        literal(
            x,
            T,
            y,
            norms,
            rows,
            kind,
            mechanism.clip_norm,
            epoch.learning_rate,
            scale,
            rng,
        )
    x = mechanism.penalty.prox(x.astype(np.float64), epoch.learning_rate * epoch.rows)
    objective(task.loss, mechanism.penalty, x, task.private)
    return process_time() - start


# -- a: the runs -----------------------------------------------------------------------


def ratio(tiny: bool) -> list[Line]:
    """Figure 2's runs, task by task."""
    chosen = study.choose(["fig2-crime" if tiny else "fig2"])
    if tiny:
        chosen = tuple(
            replace(panel, epochs=2, learning_rates=(1e-6,)) for panel in chosen
        )
    options = study.task_options(chosen)
    tasks = study.Study(chosen, options, Settings()).tasks()
    with Store(":memory:", "benchmark") as store:
        units = sweep.plan(
            [(panel, tasks[panel.task]) for panel in chosen], Settings(), store
        )
    runs = chosen[0].runs
    lines, totals = [], np.zeros(2)
    for name, task in tasks.items():
        ours = [unit for unit in units if unit.task is task and unit.number == 0]
        for unit in ours:  # compiles
            _loop(unit)
            sweep.run(replace(unit, cells=unit.cells[:2]))
        seconds = np.array([(_loop(unit), _engine(unit)) for unit in ours]).sum(axis=0)
        totals += runs * seconds
        lines.append(Line("a", f"{name}, {runs} runs", _times(*(runs * seconds))))
    loop, engine = totals
    found = f"{_times(loop, engine)}, {loop / engine:.3g}x"
    lines.append(Line("a", "together, both extrapolated", found))
    return lines


def _loop(unit: Unit) -> float:
    """Seconds of all columns of a unit, one after the other."""
    # a rate that keeps numbers ordinary: subnormal ones would slow the loop down
    cell = min(unit.cells, key=lambda cell: abs(np.log10(cell.learning_rate) + 4))
    return len(unit.cells) * loop_seconds(unit.task, cell.mechanism)


def _engine(unit: Unit) -> float:
    start = process_time()
    sweep.run(unit)
    return process_time() - start


def _times(loop: float, engine: float) -> str:
    return f"loop {loop:.4g} s, dpbraid {engine:.4g} s"


# -- b, c: from start to end -----------------------------------------------------------


def whole(claim: str, words: Sequence[str], limit: float, tiny: bool) -> list[Line]:
    """`dpbraid paper` in a process of its own, twice: the first time compiles."""
    command = [sys.executable, "-c", "from dpbraid.cli import main; main()", "paper"]
    small = ["--runs", "1", "--grid", "1e-5"]
    with tempfile.TemporaryDirectory() as folder:
        for turn, more in enumerate((small, small if tiny else [])):
            before = perf_counter()
            subprocess.run(
                [*command, *words, *more, "--out", str(Path(folder) / str(turn))],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            seconds = perf_counter() - before
    # of the largest child so far
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    cores = os.cpu_count()
    what = f"dpbraid paper {' '.join(words)}".strip()
    return [
        Line(
            claim,
            f"{what}, {cores} cores",
            f"{seconds:.1f} s",
            f"< {limit:g} s on 2 cores",
            None if tiny else seconds < limit,
        ),
        Line(
            claim,
            "peak memory",
            f"{memory:.2f} GiB",
            "< 2 GiB",
            None if tiny else memory < 2,
        ),
    ]


CLAIMS = {
    "a": ratio,
    "b": lambda tiny: whole("b", ["--panel", "fig2-crime"] if tiny else [], 60, tiny),
    "c": lambda tiny: whole(
        "c", ["--panel", "epochs-crime" if tiny else "all"], 180, tiny
    ),
}


def main(words: Sequence[str] | None = None) -> list[Line]:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Times of the paper's figures.")
    parser.add_argument("--only", default=",".join(CLAIMS))
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args(words)
    chosen = arguments.only.split(",")
    if not set(chosen) <= set(CLAIMS):
        parser.error(f"--only takes {', '.join(CLAIMS)}, got {arguments.only!r}")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    lines = []
    for name in chosen:
        for line in CLAIMS[name](arguments.tiny):
            mark = {None: "", True: "holds", False: "DOES NOT HOLD"}[line.holds]
            words = f"{line.claim}  {line.what:44} {line.found:44} {line.claimed:20}"
            print(words, mark, flush=True)
            lines.append(line)
    return lines


if __name__ == "__main__":
    sys.exit(any(line.holds is False for line in main()))
