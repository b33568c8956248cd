"""Killed at random points: files are whole, charges are kept, work goes on.

SIGKILL after a random time of the time that the command takes. What is left in the
folder then is what a user finds after a power cut (`os.replace` and `fsync` aside).
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from random import Random

import pytest

from dpbraid.privacy import ledger
from tests.faults.conftest import Place
from tests.faults.program import content, whole
from tests.faults.tables import FIT, PAPER
from tests.faults.warm import Command, undisturbed

KILLS = 100 if os.environ.get("DPBRAID_FULL") == "1" else 4


@pytest.mark.slow
def test_a_killed_fit_is_charged_or_has_released_nothing(
    place: Place, tmp_path: Path
) -> None:
    words = f"fit private.csv --rules rules.json --ledger ledger.json {FIT}"
    takes = undisturbed(place.folder, tmp_path, words)
    points = Random(1)
    at_work = 0
    for _ in range(KILLS):
        place.fresh()
        before = content(place.folder)
        killed = Command(place.folder, tmp_path, words)
        at_work += killed.kill(points.uniform(0, takes))
        place.figures.add("kills")
        whole(place.folder, before, ("model.json", "ledger.json"))
        old = len(json.loads(place.valid["ledger.json"])["charges"])
        charged = len(ledger.read(place.folder / "ledger.json").charges) - old
        released = (place.folder / "model.json").read_bytes() != before["model.json"]
        assert released <= charged <= 1
        assert place.attempt("verify model.json").code == 0
        assert Command(place.folder, tmp_path, words).end().code == 0
    assert at_work > 0


def rows(folder: Path) -> list[tuple[object, ...]]:
    """All runs of a store but their wall times."""
    file = sqlite3.connect(folder / "study" / "store.sqlite")
    found = file.execute(
        "SELECT key, number, seed, version, objectives, digest FROM run "
        "ORDER BY key, number, version"
    ).fetchall()
    file.close()
    return found


@pytest.mark.slow
def test_a_killed_paper_goes_on_to_the_same_end(place: Place, tmp_path: Path) -> None:
    place.fresh("private.csv")
    before = content(place.folder)
    takes = undisturbed(place.folder, tmp_path, PAPER)
    expected = rows(place.folder), pictures(place.folder)
    points = Random(2)
    at_work = 0
    for number in range(KILLS):
        if number % 4 == 0:  # four kills on the way to one end
            place.fresh("private.csv")
        killed = Command(place.folder, tmp_path, PAPER)
        at_work += killed.kill(points.uniform(0, takes))
        place.figures.add("kills")
        whole(place.folder, before, ("study/",))
        if number % 4 == 3:
            undisturbed(place.folder, tmp_path, PAPER)
            assert (rows(place.folder), pictures(place.folder)) == expected
    assert at_work > 0


def pictures(folder: Path) -> dict[str, bytes | str]:
    found = content(folder / "study" / "figures")
    return {name: data for name, data in found.items() if not name.startswith(".~")}


@pytest.mark.slow
def test_a_killed_audit_leaves_its_subject_alone(place: Place, tmp_path: Path) -> None:
    words = "audit model.json --runs 60 --json --out audit.svg"
    takes = undisturbed(place.folder, tmp_path, words)
    points = Random(3)
    at_work = 0
    for _ in range(KILLS):
        place.fresh()
        before = content(place.folder)
        killed = Command(place.folder, tmp_path, words)
        at_work += killed.kill(points.uniform(0, takes))
        place.figures.add("kills")
        whole(place.folder, before, ("audit.svg",))
        text = killed.said("out")
        assert text == "" or json.loads(text)["holds"]
    assert at_work > 0
