"""Column rules: from public tables, total on private cells, the same in every file."""

from __future__ import annotations

import csv
import json
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbraid import DpbraidError
from dpbraid.estimators import cells, table_files
from dpbraid.estimators.column_rules import (
    LARGEST,
    Boolean,
    Category,
    Classes,
    Lookup,
    Number,
    Real,
)
from dpbraid.estimators.table_files import TableError, open_table
from dpbraid.estimators.table_rules import TableRules, learn

NAN = float("nan")
PUBLIC = {
    "age": ["30", "40", "", "50", "x"],
    "city": ["Oslo", " Rome", "Oslo ", "NA", "Rome"],
    "member": ["true", "False", "TRUE", "", "true"],
    "y": ["no", "yes", "no", "yes", ""],
}
RULES = TableRules(
    (
        Number("age", 40, 45.0, 10.0),
        Category("city", ("Oslo", "Rome")),
        Boolean("member", True),
    ),
    Classes("y", ("no", "yes")),
)


def write_csv(path: Path, columns: dict[str, list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def quoted(rows: list[list[bytes]]) -> bytes:
    """CSV with every cell quoted, so that any bytes can stand in one."""
    lines = [
        b",".join(b'"' + cell.replace(b'"', b'""') + b'"' for cell in row)
        for row in rows
    ]
    return b"\n".join(lines) + b"\n"


def write_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "public.csv", PUBLIC)


# -- cells -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        (" -2.5e1\t", -25.0),
        (".5", 0.5),
        ("7.", 7.0),
        ("1e-320", 1e-320),
        ("1e-999", 0.0),
        ("1" * 150, float("1" * 150)),
        ("1e999", NAN),
        ("1" * 400, NAN),
        ("", NAN),
        ("nan", NAN),
        ("inf", NAN),
        ("0x10", NAN),
        ("1_000", NAN),
        ("1,5", NAN),
        ("1 2", NAN),
        ("e5", NAN),
        ("\u0663", NAN),
        ("true", NAN),
    ],
)
def test_what_a_text_says(text: str, number: float) -> None:
    found = cells.numbers(pa.array([text.encode()], pa.binary()))
    assert found.tolist() == [pytest.approx(number, rel=0, nan_ok=True)]


@given(st.lists(st.binary(max_size=12)))
def test_any_bytes_are_cells(words: list[bytes]) -> None:
    """Nothing raises or warns, and Python's float agrees on what is a number."""
    column = pa.array(words, pa.binary())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, truths = cells.numbers(column), cells.truths(column)
    assert found.shape == truths.shape == (len(words),)
    assert set(truths[~np.isnan(truths)]) <= {0.0, 1.0}
    for word, number in zip(words, found, strict=True):
        if np.isfinite(number):
            assert number == float(word)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_as_text(value: float) -> None:
    found = cells.numbers(pa.array([repr(value).encode()], pa.binary()))
    assert found[0] == value


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, None, -3]), [1, NAN, -3]),
        (pa.array([2**63], pa.uint64()), [2.0**63]),
        (pa.array([1.5, np.inf, NAN, None]), [1.5, NAN, NAN, NAN]),
        (pa.array(np.array([0.5, np.nan], np.float16)), [0.5, NAN]),
        (pa.array([Decimal("1.25"), None]), [1.25, NAN]),
        (pa.array([True, False, None]), [1, 0, NAN]),
        (pa.nulls(2), [NAN, NAN]),
        (pa.array(["1", "x", None]).dictionary_encode(), [1, NAN, NAN]),
        (pa.array(["7", "8"], pa.large_string())[1:], [8]),
    ],
    ids=str,
)
def test_numbers_of_every_type(column: pa.Array, expected: list[float]) -> None:
    np.testing.assert_array_equal(cells.numbers(cells.plain(column)), expected)


# -- rules -----------------------------------------------------------------------------


def filled(rule: Any, column: pa.Array) -> list[list[float]]:
    out = np.full((len(column), len(rule.features)), NAN)
    rule.fill(column, out)
    result: list[list[float]] = out.tolist()
    return result


def test_a_number_is_scaled_and_a_missing_one_replaced() -> None:
    rule = Number("age", missing=40, center=45, scale=10)
    column = pa.array([b"55", b"", b"who?", b"1e308", b"-1e308"])
    assert filled(rule, column) == [[1], [-0.5], [-0.5], [LARGEST], [-LARGEST]]
    huge = Number("x", 0.0, -1.7e308, 5e-324)
    assert filled(huge, pa.array([1.7e308, -1.7e308])) == [[LARGEST], [0]]


def test_a_boolean() -> None:
    column = pa.array([b"TRUE", b"false", b"1", b"0", b"2", b"yes"])
    for missing in (True, False):
        found = filled(Boolean("b", missing), column)
        assert found == [[1], [0], [1], [0], [missing], [missing]]


def test_a_category() -> None:
    rule = Category("city", ("Oslo", "Rome"))
    column = pa.array([b"Rome", b" Oslo\n", b"rome", b"", b"\xff", None])
    assert rule.features == ("city=Oslo", "city=Rome")
    assert filled(rule, column) == [[0, 1], [1, 0], *[[0, 0]] * 4]


def test_labels() -> None:
    column = pa.array([b"1", b"2", b"", b"-7.5"])
    real = Real("y")
    assert real.known(real.labels(column)).tolist() == [True, True, False, True]
    classes = Classes("y", ("2", "1"))
    labels = classes.labels(column)
    assert labels.tolist() == ["1", "2", "", ""]
    assert classes.known(labels).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("words", "column", "places"),
    [
        (("0", "1"), pa.array([1, 0, 2, None]), [1, 0, -1, -1]),
        (("0", "1"), pa.array([1.0, NAN, 0.5]), [1, -1, -1]),
        (("0", "1"), pa.array([True, False]), [1, 0]),
        (("10", "9"), pa.array([b"9.0", b"10", b"x"]), [1, 0, -1]),
        (("False", "True"), pa.array([True, None]), [1, -1]),
        (("False", "True"), pa.array([b"true", b"FALSE", b""]), [1, 0, -1]),
        (("01", "1"), pa.array([b"1", b"01", b"001"]), [1, 0, -1]),
        (("a", "1"), pa.array([1, 2]), [1, -1]),
    ],
    ids=str,
)
def test_words_that_are_numbers_are_compared_as_such(
    words: tuple[str, ...], column: pa.Array, places: list[int]
) -> None:
    assert Lookup(words).places(column).tolist() == places


@pytest.mark.parametrize(
    "make",
    [
        lambda: Number("", 0),
        lambda: Number("a", NAN),
        lambda: Number("a", 0, scale=0),
        lambda: Boolean("a", 1),  # type: ignore[arg-type]
        lambda: Category("a", ()),
        lambda: Category("a", ("b", "b")),
        lambda: Category("a", ("b ",)),
        lambda: Classes("a", ("b",)),
        lambda: TableRules(()),
        lambda: TableRules((Number("a", 0),), Real("a")),
    ],
)
def test_rules_must_make_sense(make: Any) -> None:
    with pytest.raises(DpbraidError):
        make()


def test_json_is_lossless_and_strict() -> None:
    data = json.loads(json.dumps(RULES.to_json()))
    assert TableRules.from_json(data) == RULES
    assert TableRules.from_json(data).declaration == RULES.declaration
    for bad in (
        {**data, "schema": "dpbraid.table/2"},
        {**data, "more": 1},
        {**data, "columns": [{"kind": "date", "name": "a"}]},
        {**data, "columns": [{"kind": "number", "name": "a"}]},
        {**data, "target": {"kind": "number", "name": "a"}},
        [],
    ):
        with pytest.raises(DpbraidError):
            TableRules.from_json(bad)


# -- learning --------------------------------------------------------------------------


def test_rules_of_a_csv_file(public: Path) -> None:
    rules = learn(open_table(public), target="y", classes=True)
    spread = float(np.std([30, 40, 50]))
    assert rules == TableRules(
        (
            Number("age", 40, 40, spread),
            Category("city", ("Oslo", "Rome")),
            Boolean("member", True),
        ),
        Classes("y", ("no", "yes")),
    )
    bare = learn(open_table(public), leave_out=("city", "y", "member"), scale=False)
    assert bare == TableRules((Number("age", 40),))


def test_rules_of_a_parquet_file(tmp_path: Path) -> None:
    table = {
        "count": pa.array([1, 2, None, 9]),
        "flag": pa.array([False, False, None, True]),
        "word": pa.array(["b", "a", None, "b"]).dictionary_encode(),
        "code": pa.array([3.0, 3.5, None, 3.0]),
        "y": pa.array([0.5, 1.5, 2.5, None]),
    }
    file = open_table(write_parquet(tmp_path / "p.parquet", table))
    rules = learn(file, target="y", categories=["code"], scale=False)
    assert rules == TableRules(
        (
            Number("count", 2),
            Boolean("flag", False),
            Category("word", ("a", "b")),
            Category("code", ("3", "3.5")),
        ),
        Real("y"),
    )
    X, y = rules.read_public(file)
    assert y is not None
    assert y.tolist() == [0.5, 1.5, 2.5]
    assert X.tolist() == [[1, 0, 0, 1, 1, 0], [2, 0, 1, 0, 0, 1], [2, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["2020-01-31", "1999-12-01 10:00"], "'x' holds dates"),
        (["31.1.2020", ""], "'x' holds dates"),
        (["", "NA"], "'x' holds nothing"),
        ([f"name {i}" for i in range(300)], "'x' has 300 different values"),
    ],
)
def test_columns_without_a_rule_are_named(
    tmp_path: Path, cells: list[str], message: str
) -> None:
    columns = {"a": ["1"] * len(cells), "x": cells}
    file = open_table(write_csv(tmp_path / "t.csv", columns))
    with pytest.raises(TableError, match=message):
        learn(file)
    assert learn(file, leave_out=["x"]).features == ("a",)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2], pa.timestamp("us")),
        pa.array([1, 2], pa.date32()),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([1, 2], pa.duration("s")),
    ],
    ids=lambda a: str(a.type),
)
def test_types_without_a_rule_are_named(tmp_path: Path, column: pa.Array) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"when": column, "x": [1.0, 2.0]})
    with pytest.raises(TableError, match=r"'when' of .* is of type .*; dates"):
        learn(open_table(path))
    with pytest.raises(TableError, match="'when'"):
        TableRules((Number("when", 0),)).read(open_table(path))
    X, _ = TableRules((Number("x", 0),)).read(open_table(path))
    assert X.tolist() == [[1], [2]]


def test_a_name_that_is_not_there(public: Path) -> None:
    for use in ({"target": "z"}, {"leave_out": ["z"]}, {"categories": ["z"]}):
        with pytest.raises(
            TableError, match="has no column 'z'; its columns are 'age'"
        ):
            learn(open_table(public), **use)  # type: ignore[arg-type]


# -- reading ---------------------------------------------------------------------------


def test_both_formats_read_the_same(tmp_path: Path) -> None:
    columns = {
        "age": ["41", "", "90"],
        "city": ["Rome", "Paris", "Oslo"],
        "member": ["true", "false", ""],
        "y": ["yes", "no", "maybe"],
        "more": ["1", "2", "3"],
    }
    typed = {
        "more": pa.array([1, 2, 3], pa.timestamp("s")),
        "y": pa.array(columns["y"]),
        "member": pa.array([True, False, None]),
        "city": pa.array(columns["city"]).dictionary_encode(),
        "age": pa.array([41, None, 90]),
    }
    X, y = RULES.read(open_table(write_csv(tmp_path / "t.csv", columns)))
    Z, z = RULES.read(open_table(write_parquet(tmp_path / "t.parquet", typed)))
    expected = [[-0.4, 0, 1, 1], [-0.5, 0, 0, 0], [4.5, 1, 0, 1]]
    assert X.tolist() == Z.tolist() == expected
    assert y is not None
    assert z is not None
    assert y.tolist() == z.tolist() == ["yes", "no", ""]
    del columns["y"]
    bare = open_table(write_csv(tmp_path / "bare.csv", columns))
    assert RULES.read_features(bare).tolist() == expected
    with pytest.raises(TableError, match="has no column 'y'"):
        RULES.read(bare)


@given(st.lists(st.lists(st.binary(max_size=9), min_size=4, max_size=4), min_size=1))
def test_any_cells_are_read(tmp_path_factory: Any, rows: list[list[bytes]]) -> None:
    """Whatever stands in the cells, there is one finite row of features for each."""
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(quoted([b"age city member y".split(), *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = RULES.read(open_table(path))
    assert X.shape == (len(rows), 4)
    assert np.isfinite(X).all()
    assert y is not None
    assert set(y) <= {"no", "yes", ""}


@given(st.lists(st.binary(max_size=3).filter(lambda b: b"\r" not in b), min_size=1))
def test_an_empty_cell_of_the_only_column_is_a_row(
    tmp_path_factory: Any, cells: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("one") / "t.csv"
    path.write_bytes(
        b"x\n"
        + b"".join(
            b'"' + c.replace(b'"', b'""') + b'"\n' if c else b"\n" for c in cells
        )
    )
    assert open_table(path).rows() == len(cells)


def test_a_record_longer_than_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_BYTES", 1 << 12)
    rows = [[b"%d" % i, b"Rome", b"true", b"no"] for i in range(2000)]
    rows[1500][1] = b"SECRET" * 1000
    path = tmp_path / "t.csv"
    path.write_bytes(quoted([b"age city member y".split(), *rows]))
    X, _ = RULES.read(open_table(path))
    assert X[:, 0].tolist() == [(i - 45) / 10 for i in range(2000)]
    assert X[:, 2].tolist() == [float(i != 1500) for i in range(2000)]


def test_a_table_of_several_row_groups(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(100.0), "y": np.arange(100.0)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=33)
    rules = TableRules((Number("x", 0),), Real("y"))
    X, y = rules.read(open_table(tmp_path / "t.parquet"))
    assert X[:, 0].tolist() == list(range(100))
    assert y is not None
    assert y.tolist() == list(range(100))


def test_a_malformed_file_is_one_sentence_without_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    texts = []
    for line in (b"1,SECRET,true,no,5\n", b"SECRET\n", b'1,"SECRET\n'):
        path.write_bytes(b"age,city,member,y\n1,Rome,true,no\n" + line)
        with pytest.raises(TableError) as error:
            RULES.read(open_table(path))
        assert error.value.__context__ is None
        texts.append(str(error.value))
    assert texts == [texts[0]] * 3
    assert "SECRET" not in texts[0]
    path = tmp_path / "t.parquet"
    write_parquet(path, {"age": ["SECRET" * 9] * 99, "city": ["SECRET"] * 99})
    whole = path.read_bytes()
    rules = TableRules((Number("age", 0), Category("city", ("a",))))
    for damaged in (b"", b"SECRET", whole[:-9], whole[:20] + bytes(40) + whole[60:]):
        path.write_bytes(damaged)
        with pytest.raises(TableError, match="no Parquet file, or a damaged") as error:
            rules.read(open_table(path))
        assert error.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"a\n1\n", "must end in .csv or .parquet"),
        ("t.csv", b"", "the first line of .* must hold the columns' names"),
        ("t.csv", b"\xff\n1\n", "the first line of .* must hold the columns' names"),
        ("t.csv", b"a,a\n1,2\n", "different names, got 'a' 2 times"),
        ("t.csv", b"a,\n1,2\n", "different names, got '' 1 times"),
        ("t.csv", b"a,b\n", "must have one row or more"),
        ("t.csv", b"b\n1\n", "has no column 'a', which is needed; its columns are 'b'"),
    ],
)
def test_files_that_are_no_tables(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=message):
        TableRules((Number("a", 0),)).read(open_table(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        open_table(tmp_path / "nowhere.csv")


def test_names_with_dots_and_quotes(tmp_path: Path) -> None:
    names = ["a.b", "a", 'c "d", e']
    rules = TableRules(tuple(Number(name, 0) for name in names))
    path = write_csv(tmp_path / "t.csv", {n: [str(i)] for i, n in enumerate(names)})
    assert rules.read(open_table(path))[0].tolist() == [[0, 1, 2]]
    path = write_parquet(tmp_path / "t.parquet", {n: [i] for i, n in enumerate(names)})
    assert rules.read(open_table(path))[0].tolist() == [[0, 1, 2]]


def test_a_byte_order_mark_is_no_name(tmp_path: Path) -> None:
    for head in (b"a,b", b'"a",b'):
        (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + head + b"\r\n1,2\r\n")
        file = open_table(tmp_path / "t.csv")
        assert file.names == ("a", "b")
        assert TableRules((Number("a", 0),)).read(file)[0].tolist() == [[1]]
