"""`dpbraid calibrate`: the smallest noise for a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpbraid.cli import guarantee
from dpbraid.cli.words import Words


def command(
    words: Words,
    epsilon: Annotated[float, typer.Option(help="epsilon of (epsilon, delta).")],
    delta: Annotated[float, typer.Option(help="delta of (epsilon, delta).")],
    analysis: guarantee.Analysis = "best",
    json: guarantee.Json = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the mechanism with its noise here (JSON)."),
    ] = None,
) -> None:
    """The smallest noise with which a mechanism is (epsilon, delta)-private."""
    from dpbraid._files import write_atomically
    from dpbraid.privacy import account, calibrate

    mechanism = calibrate(
        words.build(), epsilon=epsilon, delta=delta, analysis=analysis
    )
    if out is not None:
        write_atomically(out, mechanism.dumps().encode())
    guarantee.show(mechanism, account(mechanism, analysis), epsilon, delta, json)
