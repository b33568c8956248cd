"""The code in the README, in docs/ and in examples/ runs as printed."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from dpbraid.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of one page run in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(), re.S | re.M)
    namespace: dict[str, object] = {"__name__": page.stem}
    for language, block in code:
        if language == "python":
            exec(compile(block, str(page), "exec"), namespace)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            run_command(shlex.split(line, comments=True), monkeypatch)


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a shell block: a dpbraid command that ends well."""
    if not words:
        return
    assert words[0] == "dpbraid", (
        f"the tests run no other command than dpbraid: {words}"
    )
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, words


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
