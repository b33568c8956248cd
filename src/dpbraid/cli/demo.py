"""`dpbraid demo`: a first run on embedded data; prints a result, draws a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpbraid.cli.pictures import picture


def command(
    out: Annotated[
        Path, typer.Option(help="Where to write the picture (.png or .svg).")
    ] = Path("dpbraid-demo.png"),
) -> None:
    """Train on the Crime data with and without noise, side by side."""
    from rich.console import Console
    from rich.table import Table

    from dpbraid.paper import demo

    picture(out)
    curves = demo.run()
    demo.draw(curves, out)
    table = Table(title="Crime, ridge regression: G(x; D) - G* of the last iterate")
    table.add_column("run")
    table.add_column("excess", justify="right")
    table.add_column("")
    for curve in curves:
        table.add_row(curve.name, f"{curve.excess[-1]:.4f}", curve.remark)
    console = Console()
    console.print(table)
    console.print(f"Picture: {out}", soft_wrap=True, highlight=False)
