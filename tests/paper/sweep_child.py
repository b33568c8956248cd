"""A small sweep in a process of its own: python sweep_child.py FILE.

Prints "ready" when all that is slow to import and compile is there, and "done".
"""

from __future__ import annotations

import sys
from dataclasses import replace

from dpbraid.paper import panels, sweep, tasks
from dpbraid.paper.store import Store

RUNS = 10
PANELS = [
    replace(panels.panel(name), runs=RUNS, epochs=20, learning_rates=(1e-4, 1e-6))
    for name in ("fig2-crime-eps1", "epochs-crime-eps5")
]


def main(path: str) -> None:
    task = tasks.load("crime")
    chosen = [(panel, task) for panel in PANELS]
    settings = sweep.Settings()
    with Store(":memory:", "warm up") as store:
        sweep.run(sweep.plan(chosen, settings, store)[0])
    print("ready", flush=True)
    with Store(path, sweep.code_version()) as store:
        sweep.sweep(sweep.plan(chosen, settings, store), store, jobs=2)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
