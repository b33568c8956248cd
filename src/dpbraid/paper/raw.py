"""The original files of the five data sets, read as they are published."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

from dpbraid.paper.embedded import DataError


@dataclass(frozen=True)
class Table:
    """A text table: column names and the cells of every row, in the file's order."""

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def select(self, columns: tuple[str, ...]) -> Table:
        """The named columns alone, in that order; of twins, the first."""
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise DataError(f"the table has no column {', '.join(missing)}")
        at = [self.columns.index(name) for name in columns]
        return Table(columns, tuple(tuple(row[i] for i in at) for row in self.cells))


def crime(folder: Path) -> Table:
    """Communities and Crime: 1994 rows, 128 columns, '?' where a value is missing."""
    names = _text(_find(folder, "communities.names"))
    columns = tuple(
        line.split()[1] for line in names.splitlines() if line.startswith("@attribute")
    )
    path = _find(folder, "communities.data.csv.gz", "communities.data")
    return _table(path, columns)


def _find(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} holds no {' or '.join(names)}")


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _table(path: Path, columns: tuple[str, ...] | None = None) -> Table:
    rows = [tuple(row) for row in csv.reader(io.StringIO(_text(path))) if row]
    if columns is None:
        columns, rows = rows[0], rows[1:]
    if any(len(row) != len(columns) for row in rows):
        raise DataError(f"{path} has a row that does not have {len(columns)} columns")
    return Table(columns, tuple(rows))
