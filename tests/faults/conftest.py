"""Valid inputs, made once by the program itself, and the figures at the end."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults import tables
from tests.faults.program import run

FIT = (
    "--task logistic --epsilon 1 --delta 1e-6 --epochs 2 --batch-size 10 "
    "--row-norm 2 -o model.json"
)
MAKE = (
    "calibrate --n 12 --epochs 3 --loss squared --learning-rate 0.1 --clip-norm 1 "
    "--row-norm 1 --placement epoch_end --epsilon 1 --delta 1e-6 --batch-size 2 "
    "--penalty elastic_net:0.1,0.2 --out epoch_end.json",
    "calibrate --schedule interleaved --n 12 --private-steps 7 --epochs 3 "
    "--learning-rate 0.1 --clip-norm 1 --row-norm 1 --order shuffle_once "
    "--epsilon 1 --delta 1e-6 --penalty ball:3 --out every_step.json",
    "ledger new ledger.json --data-set people --epsilon 5 --delta 1e-6",
    "rules public.csv --task logistic --target label -o rules.json",
    f"fit private.csv --public public.csv --target label --ledger ledger.json {FIT}",
    "paper run --panel fig2-crime-eps1 --runs 1 --grid 1e-4 --out study",
)


@pytest.fixture(scope="session")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Name -> content of one valid file of every kind that the program reads."""
    folder = tmp_path_factory.mktemp("valid")
    with contextlib.chdir(folder):
        tables.write(Path("."), random.Random(1))
        for line in MAKE:
            end = run(*line.split())
            assert end.code == 0, end
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
