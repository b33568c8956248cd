"""`dpbraid compare`: what each analysis and placement costs, side by side."""

from __future__ import annotations

import dataclasses
import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from dpbraid.cli import guarantee
from dpbraid.cli.pictures import picture


def command(
    n: Annotated[int, typer.Option("--n", help="Private rows.")] = 1000,
    epochs: Annotated[int, typer.Option(help="Number of epochs K.")] = 50,
    private_steps: Annotated[
        int | None,
        typer.Option(
            "--private-steps",
            "--private-rows",
            help="Private rows an epoch of Interleaved, n_d; half of n if left out.",
        ),
    ] = None,
    clip_norm: Annotated[float, typer.Option(help="The clip norm G.")] = 10.0,
    delta: Annotated[float, typer.Option(help="delta of (epsilon, delta).")] = 1e-6,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="May be given again; 1, 5, 10.")
    ] = None,
    poisson: Annotated[
        bool, typer.Option(help="With DP-SGD by dp-accounting (takes seconds).")
    ] = True,
    json: guarantee.Json = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw a picture here (.png or .svg).")
    ] = None,
) -> None:
    """The noise that each schedule, placement and analysis needs."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid.privacy import compare

    epsilons = epsilon or [1.0, 5.0, 10.0]
    half = -(-n // 2)
    setting = compare.Setting(
        n, epochs, half if private_steps is None else private_steps, clip_norm, delta
    )
    if out is not None:
        picture(out)
    rows = compare.compare(setting, epsilons, poisson=poisson)
    if json:
        found = {
            "setting": dataclasses.asdict(setting),
            "epsilons": epsilons,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
        print(json_text.dumps(found, indent=2, allow_nan=False))
    else:
        table = Table(
            title=f"n={n}, K={epochs}, clip norm {clip_norm:g}, delta={delta:g}: noise "
            "std\nof a step (or an epoch) / of the release, over the learning rate",
        )
        table.add_column("method")
        for value in epsilons:
            table.add_column(f"epsilon {value:g}", justify="right", no_wrap=True)
        schedule = ""
        for row in rows:
            if row.schedule != schedule:
                schedule = row.schedule
                table.add_section()
                table.add_row(f"[bold]{schedule}[/bold]")
            table.add_row(
                row.method + ("" if row.comparable else " (NOT comparable)"),
                *(
                    f"{a:.4g} / {b:.5g}"
                    for a, b in zip(row.noise_std, row.released_std, strict=True)
                ),
            )
        Console().print(table)
    if out is not None:
        compare.draw(setting, epsilons[0], out)
        if not json:
            print(f"Picture: {out}")
