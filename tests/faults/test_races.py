"""Two and more processes on one ledger or one store: nothing lost, nothing twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbraid.privacy import ledger
from tests.faults.conftest import Place
from tests.faults.program import check
from tests.faults.tables import FIT, PAPER
from tests.faults.test_kills import pictures, rows
from tests.faults.warm import Command, undisturbed

ROUNDS = 20 if os.environ.get("DPBRAID_FULL") == "1" else 1


def together(place: Place, tmp_path: Path, *lines: str) -> list[int]:
    """The exit codes of commands that run side by side in one folder."""
    running = [
        Command(place.folder, tmp_path / str(i), words) for i, words in enumerate(lines)
    ]
    ends = [one.end() for one in running]
    place.figures.add("races")
    for end in ends:
        check(end)
    return [end.code for end in ends]


@pytest.mark.slow
def test_fits_share_one_ledger(place: Place, tmp_path: Path) -> None:
    """Room for two releases of epsilon 1: two of four models, each with its charge."""
    words = f"fit private.csv --rules rules.json --ledger new.json {FIT}"
    for _ in range(ROUNDS):
        place.fresh("private.csv", "rules.json")
        ledger.new(place.folder / "new.json", "people", epsilon=1.6, delta=1e-6)
        each = [words.replace("model.json", f"model{i}.json") for i in range(4)]
        codes = together(place, tmp_path, *each)
        assert sorted(codes) == [0, 0, 2, 2]
        released = {f"model{i}.json" for i, code in enumerate(codes) if code == 0}
        found = {path.name for path in place.folder.glob("model*.json")}
        charges = ledger.read(place.folder / "new.json").charges
        assert found == released == {charge.note for charge in charges}
        assert len(charges) == 2


@pytest.mark.slow
def test_one_of_many_makes_the_ledger(place: Place, tmp_path: Path) -> None:
    words = "ledger new new.json --data-set people --delta 1e-6 --epsilon"
    for _ in range(ROUNDS):
        place.fresh()
        codes = together(place, tmp_path, *(f"{words} {i + 1}" for i in range(4)))
        assert sorted(codes) == [0, 2, 2, 2]
        made = ledger.read(place.folder / "new.json")
        assert made.epsilon == codes.index(0) + 1


@pytest.mark.slow
def test_papers_share_one_store(place: Place, tmp_path: Path) -> None:
    """Both end well, and the store is that of one alone."""
    place.fresh("private.csv")
    undisturbed(place.folder, tmp_path / "0", PAPER)
    expected = rows(place.folder), pictures(place.folder)
    for _ in range(ROUNDS):
        place.fresh("private.csv")
        assert together(place, tmp_path, PAPER, PAPER) == [0, 0]
        assert (rows(place.folder), pictures(place.folder)) == expected


@pytest.mark.slow
def test_a_paper_from_scratch_beside_another(place: Place, tmp_path: Path) -> None:
    """Whoever comes with --fresh takes the other's runs away, and damages nothing."""
    place.fresh("private.csv")
    undisturbed(place.folder, tmp_path / "0", PAPER)
    expected = rows(place.folder), pictures(place.folder)
    for _ in range(ROUNDS):
        together(place, tmp_path, PAPER, f"{PAPER} --fresh")
        undisturbed(place.folder, tmp_path / "0", PAPER)
        assert (rows(place.folder), pictures(place.folder)) == expected
