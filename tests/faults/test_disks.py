"""Full disks and read-only folders: one sentence, nothing lost, nothing half written.

A disk is full here where a file may not grow beyond a limit (RLIMIT_FSIZE), where
`fsync` says so late, and behind /dev/full. A folder is read-only by its mode, for which
root has to be somebody else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbraid.privacy import ledger
from tests.faults.conftest import Figures, Place
from tests.faults.program import End, check, content, run, whole
from tests.faults.tables import FIT, PAPER

WRITERS = {
    "calibrate": "calibrate --mechanism every_step.json --epsilon 1 --delta 1e-6 "
    "--out new.json",
    "rules": "rules public.csv --task logistic --target label -o new.json",
    "explain": "explain model.json --html -o new.html",
    "csv": "predict model.json private.csv -o new.csv",
    "parquet": "predict model.json private.csv -o new.parquet",
    "audit": "audit epoch_end.json --runs 2 --seconds 0.05 --out new.svg",
    "new ledger": "ledger new new.json --data-set people --epsilon 5 --delta 1e-6",
    "fit": f"fit private.csv --rules rules.json --ledger ledger.json {FIT}",
    "paper": PAPER.replace("study", "new"),
    "paper again": PAPER,
    "figures": "paper figures --out study",
    "report": "paper report --out study",
}
if os.environ.get("DPBRAID_FULL") == "1":  # it takes some seconds
    WRITERS["compare"] = (
        "compare --n 20 --epochs 2 --clip-norm 1 --epsilon 1 --delta 1e-6 --out new.svg"
    )
SCRIPT = "from dpbraid.cli import main; main()"
LIMITS = (0, 1, 700, 6000, 30_000)


@contextlib.contextmanager
def limited(size: int) -> Iterator[None]:
    """No file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def sealed(folder: Path) -> Iterator[None]:
    """Nobody may write into the folder, and we are nobody."""
    inside = [path for path in folder.rglob("*") if path.is_dir()]
    for path in (folder, *inside):
        path.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path in (folder, *inside):
            path.chmod(0o755)


def spoiled(place: Place, words: str, fault: Any) -> End:
    """How the command ends under the fault; without it, it then does its work."""
    place.fresh()
    before = content(place.folder)
    with contextlib.chdir(place.folder), fault:
        end = run(*words.split())
    place.figures.add("disks")
    check(end)
    whole(place.folder, before, ("new", "study/", "model.json", "ledger.json"))
    assert not list(place.folder.rglob(".~*"))
    old = len(json.loads(place.valid["ledger.json"])["charges"])
    charged = len(ledger.read(place.folder / "ledger.json").charges) - old
    released = (place.folder / "model.json").read_bytes() != before["model.json"]
    assert released <= charged <= 1
    with contextlib.chdir(place.folder):
        again = run(*words.split())
    assert again.code == 0 or "exists already" in again.err, again
    return end


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_full_disk(place: Place, words: str) -> None:
    with contextlib.chdir(place.folder):
        assert run(*words.split()).code == 0  # all is imported and compiled
    ends = [spoiled(place, words, limited(size)) for size in LIMITS]
    assert ends[0].code == ends[1].code == 2
    assert "too large" in ends[0].err or "disk" in ends[0].err, ends[0]


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_disk_that_is_full_late(
    place: Place, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written does not reach the disk: the n-th time that Python asks."""
    fsync, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == last:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    @contextlib.contextmanager
    def late() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            yield

    for last in (1, 2, 3):
        calls = 0
        end = spoiled(place, words, late())
        if calls >= last:
            assert end.code == 2
            assert "No space left on device" in end.err


@pytest.fixture
def open_place(valid: dict[str, bytes], figures: Figures) -> Iterator[Place]:
    """A place that everybody may look into."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Place(Path(folder) / "root", valid, figures)


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_folder_to_read_alone(open_place: Place, words: str) -> None:
    with contextlib.chdir(open_place.folder):
        assert run(*words.split()).code == 0
    end = spoiled(open_place, words, sealed(open_place.folder))
    assert end.code == 2
    assert re.search("Permission denied|readonly|unable to open|written", end.err), end


def test_no_budget_is_spent_on_a_model_without_a_place(open_place: Place) -> None:
    place = open_place
    (place.folder / "shut").mkdir()
    words = WRITERS["fit"].replace("-o model.json", "-o shut/model.json")
    before = content(place.folder)
    place.folder.chmod(0o777)
    with contextlib.chdir(place.folder), sealed(place.folder / "shut"):
        end = run(*words.split())
    place.figures.add("disks")
    assert end.code == 2
    assert "Permission denied" in end.err
    assert content(place.folder) == before


def test_a_full_stdout(place: Place) -> None:
    """One line and exit code 2, not what the interpreter says at its own end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "ledger", "show", "ledger.json"],
            cwd=place.folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    place.figures.add("disks")
    assert done.returncode == 2
    assert done.stderr == "dpbraid: [Errno 28] No space left on device\n"
