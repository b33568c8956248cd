"""The embedded data files: NPZ archives with a checksum each.

An archive is a *cut*: named arrays, taken from the original files by `cuts` and written
by ``scripts/build_data.py``. Members are stored, not compressed, and dated 1980-01-01,
so the same arrays give the same bytes with every version of Python and zlib.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbraid._files import write_atomically
from dpbraid._validate import DpbraidError

FOLDER = Path(__file__).parent / "data"
CHECKSUMS = "checksums.json"

Cut = Mapping[str, NDArray[Any]]


class DataError(DpbraidError):
    """A data file is missing, damaged or not what its name says."""


def pack(cut: Cut) -> bytes:
    """The bytes of the archive, a function of the arrays alone."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name in sorted(cut):
            member = io.BytesIO()
            np.lib.format.write_array(
                member,
                np.asarray(cut[name], order="C"),
                version=(1, 0),
                allow_pickle=False,
            )
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # or the byte would say which system built it
            info.external_attr = 0o644 << 16
            file.writestr(info, member.getvalue())
    return archive.getvalue()


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an archive."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def read(name: str, folder: Path = FOLDER) -> dict[str, NDArray[Any]]:
    """The embedded cut of a task, after its checksum."""
    expected = checksums(folder).get(f"{name}.npz")
    path = folder / f"{name}.npz"
    if expected is None:
        raise DataError(f"{folder / CHECKSUMS} lists no {path.name}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}; install dpbraid anew"
        ) from None
    found = sha256(data)
    if found != expected:
        raise DataError(
            f"{path} is damaged: its sha256 is {found}, {CHECKSUMS} says {expected}; "
            "install dpbraid anew"
        )
    return unpack(data)


def checksums(folder: Path = FOLDER) -> dict[str, str]:
    """The sha256 of every embedded file."""
    path = folder / CHECKSUMS
    try:
        table = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"cannot read {path}: {error}; install dpbraid anew") from None
    return {str(name): str(digest) for name, digest in table.items()}


def write(cuts: Mapping[str, Cut], folder: Path = FOLDER) -> dict[str, str]:
    """Write the archives ``<name>.npz`` and their checksums; returns the checksums."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = {f"{name}.npz": pack(cut) for name, cut in sorted(cuts.items())}
    for name, data in packed.items():
        write_atomically(folder / name, data)
    table = {name: sha256(data) for name, data in packed.items()}
    text = json.dumps(table, indent=2, sort_keys=True) + "\n"
    write_atomically(folder / CHECKSUMS, text.encode())
    return table


def sha256(data: bytes) -> str:
    """The checksum in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
