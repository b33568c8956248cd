from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpbraid.paper import sweep
from dpbraid.paper.store import Configuration, Run, Store, StoreError
from tests.paper import sweep_child

CHILD = Path(sweep_child.__file__)


def configuration(number=0, void=False):
    return Configuration.of({"number": number, "a": [1.5, None]}, guarantee_void=void)


def run(number=0, of=0, values=(3.0, 2.0, np.inf)):
    return Run(configuration(of), number, f"0, {number}", 0.25, np.array(values))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "results.sqlite"


def test_what_is_written_is_read(path):
    key = configuration().key
    with Store(path, "v1") as store:
        assert store.done() == set()
        store.write([run(0), run(1, values=(1.0, 0.5, 0.1)), run(0, of=1)])
    with Store(path, "v1") as store:
        assert store.done() == {(key, 0), (key, 1), (configuration(1).key, 0)}
        curves = store.curves([key, configuration(1).key], runs=2)
        assert list(curves) == [key]  # the other one lacks its second run
        assert np.array_equal(curves[key], [[3.0, 2.0, np.inf], [1.0, 0.5, 0.1]])
        assert store.seconds([key]) == 0.5


def test_configurations_are_told_apart_by_their_content():
    a = Configuration.of({"x": 1, "y": 2}, guarantee_void=False)
    b = Configuration.of({"y": 2, "x": 1}, guarantee_void=False)
    assert a.key == b.key
    assert a.key != Configuration.of({"x": 1, "y": 3}, guarantee_void=False).key


def test_the_first_row_stays(path):
    with Store(path, "v1") as store:
        store.write([run(0)])
        store.write([run(0, values=(9.0, 9.0, 9.0))])
        assert store.curves([configuration().key], 1)[configuration().key][0, 0] == 3.0


def test_versions_do_not_mix(path):
    with Store(path, "v1") as store:
        store.write([run(0)])
    with Store(path, "v2") as store:
        assert store.done() == set()
        store.write([run(0, values=(7.0, 7.0, 7.0))])
    with Store(path, "v1") as store:
        assert store.curves([configuration().key], 1)[configuration().key][0, 0] == 3.0


def test_void_guarantees_are_marked_in_the_file(path):
    void = Run(configuration(5, void=True), 0, "0, 0", 0.1, np.ones(2))
    with Store(path, "v1") as store:
        store.write([run(0), void])
    file = sqlite3.connect(path)
    marks = dict(file.execute("SELECT key, guarantee_void FROM configuration"))
    file.close()
    assert marks == {configuration().key: 0, void.configuration.key: 1}


def test_a_unit_is_written_whole_or_not_at_all(path):
    broken = Run(configuration(1), 0, "0, 0", float("nan"), np.ones(2))  # NOT NULL
    with Store(path, "v1") as store:
        with pytest.raises(StoreError, match="cannot write"):
            store.write([run(0), broken])
        assert store.done() == set()
        store.write([run(0)])  # and the store is still of use
        assert len(store.done()) == 1


@pytest.mark.parametrize(
    "content", [b"not a database at all, but a text", b"\0" * 9000]
)
def test_a_foreign_file_is_left_alone(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match="no result store"):
        Store(path, "v1")
    assert path.read_bytes() == content


def test_a_foreign_database_is_left_alone(path):
    path.parent.mkdir()
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE mine (x)")
    file.commit()
    file.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path, "v1")
    assert path.read_bytes() == before


def test_a_later_format_is_left_alone(path):
    Store(path, "v1").close()
    file = sqlite3.connect(path)
    file.execute("PRAGMA user_version = 2")
    file.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="format 2"):
        Store(path, "v1")
    assert path.read_bytes() == before


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="not a file"):
        Store(tmp_path, "v1")


@pytest.fixture
def filled(path):
    with Store(path, "v1") as store:
        for number in range(40):
            store.write([run(number, of, np.arange(200.0)) for of in range(3)])
    return path


def test_a_cut_off_file_is_left_alone(filled):
    data = filled.read_bytes()[: filled.stat().st_size // 2]
    filled.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Store(filled, "v1")
    assert filled.read_bytes() == data


def test_changed_numbers_are_found(filled):
    data = filled.read_bytes()
    needle = np.arange(200.0)[100:110].tobytes()
    assert data.count(needle) == 120
    filled.write_bytes(data.replace(needle, needle[::-1], 1))
    with (
        Store(filled, "v1", create=False) as store,
        pytest.raises(StoreError, match="damaged: run"),
    ):
        store.curves([configuration(of).key for of in range(3)], 40)


@pytest.mark.parametrize("change", ["number = number + 100", "seed = 1", "key = x'ff'"])
def test_what_is_damaged_is_not_written_to(filled, change):
    """A run that nobody would look for, else it would be done and written again."""
    file = sqlite3.connect(filled)
    file.execute("PRAGMA foreign_keys = OFF")
    file.execute(
        f"UPDATE run SET {change} WHERE number = 3 AND key = ?", (configuration(0).key,)
    )
    file.commit()
    file.close()
    before = filled.read_bytes()
    with pytest.raises(StoreError, match="damaged: run"):
        Store(filled, "v1")
    assert filled.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END",
        "CREATE TABLE more (a)",
        "DROP TABLE configuration",
    ],
)
def test_what_has_other_parts_is_not_written_to(filled, statement):
    """A trigger, for one, may take away what is written."""
    file = sqlite3.connect(filled)
    file.execute(statement)
    file.close()
    before = filled.read_bytes()
    with pytest.raises(StoreError, match="other tables"):
        Store(filled, "v1")
    assert filled.read_bytes() == before


def test_a_message_of_sqlite_that_is_no_text(filled):
    data = filled.read_bytes()
    name = b"CREATE TABLE run"
    assert data.count(name) == 1
    filled.write_bytes(data.replace(name, b"CREATE TABLE\xca\xfe\xcaun"))
    with pytest.raises(StoreError, match="damaged"):
        Store(filled, "v1")


def test_a_random_damage_is_an_error_or_does_not_show(filled):
    """200 times 64 random bytes: never wrong numbers, never another exception."""
    data = filled.read_bytes()
    keys = [configuration(of).key for of in range(3)]
    rng = random.Random(0)
    errors = 0
    for _ in range(200):
        hurt = bytearray(data)
        at = rng.randrange(len(data) - 64)
        hurt[at : at + 64] = rng.randbytes(64)
        filled.write_bytes(hurt)
        try:
            with Store(filled, "v1") as store:
                for curves in store.curves(keys, 40).values():
                    assert np.array_equal(curves, np.tile(np.arange(200.0), (40, 1)))
        except StoreError:
            errors += 1
        assert filled.read_bytes() == bytes(hurt)
    assert errors > 50  # much of the file is empty space


# -- kill tests ----------------------------------------------------------------------


def rows(path):
    """All rows but their wall times."""
    file = sqlite3.connect(path)
    found = (
        file.execute("SELECT * FROM configuration ORDER BY key").fetchall(),
        file.execute(
            "SELECT key, number, seed, version, objectives, digest FROM run "
            "ORDER BY key, number, version"
        ).fetchall(),
    )
    file.close()
    return found


class Child:
    """sweep_child.py, which runs sweeps and kills them."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def sweep(self, path, seconds="inf"):
        """How it ended, units that were said to be on disk, and its seconds."""
        print(seconds, path, file=self.process.stdin, flush=True)
        how, safe, took = self.process.stdout.readline().split()
        return how, int(safe), float(took)


@pytest.fixture
def child():
    child = Child()
    with child.process:
        yield child
        child.process.stdin.close()


def units_left(path):
    """How many units a sweep would still run; each of them is whole."""
    with Store(path, sweep.code_version()) as store, Store(":memory:", "") as empty:
        left, whole = sweep_child.plan(store), sweep_child.plan(empty)
    columns = {(unit.algorithm, unit.number): len(unit.cells) for unit in whole}
    for unit in left:
        assert len(unit.cells) == columns[unit.algorithm, unit.number]
    return len(left)


def test_killed_sweeps_resume(tmp_path, child):
    """20 random SIGKILLs, then a resume: row for row the store of an undisturbed sweep.

    They are spread over one and a half times what a whole sweep takes. After each, all
    units that were said to be on disk are there, whole, and at most the one that was
    about to be said. Fails falsely only if none lands between the first and the last.
    """
    undisturbed, killed = tmp_path / "undisturbed.sqlite", tmp_path / "killed.sqlite"
    how, units, seconds = child.sweep(undisturbed)
    assert (how, units_left(undisturbed)) == ("done", 0)
    expected = rows(undisturbed)
    kills = 20
    rng = random.Random(1)
    left, at_work, halfway = units, 0, 0
    for _ in range(kills):
        how, safe, _took = child.sweep(killed, rng.uniform(0, 3 * seconds / kills))
        assert how in ("killed", "done")
        at_work += how == "killed"
        before, left = left, units_left(killed)
        assert safe <= before - left <= safe + 1
        halfway += 0 < left < units
    assert at_work > 0
    assert halfway > 0
    how, safe, _took = child.sweep(killed)
    assert (how, safe) == ("done", left)
    assert rows(killed) == expected
    content = killed.read_bytes()
    assert child.sweep(killed)[:2] == ("done", 0)  # once more: no work, not a byte
    assert killed.read_bytes() == content
