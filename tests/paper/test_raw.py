"""Readers of the original formats, on small files made here."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from dpbraid.paper import raw
from dpbraid.paper.embedded import DataError

RNG = np.random.default_rng(0)


def idx(values):
    head = bytes((0, 0, 8, values.ndim)) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    return head + values.astype(np.uint8).tobytes()


@pytest.mark.parametrize("dot", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_idx_files(tmp_path, dot, zipped):
    images = RNG.integers(0, 256, (5, 28, 28))
    labels = np.array([6, 9, 1, 6, 0])
    for stem, axes, values in (
        ("train-images", 3, images),
        ("train-labels", 1, labels),
    ):
        name = f"{stem}{'.' if dot else '-'}idx{axes}-ubyte"
        data = idx(values)
        if zipped:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / name).write_bytes(data)
    read = raw.mnist(tmp_path)
    assert np.array_equal(read.pixels, images.reshape(5, 784))
    assert np.array_equal(read.labels, labels)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no idx at all", "not an idx file"),
        (idx(np.zeros((5, 28, 28)))[:-1], "cut off"),
        (idx(np.zeros((5, 28, 28))) + b"x", "too long"),
    ],
)
def test_damaged_idx_files(tmp_path, data, message):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(data)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(5)))
    with pytest.raises(DataError, match=message):
        raw.mnist(tmp_path)


def test_images_without_their_labels(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((5, 28, 28))))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(4)))
    with pytest.raises(DataError, match="5 images and 4 labels"):
        raw.mnist(tmp_path)


PIXELS = RNG.integers(0, 256, (15, 3072)).astype(np.uint8)
LABELS = RNG.integers(0, 10, 15).astype(np.uint8)
BATCHES = [slice(3 * i, 3 * i + 3) for i in range(5)]


def binary(rows):
    return np.column_stack([LABELS[rows], PIXELS[rows]]).tobytes()


def python(rows):
    batch = {b"data": PIXELS[rows], b"labels": LABELS[rows].tolist()}
    return pickle.dumps(batch, protocol=2)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("folder", "suffix", "make"),
    [("cifar-10-batches-bin", ".bin", binary), ("cifar-10-batches-py", "", python)],
)
def test_cifar_batches(tmp_path, folder, suffix, make, packed):
    names = [f"{folder}/data_batch_{i}{suffix}" for i in range(1, 6)]
    contents = [make(rows) for rows in BATCHES]
    if packed:
        kind = "binary" if suffix else "python"
        with tarfile.open(tmp_path / f"cifar-10-{kind}.tar.gz", "w:gz") as archive:
            for name, data in zip(names, contents, strict=True):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    else:
        (tmp_path / folder).mkdir()
        for name, data in zip(names, contents, strict=True):
            (tmp_path / name).write_bytes(data)
    read = raw.cifar10(tmp_path)
    assert np.array_equal(read.pixels, PIXELS)
    assert np.array_equal(read.labels, LABELS)


class Evil:
    def __reduce__(self):
        return (eval, ("1 + 1",))


def test_a_pickle_runs_no_code(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for i in range(1, 6):
        (folder / f"data_batch_{i}").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"builtins\.eval is not allowed"):
        raw.cifar10(tmp_path)


def test_damaged_cifar_files(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").write_bytes(bytes(3074))
    with pytest.raises(DataError, match="cut off"):
        raw.cifar10(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "cifar-10-binary.tar.gz").write_bytes(b"not a tar")
    with pytest.raises(DataError, match="cannot read"):
        raw.cifar10(other)


@pytest.mark.parametrize(
    "reader", [raw.mnist, raw.cifar10, raw.crime, raw.compas, raw.creditcard]
)
def test_an_empty_folder_is_a_clear_error(tmp_path, reader):
    with pytest.raises(DataError, match="holds no"):
        reader(tmp_path)


def test_compas_keeps_no_personal_column(tmp_path):
    head = ["id", "name", "dob", "c_case_number", *raw.COMPAS_COLUMNS, "priors_count"]
    row = ["1", "ann other", "1/1/1980", "13000001CF10A"]
    row += [f"{i}" for i in range(len(raw.COMPAS_COLUMNS))] + ["99"]
    text = ",".join(head) + "\r\n" + ",".join(row) + "\r\n"
    (tmp_path / "compas-scores-two-years.csv").write_text(text, newline="")
    table = raw.compas(tmp_path)
    assert table.columns == raw.COMPAS_COLUMNS
    kept = " ".join(table.cells[0])
    assert "ann" not in kept
    assert "1980" not in kept
    assert "CF10" not in kept
    assert table.column("priors_count") != ["99"]  # the first of the twins


def test_a_table_with_a_short_row(tmp_path):
    (tmp_path / "UCI_Credit_Card.csv").write_text("ID,SEX\n1,2\n3\n")
    with pytest.raises(DataError, match="does not have 2 columns"):
        raw.creditcard(tmp_path)


def test_a_table_without_a_column(tmp_path):
    (tmp_path / "compas-scores-two-years.csv").write_text("sex,age\nMale,30\n")
    with pytest.raises(DataError, match="has no column age_cat"):
        raw.compas(tmp_path)


def test_a_damaged_gzip(tmp_path):
    (tmp_path / "UCI_Credit_Card.csv.gz").write_bytes(gzip.compress(b"a,b\n" * 99)[:-9])
    with pytest.raises(DataError, match="cannot read"):
        raw.creditcard(tmp_path)
