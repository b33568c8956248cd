"""How `paper` and `demo` print last iterates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from dpbraid.paper.results import Result


def summary(console: Console, results: Sequence[Result]) -> None:
    """A table a panel, a row a curve: last iterates, excess, rate, noise, guarantee."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dpbraid.paper.guarantee import guarantee

    for result in results:
        table = Table(
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
            title=result.panel.id,
            title_justify="left",
        )
        table.add_column("last iterates", min_width=18)
        for heading, width in (
            ("G ± std", 16),
            ("excess", 8),
            ("rate", 6),
            ("noise std", 9),
            ("guarantee", 12),
        ):
            table.add_column(heading, justify="right", no_wrap=True, min_width=width)
        for name, value in (
            ("G*, not private", result.optimum),
            ("zero vector", result.reference.zero_value),
            ("public solution", result.reference.public_value),
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
        console.print()
