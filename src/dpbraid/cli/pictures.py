"""Where pictures go."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from dpbraid._files import write_atomically
from dpbraid._validate import InvalidParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture(out: Path) -> None:
    """Refuse a file name that is no picture's before any work is done."""
    if out.suffix not in (".png", ".svg"):
        raise InvalidParameterError(f"out must end in .png or .svg, got {str(out)!r}")
    if not out.parent.is_dir():
        raise InvalidParameterError(f"out must lie in a folder, got {str(out)!r}")


def save(figure: Figure, out: Path) -> None:
    """Write a figure, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix[1:], dpi=130)
    write_atomically(out, content.getvalue())
