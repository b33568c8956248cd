"""Small sweeps in processes of their own: lines "SECONDS FILE" to sweep_child.py.

Each sweep runs in a fork of this process, where all that is slow to import and compile
is there, and is killed (SIGKILL) after that many seconds. After each, a line: whether
it was "killed" or "done", how many units were said to be safe on disk, and its seconds.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from dataclasses import replace

from dpbraid.paper import panels, sweep, tasks
from dpbraid.paper.store import Store

RUNS = 10
PANELS = [
    replace(panels.panel(name), runs=RUNS, epochs=20, learning_rates=(1e-4, 1e-6))
    for name in ("fig2-crime-eps1", "epochs-crime-eps5")
]
TASK = tasks.load("crime")


def plan(store: Store) -> list[sweep.Unit]:
    return sweep.plan([(panel, TASK) for panel in PANELS], sweep.Settings(), store)


def work(path: str, safe: int) -> None:
    """The whole sweep; one byte to `safe` for each unit that is on disk."""
    with Store(path, sweep.code_version()) as store:
        sweep.sweep(
            plan(store), store, jobs=2, progress=lambda _unit: os.write(safe, b".")
        )


def run(path: str, seconds: float) -> str:
    reading, writing = os.pipe()
    begin = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.close(reading)
        work(path, writing)
        os._exit(0)
    os.close(writing)
    status = None
    while status is None:
        found, code = os.waitpid(child, os.WNOHANG)
        if found:
            status = code
        elif time.perf_counter() - begin >= seconds:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        else:
            time.sleep(0.001)
    took = time.perf_counter() - begin
    with os.fdopen(reading, "rb") as pipe:
        safe = len(pipe.read())
    words = {0: "done", signal.SIGKILL: "killed"}
    return f"{words.get(status, status)} {safe} {took}"


def main() -> None:
    with Store(":memory:", "warm up") as store:
        sweep.run(plan(store)[0])
    for line in sys.stdin:
        seconds, path = line.rstrip("\n").split(" ", 1)
        print(run(path, math.inf if seconds == "inf" else float(seconds)), flush=True)


if __name__ == "__main__":
    main()
