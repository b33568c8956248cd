"""Where pictures go."""

from __future__ import annotations

from pathlib import Path

from dpbraid._validate import InvalidParameterError


def picture(out: Path) -> None:
    """Refuse a file name that is no picture's before any work is done."""
    if out.suffix not in (".png", ".svg"):
        raise InvalidParameterError(f"out must end in .png or .svg, got {str(out)!r}")
    if not out.parent.is_dir():
        raise InvalidParameterError(f"out must lie in a folder, got {str(out)!r}")
