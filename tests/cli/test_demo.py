"""`dpbraid demo` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def dpbraid(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from dpbraid.cli import main; main()", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_demo_prints_a_result_and_writes_a_picture(tmp_path: Path) -> None:
    done = dpbraid("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # the lemma's noise of DP, and the exact one of DP at epoch ends
    for noise in ("756.601", "597.4"):
        assert noise in done.stdout
    assert done.stdout.count("(1, 1e-06)") == 8
    picture = tmp_path / "dpbraid-demo.png"
    assert "dpbraid-demo.png" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_wrong_suffix_is_one_sentence(tmp_path: Path) -> None:
    done = dpbraid("demo", "--out", "x.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "dpbraid: out must end in .png or .svg, got 'x.txt'\n"
    assert not list(tmp_path.iterdir())
