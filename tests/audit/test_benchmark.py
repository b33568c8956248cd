"""The audit benchmark runs, in a size that says nothing about speed."""

from __future__ import annotations

import pytest

from tests.test_benchmarks import script


def test_the_audit_benchmark_prints_every_claim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script("audit.py").main(["--tiny"])
    printed = capsys.readouterr().out.splitlines()[1:]
    assert {line[0] for line in printed} == set("abc")
    assert "holds" in printed[0]
