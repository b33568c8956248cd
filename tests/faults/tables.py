"""The files of these tests, made by the program: people whose label leans on age."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow.csv
import pyarrow.parquet as pq

from tests.faults.program import run

HEAD = "age,city,member,label"
FIT = (
    "--task logistic --epsilon 1 --delta 1e-6 --epochs 2 --batch-size 10 "
    "--row-norm 2 -o model.json"
)
PAPER = "paper run --panel fig2-crime-eps1 --runs 1 --grid 1e-4 --out study"
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
    PAPER,
)


def people(rows: int, rng: Random) -> list[str]:
    """CSV lines."""
    lines = []
    for _ in range(rows):
        age, city = rng.randint(18, 80), rng.choice(("Oslo", "Rome"))
        member = rng.choice(("true", "false"))
        label = "yes" if age + 20 * (city == "Oslo") > 60 else "no"
        lines.append(f"{age},{city},{member},{label}")
    return lines


def write(folder: Path, rng: Random) -> None:
    """private and public, as CSV and as Parquet, and a table of numbers alone."""
    for name, rows in (("private", 40), ("public", 30)):
        path = folder / f"{name}.csv"
        path.write_text("\n".join([HEAD, *people(rows, rng)]) + "\n")
        pq.write_table(pyarrow.csv.read_csv(path), path.with_suffix(".parquet"))
    numbers = [
        f"{rng.random():.4f},{-rng.random():.4f},{rng.choice((-1, 1))}"
        for _ in range(12)
    ]
    (folder / "numbers.csv").write_text("\n".join(["a,b,y", *numbers]) + "\n")


def make(rng: Random) -> None:
    """One valid file of every kind that the program reads, in this folder."""
    write(Path("."), rng)
    for line in MAKE:
        end = run(*line.split())
        assert end.code == 0, end


def certificate(model: bytes) -> bytes:
    """The certificate in a model's file, as a file of its own."""
    return json.dumps(json.loads(model)["certificate"], indent=1).encode()
