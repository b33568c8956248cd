"""The command line: one module a command, argument parsing and printing only."""

from __future__ import annotations

import sys

import typer

from dpbraid._validate import DpbraidError
from dpbraid.cli import (
    account,
    calibrate,
    compare,
    demo,
    explain,
    fit,
    ledger,
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
app.command("rules")(takes_options(rules.command))
app.add_typer(ledger.app, name="ledger")


@app.callback()
def _root() -> None:
    """Keep the commands as subcommands, also while there is one."""


def main() -> None:
    """Entry point: errors for people are one line on stderr and exit code 2."""
    try:
        app()
    except (DpbraidError, OSError) as error:
        print(f"dpbraid: {error}", file=sys.stderr)
        sys.exit(2)
