"""Auditing with one run and many canaries (Steinke, Nasr and Jagielski 2023).

Each of m rows of the table is a canary: a fair coin decides which of two opposite rows
stands there. From the release the attacker guesses some of the coins and leaves the
others alone. Privacy for replacing one row limits how many guesses can be right
(`bounds.one_run_p_value`): flipping one coin replaces one row, which is what the
theorem asks for. The number of guesses is fixed before the run, from the claim.

Canary i pushes along a direction of its own: a coordinate where there are enough, else
a random direction, and canaries disturb each other. All other rows are idle, or the
public rows that the caller hands over. Coins of several runs may be taken together:
each coin enters one run, and the release is the tuple of all releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.special import ndtr

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.audit import bounds
from dpbraid.audit.claims import Claim, claim, order_is_secret, printed
from dpbraid.audit.neighbours import Maker, private_rows
from dpbraid.engine.once import run
from dpbraid.mechanism import Mechanism
from dpbraid.orders import Incremental
from dpbraid.privacy.certificate import Certificate
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OneRun:
    """How many coins were guessed right, and the lower bound on epsilon from it.

    canaries: coins of all runs; guesses of them, `correct` of which were right.
    epsilon: lower bound at the claim's delta with probability `confidence`.
    """

    claim: Claim
    runs: int
    canaries: int
    guesses: int
    correct: int
    confidence: float
    epsilon: float
    seed: int

    @property
    def holds(self) -> bool:
        """Whether the lower bound does not exceed the claim."""
        return self.epsilon <= self.claim.epsilon

    @property
    def table(self) -> str:
        """Claim and lower bound as text."""
        verdict = "holds against this attack" if self.holds else "IS REFUTED"
        return (
            f"{self.canaries} canaries in {self.runs} run(s): {self.correct} of "
            f"{self.guesses} guesses right\n"
            f"epsilon at delta {self.claim.delta:g}: claim {self.claim.epsilon:.4g} "
            f"({self.claim.analysis}), lower bound {self.epsilon:.4g}, "
            f"{100 * self.confidence:g} % (Steinke, Nasr, Jagielski)\n"
            f"The claim {verdict}.\n"
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        epsilon = self.claim.epsilon
        return {
            "holds": self.holds,
            "claimed_epsilon": epsilon if math.isfinite(epsilon) else None,
            "delta": self.claim.delta,
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "runs": self.runs,
            "canaries": self.canaries,
            "guesses": self.guesses,
            "correct": self.correct,
            "seed": self.seed,
        }


def one_run(
    mechanism: Mechanism | Certificate,
    *,
    canaries: int | None = None,
    runs: int = 1,
    confidence: float = 0.95,
    delta: float = 1e-6,
    analysis: str = "best",
    dimension: int = 2,
    public: Rows | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> OneRun:
    """A lower bound on epsilon from one run of the mechanism at its own size.

    canaries: coins a run; as many as there are columns, where n allows, if left out.
    runs: how often to run, each with coins and noise of its own. The other arguments
    are those of `audit`.
    """
    releases = 1
    if isinstance(mechanism, Certificate):
        claimed, dimension = printed(mechanism), mechanism.numeric.dimension
        releases = mechanism.runs
        mechanism = mechanism.mechanism
    else:
        claimed = claim(mechanism, delta=delta, analysis=analysis, dimension=dimension)
    used = min(private_rows(mechanism))
    _validate.integer(1, runs=runs)
    _validate.integer(0, seed=seed)
    _validate.probability(confidence=confidence)
    if canaries is None:
        canaries = min(dimension, used)
    _validate.integer(1, mechanism.n, canaries=canaries)
    if not claimed.needs_secret_order or not order_is_secret(mechanism):
        mechanism = replace(mechanism, order=Incremental())
    children = SeedSequence(seed).spawn(2 * runs)
    coins, scores = [], []
    for i in range(runs):
        rng = np.random.default_rng(children[2 * i])
        seeds = children[2 * i + 1].spawn(releases)
        tossed, guess = _one(mechanism, canaries, dimension, public, rng, seeds)
        coins.append(tossed)
        scores.append(guess)
        if progress is not None:
            progress(i + 1, runs)
    sides, score = np.concatenate(coins), np.concatenate(scores)
    guesses = _planned_guesses(claimed, len(sides), 1 - confidence)
    surest = np.argsort(-np.abs(score), kind="stable")[:guesses]
    correct = int(np.sum(np.sign(score[surest]) == sides[surest]))
    epsilon = bounds.one_run_epsilon(
        len(sides), guesses, correct, claimed.delta, 1 - confidence
    )
    return OneRun(
        claimed, runs, len(sides), guesses, correct, confidence, epsilon, seed
    )


def _one(
    mechanism: Mechanism,
    canaries: int,
    dimension: int,
    public: Rows | None,
    rng: np.random.Generator,
    seeds: list[SeedSequence],
) -> tuple[Array, Array]:
    """The coins of one run, +1 or -1, and a score for each, positive for +1.

    seeds: one for each release that the guarantee covers together.
    """
    make = Maker(mechanism, dimension)
    if canaries <= dimension:
        directions = np.eye(canaries, dimension)
    else:
        directions = rng.standard_normal((canaries, dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    n = mechanism.n
    if public is None:
        X, y = make.idle(n, make.axis(0))
    elif public.dimension != dimension:
        raise InvalidParameterError(
            f"public must have {dimension} columns, got {public.dimension}"
        )
    else:
        again = np.arange(n) % len(public)
        X, y = public.X[again], None if public.y is None else public.y[again]
    sides = rng.choice(np.array([-1.0, 1.0]), canaries)
    # the last rows that every epoch uses, in the order of the table
    first = max(min(private_rows(mechanism)) - canaries, 0)
    for i in range(canaries):
        row, label = make.pushing(1, sides[i] * directions[i])
        X[first + i] = row[0]
        if y is not None and label is not None:
            y[first + i] = label[0]
    table = Rows.bounded(X, y, row_norm=mechanism.row_norm)
    start = make.start(np.zeros(dimension))
    released = sum(
        run(mechanism, table, make.public(public), start=start, seed=seed).x
        for seed in seeds
    )
    return sides, directions @ released


def _planned_guesses(claimed: Claim, canaries: int, error: float) -> int:
    """The number of guesses that promises most if the claim were exact and Gaussian.

    Scores would be N(+-mu/2, 1): the surest share q lies beyond a threshold t, and is
    right with probability Phi(mu/2 - t)/q. What it promises is the epsilon at which
    randomised response is right as often as the lower limit on that rate.
    """
    mu = bounds.mu_of(0.5, bounds.claimed_power(claimed.curve, 0.5))
    if not 0 < mu < 30:
        return canaries
    best, most = canaries, 0.0
    for t in np.linspace(0, mu / 2 + 3, 100):
        beyond = float(ndtr(mu / 2 - t) + ndtr(-mu / 2 - t))
        guesses = round(beyond * canaries)
        if guesses == 0:
            break
        right = math.floor(guesses * float(ndtr(mu / 2 - t)) / beyond)
        promised = bounds.rate_below(right, guesses, error)
        if promised > most:
            best, most = guesses, promised
    return best
