"""`dpbraid explain`: what a model promises, as a page of text or HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dpbraid import _json


def command(
    file: Annotated[Path, Argument(help="A model, or a certificate.")],
    html: Annotated[bool, Option("--html", help="As a page of HTML.")] = False,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Write here instead of to stdout.")
    ] = None,
) -> None:
    """The certificate of a model as a page for a reviewer, and the model itself."""
    from dpbraid._files import write_atomically
    from dpbraid.estimators.pages import explained

    text = explained(_json.read(file), html=html)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
