"""How `account` and `calibrate` print a guarantee, for people and for programs."""

from __future__ import annotations

import json as json_text
import math
from typing import Annotated, Any

import typer

from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Mechanism
from dpbraid.privacy import PrivacyProfile

__all__ = ["Analysis", "InvalidParameterError", "Json", "finite", "show"]

Analysis = Annotated[
    str,
    typer.Option(
        help="best, paper, composition, hidden_state, secret_order or epoch_end."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")]


def show(
    mechanism: Mechanism,
    profile: PrivacyProfile,
    epsilon: float,
    delta: float,
    json: bool,
) -> None:
    """Print the guarantee (epsilon, delta) of the mechanism."""
    winner = profile.at(epsilon) if math.isfinite(epsilon) else profile
    facts = _facts(mechanism, winner, epsilon, delta)
    if json:
        facts["assumptions"] = [
            {"name": a.name, "statement": a.statement, "evidence": a.evidence}
            for a in winner.assumptions
        ]
        facts["considered"] = [
            {"analysis": c.analysis, "reason": c.reason} for c in profile.considered
        ]
        facts["mechanism"] = mechanism.to_json()
        print(json_text.dumps(facts, indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title="Guarantee for replacing one private row", show_header=False)
    for name, value in facts.items():
        shown = f"{value:.6g}" if isinstance(value, float) else value
        table.add_row(name.replace("_", " "), "-" if shown is None else str(shown))
    console.print(table)
    for assumption in winner.assumptions:
        console.print(
            f"- {assumption.name}: {assumption.statement} [{assumption.evidence}]",
            markup=False,
            highlight=False,
        )
    for entry in profile.considered:
        console.print(
            f"  ({entry.analysis}: {entry.reason})", markup=False, highlight=False
        )


def _facts(
    mechanism: Mechanism, winner: PrivacyProfile, epsilon: float, delta: float
) -> dict[str, Any]:
    noises = sorted({e.noise_std for e in mechanism.epochs if e.noise_std > 0})
    rates = {e.learning_rate for e in mechanism.epochs}
    return {
        "noise_std": noises[-1] if len(noises) == 1 else noises or 0.0,
        "epsilon": finite(epsilon),
        "delta": delta,
        "mu": finite(winner.mu),
        "analysis": winner.analysis,
        "released_std": winner.released_std,
        "released_std_over_learning_rate": (
            winner.released_std / rates.pop() if len(rates) == 1 else None
        ),
    }


def finite(data: Any) -> Any:
    """Infinite numbers as None: JSON has none."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
