"""`dpbraid advise`: which schedule and how many epochs, from public facts alone."""

from __future__ import annotations

import dataclasses
import json as json_text
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.cli import guarantee
from dpbraid.cli.guarantee import finite
from dpbraid.cli.pictures import picture, save
from dpbraid.cli.words import variant

if TYPE_CHECKING:
    from dpbraid.theory.advise import Advice
    from dpbraid.theory.excess_risk import Row


class Against(StrEnum):
    """What the picture varies."""

    EPSILON = "epsilon"
    N = "n"


def command(
    n: Annotated[int, typer.Option("--n", help="Private rows.")],
    dimension: Annotated[int, typer.Option(help="Parameters d.")],
    epsilon: Annotated[float, typer.Option(help="epsilon of (epsilon, delta).")],
    delta: Annotated[float, typer.Option(help="delta of (epsilon, delta).")],
    radius: Annotated[
        float, typer.Option(help="Parameters are projected on this ball around 0.")
    ],
    loss: Annotated[
        str | None,
        typer.Option(
            help="logistic, huber:T, smoothed_hinge:W: with --row-norm it gives the "
            "two constants below."
        ),
    ] = None,
    row_norm: Annotated[
        float | None, typer.Option(help="Public bound on the norm of all rows.")
    ] = None,
    smoothness: Annotated[
        float | None, typer.Option(help="L: Lipschitz constant of every gradient.")
    ] = None,
    lipschitz: Annotated[
        float | None, typer.Option(help="G: largest norm of a row's gradient.")
    ] = None,
    private_fraction: Annotated[
        float, typer.Option(help="p: share of gradient steps on private rows.")
    ] = 0.5,
    public_rows: Annotated[int, typer.Option(help="Public rows at hand.")] = 0,
    public_gap: Annotated[
        float | None,
        typer.Option(
            help="Bound on the distance of the mean gradients of public and private "
            "rows; without it no public row is relied on."
        ),
    ] = None,
    gradient_std: Annotated[
        float | None,
        typer.Option(help="Root mean square of the rows' gradients; G if left out."),
    ] = None,
    max_epochs: Annotated[int, typer.Option(help="Largest number of epochs.")] = 256,
    table: Annotated[
        bool,
        typer.Option("--table", help="Print the paper's table of excess risks too."),
    ] = False,
    against: Annotated[
        Against, typer.Option(help="What the picture varies.")
    ] = Against.EPSILON,
    json: guarantee.Json = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the excess risk of every schedule (.png or .svg)."),
    ] = None,
) -> None:
    """Which schedule and how many epochs the theory prefers; it reads no row."""
    from dpbraid.theory.advise import advise
    from dpbraid.theory.excess_risk import paper_table, proved_table

    if out is not None:
        picture(out)
    smoothness, lipschitz = _constants(loss, row_norm, smoothness, lipschitz)
    advice = advise(
        n=n,
        dimension=dimension,
        epsilon=epsilon,
        delta=delta,
        smoothness=smoothness,
        lipschitz=lipschitz,
        radius=radius,
        private_fraction=private_fraction,
        public_rows=public_rows,
        public_gap=public_gap,
        gradient_std=gradient_std,
        max_epochs=max_epochs,
    )
    setting = advice.known.setting
    rows: tuple[Row, ...] = ()
    if table:
        rows = (
            *paper_table(setting),
            *proved_table(setting, "every_step"),
            *proved_table(setting, "epoch_end"),
        )
    if json:
        found = {
            "schedule": advice.schedule,
            "placement": advice.placement.value,
            "epochs": advice.epochs,
            "learning_rate": advice.learning_rate,
            "noise_std": advice.noise_std,
            "bound": finite(advice.bound.total),
            "start_point": lipschitz * radius,
            "reason": advice.reason,
            "break_even_gap": advice.break_even_gap,
            "candidates": [
                finite(dataclasses.asdict(candidate)) for candidate in advice.candidates
            ],
            "table": [finite(dataclasses.asdict(row)) for row in rows],
        }
        print(json_text.dumps(found, indent=2, allow_nan=False))
    else:
        _show(advice)
        if table:
            _show_table(rows)
    if out is not None:
        from dpbraid.theory import figures

        here = n if against is Against.N else epsilon
        values = [here * 2.0**k for k in range(-3, 4)]
        if against is Against.N:
            values = [float(round(value)) for value in values if value >= 2]
        curves = figures.excess_risk_curves(
            advice.known, against, values, max_epochs=max_epochs
        )
        figure = figures.excess_risk_figure(curves, against, trivial=lipschitz * radius)
        save(figure, out)
        if not json:
            print(f"Picture: {out}")


def _constants(
    loss: str | None,
    row_norm: float | None,
    smoothness: float | None,
    lipschitz: float | None,
) -> tuple[float, float]:
    """L and G, from the loss or as they are given."""
    if loss is None:
        if smoothness is None or lipschitz is None:
            raise InvalidParameterError(
                "give --loss and --row-norm, or --smoothness and --lipschitz"
            )
        return smoothness, lipschitz
    from dpbraid.losses import Loss

    if row_norm is None:
        raise InvalidParameterError("--loss needs --row-norm")
    _validate.positive(row_norm=row_norm)
    chosen: Loss = variant(Loss, loss)
    if smoothness is None:
        smoothness = chosen.smoothness(row_norm)
    if lipschitz is None:
        lipschitz = chosen.lipschitz(row_norm)
    if lipschitz is None:
        raise InvalidParameterError(
            f"--lipschitz is needed: the gradients of the {chosen.kind} loss have no "
            "bound of their own"
        )
    return smoothness, lipschitz


def _show(advice: Advice) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(str(advice), markup=False, highlight=False, soft_wrap=True)
    title = "Plans compared, from public facts alone"
    if advice.known.public_gap is None and len(advice.candidates) > 2:
        title += "\n(public rows as if their gap were 0)"
    table = Table(title=title)
    for name in ("schedule", "noise at", "K", "learning rate", "noise std"):
        table.add_column(name)
    table.add_column("excess risk <=", justify="right")
    for c in advice.candidates:
        table.add_row(
            c.schedule,
            _where(c.placement) if c.noise_std else "-",
            str(c.epochs),
            f"{c.learning_rate:.3g}",
            f"{c.noise_std:.4g}" if c.noise_std else "-",
            f"{c.bound.total:.4g}",
        )
    console.print(table)


def _show_table(rows: tuple[Row, ...]) -> None:
    """The paper's table and the proved ones, one below the other."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    groups = [(False, "every_step"), (True, "every_step"), (True, "epoch_end")]
    for proved, placement in groups:
        table = Table(
            title=f"Noise at {_where(placement)}: "
            + ("proved" if proved else "the paper's table, NOT proved")
        )
        for name in ("schedule", "noise std", "alpha", "K", "learning rate"):
            table.add_column(name)
        table.add_column("excess risk", justify="right")
        chosen = [r for r in rows if (r.proved, r.placement) == (proved, placement)]
        for row in chosen:
            table.add_row(
                row.schedule.value,
                f"{row.noise_std:.4g}",
                "-" if row.alpha is None else f"{row.alpha:.3g}",
                str(row.epochs),
                f"{row.learning_rate:.3g}",
                f"{row.privacy:.3g}",
            )
        console.print(table)
        for row in chosen:
            line = f"  {row.schedule.value}: {row.rate}"
            if row.dissimilarity_factor:
                line += " + (C_n)^2/(n^2 beta)"
            console.print(line, markup=False, highlight=False)


def _where(placement: str) -> str:
    return placement.replace("_", " ")
