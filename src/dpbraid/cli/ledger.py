"""`dpbraid ledger new` and `show`: the budget of a data set."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from dpbraid.cli import guarantee

app = typer.Typer(help="The budget that all releases on a data set share.")


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="The ledger to make (JSON).")],
    data_set: Annotated[str, typer.Option(help="A name for the data set.")],
    epsilon: Annotated[float, typer.Option(help="All releases together: epsilon.")],
    delta: Annotated[float, typer.Option(help="All releases together: delta.")],
    settings: Annotated[
        str,
        typer.Option(
            help="free: settings may be chosen after earlier releases. fixed: you "
            "declare that the settings of all releases are fixed before the first."
        ),
    ] = "free",
) -> None:
    """Make a ledger for a data set, with the limit of all releases on it."""
    from dpbraid.privacy import ledger

    ledger.new(file, data_set, epsilon=epsilon, delta=delta, settings=settings)
    print(f"Ledger for {data_set!r}: {file}")


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A ledger.")],
    json: guarantee.Json = False,
) -> None:
    """All releases, what they have together, and what is left."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid.privacy import ledger
    from dpbraid.privacy.certificate import rounded_up

    found = ledger.read(file)
    if json:
        facts = {
            "data_set": found.data_set,
            "epsilon": found.epsilon,
            "delta": found.delta,
            "settings": found.settings.value,
            "spent": found.spent,
            "left": found.left,
            "releases": [
                {
                    "time": charge.time,
                    "note": charge.note,
                    "epsilon": charge.certificate.epsilon,
                    "delta": charge.certificate.delta,
                    "mu": charge.certificate.mu,
                    "analysis": charge.certificate.analysis,
                }
                for charge in found.charges
            ],
        }
        print(json_text.dumps(facts, indent=2, allow_nan=False))
        return
    table = Table("time", "note", "epsilon", "delta", "analysis")
    for charge in found.charges:
        made = charge.certificate
        table.add_row(
            charge.time,
            charge.note,
            rounded_up(made.epsilon or 0.0),
            f"{made.delta:g}",
            made.analysis,
        )
    console = Console()
    console.print(f"Data set {found.data_set!r}, settings {found.settings.value}")
    console.print(table)
    console.print(
        f"Together epsilon {rounded_up(found.spent)} of {found.epsilon:g} at delta "
        f"{found.delta:g}; {found.left:.4g} left for a release with a Gaussian mu.",
        soft_wrap=True,
    )
