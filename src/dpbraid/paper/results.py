"""From the store to what figures and reports show: curves, best rates, references."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import DpbraidError
from dpbraid.paper import optimum, panels
from dpbraid.paper.optimum import Reference
from dpbraid.paper.panels import Algorithm, Panel
from dpbraid.paper.store import Store
from dpbraid.paper.sweep import Cell, Settings
from dpbraid.paper.tasks import Task

if TYPE_CHECKING:
    from dpbraid.paper.study import Study

Array = NDArray[np.float64]

# Epochs at the end of a run that have to agree for it to count as settled, and how
# far they may be apart, as a part of the excess at the end.
_LAST_EPOCHS = 10
_SETTLED = 0.01


class MissingRunsError(DpbraidError):
    """The store lacks runs of the study."""


@dataclass(frozen=True, eq=False)
class Rate:
    """All runs of a curve at one learning rate.

    objectives: (runs, K + 1), G(x; D) after each epoch; infinite where it diverged.
    seconds: of one core, that the runs took.
    """

    cell: Cell
    objectives: Array
    seconds: float

    @property
    def learning_rate(self) -> float:
        """The rate on the grid."""
        return self.cell.learning_rate

    @property
    def guarantee_void(self) -> bool:
        """Whether the rate breaks the contraction that the guarantee rests on."""
        return self.cell.configuration.guarantee_void

    @cached_property
    def mean(self) -> Array:
        """Mean over the runs after each epoch, (K + 1,)."""
        mean: Array = self.objectives.mean(axis=0)
        return mean

    @cached_property
    def std(self) -> Array:
        """Standard deviation over the runs, (K + 1,); 0 with one run."""
        if len(self.objectives) < 2:
            return np.zeros_like(self.mean)
        # from the first run, not from the mean: equal runs have 0, and not its rounding
        with np.errstate(invalid="ignore"):  # inf - inf
            std: Array = (self.objectives - self.objectives[0]).std(axis=0, ddof=1)
        return np.where(np.isfinite(self.mean), std, np.inf)

    @property
    def final(self) -> float:
        """Mean of the last iterates."""
        return float(self.mean[-1])

    @property
    def final_std(self) -> float:
        """Standard deviation of the last iterates."""
        return float(self.std[-1])

    @property
    def final_error(self) -> float:
        """Standard error of `final`."""
        return self.final_std / math.sqrt(len(self.objectives))


@dataclass(frozen=True, eq=False)
class Curve:
    """One algorithm of a panel at all its learning rates."""

    algorithm: Algorithm
    title: str
    rates: tuple[Rate, ...]

    @cached_property
    def best(self) -> Rate:
        """The rate with the lowest mean last iterate, as the paper picks it."""
        return min(self.rates, key=lambda rate: rate.final)

    @cached_property
    def best_valid(self) -> Rate | None:
        """The same among rates of at most 2/L; None where there is none."""
        valid = [r for r in self.rates if r.learning_rate <= self.largest_rate]
        return min(valid, key=lambda rate: rate.final, default=None)

    @property
    def largest_rate(self) -> float:
        """2/L over the rows that the algorithm reads, per row of a step."""
        mechanism = self.best.cell.mechanism
        steps = mechanism.epochs[0].learning_rate / self.best.learning_rate
        return panels.contraction_rate(mechanism) / steps

    @property
    def private(self) -> bool:
        """Whether it reads private rows."""
        return any(e.private_rows for e in self.best.cell.mechanism.epochs)

    def unstable(self, optimum: float) -> str | None:
        """Why the end of the curve is down to rounding; None where it is not.

        Without noise and above 2/L, steps can expand distances: rounding errors grow,
        and a run that still moves at its end has no end point to speak of. It makes
        the curve unstable where it is the best rate, or could as well have been.
        """
        if self.private:
            return None
        moving = []
        for rate in self.rates:
            low, high = _range(rate)
            if (
                rate.learning_rate > self.largest_rate
                and high - low > _SETTLED * (rate.final - optimum)
                and low <= self.best.final
            ):
                moving.append(rate)
        if not moving:
            return None
        rate = self.best if self.best in moving else moving[0]
        low, high = _range(rate)
        end = (
            "the last iterate is that of an oscillating run"
            if rate is self.best
            else f"that it did not end below {self.best.final:.4g} is chance"
        )
        return (
            f"at the learning rate {rate.learning_rate:g}, "
            f"{rate.learning_rate / self.largest_rate:.3g} times 2/L = "
            f"{self.largest_rate:.3g}, G still moves between {low:.4g} and {high:.4g} "
            f"in the last {_LAST_EPOCHS} epochs: {end}, and does not repeat across "
            "machines"
        )


def _range(rate: Rate) -> tuple[float, float]:
    last = rate.mean[-_LAST_EPOCHS:]
    return float(np.min(last)), float(np.max(last))


@dataclass(frozen=True, eq=False)
class Result:
    """A panel with its curves.

    refused: algorithms without a learning rate that the analysis accepts.
    """

    panel: Panel
    task: Task
    settings: Settings
    reference: Reference
    curves: tuple[Curve, ...]
    refused: tuple[Algorithm, ...]

    @property
    def optimum(self) -> float:
        """G*, the least objective without privacy."""
        return self.reference.optimum.value

    def curve(self, algorithm: Algorithm) -> Curve | None:
        """The curve of that algorithm, where it is there."""
        return next((c for c in self.curves if c.algorithm is algorithm), None)

    @property
    def best(self) -> Curve:
        """The curve that ends lowest."""
        return min(self.curves, key=lambda curve: curve.best.final)


def seconds(results: Iterable[Result]) -> float:
    """Time of one core that the runs took; panels share runs, which count once."""
    spent = {
        rate.cell.configuration.key: rate.seconds
        for result in results
        for curve in result.curves
        for rate in curve.rates
    }
    return sum(spent.values())


def read(
    study: Study, tasks: Mapping[str, Task], store: Store, which: int = 0
) -> list[Result]:
    """The results of all panels of a study, or MissingRunsError.

    which: of the study's settings, 1 for the second ones.
    """
    settings = study.all_settings[which]
    return [
        _read(panel, tasks[panel.task], settings, cells, store)
        for panel, cells in zip(study.panels, study.cells(tasks, which), strict=True)
    ]


def _read(
    panel: Panel, task: Task, settings: Settings, cells: list[Cell], store: Store
) -> Result:
    keys = [cell.configuration.key for cell in cells]
    found = store.curves(keys, panel.runs)
    missing = len(set(keys) - found.keys())
    if missing:
        raise MissingRunsError(
            f"{store.path} lacks {missing} of {len(set(keys))} configurations of panel "
            f"{panel.id}: run `dpbraid paper` with the same options to make them"
        )
    rates: dict[Algorithm, list[Rate]] = {name: [] for name in panel.algorithms}
    for cell in cells:
        key = cell.configuration.key
        rates[cell.algorithm].append(Rate(cell, found[key], store.seconds([key])))
    return Result(
        panel=panel,
        task=task,
        settings=settings,
        reference=reference(task),
        curves=tuple(
            Curve(name, panels.title(name, panel.order), tuple(its))
            for name, its in rates.items()
            if its
        ),
        refused=tuple(name for name, its in rates.items() if not its),
    )


@cache
def reference(task: Task) -> Reference:
    """The optimum of a task and its two free points, computed once."""
    return optimum.reference(task)
