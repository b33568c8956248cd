"""The command line: one module a command, argument parsing and printing only."""

from __future__ import annotations

import sys

import typer

from dpbraid._validate import DpbraidError
from dpbraid.cli import (
    account,
    advise,
    audit,
    bound,
    calibrate,
    compare,
    data,
    demo,
    explain,
    fit,
    ledger,
    paper,
    predict,
    rules,
    verify,
)
from dpbraid.cli.words import takes_options

app = typer.Typer(
    name="dpbraid",
    help="Differentially private convex learning with shuffled gradients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.command)
app.command("calibrate")(takes_options(calibrate.command))
app.command("account")(takes_options(account.command))
app.command("compare")(compare.command)
app.command("fit")(takes_options(fit.command))
app.command("predict")(predict.command)
app.command("explain")(explain.command)
app.command("verify")(verify.command)
app.add_typer(paper.app, name="paper")
app.add_typer(data.app, name="data")
app.command("bound")(takes_options(bound.command))
app.command("advise")(advise.command)
app.command("audit")(audit.command)
app.command("rules")(takes_options(rules.command))
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """Entry point: errors for people are one line on stderr and exit code 2."""
    try:
        app()
    except (DpbraidError, OSError) as error:
        print(f"dpbraid: {error}", file=sys.stderr)
        sys.exit(2)
