"""`dpbraid bound`: the convergence bound of a mechanism on given tables, term by term.

It reads private rows: research only, nothing that it prints is private.
"""

from __future__ import annotations

import dataclasses
import json as json_text
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpbraid._validate import InvalidParameterError
from dpbraid.cli import guarantee
from dpbraid.cli.guarantee import finite
from dpbraid.cli.pictures import picture, save
from dpbraid.cli.words import Words

if TYPE_CHECKING:
    from dpbraid.rows import Rows
    from dpbraid.theory.bounds import Bound
    from dpbraid.theory.constants import Constants

WARNING = "Research only: computed from private rows, NOT PRIVATE."


def command(
    words: Words,
    task: Annotated[
        str | None,
        typer.Option(
            help="Embedded data: mnist69, cifar10, crime, compas or creditcard. Gives "
            "n, and loss and penalty where the words leave them at their defaults."
        ),
    ] = None,
    private: Annotated[
        Path | None, typer.Option(help="Private rows (.csv, .parquet), not --task.")
    ] = None,
    public: Annotated[
        Path | None, typer.Option(help="Public rows (.csv, .parquet).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column with the labels.")
    ] = None,
    noise_std: Annotated[
        float | None,
        typer.Option(help="Noise std of a noisy step; with --mechanism its own."),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(help="You vouch that iterates and x* stay within this radius."),
    ] = None,
    l1_offset: Annotated[
        float | None, typer.Option(help="B of the paper's bound under a lasso.")
    ] = None,
    json: guarantee.Json = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the terms against the epochs (.png or .svg)."),
    ] = None,
) -> None:
    """Research only, NOT PRIVATE: the excess risk bound on tables, term by term.

    It reads private rows. Without --learning-rate the one with the least bound is
    taken.
    """
    from dpbraid.theory import bounds
    from dpbraid.theory.constants import constants_not_private

    if out is not None:
        picture(out)
    if words.mechanism is None and noise_std is None:
        raise InvalidParameterError("--noise-std is needed (0 for none)")
    if words.mechanism is not None and noise_std is not None:
        raise InvalidParameterError(
            "--noise-std does not go with --mechanism, which has its own"
        )
    words, rows, public_rows = _tables(words, task, private, public, target)
    free_rate = words.mechanism is None and words.learning_rate is None
    if free_rate:
        words = dataclasses.replace(words, learning_rate=1.0)
    mechanism = words.build(0.0 if noise_std is None else noise_std)
    bounds.common_learning_rate(mechanism)
    constants = constants_not_private(mechanism, rows, public_rows, radius=radius)
    if free_rate:
        rate = bounds.best_learning_rate(constants, mechanism)
        mechanism = dataclasses.replace(
            mechanism,
            epochs=tuple(
                dataclasses.replace(epoch, learning_rate=rate)
                for epoch in mechanism.epochs
            ),
        )
    found = bounds.every_form(constants, mechanism, l1_offset=l1_offset)
    if json:
        data = {
            "warning": WARNING,
            "learning_rate": mechanism.epochs[0].learning_rate,
            "forms": {bound.form.value: _terms(bound) for bound in found},
            "conditions": [dataclasses.asdict(c) for c in found[0].conditions],
            "by_epoch": [
                _terms(bound) for bound in bounds.bound_by_epoch(constants, mechanism)
            ],
            "constants": _constants(constants),
            "mechanism": mechanism.to_json(),
        }
        print(json_text.dumps(data, indent=2, allow_nan=False))
    else:
        _show(found, constants, mechanism.epochs[0].learning_rate)
    if out is not None:
        from dpbraid.theory.figures import bound_figure

        save(bound_figure(constants, mechanism), out)
        if not json:
            print(f"Picture: {out}")


def _tables(
    words: Words,
    task: str | None,
    private: Path | None,
    public: Path | None,
    target: str | None,
) -> tuple[Words, Rows, Rows | None]:
    """The words with what the data say, and the two tables."""
    from dpbraid.rows import Rows

    if (task is None) == (private is None):
        raise InvalidParameterError("give one of --task and --private")
    if task is None:
        assert private is not None
        bound, public_bound = words.row_bounds()
        rows = Rows.bounded(*_file(private, target), row_norm=bound)
        others = None
        if public is not None:
            others = Rows.bounded(*_file(public, target), row_norm=public_bound)
    else:
        from dpbraid.paper import tasks

        if public is not None or target is not None:
            raise InvalidParameterError("--public and --target do not go with --task")
        data = tasks.load(task)
        rows, others = data.private, data.public
        if words.mechanism is None and words.loss == Words.loss:
            words = dataclasses.replace(words, loss=_word(data.loss))
        if words.mechanism is None and words.penalty == Words.penalty:
            words = dataclasses.replace(words, penalty=_word(data.penalty))
    if words.mechanism is None and words.n is None:
        words = dataclasses.replace(words, n=len(rows))
    return words, rows, others


def _file(path: Path, target: str | None) -> tuple[Any, Any]:
    """X and y of a table's file, all cells numbers; y is None without --target."""
    import numpy as np

    from dpbraid.estimators import cells
    from dpbraid.estimators.table_files import open_table

    table = open_table(path)
    names = [name for name in table.names if name != target]
    if not names:
        raise InvalidParameterError(f"{path} has no column besides {target!r}")
    X = np.empty((table.rows(), len(names)))
    for place, first, column in table.pieces(names):
        X[first : first + len(column), place] = cells.numbers(column)
    if target is None:
        return X, None
    y = np.empty(len(X))
    for _, first, column in table.pieces([target]):
        y[first : first + len(column)] = cells.numbers(column)
    return X, y


def _word(part: Any) -> str:
    """A variant as the command line spells it."""
    values = [str(getattr(part, f.name)) for f in dataclasses.fields(part)]
    return ":".join([part.kind, ",".join(values)] if values else [part.kind])


def _terms(bound: Bound) -> dict[str, Any]:
    from dpbraid.theory.bounds import TERMS

    data = {name: getattr(bound, name) for name in (*TERMS, "additional", "total")}
    found: dict[str, Any] = finite({**data, "is_theorem": bound.is_theorem})
    return found


def _constants(constants: Constants) -> Any:
    data = dataclasses.asdict(dataclasses.replace(constants, epochs=()))
    data["mean_smoothness"] = constants.mean_smoothness
    data["epochs"] = [
        {"repeat": count, **dataclasses.asdict(at)} for count, at in constants.runs()
    ]
    return finite(data)


def _show(found: tuple[Bound, ...], constants: Constants, rate: float) -> None:
    from rich.console import Console
    from rich.table import Table

    from dpbraid.theory.bounds import TERMS
    from dpbraid.theory.figures import LABELS

    console = Console()
    console.print(f"[bold]{WARNING}[/bold]")
    titles = {
        False: f"Bound on E G(x) - G(x*): {len(constants.epochs)} epochs,\n"
        f"learning rate {rate:.4g}",
        True: "The paper's formulas as printed",
    }
    for printed, title in titles.items():
        forms = [bound for bound in found if bound.form.printed is printed]
        table = Table(title=title)
        table.add_column("term", no_wrap=True)
        for bound in forms:
            name = bound.form.value.removeprefix("printed_")
            state = "proved" if bound.is_theorem else "NOT proved"
            table.add_column(f"{name}\n{state}", justify="right")
        for term in TERMS:
            table.add_row(LABELS[term], *(f"{getattr(b, term):.4g}" for b in forms))
        if any(bound.additional for bound in forms):
            table.add_row(
                "lasso or projection offset", *(f"{b.additional:.4g}" for b in forms)
            )
        table.add_section()
        table.add_row("total", *(f"{b.total:.4g}" for b in forms))
        if forms:
            console.print(table)
    for c in found[0].conditions:
        state = "holds" if c.holds else "FAILS"
        _line(console, f"{state}: {c.name}: {c.detail}")
    for c in found[-1].failed:
        if c not in found[0].conditions:
            _line(console, f"FAILS for the printed forms: {c.name}: {c.detail}")
    _line(
        console,
        f"L {constants.smoothness:.4g}, L-bar* {constants.mean_smoothness:.4g}, "
        "|x_1 - x*| "
        f"{math.sqrt(constants.distance_squared):.4g}, sigma_any "
        f"{math.sqrt(constants.gradient_variance):.4g}, mu_psi "
        f"{constants.strong_convexity:.4g}, G(x*) {constants.minimum:.6g}",
    )
    for count, at in constants.runs():
        _line(
            console,
            f"{count} epochs with L-hat {at.smoothness:.4g}, "
            f"L-hat* {at.largest_smoothness:.4g}, C_n {at.dissimilarity:.4g} (over "
            f"all orders {at.worst_dissimilarity:.4g}), L_H "
            f"{at.difference_smoothness:.4g} ({at.difference_reason})",
        )


def _line(console: Any, text: str) -> None:
    console.print(f"- {text}", markup=False, highlight=False)
