"""Processes of the whole program that start at once: forks of one that has warmed up.

The fork server begins with `tests.faults.warmed`, so nothing is left to import or to
compile when a test starts its clock.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from dpbraid.cli import main
from tests.faults import tables
from tests.faults.program import End, run

# No command of these tests takes a tenth of it.
PATIENCE = 120.0


class Command:
    """``dpbraid words`` at work in a folder, in a process of its own."""

    def __init__(self, folder: Path, said: Path, words: str) -> None:
        """said: a folder for what the program prints."""
        self._said = said
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.faults.warmed"])
        said.mkdir(exist_ok=True)
        self._process = context.Process(
            target=_command, args=(str(folder), str(said), words)
        )
        self._process.start()

    def kill(self, seconds: float) -> bool:
        """SIGKILL after this time; whether the program was still at work."""
        self._process.join(seconds)
        self._process.kill()
        self._process.join(PATIENCE)
        return self._process.exitcode == -signal.SIGKILL

    def end(self) -> End:
        """Wait for its end."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        assert code is not None, "the program hangs"
        return End(code, self.said("out"), self.said("err"))

    def said(self, name: str) -> str:
        """What it has printed so far on stdout ("out") or stderr ("err")."""
        path = self._said / name
        return path.read_text() if path.exists() else ""


def undisturbed(folder: Path, said: Path, words: str) -> float:
    """How long the command takes that nobody disturbs, in seconds; it ends well."""
    Command(folder, said, "paper list").end()  # starts the server where there is none
    began = time.monotonic()
    end = Command(folder, said, words).end()
    assert (end.code, end.err) == (0, ""), end
    return time.monotonic() - began


def warm_up() -> None:
    """Import and compile what the commands of these tests need."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        tables.make(random.Random(1))
        end = run(*"audit model.json --runs 4 --out audit.svg".split())
        assert end.code == 0, end


def _command(folder: str, said: str, words: str) -> None:
    os.chdir(folder)
    with (
        open(os.path.join(said, "out"), "w") as sys.stdout,
        open(os.path.join(said, "err"), "w") as sys.stderr,
    ):
        sys.argv = ["dpbraid", *words.split()]
        main()
