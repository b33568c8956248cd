"""The original files of the five data sets, read as they are published.

Each reader takes a folder and accepts the published file names, gzipped or not, and
the reduced copies that this repository was built from.
"""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbraid.paper.embedded import DataError

Bytes = NDArray[np.uint8]


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

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        return [cells[0] for cells in self.select((name,)).cells]


@dataclass(frozen=True, eq=False)
class Images:
    """Training images in their original order: pixels (m, p) uint8, labels (m,)."""

    pixels: Bytes
    labels: Bytes


# -- images ------------------------------------------------------------------------


def mnist(folder: Path) -> Images:
    """MNIST training images, p = 784: the idx files, or all sixes and nines alone."""
    reduced = folder / "mnist69_train.npz"
    if reduced.is_file():
        return _npz(reduced, lambda images: images)
    images = _find(folder, *_idx("train-images", 3))
    labels = _find(folder, *_idx("train-labels", 1))
    pixels = _parse_idx(images, 3)
    return _images(images, pixels.reshape(len(pixels), -1), _parse_idx(labels, 1))


def cifar10(folder: Path) -> Images:
    """CIFAR-10 training images, p = 3072, channel first as in the original files.

    Accepts the binary and the Python version, unpacked or as the tar.gz, and the
    reduced copy with the first 500 images a class.
    """
    reduced = folder / "cifar10_train500.npz"
    if reduced.is_file():
        return _npz(reduced, lambda images: images.transpose(0, 3, 1, 2))
    binary, python = "cifar-10-batches-bin", "cifar-10-batches-py"
    for batches, parse in ((binary, _binary_batch), (python, _python_batch)):
        suffix = ".bin" if batches == binary else ""
        names = [f"{batches}/data_batch_{i}{suffix}" for i in range(1, 6)]
        tar = folder / batches.replace("batches-bin", "binary.tar.gz").replace(
            "batches-py", "python.tar.gz"
        )
        if all((folder / name).is_file() for name in names):
            contents = [(folder / name).read_bytes() for name in names]
        elif tar.is_file():
            contents = list(_members(tar, names))
        else:
            continue
        parts = [parse(content) for content in contents]
        return _images(
            folder / batches,
            np.concatenate([pixels for pixels, _ in parts]),
            np.concatenate([labels for _, labels in parts]),
        )
    raise DataError(
        f"{folder} holds no {binary}, {python}, cifar-10-binary.tar.gz, "
        f"cifar-10-python.tar.gz or {reduced.name}"
    )


# -- tables ------------------------------------------------------------------------


def crime(folder: Path) -> Table:
    """Communities and Crime: 1994 rows, 128 columns, '?' where a value is missing."""
    names = _text(_find(folder, "communities.names"))
    columns = tuple(
        line.split()[1] for line in names.splitlines() if line.startswith("@attribute")
    )
    path = _find(folder, "communities.data", "communities.data.csv.gz")
    return _table(path, columns)


def compas(folder: Path) -> Table:
    """ProPublica's two-year table, 7214 rows: the 13 columns of the task alone.

    The original holds names, dates of birth and case numbers; no cell of them gets
    beyond this function.
    """
    path = _find(folder, "compas-scores-two-years.csv", "compas-two-years.csv.gz")
    return _table(path).select(COMPAS_COLUMNS)


COMPAS_COLUMNS = (
    "sex",
    "age",
    "age_cat",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "days_b_screening_arrest",
    "c_charge_degree",
    "is_recid",
    "score_text",
    "two_year_recid",
)


def creditcard(folder: Path) -> Table:
    """Default of credit card clients, 30000 rows, in the CSV form with 25 columns."""
    return _table(_find(folder, "UCI_Credit_Card.csv", "UCI_Credit_Card.csv.gz"))


# -- files -------------------------------------------------------------------------


def _find(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} holds no {' or '.join(names)}")


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _text(path: Path) -> str:
    try:
        return _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _table(path: Path, columns: tuple[str, ...] | None = None) -> Table:
    # newline="" hands line ends to the reader, which knows those inside of quotes
    rows = [
        tuple(row) for row in csv.reader(io.StringIO(_text(path), newline="")) if row
    ]
    if columns is None:
        if not rows:
            raise DataError(f"{path} is empty")
        columns, rows = rows[0], rows[1:]
    if any(len(row) != len(columns) for row in rows):
        raise DataError(f"{path} has a row that does not have {len(columns)} columns")
    return Table(columns, tuple(rows))


def _npz(path: Path, arrange: Callable[[Bytes], Bytes]) -> Images:
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels = file["images"], file["labels"]
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    return _images(path, arrange(images).reshape(len(images), -1), labels)


def _images(path: Path, pixels: Bytes, labels: Bytes) -> Images:
    if len(pixels) != len(labels):
        raise DataError(
            f"{path} has {len(pixels)} images and {len(labels)} labels for them"
        )
    return Images(pixels.astype(np.uint8), labels.astype(np.uint8))


def _idx(stem: str, axes: int) -> list[str]:
    names = [f"{stem}-idx{axes}-ubyte", f"{stem}.idx{axes}-ubyte"]
    return [name + suffix for name in names for suffix in ("", ".gz")]


def _parse_idx(path: Path, axes: int) -> Bytes:
    """An idx file of bytes: 0, 0, 8, axes, then the sizes, big-endian, then data."""
    data = _content(path)
    start = 4 + 4 * axes
    if data[:4] != bytes((0, 0, 8, axes)) or len(data) < start:
        raise DataError(f"{path} is not an idx file of {axes} axes")
    shape = np.frombuffer(data[4:start], dtype=">u4").astype(np.int64)
    if len(data) - start != np.prod(shape):
        raise DataError(f"{path} is cut off or too long for its sizes")
    return np.frombuffer(data[start:], dtype=np.uint8).reshape(shape)


def _members(tar: Path, names: list[str]) -> Iterator[bytes]:
    try:
        with tarfile.open(tar, "r:gz") as archive:
            for name in names:
                member = archive.extractfile(name)
                if member is None:
                    raise DataError(f"{tar} holds no file {name}")
                yield member.read()
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise DataError(f"cannot read {tar}: {error}") from None


def _binary_batch(data: bytes) -> tuple[Bytes, Bytes]:
    if len(data) % 3073:
        raise DataError("a CIFAR-10 binary batch is cut off: it is not n x 3073 bytes")
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3073)
    return rows[:, 1:], rows[:, 0]


def _python_batch(data: bytes) -> tuple[Bytes, Bytes]:
    try:
        batch = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = batch[b"data"], batch[b"labels"]
        return pixels.reshape(-1, 3072), np.array(labels, dtype=np.uint8)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"a CIFAR-10 Python batch cannot be read: {error}") from None


class _ArraysOnly(pickle.Unpickler):
    """A pickle can run any code; this one can make NumPy arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        if module in _NUMPY_MODULES and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module.replace(".core.", "._core."), name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


_NUMPY_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
