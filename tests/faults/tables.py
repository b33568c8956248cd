"""The tables of these tests: people whose label leans on their age."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow.csv
import pyarrow.parquet as pq

HEAD = "age,city,member,label"


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


def certificate(model: bytes) -> bytes:
    """The certificate in a model's file, as a file of its own."""
    return json.dumps(json.loads(model)["certificate"], indent=1).encode()
