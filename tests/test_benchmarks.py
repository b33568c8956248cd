"""Each benchmark runs, in a size that says nothing about speed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_engine_benchmark_prints_every_claim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = script("engine.py").main(["--tiny", "--turns", "1"])
    assert {line.claim for line in lines} == set("abcde")
    assert all(line.holds is None for line in lines)
    printed = capsys.readouterr().out
    assert all(line.found in printed for line in lines)


def test_only_some_claims(capsys: pytest.CaptureFixture[str]) -> None:
    main = script("engine.py").main
    assert {line.claim for line in main(["--tiny", "--only", "e"])} == {"e"}
    with pytest.raises(SystemExit):
        main(["--only", "z"])
    assert "--only takes a, b, c, d, e" in capsys.readouterr().err


def test_the_accountant_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    lines = script("accountant.py").main(["--tiny", "--turns", "1"])
    assert {line.claim for line in lines} == set("abcde")
    assert all(line.holds is None for line in lines)
    printed = capsys.readouterr().out
    assert all(line.found in printed for line in lines)


def test_the_paper_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """Claim c is b with other panels."""
    lines = script("paper.py").main(["--tiny", "--only", "a,b"])
    assert {line.claim for line in lines} == set("ab")
    assert all(line.holds is None for line in lines)
    printed = capsys.readouterr().out
    assert all(line.found in printed for line in lines)
