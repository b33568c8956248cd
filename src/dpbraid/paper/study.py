"""A study: which panels are run how, and the folder that holds what comes of it.

FOLDER/study.json      what was asked for, so that figures and reports need no words
FOLDER/store.sqlite    the runs
FOLDER/figures/        one picture a panel and one of all, PNG and SVG
FOLDER/report.html     the report
FOLDER/beside.html     the second report: epoch-end noise beside the paper's
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dpbraid import _json, _validate
from dpbraid._files import write_atomically
from dpbraid._validate import DpbraidError, InvalidParameterError
from dpbraid.mechanism import Placement
from dpbraid.orders import Order
from dpbraid.paper import sweep, tasks
from dpbraid.paper.options import TaskOptions
from dpbraid.paper.panels import PANELS, Algorithm, Panel
from dpbraid.paper.store import Store
from dpbraid.paper.sweep import Cell, NoiseTable, Settings
from dpbraid.paper.tasks import Task
from dpbraid.privacy.account import BEST

ALL = "all"
DEFAULT = "fig2"
# A store of other settings may lie in the same file; a study of another form may not.
_FORMAT = 1


class StudyError(DpbraidError):
    """A folder holds no study, or one that this version cannot read."""


@dataclass(frozen=True)
class Folder:
    """Where the parts of a study lie."""

    path: Path

    @property
    def study(self) -> Path:
        """What was asked for."""
        return self.path / "study.json"

    @property
    def store(self) -> Path:
        """The runs."""
        return self.path / "store.sqlite"

    @property
    def figures(self) -> Path:
        """The pictures."""
        return self.path / "figures"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def beside(self) -> Path:
        """The second report."""
        return self.path / "beside.html"

    def clear(self) -> None:
        """Remove the runs; a file there that is no store is an error and stays."""
        if self.store.exists():
            with Store(self.store, version="") as store:
                store.clear()


@dataclass(frozen=True)
class Study:
    """Panels, the options of their tasks, and the settings of the sweep.

    beside: whether the same panels are run with epoch-end noise and the best analysis
    as well. data_dir: a folder with the original files instead of the embedded data.
    version: of the code that runs it; runs of another version do not count. noise: of
    each of `all_settings` and each panel, once it is known.
    """

    panels: tuple[Panel, ...]
    options: tuple[TaskOptions, ...]
    settings: Settings
    beside: bool = False
    data_dir: str | None = None
    version: str = field(default_factory=sweep.code_version)
    noise: tuple[tuple[NoiseTable, ...], ...] | None = None

    def __post_init__(self) -> None:
        if not self.panels:
            raise InvalidParameterError("panels must hold at least one panel")
        _validate.boolean(beside=self.beside)
        _validate.text(version=self.version)
        if self.data_dir is not None:
            _validate.text(data_dir=self.data_dir)
        wanted = sorted({panel.task for panel in self.panels})
        if wanted != sorted(options.kind for options in self.options):
            raise InvalidParameterError(
                f"options must be those of the panels' tasks, {', '.join(wanted)}"
            )
        if self.noise is not None:
            self._check_noise(self.noise)

    def _check_noise(self, noise: tuple[tuple[NoiseTable, ...], ...]) -> None:
        if len(noise) != len(self.all_settings):
            raise InvalidParameterError("noise must hold one entry for each settings")
        for tables in noise:
            if len(tables) != len(self.panels):
                raise InvalidParameterError("noise must hold one table for each panel")
            for panel, table in zip(self.panels, tables, strict=True):
                rates = len(panel.learning_rates)
                if set(table) != set(panel.algorithms) or any(
                    len(stds) != rates for stds in table.values()
                ):
                    raise InvalidParameterError(
                        f"noise must have {rates} numbers for each algorithm of "
                        f"{panel.id}"
                    )
                for stds in table.values():
                    for std in stds:
                        if std is not None:
                            _validate.nonnegative(noise=std)

    @property
    def all_settings(self) -> tuple[Settings, ...]:
        """The settings of the report, and those of the second one."""
        if not self.beside:
            return (self.settings,)
        return (self.settings, self.beside_settings)

    @property
    def beside_settings(self) -> Settings:
        """One Gaussian after the last private step of an epoch, the best analysis."""
        return replace(self.settings, placement=Placement.EPOCH_END, analysis=BEST)

    def tasks(self) -> dict[str, Task]:
        """The tasks of the panels, each loaded once."""
        return {
            options.kind: tasks.load(options.kind, options, data_dir=self.data_dir)
            for options in self.options
        }

    def with_noise(self, tasks: Mapping[str, Task]) -> Self:
        """The study with the noise of all its cells, which can take some seconds."""
        noise = tuple(
            tuple(
                sweep.noise_table(
                    panel, sweep.cells(panel, tasks[panel.task], settings)
                )
                for panel in self.panels
            )
            for settings in self.all_settings
        )
        return replace(self, noise=noise)

    def cells(self, tasks: Mapping[str, Task], which: int) -> list[list[Cell]]:
        """The cells of each panel under the settings of that number."""
        settings = self.all_settings[which]
        tables = (None,) * len(self.panels) if self.noise is None else self.noise[which]
        return [
            sweep.cells(panel, tasks[panel.task], settings, table)
            for panel, table in zip(self.panels, tables, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write the study as JSON, whole or not at all."""
        data = {
            "format": _FORMAT,
            "panels": [_panel_to_json(panel) for panel in self.panels],
            "options": [options.to_json() for options in self.options],
            "settings": dataclasses.asdict(self.settings),
            "beside": self.beside,
            "data_dir": self.data_dir,
            "version": self.version,
            "noise": self.noise,
        }
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"
        write_atomically(path, text.encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The study that `save` wrote."""
        if not path.exists():
            raise StudyError(
                f"{path} does not exist: run `dpbraid paper --out {path.parent}` first"
            )
        try:
            data = _json.read(path)
        except InvalidParameterError as error:
            raise StudyError(str(error)) from None
        try:
            if data["format"] != _FORMAT:
                raise StudyError(
                    f"{path} has the format {data['format']!r}, this version of "
                    f"dpbraid reads {_FORMAT}"
                )
            return cls(
                panels=tuple(_panel_from_json(panel) for panel in data["panels"]),
                options=tuple(TaskOptions.from_json(o) for o in data["options"]),
                settings=Settings(**data["settings"]),
                beside=data["beside"],
                data_dir=data["data_dir"],
                version=data["version"],
                noise=_noise_from_json(data["noise"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise StudyError(f"{path} is no study: {error!r}") from None


def _noise_from_json(data: Any) -> tuple[tuple[NoiseTable, ...], ...] | None:
    return None if data is None else tuple(tuple(tables) for tables in data)


def _panel_to_json(panel: Panel) -> dict[str, Any]:
    fields = {f.name: getattr(panel, f.name) for f in dataclasses.fields(panel)}
    return fields | {"order": panel.order.to_json()}


def _panel_from_json(data: Mapping[str, Any]) -> Panel:
    return Panel(
        **{
            **data,
            "order": Order.from_json(data["order"]),
        }
    )


# -- which panels --------------------------------------------------------------------


def groups() -> tuple[str, ...]:
    """The first words of the panels' ids: fig2, ig, so, p25, p75, epochs."""
    return tuple(dict.fromkeys(name.partition("-")[0] for name in PANELS))


def choose(words: Iterable[str]) -> tuple[Panel, ...]:
    """Panels by id, by the beginning of one ("fig2", "so-mnist69"), or "all"."""
    chosen: dict[str, Panel] = {}
    for word in words:
        found = {
            name: panel
            for name, panel in PANELS.items()
            if word == ALL or name == word or name.startswith(word + "-")
        }
        if not found:
            raise InvalidParameterError(
                f"panel must be {ALL}, one of {', '.join(groups())}, or such a word "
                "and a task, or a whole id as `dpbraid paper list` prints them, got "
                f"{word!r}"
            )
        chosen |= found
    return tuple(chosen.values())


def vary(
    chosen: Iterable[Panel],
    *,
    runs: int | None = None,
    epsilons: Iterable[float] = (),
    learning_rates: Iterable[float] = (),
    extra: Iterable[Algorithm | str] = (),
) -> tuple[Panel, ...]:
    """The panels with other runs, epsilons or rates, and more curves.

    epsilons take the place of the paper's: each figure and task then has these.
    """
    added = [_validate.choice(Algorithm, extra=name) for name in extra]
    epsilons, learning_rates = tuple(epsilons), tuple(learning_rates)
    if runs is not None:
        _validate.integer(1, runs=runs)
    for epsilon in epsilons:
        _validate.positive(epsilon=epsilon)
    for rate in learning_rates:
        _validate.positive(grid=rate)
    varied: dict[str, Panel] = {}
    for panel in chosen:
        more = tuple(name for name in added if name not in panel.algorithms)
        changed = replace(
            panel,
            algorithms=panel.algorithms + more,
            runs=panel.runs if runs is None else runs,
            learning_rates=tuple(dict.fromkeys(learning_rates)) or panel.learning_rates,
        )
        for epsilon in epsilons or (panel.epsilon,):
            name = panel.id.rpartition("-")[0] + f"-eps{epsilon:g}"
            varied[name] = replace(changed, id=name, epsilon=float(epsilon))
    return tuple(varied.values())


def task_options(
    chosen: Iterable[Panel],
    *,
    lasso: float | None = None,
    words: Iterable[str] = (),
) -> tuple[TaskOptions, ...]:
    """The options of the panels' tasks; words like "crime.rotation=none".

    lasso: the weight in every task that has one, here too.
    """
    names = tuple(dict.fromkeys(panel.task for panel in chosen))
    texts: dict[str, dict[str, str]] = {name: {} for name in names}
    if lasso is not None:
        with_lasso = [name for name in names if "lasso" in _option_names(name)]
        if not with_lasso:
            raise InvalidParameterError(
                f"lasso goes with lasso tasks, and the panels are of {', '.join(names)}"
            )
        for name in with_lasso:
            texts[name]["lasso"] = repr(lasso)
    for word in words:
        where, equals, value = word.partition("=")
        name, dot, option = where.partition(".")
        if not (equals and dot):
            raise InvalidParameterError(
                f"set must read TASK.OPTION=VALUE, for example crime.rotation=none, "
                f"got {word!r}"
            )
        if name not in texts:
            raise InvalidParameterError(
                f"set must name a task of the panels, {', '.join(names)}, got {name!r}"
            )
        texts[name][option] = value
    return tuple(tasks.source(name).options.parse(texts[name]) for name in names)


def _option_names(task: str) -> set[str]:
    return {option.name for option in tasks.source(task).options.describe()}
