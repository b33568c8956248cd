"""What the noise of a run guarantees, by the accountant and not by the formula."""

from __future__ import annotations

from dataclasses import dataclass

from dpbraid.paper.panels import PaperAnalysis
from dpbraid.paper.results import Rate, Result
from dpbraid.privacy import PrivacyAssumptionError, account, calibrate


@dataclass(frozen=True)
class Guarantee:
    """noise_std: what the accountant asks for; None where it refuses the mechanism.

    holds: whether the panel's (epsilon, delta) holds for the noise that ran, learning
    rates picked without looking. words: the guarantee, or why there is none.
    """

    noise_std: float | None
    holds: bool
    words: str


def guarantee(result: Result, rate: Rate) -> Guarantee:
    """Of one curve at one learning rate, by the analysis of the settings."""
    panel, mechanism = result.panel, rate.cell.mechanism
    if not any(e.private_rows for e in mechanism.epochs):
        return Guarantee(0.0, True, "not needed")
    analysis = result.settings.analysis
    if result.settings.by_formula:
        analysis = PaperAnalysis.PAPER
    try:
        exact = calibrate(
            mechanism, epsilon=panel.epsilon, delta=panel.delta, analysis=analysis
        )
        profile = account(mechanism, analysis)
    except PrivacyAssumptionError:
        words = "void" if rate.guarantee_void else "not by lemma"
        return Guarantee(None, False, words)
    noise = max(e.noise_std for e in exact.epochs)
    # the formula and the accountant round differently, far below what matters
    if profile.delta(panel.epsilon) > panel.delta * (1 + 1e-9):
        return Guarantee(noise, False, "too little noise")
    return Guarantee(noise, True, f"({panel.epsilon:g}, {panel.delta:g})")
