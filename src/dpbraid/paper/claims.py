"""What the paper says about its panels, held against the runs.

A difference counts where it is more than three joint standard errors; below, it is a
tie. The verdicts are about these runs, at rates picked by their own last iterates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dpbraid.paper.panels import PAPER, Algorithm
from dpbraid.paper.results import Curve, Result

_ERRORS = 3.0
# Where the zero vector is this close to the optimum, a panel tells little.
_FLAT = 0.01


class Verdict(StrEnum):
    """Whether a claim holds on a panel."""

    HOLDS = "holds"
    TIE = "a tie"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper on one panel, with the numbers that decide."""

    statement: str
    verdict: Verdict
    numbers: str


INTERLEAVED_LEADS = "Interleaved ends lowest of the private algorithms"
DP_SUBOPTIMAL = "DP, on private rows alone, is not the best"
PUBLIC_SUBOPTIMAL = "Public Only is not the best"
EPOCHS_BEHIND = "Interleaved-Epochs ends higher than Interleaved"


def claims(result: Result) -> list[Claim]:
    """The claims that speak of this panel's curves."""
    return list(_claims(result))


def _claims(result: Result) -> Iterator[Claim]:
    curves = {c.algorithm: c for c in result.curves if c.algorithm in PAPER}
    interleaved = result.curve(Algorithm.INTERLEAVED)
    rivals = [c for c in curves.values() if c.private and c is not interleaved]
    if interleaved is not None and rivals:
        yield _below(INTERLEAVED_LEADS, interleaved, _lowest(rivals))
    for algorithm, statement in (
        (Algorithm.DP, DP_SUBOPTIMAL),
        (Algorithm.PUBLIC_ONLY, PUBLIC_SUBOPTIMAL),
    ):
        others = [c for name, c in curves.items() if name is not algorithm]
        if algorithm in curves and others:
            yield _below(statement, _lowest(others), curves[algorithm])
    epochs = result.curve(Algorithm.INTERLEAVED_EPOCHS)
    if interleaved is not None and epochs is not None:
        yield _below(EPOCHS_BEHIND, interleaved, epochs)


def _lowest(curves: list[Curve]) -> Curve:
    return min(curves, key=lambda curve: curve.best.final)


def _below(statement: str, low: Curve, high: Curve) -> Claim:
    """The claim that `low` ends below `high`."""
    a, b = low.best, high.best
    error = math.hypot(a.final_error, b.final_error)
    difference = b.final - a.final
    if difference > _ERRORS * error:
        verdict = Verdict.HOLDS
    elif difference < -_ERRORS * error:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.TIE
    return Claim(
        statement,
        verdict,
        f"{low.title} {_apart(a.final, difference)}, "
        f"{high.title} {_apart(b.final, difference)}, joint standard error {error:.2g}",
    )


def _apart(value: float, difference: float) -> str:
    """With as many decimals as show the difference."""
    if not (math.isfinite(value) and math.isfinite(difference)) or difference == 0:
        return f"{value:.5g}"
    decimals = 1 - math.floor(math.log10(abs(difference)))
    return f"{value:.{min(max(decimals, 2), 9)}f}"


def remarks(result: Result) -> list[str]:
    """What a reader of the panel has to know beside its curves."""
    found = []
    zero, best = result.reference.zero_value, result.optimum
    if zero - best < _FLAT * abs(zero):
        found.append(
            f"the zero vector is within {100 * (zero - best) / zero:.2g} % of the "
            "optimum, so this panel hardly tells the algorithms apart"
        )
    beaten = [c for c in result.curves if c.best.final < zero]
    if not beaten:
        found.append("no algorithm ends below the zero vector, which needs no data")
    for curve in result.curves:
        reason = curve.unstable(result.optimum)
        if reason is not None:
            found.append(f"{curve.title} is unstable: {reason}")
        if curve.best.guarantee_void:
            found.append(
                f"{curve.title}: guarantee void at its best learning rate "
                f"{curve.best.learning_rate:g}, above 2/L = {curve.largest_rate:.3g}; "
                "the noise is that of the lemma's formula, whose condition fails"
            )
    for name in result.refused:
        found.append(f"{name.value}: the analysis accepts none of its learning rates")
    return found
