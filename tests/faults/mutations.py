"""Damaged files: a valid one with something changed, at the whim of a `Random`.

Under hypothesis the Random is one of its own, so that what fails gets smaller.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# JSON that may stand in place of any value, written as it is.
LITERALS = (
    *"null true false 0 1 -1 2 0.5 1e308 -1e308 1e-320 1e999 NaN Infinity".split(),
    *"-Infinity -0.0 9007199254740993 18446744073709551616 1000000".split(),
    *(str(10**400), "9" * 5000, '""', '"a"', '"NaN"', '"1e3"', '"\\u0000"'),
    *('"\\ud800"', '"\\n\\r\\u001b[31m"', '"\\u202e\\u2028"', '"[bold]["', "[]", "{}"),
    *("[null]", '{"kind": "none"}', '{"kind": null}', "[[[[0]]]]"),
    *('"' + "x" * 9999 + '"', '"../../up"', '"/dev/null/x"'),
    *("[" * 50_000 + "]" * 50_000, '{"a":' * 50_000, '\ufeff"', "\x00", "//", "1,"),
)
NAMES = ("", "a", "schema", "kind", "\n", "\x1b[31m", "\ud800", "x" * 999)


class Raw(str):
    """JSON text in a tree of JSON values."""


class Object(list[tuple[str, Any]]):
    """A JSON object as pairs, so that a name can stand there twice."""


def damaged_json(valid: bytes, rng: Random) -> bytes:
    """One to three changes anywhere in the tree."""
    data = json.loads(valid, object_pairs_hook=Object)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = _places(data)
        if places:
            container, i = rng.choice(places)
            rng.choice(CHANGES)(rng, container, i, places)
    return _dumped(data).encode("utf-8", "surrogatepass")


def damaged_csv(valid: bytes, rng: Random) -> bytes:
    """Cells, rows and columns changed; ends of lines, quotes and marks as well."""
    table = [line.split(b",") for line in valid.splitlines()]
    for _ in range(rng.choice((1, 2, 4))):
        i, j = rng.randrange(len(table)), rng.randrange(len(table[0]))
        match rng.randrange(9):
            case 0 | 1 | 2 if j < len(table[i]):
                table[i][j] = rng.choice(CELLS)
            case 3:
                table[0][j % len(table[0])] = rng.choice(CELLS)
            case 4:
                for row in table:
                    row[j : j + 1] = []
            case 5:
                for row in table:
                    row.append(row[j % len(row)] if row else b"")
            case 6:
                table[i] = table[i][: rng.randrange(5)]
            case 7:
                del table[i]
            case _:
                table.insert(i, rng.choice(([], [b""], [b"a"] * 9, table[0])))
        table = table or [[b""]]
        table[0] = table[0] or [b""]
    end = rng.choice((b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\x00"))
    text = end.join(rng.choice((b",", b",", b";")).join(row) for row in table)
    return rng.choice((b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\n")) + text


# What no cell should be, and no name of a column.
CELLS = (
    *(b"", b" ", b"0", b"-1", b"1e308", b"-1e999", b"nan", b"inf", b"9" * 5000),
    *(b"\xff\xfe", b"\x00", b"\x1b[31m", b'"', b'"a', b'"a\nb"', b'""""', b"a,b"),
    *("\u202e\u0663".encode(), b"2020-01-01", b"yes", b"SECRET" * 99, b"[bold]["),
)


def damaged_parquet(valid: bytes, rng: Random) -> bytes:
    """Other types, other names, other cells, and other ways to store them."""
    table = pq.read_table(io.BytesIO(valid))
    for _ in range(rng.choice((1, 2))):
        if not table.num_columns:
            break
        j = rng.randrange(table.num_columns)
        name = table.column_names[j]
        match rng.randrange(6):
            case 0 | 1 | 2:
                table = table.set_column(j, name, _column(table.num_rows, rng))
            case 3:
                table = table.remove_column(j)
            case 4:
                word = rng.choice(("", "a", "\n", "age", "\x1b[31m", "x" * 3000))
                table = table.rename_columns(
                    [word if i == j else n for i, n in enumerate(table.column_names)]
                )
            case _:
                table = table.slice(rng.randrange(table.num_rows + 1))
    content = io.BytesIO()
    pq.write_table(
        table,
        content,
        row_group_size=rng.choice((1, 7, 1000)),
        compression=rng.choice(("NONE", "ZSTD", "SNAPPY")),
        use_dictionary=rng.random() < 0.5,
    )
    return content.getvalue()


def _column(rows: int, rng: Random) -> pa.Array:
    cell, kind = rng.choice(COLUMNS)
    cells = [rng.choice((cell, None)) for _ in range(rows)]
    return pa.array(cells, kind)


COLUMNS = (
    *((1.5, pa.float64()), (math.inf, pa.float64()), (math.nan, pa.float32())),
    *((2**63 - 1, pa.int64()), (2**64 - 1, pa.uint64()), (True, pa.bool_())),
    *(("Rome", pa.string()), ("\x00", pa.large_string()), (b"\xff", pa.binary())),
    *((Decimal("1.5"), pa.decimal128(38, 9)), (None, pa.null()), (1, pa.date32())),
    *((1, pa.timestamp("ns")), (1, pa.duration("s")), (1, pa.time64("us"))),
    *(([1], pa.list_(pa.int8())), ({"a": 1}, pa.struct({"a": pa.int8()}))),
    *((b"abcd", pa.binary(4)), ([("a", 1)], pa.map_(pa.string(), pa.int8()))),
    *((Decimal(10) ** 60, pa.decimal256(76, 3)), ("x" * 100_000, pa.string())),
)  # fmt: skip


def damaged_sqlite(valid: bytes, rng: Random) -> bytes:
    """A store with other rows, other types in them, other tables, other numbers."""
    file = sqlite3.connect(":memory:")
    file.deserialize(valid)
    for _ in range(rng.choice((1, 1, 2))):
        statement = rng.choice(STATEMENTS)
        with contextlib.suppress(sqlite3.Error):
            file.execute(statement, (rng.choice(VALUES),) * statement.count("?"))
            file.commit()
    data = file.serialize()
    file.close()
    return bytes(data)


_CELLS = "key number seed version seconds objectives digest".split()
STATEMENTS = (
    *(f"UPDATE run SET {name} = ?" for name in _CELLS),
    *(f"UPDATE configuration SET {name} = ?" for name in ("key", "json")),
    "UPDATE configuration SET guarantee_void = ?",
    "UPDATE run SET objectives = substr(objectives, 9)",
    "UPDATE run SET number = number + 1",
    "DELETE FROM run",
    "DELETE FROM configuration",
    "DROP TABLE run",
    "DROP TABLE configuration",
    "ALTER TABLE run RENAME TO runs",
    "ALTER TABLE run RENAME COLUMN seed TO seeds",
    "ALTER TABLE run ADD COLUMN more TEXT",
    "CREATE TABLE more (a)",
    "CREATE VIEW more AS SELECT * FROM run",
    "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END",
    "PRAGMA user_version = 2",
    "PRAGMA application_id = 0",
    "PRAGMA encoding = 'UTF-16'",
)
VALUES = (None, 0, -1, 2**63 - 1, 1.5, math.inf, "", "a", "{}", b"", b"\xff", bytes(8))


def damaged_bytes(valid: bytes, rng: Random) -> bytes:
    """A file with bits flipped, bytes replaced, pieces doubled, moved or cut off."""
    data = bytearray(valid)
    for _ in range(rng.choice((1, 1, 2, 5, 50))):
        i = rng.randrange(len(data) + 1)
        j = min(len(data), i + rng.choice((1, 2, 4, 16, 64, 512)))
        k = rng.randrange(len(data) + 1)
        piece = bytes(data[i:j])
        match rng.randrange(8):
            case 0 if piece:
                data[i] ^= 1 << rng.randrange(8)
            case 1 if piece:
                data[i] = rng.randrange(256)
            case 2:
                del data[i:j]
            case 3:
                data[k:k] = piece
            case 4:
                data[i:j] = rng.getrandbits(8 * len(piece) + 8).to_bytes(len(piece) + 1)
            case 5:
                data[i:j] = b"\xff" * len(piece)
            case 6:
                data[i:j] = bytes(len(piece))
            case _ if rng.random() < 0.2:
                del data[i:]
    if rng.random() < 0.02:
        return rng.getrandbits(2400).to_bytes(300)
    return bytes(data)


def _literal(rng: Random, container: Any, i: int, _places: Any) -> None:
    _put(container, i, Raw(rng.choice(LITERALS)))


def _drop(_rng: Random, container: Any, i: int, _places: Any) -> None:
    del container[i]


def _double(_rng: Random, container: Any, i: int, _places: Any) -> None:
    container.insert(i, container[i])


def _rename(rng: Random, container: Any, i: int, _places: Any) -> None:
    if isinstance(container, Object):
        container[i] = (rng.choice(NAMES), container[i][1])


def _same_type(rng: Random, container: Any, i: int, _places: Any) -> None:
    """Another number where there was one; another text where there was one."""
    value = _value(container, i)
    if isinstance(value, bool) or value is None:
        _put(container, i, rng.random() < 0.5)
    elif isinstance(value, int):
        digits = rng.choice((0, 1, 2, 3, 5, 9, 19, 40))
        _put(container, i, rng.randrange(-3, 10**digits))
    elif isinstance(value, float):
        size = math.ldexp(1 + rng.random(), rng.randrange(-1074, 1023))
        near = value * rng.choice((-1, 0.5, 2, 10, 1 + 2**-40))
        _put(container, i, rng.choice((size, -size, near, near)))
    elif isinstance(value, str):
        letters = [chr(rng.choice((rng.randrange(128), rng.randrange(0x3000))))]
        _put(container, i, Raw(json.dumps("".join(letters * rng.randrange(3)) + value)))


def _transplant(rng: Random, container: Any, i: int, places: Any) -> None:
    """What stands elsewhere in the file."""
    other, j = rng.choice(places)
    _put(container, i, Raw(_dumped(_value(other, j))))


def _swap(rng: Random, container: Any, i: int, _places: Any) -> None:
    j = rng.randrange(len(container))
    a, b = _value(container, i), _value(container, j)
    _put(container, i, b)
    _put(container, j, a)


Change = Callable[[Random, Any, int, Any], None]
CHANGES: tuple[Change, ...] = (
    *(_literal, _literal, _drop, _double, _rename),
    *(_same_type, _same_type, _same_type, _transplant, _swap),
)


def _dumped(data: Any) -> str:
    if isinstance(data, Raw):
        return str(data)
    if isinstance(data, Object):
        return (
            "{" + ", ".join(f"{json.dumps(k)}: {_dumped(value)}" for k, value in data)
        ) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(_dumped, data)) + "]"
    return json.dumps(data)


def _places(data: Any) -> list[tuple[Any, int]]:
    """Every (container, index) below a value."""
    if not isinstance(data, list):
        return []
    found = [(data, i) for i in range(len(data))]
    return found + [p for i in range(len(data)) for p in _places(_value(data, i))]


def _put(container: Any, i: int, value: Any) -> None:
    container[i] = (container[i][0], value) if isinstance(container, Object) else value


def _value(container: Any, i: int) -> Any:
    return container[i][1] if isinstance(container, Object) else container[i]
