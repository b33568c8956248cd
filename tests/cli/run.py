"""The command line in this process: arguments in, (exit code, stdout, stderr) out."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from dpbraid.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def dpbraid(capsys: pytest.CaptureFixture[str], *args: object) -> Done:
    before = sys.argv
    sys.argv = ["dpbraid", *map(str, args)]
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    # whether a command is the first to compile depends on the tests before it
    err = captured.err.removeprefix("Compiling (once, some seconds) ...\n")
    return Done(int(end.value.code or 0), captured.out, err)
