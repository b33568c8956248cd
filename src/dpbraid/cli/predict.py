"""`dpbraid predict`: a model's predictions for the rows of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def command(
    model: Annotated[Path, Argument(help="A model that `dpbraid fit` wrote.")],
    rows: Annotated[Path, Argument(help="The table to predict on (.csv, .parquet).")],
    out: Annotated[
        Path | None,
        Option("--out", "-o", help="Write here (.csv, .parquet); else to stdout, CSV."),
    ] = None,
    probabilities: Annotated[
        bool,
        Option("--probabilities", help="Also the probability of each class."),
    ] = False,
) -> None:
    """Predict on each row of a table, by the rules in the model file."""
    from dpbraid._files import write_atomically
    from dpbraid.estimators import from_files
    from dpbraid.estimators.table_files import file_kind, open_table, table_bytes

    kind = ".csv" if out is None else file_kind(out)
    loaded, rules = from_files.load(model)
    found = from_files.predict(loaded, rules, open_table(rows), probabilities)
    content = table_bytes(found, kind)
    if out is None:
        sys.stdout.write(content.decode())
    else:
        write_atomically(out, content)
