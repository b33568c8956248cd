"""CSV and Parquet files, a piece at a time.

No message holds anything of a cell: what pyarrow says of a file it cannot read may
quote a line of it. All cells of a CSV file are read as bytes, so that no cell can be of
a wrong type; what they mean is for the column rules to say.
"""

from __future__ import annotations

import codecs
import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dpbraid._validate import DpbraidError
from dpbraid.estimators import cells as cell

# Bytes of a CSV file that are in memory at once.
_BYTES = 1 << 23
_MOST_BYTES = (1 << 31) - 1


class TableError(DpbraidError):
    """A table's file cannot be used; the message holds nothing of its cells."""


# The column's place among those asked for, the first row, and cells from there on.
Piece = tuple[int, int, pa.Array]


@dataclass(frozen=True)
class TableFile(ABC):
    """A table in a file: its path and its columns' names, both public facts."""

    path: Path
    names: tuple[str, ...]

    @abstractmethod
    def rows(self) -> int:
        """Number of rows, a public fact."""

    @abstractmethod
    def _pieces(self, names: list[str]) -> Iterator[Piece]: ...

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        """The cells of the named columns, in pieces; those of one column in order."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise TableError(
                f"{self.path} has no column {missing[0]!r}, which is needed; its "
                f"columns are {', '.join(map(repr, self.names))}"
            )
        for place, first, cells in self._pieces(list(names)):
            yield place, first, cell.plain(cells)

    def _unreadable(self, what: str) -> TableError:
        return TableError(f"{self.path} cannot be read: {what}")


@dataclass(frozen=True)
class CsvFile(TableFile):
    """Comma-separated values: a line of names, then one record a row, quoted with "."""

    def rows(self) -> int:
        """Counted in one pass over the file."""
        return sum(len(cells) for _, _, cells in self._pieces([self.names[0]]))

    def _pieces(self, names: list[str]) -> Iterator[Piece]:
        """In blocks of a fixed size, or in one where a record is longer than that."""
        whole = min(self.path.stat().st_size + 1, _MOST_BYTES)
        done = 0
        for size in (min(_BYTES, whole), whole):
            skip = done
            blocks = self._blocks(names, size)
            while (block := _next(blocks)) is not None:
                if block is _UNREADABLE:
                    break
                rows = block.slice(skip)
                skip = max(0, skip - block.num_rows)
                for place, name in enumerate(names):
                    yield place, done, rows.column(name)
                done += rows.num_rows
            else:
                return
        raise self._unreadable(
            f"every record must have {len(self.names)} cells, one for each name in "
            "the first line, and every quote an end"
        )

    def _blocks(self, names: list[str], size: int) -> Iterator[pa.RecordBatch]:
        with pyarrow.csv.open_csv(
            self.path,
            pyarrow.csv.ReadOptions(block_size=size),
            pyarrow.csv.ParseOptions(
                newlines_in_values=True,
                # an empty line is an empty cell, where there is one column
                ignore_empty_lines=len(self.names) > 1,
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types={name: pa.binary() for name in names},
                check_utf8=False,
                strings_can_be_null=False,
            ),
        ) as reader:
            yield from reader


@dataclass(frozen=True)
class ParquetFile(TableFile):
    """Apache Parquet; kinds: the columns' types, public facts too."""

    kinds: tuple[pa.DataType, ...]

    def rows(self) -> int:
        """As the file's footer has it."""
        with pyarrow.parquet.ParquetFile(self.path) as file:
            return int(file.metadata.num_rows)

    def _pieces(self, names: list[str]) -> Iterator[Piece]:
        """A column of a row group at a time, which takes the least memory."""
        for name in names:
            kind = self.kinds[self.names.index(name)]
            if not cell.supported(kind):
                raise TableError(
                    f"column {name!r} of {self.path} is of type {kind}; dates, lists "
                    "and the like are not supported: turn it into numbers, texts or "
                    "booleans, or leave it out"
                )
        pieces = self._chunks(names)
        while (piece := _next(pieces)) is not None:
            if piece is _UNREADABLE:
                raise self._unreadable(_NO_PARQUET)
            yield piece

    def _chunks(self, names: list[str]) -> Iterator[Piece]:
        done = 0
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                for place, name in enumerate(names):
                    first = done
                    column = file.read_row_group(group, [name]).column(name)
                    for cells in column.chunks:
                        yield place, first, cells
                        first += len(cells)
                done += file.metadata.row_group(group).num_rows


_NO_PARQUET = "it is no Parquet file, or a damaged one"
_UNREADABLE = object()


def _next(parts: Iterator[Any]) -> Any:
    """The next part, None after the last, or _UNREADABLE; the reason is dropped."""
    try:
        return next(parts, None)
    except (pa.ArrowException, OSError):
        return _UNREADABLE


def open_table(path: str | Path) -> TableFile:
    """The table in a .csv or .parquet file."""
    path = Path(path)
    kind = file_kind(path)
    with path.open("rb"):
        pass  # a file that is not there says so itself
    file = _open_csv(path) if kind == ".csv" else _open_parquet(path)
    for name in file.names:
        if not name or file.names.count(name) > 1:
            raise TableError(
                f"the columns of {path} must have different names, got {name!r} "
                f"{file.names.count(name)} times"
            )
    return file


def file_kind(path: Path) -> str:
    """The kind of a table's file, by the end of its name."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise TableError(f"a table's name must end in .csv or .parquet, got {path}")
    return kind


def table_bytes(table: pa.Table, kind: str) -> bytes:
    """The content of a file of that kind."""
    content = io.BytesIO()
    if kind == ".csv":
        pyarrow.csv.write_csv(table, content)
    else:
        pyarrow.parquet.write_table(table, content)
    return content.getvalue()


def _open_csv(path: Path) -> CsvFile:
    names: list[str] = []
    try:
        # read as bytes, so that what follows the first line makes no difference
        with path.open(encoding="latin-1", newline="") as file:
            if file.read(3).encode("latin-1") != codecs.BOM_UTF8:
                file.seek(0)
            first = next(csv.reader(file), [])
        names = [name.encode("latin-1").decode() for name in first]
    except (csv.Error, UnicodeDecodeError):
        pass
    if not names:
        raise TableError(f"the first line of {path} must hold the columns' names")
    return CsvFile(path, tuple(names))


def _open_parquet(path: Path) -> ParquetFile:
    schema = None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
    except (pa.ArrowException, OSError):
        pass
    if schema is None:
        raise TableError(f"{path} cannot be read: {_NO_PARQUET}")
    return ParquetFile(path, tuple(schema.names), tuple(schema.types))
