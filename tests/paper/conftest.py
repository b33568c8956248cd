from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from dpbraid.paper import results, study, sweep
from dpbraid.paper.results import Result
from dpbraid.paper.store import Store
from dpbraid.paper.study import Folder, Study

RATES = (1e-2, 1e-4, 1e-6)


@dataclass(frozen=True)
class Small:
    """A study of two Crime panels, run: 3 runs, 12 epochs, 3 learning rates."""

    study: Study
    folder: Folder
    results: list[Result]
    beside: list[Result]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    chosen = [
        replace(panel, epochs=12)
        for panel in study.vary(
            study.choose(["fig2-crime-eps1", "epochs-crime-eps5"]),
            runs=3,
            learning_rates=RATES,
            extra=["dp_gd"],
        )
    ]
    asked = Study(
        tuple(chosen), study.task_options(chosen), sweep.Settings(), beside=True
    )
    folder = Folder(tmp_path_factory.mktemp("small"))
    asked.save(folder.study)
    tasks = asked.tasks()
    pairs = [(panel, tasks[panel.task]) for panel in chosen]
    with Store(folder.store, asked.version) as store:
        for settings in asked.all_settings:
            sweep.sweep(sweep.plan(pairs, settings, store), store)
        found = [results.read(asked, tasks, store, which) for which in (0, 1)]
    return Small(asked, folder, *found)
