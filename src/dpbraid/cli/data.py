"""`dpbraid data`: the tasks of the paper and the data behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="The data sets of the paper: what is embedded, with which choices.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("list")
def list_() -> None:
    """The tasks, their shapes, and the embedded files with their checksums."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid.paper import embedded, tasks

    checksums = embedded.checksums()
    table = Table()
    for name in ("task", "loss and penalty", "n", "public", "d", "kB", "sha256"):
        table.add_column(name, justify="right" if len(name) < 3 else "left")
    for name in tasks.names():
        task = tasks.load(name)
        file = f"{name}.npz"
        table.add_row(
            name,
            f"{task.loss.kind}, {task.penalty.kind}",
            str(task.n),
            str(len(task.public)),
            str(task.dimension),
            str((embedded.FOLDER / file).stat().st_size // 1000),
            checksums[file][:16],
        )
    console = Console()
    console.print(table)
    console.print(
        f"Sources and licences: {embedded.FOLDER / 'README.md'}", soft_wrap=True
    )


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A task, as `dpbraid data list` has it.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="OPTION=VALUE. Repeatable."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Original files instead of the embedded data.")
    ] = None,
) -> None:
    """One task: its tables, its optimum, and every open choice with the reason."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid._validate import InvalidParameterError
    from dpbraid.paper import optimum, tasks

    texts = {}
    for word in set_ or ():
        option, equals, value = word.partition("=")
        if not equals:
            raise InvalidParameterError(f"set must read OPTION=VALUE, got {word!r}")
        texts[option] = value
    options = tasks.source(name).options.parse(texts)
    task = tasks.load(name, options, data_dir=data_dir)
    found = optimum.reference(task)
    best = found.optimum
    console = Console()
    console.print(f"[bold]{task.title}[/bold]: {task.description}.")
    facts = Table(show_header=False)
    for fact, text in (
        ("private rows n, columns d", f"{task.n}, {task.dimension}"),
        ("public rows", str(len(task.public))),
        ("row norms at most", f"{task.private.row_norm:g}, {task.public.row_norm:g}"),
        ("loss, penalty", f"{task.loss!r}, {task.penalty!r}"),
        ("G*", f"{best.value:.10g}"),
        ("its gap, KKT residual", f"at most {best.gap:.1g}, {best.residual:.1g}"),
        ("G at the zero vector", f"{found.zero_value:.8g}"),
        ("G at the public solution", f"{found.public_value:.8g}"),
    ):
        facts.add_row(fact, text)
    console.print(facts)
    table = Table(title="What the paper leaves open")
    for heading in ("option", "here", "default", "can be", "why"):
        table.add_column(heading)
    for info in options.describe():
        table.add_row(
            info.name,
            str(getattr(options, info.name)),
            str(info.default),
            info.allowed,
            info.why,
        )
    console.print(table)


@app.command("build")
def build(
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder with the original files.")
    ] = None,
    openml: Annotated[
        bool,
        typer.Option(
            "--openml", help="Fetch them with scikit-learn instead, where it has them."
        ),
    ] = False,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this one. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the files here; else only compare.")
    ] = None,
) -> None:
    """Build the embedded files anew, and compare them with those of the package."""
    from rich.console import Console

    from dpbraid._validate import InvalidParameterError
    from dpbraid.paper import embedded, tasks
    from dpbraid.paper.openml import fetch

    if (data_dir is None) is not openml:
        raise InvalidParameterError("build takes one of --data-dir and --openml")
    console = Console()
    built = {}
    for name in task or tasks.names():
        source = tasks.source(name)
        cut = fetch(name) if data_dir is None else source.from_files(data_dir)
        built[name] = source.trim(cut)
    expected = embedded.checksums()
    packed = {f"{name}.npz": embedded.pack(cut) for name, cut in built.items()}
    for file, data in packed.items():
        found = embedded.sha256(data)
        same = "as embedded" if found == expected[file] else "differs from the package"
        console.print(f"{found}  {file}: {same}", soft_wrap=True, highlight=False)
    if out is not None:
        embedded.write(built, out)
        console.print(f"Written: {out}", soft_wrap=True, highlight=False)
    if any(embedded.sha256(data) != expected[file] for file, data in packed.items()):
        raise typer.Exit(1)
