"""The command line: one module a command, argument parsing and printing only."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

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
from dpbraid.cli.compiling import compiles
from dpbraid.cli.words import takes_options

app = typer.Typer(
    name="dpbraid",
    help="Differentially private convex learning with shuffled gradients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(compiles(demo.command))
app.command("calibrate")(takes_options(calibrate.command))
app.command("account")(takes_options(account.command))
app.command("compare")(compare.command)
app.command("fit")(compiles(takes_options(fit.command)))
app.command("predict")(predict.command)
app.command("explain")(explain.command)
app.command("verify")(verify.command)
app.add_typer(paper.app, name="paper")
app.add_typer(data.app, name="data")
app.command("bound")(takes_options(bound.command))
app.command("advise")(advise.command)
app.command("audit")(compiles(audit.command))
app.command("rules")(takes_options(rules.command))
app.add_typer(ledger.app, name="ledger")


# More of what a message quotes from a file helps nobody.
_LONGEST = 1000


def main() -> None:
    """Entry point: errors for people are one line on stderr and exit code 2."""
    try:
        try:
            app()
        finally:
            print(end="", flush=True)  # or a full disk is noticed too late
    except (DpbraidError, OSError) as error:
        _end(str(error))
    except MemoryError:
        _end("there is not enough memory for a task of this size")


def _end(message: str) -> NoReturn:
    line = " ".join(message.split())
    if len(line) > _LONGEST:
        line = line[:_LONGEST] + " ..."
    shown = (c if c.isprintable() else ascii(c)[1:-1] for c in line)
    print(f"dpbraid: {''.join(shown)}", file=sys.stderr)
    try:
        print(end="", flush=True)
    except OSError:  # what stdout does not take, the interpreter must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(2)
