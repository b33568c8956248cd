"""Valid inputs, made once by the program itself, and the figures at the end."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import tables
from tests.faults.program import End, attempt


@pytest.fixture(scope="session")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Name -> content of one valid file of every kind that the program reads."""
    folder = tmp_path_factory.mktemp("valid")
    with contextlib.chdir(folder):
        tables.make(random.Random(1))
    names = [
        *"private.csv public.csv private.parquet public.parquet".split(),
        *"numbers.csv epoch_end.json every_step.json ledger.json rules.json".split(),
        *("model.json", "study/study.json", "study/store.sqlite"),
    ]
    files = {name: (folder / name).read_bytes() for name in names}
    return files | {"certificate.json": tables.certificate(files["model.json"])}


class Figures:
    """What the tests of this folder did, printed at the end."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        self.counts[what] += number


_KEY = pytest.StashKey[Figures]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_KEY] = Figures()


@pytest.fixture
def figures(pytestconfig: pytest.Config) -> Figures:
    return pytestconfig.stash[_KEY]


class Place:
    """A folder with all valid files, deep enough to see a name that leads upwards."""

    def __init__(self, root: Path, valid: dict[str, bytes], figures: Figures) -> None:
        self.root = root
        self.valid = valid
        self.figures = figures
        self.fresh()

    @property
    def folder(self) -> Path:
        return self.root / "deep" / "down"

    def fresh(self, *names: str) -> None:
        """All valid files, or these, and nothing else."""
        shutil.rmtree(self.root, ignore_errors=True)
        for name in names or self.valid:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.valid[name])

    def attempt(self, words: str, writes: tuple[str, ...] = ()) -> End:
        """The command, held to what `program.attempt` says."""
        names = tuple(f"deep/down/{name}" for name in writes)
        return attempt(self.root, self.folder, *words.split(), writes=names)


@pytest.fixture
def place(
    tmp_path_factory: pytest.TempPathFactory, valid: dict[str, bytes], figures: Figures
) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("place"), valid, figures)
    yield made
    shutil.rmtree(made.root)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counts = config.stash[_KEY].counts
    if not counts:
        return
    failed = [
        report
        for report in terminalreporter.stats.get("failed", [])
        if "tests/faults" in report.nodeid
    ]
    lost = f"{len(failed)} TESTS FAILED" if failed else "nothing lost"
    terminalreporter.section("faults")
    terminalreporter.write_line(
        f"{counts['inputs']} inputs fuzzed, {counts['disks']} full or read-only disks, "
        f"{counts['races']} races, {counts['kills']} kills survived: {lost}"
    )
