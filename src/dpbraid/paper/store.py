"""The result store: one SQLite file, one row a run, safe against being killed.

A *configuration* is everything that decides the law of a run: JSON text, known by its
sha256. A run of it is the objective G(x; D) after each epoch. Runs are written in one
transaction for each unit of work, so a process that is killed at any moment leaves
whole units behind and nothing else.

A file that is not such a store, or is damaged, is an error and is never written to.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import DpbraidError

Array = NDArray[np.float64]

_APPLICATION = 0x64706272  # "dpbr"
_FORMAT = 1
# sqlite3 raises the second one where a message quotes a damaged name.
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
_TABLES = (
    """CREATE TABLE configuration (
    key TEXT PRIMARY KEY,           -- sha256 of json
    json TEXT NOT NULL,
    guarantee_void INTEGER NOT NULL -- 1 where the learning rate voids the guarantee
) WITHOUT ROWID""",
    """CREATE TABLE run (
    key TEXT NOT NULL REFERENCES configuration (key),
    number INTEGER NOT NULL,        -- 0, 1, .. of the configuration
    seed TEXT NOT NULL,
    version TEXT NOT NULL,          -- of the code, see code_version
    seconds REAL NOT NULL,          -- wall time of its unit over the runs in it
    objectives BLOB NOT NULL,       -- K + 1 little-endian doubles
    digest BLOB NOT NULL,           -- of all of the above but seconds
    PRIMARY KEY (key, number, version)
) WITHOUT ROWID""",
)


class StoreError(DpbraidError):
    """The file is no result store, or a damaged one; it has not been changed."""


@dataclass(frozen=True)
class Configuration:
    """What decides the law of a run, as JSON text in one form alone, and its key."""

    json: str
    guarantee_void: bool

    @classmethod
    def of(cls, data: Mapping[str, Any], *, guarantee_void: bool) -> Self:
        """From a JSON object."""
        text = json.dumps(data, sort_keys=True, allow_nan=False, separators=(",", ":"))
        return cls(text, guarantee_void)

    @property
    def key(self) -> str:
        """Its name in the store."""
        return hashlib.sha256(self.json.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its configuration, its number, and G(x; D) after 0..K epochs."""

    configuration: Configuration
    number: int
    seed: str
    seconds: float
    objectives: Array


class Store:
    """An open store; use it in a ``with`` statement and from one thread."""

    def __init__(self, path: str | Path, version: str, *, create: bool = True) -> None:
        """Open the store, or make a new one where there is no file.

        version: of the code; runs of other versions stay in the file and count for
        nothing here. create: False if no file is an error.
        """
        self.path = Path(path)
        self.version = version
        if not create and not (self.path.is_file() and self.path.stat().st_size):
            raise StoreError(f"there is no store {path}: run `dpbraid paper` first")
        self._file = _connect(self.path)
        if create:
            try:
                self._check_runs()  # what is damaged must not be written to
            except StoreError:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def done(self) -> set[tuple[str, int]]:
        """(key, number) of every run that is there."""
        query = "SELECT key, number FROM run WHERE version = ?"
        return set(self._rows(query, (self.version,)))

    def write(self, runs: Sequence[Run]) -> None:
        """Write the runs of one unit: all of them or, if killed, none."""
        configurations = {run.configuration for run in runs}
        try:
            with self._file:  # commits, or rolls back on an error
                self._file.execute("BEGIN IMMEDIATE")
                self._file.executemany(
                    "INSERT INTO configuration VALUES (?, ?, ?) "
                    "ON CONFLICT (key) DO NOTHING",
                    [(c.key, c.json, int(c.guarantee_void)) for c in configurations],
                )
                self._file.executemany(
                    "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (key, number, version) DO NOTHING",
                    [self._row(run) for run in runs],
                )
        except sqlite3.Error as error:
            raise StoreError(f"cannot write to {self.path}: {error}") from None

    def clear(self) -> None:
        """Delete all runs of all versions; the file stays, others may have it open."""
        try:
            with self._file:
                self._file.execute("BEGIN IMMEDIATE")
                self._file.execute("DELETE FROM run")
                self._file.execute("DELETE FROM configuration")
        except sqlite3.Error as error:
            raise StoreError(f"cannot write to {self.path}: {error}") from None

    def curves(self, keys: Iterable[str], runs: int) -> dict[str, Array]:
        """The objectives of runs 0..runs-1, shape (runs, K + 1), where all are there.

        A configuration that lacks one of them is left out.
        """
        query = (
            "SELECT number, seed, objectives, digest FROM run "
            "WHERE key = ? AND version = ? AND number < ? ORDER BY number"
        )
        found: dict[str, Array] = {}
        for key in keys:
            rows = self._rows(query, (key, self.version, runs))
            if len(rows) < runs:
                continue
            for number, seed, blob, digest in rows:
                self._check_run(key, number, seed, self.version, blob, digest)
            found[key] = np.array([np.frombuffer(row[2], dtype="<f8") for row in rows])
        return found

    def seconds(self, keys: Iterable[str]) -> float:
        """Wall time spent on the runs of these configurations, in seconds."""
        query = "SELECT total(seconds) FROM run WHERE key = ? AND version = ?"
        times = [self._rows(query, (key, self.version))[0][0] for key in set(keys)]
        return float(sum(times))

    def _check_runs(self) -> None:
        query = "SELECT key, number, seed, version, objectives, digest FROM run"
        for row in self._rows(query, ()):
            self._check_run(*row)

    def _check_run(
        self, key: Any, number: Any, seed: Any, version: Any, blob: Any, digest: Any
    ) -> None:
        typed = isinstance(seed, str) and isinstance(blob, bytes)
        if not typed or digest != _digest(key, number, seed, version, blob):
            raise StoreError(
                f"{self.path} is damaged: run {number} of {str(key)[:12]} is not what "
                "was written; move the file away and run again"
            )

    def _row(self, run: Run) -> tuple[Any, ...]:
        key = run.configuration.key
        blob = np.ascontiguousarray(run.objectives, dtype="<f8").tobytes()
        digest = _digest(key, run.number, run.seed, self.version, blob)
        return key, run.number, run.seed, self.version, run.seconds, blob, digest

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._file.execute(query, values).fetchall()
        except _DAMAGE as error:
            raise _damaged(self.path, error) from None


def _digest(key: str, number: int, seed: str, version: str, blob: bytes) -> bytes:
    head = "\n".join((str(key), str(number), seed, str(version))).encode()
    return hashlib.blake2b(head + b"\n" + blob, digest_size=16).digest()


def _connect(path: Path) -> sqlite3.Connection:
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # autocommit, so that transactions are where this module says
        file = sqlite3.connect(path, timeout=60, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"cannot open {path}: {error}") from None
    try:
        _check(file, path)
        file.execute("PRAGMA foreign_keys = ON")
        file.execute("PRAGMA synchronous = FULL")
    except sqlite3.OperationalError as error:  # read-only, locked, full
        file.close()
        raise StoreError(f"cannot open {path}: {error}") from None
    except _DAMAGE as error:
        file.close()
        raise _damaged(path, error) from None
    except StoreError:
        file.close()
        raise
    return file


def _check(file: sqlite3.Connection, path: Path) -> None:
    """Refuse foreign and damaged files; make the tables in an empty one."""

    def number(pragma: str) -> int:
        return int(file.execute(f"PRAGMA {pragma}").fetchone()[0])

    # reading rolls back what a killed process left half done
    if number("page_count") == 0:
        file.execute("BEGIN IMMEDIATE")  # after which nobody else makes them
        if not file.execute("SELECT * FROM sqlite_master").fetchall():
            for statement in (
                *_TABLES,
                f"PRAGMA application_id = {_APPLICATION}",
                f"PRAGMA user_version = {_FORMAT}",
            ):
                file.execute(statement)
        file.execute("COMMIT")
    if number("application_id") != _APPLICATION:
        raise StoreError(
            f"{path} is a database of another program, not a result store; choose "
            "another place"
        )
    if number("user_version") != _FORMAT:
        raise StoreError(
            f"{path} has the format {number('user_version')}, this version of dpbraid "
            f"reads {_FORMAT}; choose another place"
        )
    parts = "SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL"
    if sorted(file.execute(parts)) != [("table", "configuration"), ("table", "run")]:
        raise _damaged(path, "it has other tables, or more than tables")
    problem = file.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise _damaged(path, problem)


def _damaged(path: Path, problem: object) -> StoreError:
    return StoreError(
        f"{path} is no result store or is damaged ({problem}); it was left as it is. "
        "Move it away, or choose another place"
    )
