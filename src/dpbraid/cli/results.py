"""How `paper` and `demo` print last iterates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from dpbraid.paper.results import Result


def summary(console: Console, results: Sequence[Result]) -> None:
    """One row a curve: mean and std of the last iterates, excess, rate, noise std."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dpbraid.paper.guarantee import guarantee

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("last iterates")
    for heading, width in (
        ("G ± std", 16),
        ("excess", 8),
        ("rate", 6),
        ("noise std", 9),
        ("guarantee", 12),
    ):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    for result in results:
        table.add_section()
        table.add_row(f"[underline]{result.panel.id}[/underline]")
        for name, value in (
            ("G*, not private", result.optimum),
            ("zero vector", result.reference.zero_value),
        ):
            table.add_row(name, f"{value:.5g}", f"{value - result.optimum:.4g}")
        for curve in result.curves:
            best = curve.best
            mark = "*" * (curve.unstable(result.optimum) is not None)
            table.add_row(
                curve.title + mark,
                f"{best.final:.5g} ± {best.final_std:.1g}",
                f"{best.final - result.optimum:.4g}",
                f"{best.learning_rate:g}",
                f"{best.cell.noise_std:.6g}",
                guarantee(result, best).words,
                style="bold" if curve is result.best else "",
            )
    console.print(table)
