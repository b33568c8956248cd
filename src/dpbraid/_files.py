"""Files: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old or the new content.

    The temporary file lies in the same folder, and goes away where writing fails. The
    new content is on the disk when this returns. A file that was there keeps its mode,
    and a link stays a link; what is there and no file, such as a device, is an error
    and stays.
    """
    with _named(path):
        _replace(_target(path), content)


def check_writable(path: Path) -> None:
    """The error of `write_atomically` where no file can be made in the folder.

    For who has something to lose before there is a content.
    """
    with _named(path):
        tempfile.TemporaryFile(dir=_target(path).parent).close()


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors speak about the file that was asked for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _target(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "It is there and is no regular file")
    return target


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".~" + path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(path))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """The names in a folder to the disk, where the system has a way to ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
