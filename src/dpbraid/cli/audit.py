"""`dpbraid audit`: try to break a guarantee."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbraid import _json
from dpbraid._validate import InvalidParameterError
from dpbraid.cli import guarantee
from dpbraid.cli.pictures import picture
from dpbraid.cli.progress import bar


def command(
    file: Annotated[
        Path, typer.Argument(help="A mechanism, a certificate, or a model with one.")
    ],
    runs: Annotated[
        int | None,
        typer.Option(help="Fresh runs a side, 1000; with --one-run in all, 1."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this time with the runs so far.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that the lower bounds hold.")
    ] = 0.95,
    delta: Annotated[
        float | None, typer.Option(help="Of the claim for a mechanism, 1e-6.")
    ] = None,
    analysis: Annotated[
        str | None, typer.Option(help="Of the claim for a mechanism, best.")
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(help="Columns for a mechanism, 2.")
    ] = None,
    canaries: Annotated[
        bool,
        typer.Option("--one-run", help="One-run auditing: many canaries a run."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all runs.")] = 0,
    json: guarantee.Json = False,
    out: Annotated[
        Path | None, typer.Option(help="Draw the trade-off curve here (.png or .svg).")
    ] = None,
) -> None:
    """Lower bounds on the privacy loss of a mechanism, next to what is claimed.

    The tables are made up: no private row is touched. Ends with 0 if the claim holds
    against the attack, with 1 if it is refuted.
    """
    from rich.console import Console

    from dpbraid.audit import Audit, OneRun, audit, one_run
    from dpbraid.mechanism import SCHEMA, Mechanism
    from dpbraid.privacy.certificate import Certificate

    if out is not None:
        picture(out)
    for option, given in (("--out", out), ("--seconds", seconds)):
        if canaries and given is not None:
            raise InvalidParameterError(f"{option} does not go with --one-run")
    data = _json.read(file)
    subject: Mechanism | Certificate
    if isinstance(data, dict) and "certificate" in data:
        from dpbraid.estimators.files import from_json

        subject = from_json(data).certificate_  # refuses what does not fit it
    elif isinstance(data, dict) and data.get("schema") == SCHEMA:
        subject = Mechanism.from_json(data)
    else:
        subject = Certificate.from_json(data)
    chosen = {"delta": delta, "analysis": analysis, "dimension": dimension}
    said = {name: value for name, value in chosen.items() if value is not None}
    if said and isinstance(subject, Certificate):
        raise InvalidParameterError(
            f"--{next(iter(said))} goes with a mechanism, and {file} has a certificate "
            "that says it already"
        )
    found: Audit | OneRun
    with bar(Console(stderr=True)) as shown:
        task = shown.add_task("runs", total=None)

        def progress(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        shared: dict[str, Any] = {
            "confidence": confidence,
            "seed": seed,
            "progress": progress,
            **said,
        }
        if canaries:
            found = one_run(subject, runs=1 if runs is None else runs, **shared)
        else:
            runs = 1000 if runs is None else runs
            found = audit(subject, runs=runs, seconds=seconds, **shared)
    if isinstance(found, Audit) and out is not None:
        from dpbraid.audit.figures import draw

        draw(found, out)
    if json:
        print(json_text.dumps(found.to_json(), indent=2, allow_nan=False))
    else:
        print(found.table, end="")
        if out is not None:
            print(f"Picture: {out}")
    if not found.holds:
        raise typer.Exit(1)
