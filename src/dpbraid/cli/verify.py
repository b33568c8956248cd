"""`dpbraid verify`: is what a certificate promises true?"""

from __future__ import annotations

import dataclasses
import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from dpbraid import _json
from dpbraid.cli import guarantee


def command(
    file: Annotated[Path, typer.Argument(help="A certificate, or a model with one.")],
    json: guarantee.Json = False,
) -> None:
    """Recompute a guarantee from the file alone, by a second route, field by field.

    Ends with 0 if every field holds, with 1 if one does not.
    """
    from rich.console import Console
    from rich.table import Table

    from dpbraid.privacy.certificate import Certificate
    from dpbraid.privacy.verify import verify

    data = _json.read(file)
    if isinstance(data, dict) and "certificate" in data:
        from dpbraid.estimators.files import from_json
        from dpbraid.estimators.from_files import rules_of

        model = from_json(data)  # refuses what does not fit its certificate
        rules_of(model, data["table"])
        certificate = model.certificate_
    else:
        certificate = Certificate.from_json(data)
    checks = verify(certificate)
    valid = all(check.holds for check in checks)
    if json:
        found = {"valid": valid, "checks": [dataclasses.asdict(c) for c in checks]}
        print(json_text.dumps(found, indent=2))
    else:
        table = Table(show_header=False)
        for check in checks:
            table.add_row(check.field, "yes" if check.holds else "NO", check.detail)
        console = Console()
        console.print(table)
        console.print("The certificate holds." if valid else "NOT VALID.")
    if not valid:
        raise typer.Exit(1)
