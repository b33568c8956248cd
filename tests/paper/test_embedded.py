from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpbraid.paper import embedded, tasks
from dpbraid.paper.embedded import DataError

CUT = {"b": np.arange(6, dtype=np.uint8).reshape(2, 3), "a": np.array(7)}


def test_every_task_is_embedded_and_every_file_is_listed():
    files = {path.name for path in embedded.FOLDER.glob("*.npz")}
    assert files == {f"{name}.npz" for name in tasks.names()}
    assert files == set(embedded.checksums())


def test_checksums_hold():
    for name, digest in embedded.checksums().items():
        assert embedded.sha256((embedded.FOLDER / name).read_bytes()) == digest


def test_all_of_it_is_small():
    assert sum(p.stat().st_size for p in embedded.FOLDER.iterdir()) < 8 * 2**20


def test_packing_is_a_function_of_the_arrays_alone():
    reordered = {"a": CUT["a"], "b": np.asfortranarray(CUT["b"])}
    assert embedded.pack(CUT) == embedded.pack(reordered)
    assert embedded.pack(CUT) != embedded.pack({**CUT, "a": np.array(8)})


def test_packing_is_lossless():
    back = embedded.unpack(embedded.pack(CUT))
    assert back.keys() == CUT.keys()
    for name, values in CUT.items():
        assert back[name].dtype == values.dtype
        assert back[name].shape == values.shape
        assert np.array_equal(back[name], values)


def test_written_files_are_read(tmp_path):
    embedded.write({"one": CUT}, tmp_path)
    assert np.array_equal(embedded.read("one", tmp_path)["b"], CUT["b"])


def test_one_flipped_bit_is_found(tmp_path):
    embedded.write({"one": CUT}, tmp_path)
    path = tmp_path / "one.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"one\.npz is damaged: its sha256 is"):
        embedded.read("one", tmp_path)


def test_missing_and_unlisted_files_are_named(tmp_path):
    embedded.write({"one": CUT}, tmp_path)
    with pytest.raises(DataError, match=r"lists no two\.npz"):
        embedded.read("two", tmp_path)
    (tmp_path / "one.npz").unlink()
    with pytest.raises(DataError, match=r"cannot read .*one\.npz"):
        embedded.read("one", tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_a_broken_list_of_checksums_is_a_clear_error(tmp_path, text):
    (tmp_path / embedded.CHECKSUMS).write_text(text)
    with pytest.raises(DataError, match=r"cannot read .*checksums\.json"):
        embedded.read("one", tmp_path)


def test_rebuilding_gives_the_same_bytes(originals, tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "build_data.py"
    command = [sys.executable, str(script), "--data-dir", str(originals)]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, capture_output=True)
    for name in embedded.checksums():
        assert (tmp_path / name).read_bytes() == (embedded.FOLDER / name).read_bytes()
    assert subprocess.run([*command, "--check"], check=False).returncode == 0


def test_check_fails_on_other_data(originals, tmp_path):
    embedded.write({"crime": CUT}, tmp_path)
    script = Path(__file__).parents[2] / "scripts" / "build_data.py"
    command = [sys.executable, str(script), "--data-dir", str(originals), "--check"]
    result = subprocess.run(
        [*command, "--out", str(tmp_path)], check=False, capture_output=True
    )
    assert result.returncode == 1
