"""The runs behind the panels: planned, run on all cores, written as they finish.

A *unit* is one run number of one algorithm on one task, with all learning rates and
epsilons as columns of one grid. Units are what is lost, at most, by a kill. Run number
r has the same seed everywhere: algorithms, rates and epsilons share orders and normal
draws where their shapes agree, each run has its own law all the same. How a run draws
its noise depends on how many columns its unit has; its law does not.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpbraid
from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.engine import costs
from dpbraid.engine.grid import grid_not_private
from dpbraid.losses import MarginLoss
from dpbraid.mechanism import Mechanism, Placement
from dpbraid.paper import embedded, panels
from dpbraid.paper.panels import Algorithm, Panel, PaperAnalysis
from dpbraid.paper.store import Configuration, Run, Store
from dpbraid.paper.tasks import Task
from dpbraid.privacy import ANALYSES, PrivacyAssumptionError, calibrate
from dpbraid.privacy.account import BEST

Array = NDArray[np.float64]


class Precision(StrEnum):
    """The number type of the iterates."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


@dataclass(frozen=True)
class Settings:
    """What holds for all panels of a sweep.

    analysis: "paper" and "paper-code" take the noise from the lemma's plain formula;
    any other name is an analysis of `dpbraid.calibrate`, and learning rates that it
    refuses are left out.
    """

    analysis: str = PaperAnalysis.PAPER
    placement: Placement = Placement.EVERY_STEP
    seed: int = 0
    precision: Precision = Precision.FLOAT32

    def __post_init__(self) -> None:
        _validate.text(analysis=self.analysis)
        _validate.integer(0, seed=self.seed)
        allowed = (*PaperAnalysis, BEST, *ANALYSES)
        if self.analysis not in allowed:
            raise InvalidParameterError(
                f"analysis must be one of {', '.join(dict.fromkeys(allowed))}, got "
                f"{self.analysis!r}"
            )
        for name, enum in (("placement", Placement), ("precision", Precision)):
            value = _validate.choice(enum, **{name: getattr(self, name)})
            object.__setattr__(self, name, value)

    @property
    def by_formula(self) -> bool:
        """Whether the noise comes from the lemma and not from the accountant."""
        return self.analysis in tuple(PaperAnalysis)

    @property
    def words(self) -> str:
        """Where the noise is and what its size comes from."""
        where = {
            Placement.EVERY_STEP: "noise at every step",
            Placement.EPOCH_END: "one noise at each epoch's end",
        }[self.placement]
        size = {
            str(PaperAnalysis.PAPER): "the paper's lemma",
            str(PaperAnalysis.PAPER_CODE): "the paper's lemma, doubled as in its code",
        }.get(self.analysis, f"the analysis {self.analysis!r}")
        return f"{where}, its size by {size}"


@dataclass(frozen=True, eq=False)
class Cell:
    """One curve at one learning rate: a mechanism, and its name in the store."""

    algorithm: Algorithm
    learning_rate: float
    mechanism: Mechanism
    configuration: Configuration

    @property
    def noise_std(self) -> float:
        """Noise std of the epochs with private rows, 0 without any."""
        return max(e.noise_std for e in self.mechanism.epochs)


@dataclass(frozen=True, eq=False)
class Unit:
    """The cells that run as the columns of one grid, and the number of the run."""

    task: Task
    algorithm: Algorithm
    cells: tuple[Cell, ...]
    number: int
    settings: Settings
    start: Array | None = field(repr=False)


# Noise std by algorithm, one a learning rate; None where the analysis refuses it.
NoiseTable = Mapping[str, Sequence[float | None]]


def cells(
    panel: Panel, task: Task, settings: Settings, noise: NoiseTable | None = None
) -> list[Cell]:
    """All curves of a panel at all learning rates, in that order.

    noise: what `noise_table` gave before. Runs are then found again with a later
    accountant too, whose last digits may differ.
    """
    found = []
    for algorithm in panel.algorithms:
        for i, rate in enumerate(panel.learning_rates):
            plain = _plain(panel, algorithm, task, rate, settings)
            if noise is None:
                noisy = _noise(plain, panel, settings)
            else:
                std = noise[algorithm][i]
                noisy = None if std is None else plain.with_noise(std)
            if noisy is not None:
                found.append(_cell(algorithm, task, rate, settings, noisy))
    return found


def noise_table(panel: Panel, found: Iterable[Cell]) -> NoiseTable:
    """The noise of a panel's cells, to be kept beside their runs."""
    stds = {(cell.algorithm, cell.learning_rate): cell.noise_std for cell in found}
    return {
        algorithm.value: [stds.get((algorithm, rate)) for rate in panel.learning_rates]
        for algorithm in panel.algorithms
    }


def _plain(
    panel: Panel, algorithm: Algorithm, task: Task, rate: float, settings: Settings
) -> Mechanism:
    return panels.mechanism(
        panel,
        algorithm,
        task,
        rate,
        placement=settings.placement,
        start=_start(algorithm, task),
    )


def _cell(
    algorithm: Algorithm, task: Task, rate: float, settings: Settings, noisy: Mechanism
) -> Cell:
    configuration = Configuration.of(
        {
            "task": task.options.to_json(),
            "data": task.digest,
            "start": "public solution" if algorithm.warm else "",
            "mechanism": noisy.to_json(),
            "seed": settings.seed,
            "precision": settings.precision,
        },
        guarantee_void=settings.by_formula and panels.guarantee_void(noisy),
    )
    return Cell(algorithm, rate, noisy, configuration)


def _noise(plain: Mechanism, panel: Panel, settings: Settings) -> Mechanism | None:
    """None where the analysis refuses the mechanism."""
    if settings.by_formula:
        return panels.paper_noise(plain, panel.epsilon, panel.delta, settings.analysis)
    try:
        return _calibrated(plain, panel.epsilon, panel.delta, settings.analysis)
    except PrivacyAssumptionError:
        return None


@cache
def _calibrated(
    plain: Mechanism, epsilon: float, delta: float, analysis: str
) -> Mechanism:
    return calibrate(plain, epsilon=epsilon, delta=delta, analysis=analysis)


@cache
def _start(algorithm: Algorithm, task: Task) -> Array | None:
    return panels.start_point(algorithm, task)


def plan(
    chosen: Iterable[tuple[Panel, Task]], settings: Settings, store: Store
) -> list[Unit]:
    """The units that are still to be run, each configuration once."""
    done = store.done()
    runs: dict[str, int] = {}
    groups: dict[Any, dict[str, Cell]] = {}
    tasks: dict[Any, Task] = {}
    for panel, task in chosen:
        for cell in cells(panel, task, settings):
            key = cell.configuration.key
            if key not in runs:
                group = _group(task, cell)
                groups.setdefault(group, {})[key] = cell
                tasks[group] = task
            runs[key] = max(runs.get(key, 0), panel.runs)
    units = []
    for group, members in groups.items():
        for number in range(max(runs[key] for key in members)):
            todo = tuple(
                cell
                for key, cell in members.items()
                if number < runs[key] and (key, number) not in done
            )
            if todo:
                task, algorithm = tasks[group], todo[0].algorithm
                start = _start(algorithm, task)
                units.append(Unit(task, algorithm, todo, number, settings, start))
    return units


def _group(task: Task, cell: Cell) -> Any:
    """Cells of one group differ in learning rate and noise alone."""
    m = cell.mechanism
    steps = tuple(
        (count, e.private_rows, e.public_rows, e.public_start, e.placement)
        for count, e in m.runs()
    )
    shared = (m.n, m.loss, m.penalty, m.order, m.clip_norm, m.batch_size, m.start)
    return (task.options, cell.algorithm.warm, steps, shared)


def work(unit: Unit) -> float:
    """About how long a unit takes, for progress bars: only ratios matter."""
    task, mechanism = unit.task, unit.cells[0].mechanism
    size = np.dtype(unit.settings.precision.value).itemsize
    total = 0.0
    for count, epoch in mechanism.runs():
        noisy = epoch.noise_std > 0 and epoch.placement is Placement.EVERY_STEP
        shape = costs.Shape(
            task.dimension, len(unit.cells), mechanism.batch_size, noisy, size
        )
        rows = None
        if isinstance(task.loss, MarginLoss):
            rows = costs.block_rows(shape)
        row = costs.block_cost(shape, rows) if rows else costs.loop_cost(shape)
        total += count * epoch.rows * row
    return total * 1e-9


class Stopped(Exception):  # noqa: N818 - no error, a request
    """The sweep was asked to stop."""


def run(unit: Unit, stop: threading.Event | None = None) -> list[Run]:
    """Run one unit. Raises Stopped soon after `stop` is set."""

    def look(_done: int, _all: int) -> None:
        if stop is not None and stop.is_set():
            raise Stopped

    settings = unit.settings
    before = time.perf_counter()
    grid = grid_not_private(
        [cell.mechanism for cell in unit.cells],
        unit.task.private,
        unit.task.public,
        seed=np.random.SeedSequence([settings.seed, unit.number]),
        dtype=settings.precision.value,
        start=unit.start,
        progress=look,
    )
    seconds = (time.perf_counter() - before) / len(unit.cells)
    return [
        Run(
            cell.configuration,
            unit.number,
            f"{settings.seed}, {unit.number}",
            seconds,
            objectives,
        )
        for cell, objectives in zip(unit.cells, grid.objectives, strict=True)
    ]


def sweep(
    units: Sequence[Unit],
    store: Store,
    *,
    jobs: int = 1,
    progress: Callable[[Unit], None] | None = None,
) -> None:
    """Run the units on `jobs` threads and write each as it ends.

    progress: called in this thread after each unit is safe on disk. An interrupt stops
    the units in flight; what is written stays.
    """
    _validate.integer(1, jobs=jobs)
    stop = threading.Event()
    waiting = iter(units)
    flying: dict[Future[list[Run]], Unit] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            _launch(pool, waiting, flying, jobs, stop)
            while flying:
                ended, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in ended:
                    unit = flying.pop(future)
                    store.write(future.result())
                    if progress is not None:
                        progress(unit)
                _launch(pool, waiting, flying, jobs, stop)
        finally:
            stop.set()


def _launch(
    pool: ThreadPoolExecutor,
    waiting: Iterator[Unit],
    flying: dict[Future[list[Run]], Unit],
    jobs: int,
    stop: threading.Event,
) -> None:
    # one unit more than threads, so that none waits for this thread to write
    while len(flying) <= jobs and (unit := next(waiting, None)) is not None:
        flying[pool.submit(run, unit, stop)] = unit


@cache
def code_version() -> str:
    """The release, and a digest of the sources and data that decide a run."""
    package = Path(dpbraid.__file__).parent
    names = ["losses", "penalties", "orders", "mechanism", "rows", "starts"]
    sources = [package / f"{name}.py" for name in names]
    sources += sorted((package / "engine").glob("*.py"))
    sources += [package / "paper" / f"{name}.py" for name in ("recipes", "sweep")]
    sources += [embedded.FOLDER / embedded.CHECKSUMS]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{dpbraid.__version__}+{digest.hexdigest()[:12]}"
