"""`dpbraid demo`: one panel of the paper in full: its numbers and a picture."""

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
    """Run one panel of the paper, and the same with better placed noise beside it."""
    import os

    from rich.console import Console

    from dpbraid.cli.progress import bar
    from dpbraid.cli.results import summary
    from dpbraid.paper import demo
    from dpbraid.paper.claims import remarks
    from dpbraid.paper.style import panel_title

    picture(out)
    console = Console()
    with bar(console) as shown:
        task = shown.add_task("runs", total=None)
        found = demo.run(
            os.cpu_count() or 1,
            lambda done, total: shown.update(task, completed=done, total=total),
        )
    demo.draw(found, out)
    for result in (found.paper, found.beside):
        console.rule(f"{panel_title(result)}: {result.settings.words}")
        summary(console, [result])
        for remark in remarks(result):
            console.print(f"* {remark}", highlight=False)
    console.print(
        "Lowest in bold. guarantee: (epsilon, delta) for replacing one private row at "
        "noise std, for a rate picked without looking.",
        highlight=False,
    )
    console.print(f"Picture: {out}", soft_wrap=True, highlight=False)
