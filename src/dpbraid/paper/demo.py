"""The demo: one panel of the paper in full, and what better placed noise changes.

Research on data that are public by now: it shows objective values on private rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpbraid._files import write_atomically
from dpbraid.paper import figures, results, study, sweep
from dpbraid.paper.results import Result
from dpbraid.paper.store import Store
from dpbraid.paper.study import Study

PANEL = "fig2-crime-eps1"


@dataclass(frozen=True, eq=False)
class Demo:
    """The panel as in the paper, and with noise at epoch ends by the best analysis."""

    paper: Result
    beside: Result


def run(jobs: int, progress: Callable[[float, float], None] | None = None) -> Demo:
    """All learning rates and runs of the panel, twice.

    progress: called with (work done, all work).
    """
    panels = study.choose([PANEL])
    asked = Study(panels, study.task_options(panels), sweep.Settings(), beside=True)
    tasks = asked.tasks()
    chosen = [(panel, tasks[panel.task]) for panel in panels]
    with Store(":memory:", asked.version) as store:
        units = [
            unit
            for settings in asked.all_settings
            for unit in sweep.plan(chosen, settings, store)
        ]
        total, done = sum(map(sweep.work, units)), 0.0

        def report(unit: sweep.Unit) -> None:
            nonlocal done
            done += sweep.work(unit)
            if progress is not None:
                progress(done, total)

        sweep.sweep(units, store, jobs=jobs, progress=report)
        paper, beside = (
            results.read(asked, tasks, store, which)[0] for which in (0, 1)
        )
    return Demo(paper, beside)


def draw(demo: Demo, out: Path) -> None:
    """Both in one picture (.png or .svg), on the same axes."""
    figure = figures.pair(demo.paper, demo.beside)
    write_atomically(out, figures.picture(figure, out.suffix[1:]))
