"""Arrows of import point down only: the rooms of the house, from the bottom up."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dpbraid

PACKAGE = Path(dpbraid.__file__).parent
FLOORS = [
    {"_files", "_json", "_validate", "_variant"},
    {"rows", "losses", "penalties", "orders", "starts"},
    {"mechanism"},
    {"release"},
    {"numeric"},
    {"privacy", "engine"},
    {"estimators"},
    {"theory", "paper", "audit"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room(path: Path) -> str:
    """The top-level module or package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in it the import stands."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "dpbraid" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    here = room(path)
    assert here in FLOOR, f"{here} has no floor: add it to FLOORS"
    for there in imported_rooms(path) - {here}:
        if there not in FLOOR:
            # a name of the package itself, such as __version__
            assert there == "__version__", f"{path}: import {there} from its module"
            continue
        both_low = max(FLOOR[here], FLOOR[there]) <= 1
        assert FLOOR[there] < FLOOR[here] or both_low, f"{here} imports {there}"


def test_the_check_sees_a_wrong_arrow(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from dpbraid.engine import literal\n")
    assert imported_rooms(wrong) == {"engine"}
