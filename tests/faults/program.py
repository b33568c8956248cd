"""The whole program on one input, in this process, and what must hold of any end.

`attempt` runs ``dpbraid ...`` in a folder and checks: it ends with exit code 0, 1 (a
verdict that says no) or 2. With 2 it prints exactly one line on stderr, which begins
with "dpbraid: ", and leaves every file as it was, and none more. With 0 and 1 it prints
nothing on stderr and writes nothing but the files that it was asked for. An exception
that gets out of `main` is what a user would see as a traceback; warnings are errors
here, and a user would see them as more lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpbraid.cli import main

# No input of these tests is a reason to work for longer, or to take more memory.
SECONDS = 120
BYTES = 4 << 30


@dataclass(frozen=True)
class End:
    code: int
    out: str
    err: str


class TooLong(BaseException):
    """Not caught by anything in the program."""


def run(*args: object) -> End:
    """``dpbraid args``, with pipes that take UTF-8 and nothing else."""
    out, err = _pipe(), _pipe()
    before = sys.argv
    sys.argv = ["dpbraid", *map(str, args)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _limited(),
            pytest.raises(SystemExit) as end,
        ):
            main()
    finally:
        sys.argv = before
    return End(int(end.value.code or 0), _text(out), _text(err))


def attempt(
    root: Path, inside: Path, *args: object, writes: tuple[str, ...] = ()
) -> End:
    """Run the command in the folder `inside` and hold it to what is said above.

    root: the files under it are watched. writes: how the names there begin that the
    command is asked to write or to lock.
    """
    before = content(root)
    with contextlib.chdir(inside):
        end = run(*args)
    after = content(root)
    check(end)
    changed = {n for n in before | after if before.get(n) != after.get(n)}
    if end.code == 2:
        allowed = {n for n in changed if n.endswith(".lock")}
    else:
        allowed = {n for n in changed if n.startswith(writes)} if writes else set()
    assert changed <= allowed, f"{end}: {sorted(changed - allowed)}"
    return end


def check(end: End) -> None:
    """The exit code, and what is on stderr."""
    assert "Traceback" not in end.err + end.out, end
    if end.code != 2:
        assert end.code in (0, 1), end
        assert end.err == "", end
        return
    assert end.err.startswith("dpbraid: "), end
    assert end.err.endswith("\n"), end
    line = end.err[:-1]
    assert line.isprintable(), end
    assert 12 < len(line) < 2000, end


def content(folder: Path) -> dict[str, bytes | str]:
    """Every name under the folder, with the bytes or the kind of what lies there."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = path.read_bytes() if path.is_file() else "a folder"
    return found


_ENDS = {
    ".json": b"}\n",
    ".html": b"</html>\n",
    ".svg": b"</svg>\n",
    ".png": b"IEND\xaeB`\x82",
    ".csv": b"\n",
    ".parquet": b"PAR1",
}


def whole(
    folder: Path, before: dict[str, bytes | str], written: tuple[str, ...]
) -> None:
    """After a fault: files as they were `before`, or new ones from start to end.

    written: how the names begin of what the command writes. Beside them may lie locks
    and the temporary files of a killed process, whose names say what they are.
    """
    after = content(folder)
    assert set(before) <= set(after)
    for name, data in after.items():
        passing = Path(name).name.startswith(".~") or name.endswith(".lock")
        if passing or isinstance(data, str) or data == before.get(name):
            continue
        assert name.startswith(written), name
        assert data.endswith(_ENDS.get(Path(name).suffix, b"")), name


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """A time and a size that no input may pass."""

    def stop(*_: object) -> None:
        raise TooLong(f"more than {SECONDS} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + BYTES
    old = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _pipe() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")


def _text(pipe: io.TextIOWrapper) -> str:
    pipe.flush()
    buffer = pipe.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
