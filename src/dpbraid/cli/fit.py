"""`dpbraid fit`: from two tables to a private model with its certificate."""

from __future__ import annotations

import dataclasses
import json as json_text
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from dpbraid import _json
from dpbraid._files import check_writable
from dpbraid._validate import DpbraidError, InvalidParameterError
from dpbraid.cli import guarantee
from dpbraid.cli.rules import Columns, Task

Progress = Callable[[int, int], None]
_MODEL = "Model"
_RUN = "Mechanism (docs/mechanism.md); the defaults follow from public facts"


@dataclass(frozen=True)
class Settings:
    """The options that are parameters of the estimators, under their names."""

    row_norm: Annotated[
        float | None,
        Option(
            help="Longer rows are scaled down to this norm; the largest public row's "
            "if left out.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    label_bound: Annotated[
        float | None,
        Option(
            help="Larger numbers to predict are cut to this size; the largest public "
            "one's if left out.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    penalty: Annotated[
        str | None,
        Option(
            help="logistic, svc: l2, l1, elasticnet or none.", rich_help_panel=_MODEL
        ),
    ] = None
    C: Annotated[
        float | None,
        Option(
            "--C", help="logistic, svc: weight of the rows.", rich_help_panel=_MODEL
        ),
    ] = None
    alpha: Annotated[
        float | None,
        Option(
            help="ridge, lasso, elastic_net, huber: weight of the penalty.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    l1_ratio: Annotated[
        float | None,
        Option(help="Share of l1 in an elastic net's penalty.", rich_help_panel=_MODEL),
    ] = None
    fit_intercept: Annotated[
        bool | None,
        Option(
            "--intercept/--no-intercept",
            help="Fit an intercept.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    clip_norm: Annotated[
        float | None,
        Option(help="Gradients are scaled down to this norm.", rich_help_panel=_RUN),
    ] = None
    schedule: Annotated[
        str | None,
        Option(
            help="dp, interleaved, priv_pub, pub_priv or alternating.",
            rich_help_panel=_RUN,
        ),
    ] = None
    private_fraction: Annotated[
        float | None,
        Option(
            help="Share of the steps on private rows, in schedules with public ones.",
            rich_help_panel=_RUN,
        ),
    ] = None
    epochs: Annotated[
        int | None, Option(help="Passes over the rows.", rich_help_panel=_RUN)
    ] = None
    batch_size: Annotated[
        int | None, Option(help="Rows a step.", rich_help_panel=_RUN)
    ] = None
    learning_rate: Annotated[
        float | None, Option(help="Step size.", rich_help_panel=_RUN)
    ] = None
    order: Annotated[
        str | None,
        Option(help="reshuffle, shuffle_once or incremental.", rich_help_panel=_RUN),
    ] = None
    noise_placement: Annotated[
        str | None, Option(help="epoch_end or every_step.", rich_help_panel=_RUN)
    ] = None
    random_state: Annotated[
        int | None,
        Option(
            "--seed",
            help="Make the model reproducible, and therefore NOT private.",
            rich_help_panel=_RUN,
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The parameters that were said."""
        said = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        if self.penalty == "none":
            said["penalty"] = None
        return said


def command(
    private: Annotated[Path, Argument(help="The private table (.csv, .parquet).")],
    task: Task,
    epsilon: Annotated[float, Option(help="epsilon of (epsilon, delta).")],
    delta: Annotated[float, Option(help="delta of (epsilon, delta).")],
    out: Annotated[Path, Option("--out", "-o", help="Write the model here (JSON).")],
    columns: Columns,
    settings: Settings,
    public: Annotated[
        Path | None, Option(help="A table without secrets (.csv, .parquet).")
    ] = None,
    rules: Annotated[
        Path | None,
        Option(help="Column rules (`dpbraid rules`), instead of the public table's."),
    ] = None,
    ledger: Annotated[
        Path | None,
        Option(help="Charge the release to this ledger, before it is made."),
    ] = None,
    analysis: guarantee.Analysis = "best",
    progress: Annotated[
        bool, Option("--progress", help="Show the steps done on stderr.")
    ] = False,
    json: guarantee.Json = False,
) -> None:
    """Fit a private model on a CSV or Parquet table.

    Prints what is guaranteed and, on the public table, how good the model is.
    """
    from dpbraid.estimators import from_files
    from dpbraid.estimators.files import save
    from dpbraid.estimators.table_files import open_table
    from dpbraid.estimators.table_rules import TableRules
    from dpbraid.privacy import ledger as ledgers

    said = {"epsilon": epsilon, "delta": delta, "analysis": analysis}
    estimator = from_files.estimator(task, said | settings.given())
    if settings.random_state is not None and ledger is not None:
        raise InvalidParameterError(
            "--seed does not go with --ledger: a seeded run guarantees nothing that "
            "could be charged"
        )
    if out.suffix != ".json" or not out.parent.is_dir():
        raise InvalidParameterError(
            f"out must be a .json file in a folder, got {str(out)!r}"
        )
    check_writable(out)  # before anything is charged for it
    if public is not None and public.exists() and public.samefile(private):
        raise InvalidParameterError(
            f"the private and the public table are one file, {public}: what is learned "
            "from public rows is not protected"
        )
    known = None if public is None else open_table(public)
    if rules is not None:
        if columns.given:
            raise InvalidParameterError(
                "--target, --leave-out, --category and --no-scale do not go with "
                "--rules, which say it already"
            )
        chosen = TableRules.from_json(_json.read(rules))
        from_files.check(task, chosen)
    elif known is not None:
        chosen = columns.learn(task, known)
    else:
        raise InvalidParameterError(
            "what columns mean must not be learned from private rows: give a public "
            "table (--public) or rules (--rules; `dpbraid rules` makes them)"
        )
    charges: list[ledgers.Ledger] = []

    def charge(certificate: Any) -> None:
        if ledger is not None:
            charges.append(ledgers.charge(ledger, certificate, out.name))

    with _discreet(), _shown(progress) as steps:
        model = from_files.fit(
            estimator, chosen, open_table(private), known, charge, steps
        )
    save(model, out, table=chosen.to_json())
    facts = _guaranteed(model.certificate_)
    for after in charges:
        facts["ledger"] = {
            "file": str(ledger),
            "data_set": after.data_set,
            "releases": len(after.charges),
            "spent": after.spent,
            "limit": after.epsilon,
            "delta": after.delta,
        }
    if known is not None:
        facts["public"] = dataclasses.asdict(from_files.quality(model, chosen, known))
    facts["model"] = str(out)
    if json:
        print(json_text.dumps(facts, indent=2, allow_nan=False))
    else:
        _print(facts)


def _guaranteed(certificate: Any) -> dict[str, Any]:
    return {
        "private": certificate.is_private,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "mu": certificate.mu,
        "analysis": certificate.analysis,
        "private_rows": certificate.mechanism.n,
        "runs": certificate.runs,
    }


def _print(facts: dict[str, Any]) -> None:
    from dpbraid.privacy.certificate import rounded_up

    if facts["private"]:
        epsilon = rounded_up(facts["epsilon"])
        print(
            f"Guarantee for replacing one of the {facts['private_rows']} private rows: "
            f"epsilon {epsilon} at delta {facts['delta']:g}, by the analysis "
            f"{facts['analysis']!r}."
        )
    else:
        print("NOT PRIVATE: the noise came from a seed. Nothing is guaranteed.")
    if "ledger" in facts:
        spent = facts["ledger"]
        print(
            f"Charged to {spent['data_set']!r}, release {spent['releases']}: together "
            f"epsilon {rounded_up(spent['spent'])} of {spent['limit']:g} at delta "
            f"{spent['delta']:g}."
        )
    if "public" in facts:
        public = facts["public"]
        line = f"{public['measure']} {public['value']:.4g}"
        if public["baseline"] is not None:
            line += f"; {public['baseline_is']} {public['baseline']:.4g}"
        print(f"On {public['rows']} public rows: {line}.")
    print(f"Model: {facts['model']}")


@contextmanager
def _discreet() -> Iterator[None]:
    """No warning and no unforeseen error gets out: either may quote a private cell."""
    unforeseen = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (DpbraidError, OSError):
            raise
        except Exception as error:
            unforeseen = type(error).__name__
    if unforeseen:
        raise DpbraidError(
            f"the fit ended with an error that nobody foresaw ({unforeseen}); its text "
            "is withheld, because it may hold something of the private table"
        )


@contextmanager
def _shown(progress: bool) -> Iterator[Progress | None]:
    """A bar on stderr that counts steps, and nothing else."""
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("steps", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
