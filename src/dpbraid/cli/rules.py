"""`dpbraid rules`: how the columns of a table become numbers, from a public table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

Task = Annotated[
    str,
    Option(help="logistic, svc, ridge, lasso, elastic_net, huber or mean."),
]


@dataclass(frozen=True)
class Columns:
    """The options that say what the columns of a public table are."""

    target: Annotated[str | None, Option(help="The column to predict.")] = None
    leave_out: Annotated[
        list[str] | None, Option(help="A column that is not used; repeatable.")
    ] = None
    category: Annotated[
        list[str] | None,
        Option(help="A column of numbers that are categories; repeatable."),
    ] = None
    no_scale: Annotated[
        bool,
        Option("--no-scale", help="Take numbers as they are: do not standardise them."),
    ] = False

    @property
    def given(self) -> bool:
        """Whether any of the options was given."""
        return bool(self.target or self.leave_out or self.category or self.no_scale)

    def learn(self, task: str, public: Any) -> Any:
        """The rules that a public table gives for a task."""
        from dpbraid.estimators.from_files import learn_for

        return learn_for(
            task,
            public,
            target=self.target,
            leave_out=self.leave_out or (),
            categories=self.category or (),
            scale=not self.no_scale,
        )


def command(
    public: Annotated[Path, Argument(help="A table without secrets (.csv, .parquet).")],
    task: Task,
    columns: Columns,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Write the rules here, to edit them.")
    ] = None,
) -> None:
    """Print the column rules that a public table gives, as JSON for `fit --rules`."""
    from dpbraid._files import write_atomically
    from dpbraid.estimators.table_files import open_table

    rules = columns.learn(task, open_table(public))
    text = json.dumps(rules.to_json(), indent=2, allow_nan=False)
    if out is None:
        print(text)
    else:
        write_atomically(out, (text + "\n").encode())
