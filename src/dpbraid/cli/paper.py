"""`dpbraid paper`: the paper's panels, run, drawn and reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dpbraid.cli.compiling import compiles

if TYPE_CHECKING:
    from rich.console import Console

    from dpbraid.paper.results import Result
    from dpbraid.paper.study import Folder, Study
    from dpbraid.paper.tasks import Task

OUT = Path("dpbraid-paper")
Out = Annotated[Path, typer.Option(help="The folder of store, figures and reports.")]


class _RunByDefault(TyperGroup):
    """Without the name of a command it is `run`: `dpbraid paper --runs 3`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    help="The paper's panels: `dpbraid paper` runs Figure 2, draws it and reports; "
    "`dpbraid paper run --help` shows the options.",
    add_completion=False,
)


@app.command("run")
@compiles
def run(
    panel: Annotated[
        list[str] | None,
        typer.Option(
            help="fig2, ig, so, p25, p75, epochs, such a word and a task "
            "(fig2-crime), a whole id, or all. May be given again; fig2.",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs a curve; 10.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Units side by side; one a core.")
    ] = None,
    out: Out = OUT,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh/--resume",
            help="Throw away the runs in the folder, or go on from them.",
        ),
    ] = False,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Instead of the paper's. Repeatable.")
    ] = None,
    analysis: Annotated[
        str,
        typer.Option(
            help="paper (the lemma), paper-code (the doubled noise of its scripts), or "
            "an analysis of `dpbraid account`, for example best.",
        ),
    ] = "paper",
    placement: Annotated[
        str, typer.Option(help="every_step or epoch_end.")
    ] = "every_step",
    beside: Annotated[
        bool,
        typer.Option(
            "--beside",
            help="Run the panels with epoch_end and best too, and write beside.html.",
        ),
    ] = False,
    grid: Annotated[
        str | None, typer.Option(help="Learning rates, for example 1e-4,5e-5.")
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(help="One more curve: dp_gd, dp_warm, dp_gd_warm. Repeatable."),
    ] = None,
    lasso: Annotated[
        float | None,
        typer.Option(help="lambda_l of the lasso tasks; with 0.001 they discriminate."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="TASK.OPTION=VALUE, see `dpbraid data show`. Repeatable."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Original files instead of the embedded data.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all runs.")] = 0,
    precision: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
) -> None:
    """Run panels, draw them and write the report (this is `dpbraid paper` itself)."""
    import os

    from rich.console import Console

    from dpbraid import _validate
    from dpbraid.cli.results import summary
    from dpbraid.paper import study as studies
    from dpbraid.paper.store import Store
    from dpbraid.paper.sweep import Settings

    jobs = (os.cpu_count() or 1) if jobs is None else jobs
    _validate.integer(1, jobs=jobs)
    panels = studies.vary(
        studies.choose(panel or [studies.DEFAULT]),
        runs=runs,
        epsilons=epsilon or (),
        learning_rates=_rates(grid),
        extra=extra or (),
    )
    study = studies.Study(
        panels=panels,
        options=studies.task_options(panels, lasso=lasso, words=set_ or ()),
        settings=Settings(analysis, placement, seed, precision),  # type: ignore[arg-type]
        beside=beside,
        data_dir=None if data_dir is None else str(data_dir),
    )
    console = Console()
    folder = studies.Folder(out)
    tasks = study.tasks()
    if fresh:
        folder.clear()
    folder.path.mkdir(parents=True, exist_ok=True)
    with Store(folder.store, study.version) as store:
        with console.status("Computing the noise ..."):
            study = study.with_noise(tasks)
        study.save(folder.study)
        _sweep(console, study, tasks, store, jobs)
    results = _results(study, folder, tasks)
    _write_figures(console, study, folder, results)
    _write_reports(console, study, folder, results)
    summary(console, results[0])
    console.print(
        "Lowest in bold; * unstable; guarantee: (epsilon, delta) for replacing one "
        "private row, at a rate picked without looking. The report has the reasons.",
        highlight=False,
    )


@app.command("figures")
def figures(out: Out = OUT) -> None:
    """Draw the panels of a folder again, from its store."""
    from rich.console import Console

    study, folder, tasks = _open(out)
    _write_figures(Console(), study, folder, _results(study, folder, tasks))


@app.command("report")
def report(out: Out = OUT) -> None:
    """Write the reports of a folder again, from its store."""
    from rich.console import Console

    study, folder, tasks = _open(out)
    _write_reports(Console(), study, folder, _results(study, folder, tasks))


@app.command("list")
def list_() -> None:
    """The panels, and the words that choose them."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid.paper.panels import PANELS, title

    table = Table()
    for name in ("panel", "figure", "task", "epsilon", "p", "algorithms"):
        table.add_column(name, no_wrap=name == "panel")
    for panel in PANELS.values():
        table.add_row(
            panel.id,
            panel.figure,
            panel.task,
            f"{panel.epsilon:g}",
            f"{panel.private_fraction:g}",
            ", ".join(title(name, panel.order) for name in panel.algorithms),
        )
    Console().print(table)


def _rates(grid: str | None) -> tuple[float, ...]:
    from dpbraid._validate import InvalidParameterError

    if grid is None:
        return ()
    try:
        return tuple(float(word) for word in grid.split(","))
    except ValueError:
        raise InvalidParameterError(
            f"grid must be numbers with commas between them, got {grid!r}"
        ) from None


def _open(out: Path) -> tuple[Study, Folder, dict[str, Task]]:
    from dpbraid.paper.study import Folder, Study

    folder = Folder(out)
    study = Study.load(folder.study)
    return study, folder, study.tasks()


def _sweep(
    console: Console, study: Study, tasks: dict[str, Task], store: Any, jobs: int
) -> None:
    from dpbraid.cli.progress import bar
    from dpbraid.paper import sweep

    chosen = [(panel, tasks[panel.task]) for panel in study.panels]
    units = [
        unit
        for settings in study.all_settings
        for unit in sweep.plan(chosen, settings, store)
    ]
    runs = sum(len(unit.cells) for unit in units)
    console.print(
        f"{len(study.panels)} panels, {runs} runs to do"
        + ("" if runs else ": all of them are in the store")
    )
    with bar(console) as shown:
        task = shown.add_task("runs", total=sum(map(sweep.work, units)))
        sweep.sweep(
            units,
            store,
            jobs=jobs,
            progress=lambda unit: shown.advance(task, sweep.work(unit)),
        )


def _results(
    study: Study, folder: Folder, tasks: dict[str, Task]
) -> list[list[Result]]:
    """Of the study's settings, and of the second ones where it has them."""
    from dpbraid.paper import results
    from dpbraid.paper.store import Store

    with Store(folder.store, study.version, create=False) as store:
        return [
            results.read(study, tasks, store, which)
            for which, _ in enumerate(study.all_settings)
        ]


def _write_figures(
    console: Console, study: Study, folder: Folder, found: Sequence[Sequence[Result]]
) -> None:
    from dpbraid.cli.progress import bar
    from dpbraid.paper import figures as pictures

    suffixes = ("", "-beside")
    with bar(console) as shown:
        total = sum(pictures.count(results) for results in found)
        task = shown.add_task("figures", total=total)
        for results, suffix in zip(found, suffixes, strict=False):
            pictures.draw(
                results,
                folder.figures,
                suffix=suffix,
                progress=lambda _path: shown.advance(task),
            )
    console.print(f"Figures: {folder.figures}", soft_wrap=True, highlight=False)


def _write_reports(
    console: Console, study: Study, folder: Folder, found: Sequence[Sequence[Result]]
) -> None:
    from dpbraid._files import write_atomically
    from dpbraid.paper import report as reports

    write_atomically(folder.report, reports.report(study, found[0]).encode())
    console.print(f"Report: {folder.report}", soft_wrap=True, highlight=False)
    if study.beside:
        page = reports.beside(study, found[0], found[1])
        write_atomically(folder.beside, page.encode())
        console.print(f"Beside: {folder.beside}", soft_wrap=True, highlight=False)
