"""Every file that the program reads, damaged in every way we know.

Three kinds of damage: to the structure (hypothesis, on the parsed file), to the bytes
(seeded random ones), and to the file itself (folders, links, nothing). What must hold
is in `program`. All draws come from fixed seeds, so a run that passes passes again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults import mutations
from tests.faults.conftest import Place
from tests.faults.tables import FIT, PAPER

FULL = os.environ.get("DPBRAID_FULL") == "1"
STRUCTURES = 400 if FULL else 8
BYTES = 400 if FULL else 6


@dataclass(frozen=True)
class Reader:
    """A command, the one of its files that is damaged, and what it may write."""

    file: str
    words: str
    writes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"


_MODEL = ("model.json", "ledger.json")
_BOUND = "--target y --loss logistic --noise-std 1 --row-norm 2 --epochs 2"
READERS = (
    Reader("epoch_end.json", "account --mechanism epoch_end.json --delta 1e-6"),
    Reader("every_step.json", "account --mechanism every_step.json --epsilon 1 --json"),
    Reader(
        "every_step.json",
        "calibrate --mechanism every_step.json --epsilon 1 --delta 1e-6 --out new.json",
        ("new.json",),
    ),
    Reader("epoch_end.json", "audit epoch_end.json --runs 4 --seconds 0.2"),
    Reader(
        "every_step.json",
        "bound --mechanism every_step.json --private numbers.csv --public numbers.csv "
        "--target y --json --radius 9",
    ),
    Reader("certificate.json", "verify certificate.json"),
    Reader("certificate.json", "explain certificate.json"),
    Reader("certificate.json", "audit certificate.json --runs 4 --seconds 0.2 --json"),
    Reader("model.json", "audit model.json --runs 4 --seconds 0.2"),
    Reader("model.json", "verify model.json --json"),
    Reader("model.json", "explain model.json --html -o page.html", ("page.html",)),
    Reader("model.json", "predict model.json private.csv --probabilities"),
    Reader("rules.json", f"fit private.csv --rules rules.json {FIT}", _MODEL),
    Reader("ledger.json", "ledger show ledger.json"),
    Reader("ledger.json", "ledger show ledger.json --json"),
    Reader(
        "ledger.json",
        f"fit private.csv --rules rules.json --ledger ledger.json {FIT}",
        _MODEL,
    ),
    Reader("private.csv", f"fit private.csv --rules rules.json {FIT}", _MODEL),
    Reader(
        "public.csv",
        f"fit private.csv --public public.csv --target label {FIT}",
        _MODEL,
    ),
    Reader("public.csv", "rules public.csv --task logistic --target label"),
    Reader("private.csv", "predict model.json private.csv -o out.csv", ("out.csv",)),
    Reader("numbers.csv", f"bound --private numbers.csv {_BOUND}"),
    Reader("private.parquet", f"fit private.parquet --rules rules.json {FIT}", _MODEL),
    Reader(
        "public.parquet",
        f"fit private.csv --public public.parquet --target label {FIT}",
        _MODEL,
    ),
    Reader("private.parquet", "predict model.json private.parquet"),
    Reader("study/study.json", "paper report --out study", ("study/",)),
    Reader("study/store.sqlite", "paper report --out study", ("study/",)),
    Reader("study/store.sqlite", PAPER, ("study/",)),
)
DAMAGE: dict[str, Callable[[bytes, Random], bytes]] = {
    ".json": mutations.damaged_json,
    ".csv": mutations.damaged_csv,
    ".parquet": mutations.damaged_parquet,
    ".sqlite": mutations.damaged_sqlite,
}


def hold(place: Place, reader: Reader) -> int:
    """The command in that folder as it is."""
    place.figures.add("inputs")
    return place.attempt(reader.words, reader.writes).code


def damaged(place: Place, reader: Reader, data: bytes) -> None:
    """The command on its file with that content."""
    place.fresh()
    (place.folder / reader.file).write_bytes(data)
    hold(place, reader)


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_valid_files_are_read(place: Place, reader: Reader) -> None:
    """Else all that follows would only see that everything is refused."""
    assert hold(place, reader) == 0


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_damaged_structure(place: Place, reader: Reader) -> None:
    damage = DAMAGE[Path(reader.file).suffix]

    @settings(
        max_examples=STRUCTURES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def damage_it(rng: Random) -> None:
        damaged(place, reader, damage(place.valid[reader.file], rng))

    damage_it()


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_random_bytes(place: Place, reader: Reader) -> None:
    rng = Random(zlib.crc32(str(reader).encode()))
    for _ in range(BYTES):
        damaged(place, reader, mutations.damaged_bytes(place.valid[reader.file], rng))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _gone(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _other_kind(path: Path) -> None:
    """A file of another kind under this name: the first of a picture."""
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))


def _other_encoding(path: Path) -> None:
    path.write_bytes('{"schema": "é"}'.encode("utf-16"))


@pytest.mark.parametrize(
    "spoil",
    [_empty, _gone, _folder, _loop, _dangling, _other_kind, _other_encoding],
)
def test_no_such_file(place: Place, spoil: Callable[[Path], None]) -> None:
    for reader in READERS:
        place.fresh()
        spoil(place.folder / reader.file)
        code = hold(place, reader)
        new_store = reader.words == PAPER and spoil in (_empty, _gone, _dangling)
        assert code == (0 if new_store else 2), reader
