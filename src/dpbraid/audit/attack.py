"""The audit: run a mechanism on neighbouring tables, and try to tell them apart.

Every run is a call of `engine.run`, the function behind every release, with noise,
order and start of its own. The attacker sees what it returns and nothing else. Where a
certificate covers several releases on the same rows, a run of the audit makes them all.

1. *Pilot runs* on every pair of neighbours choose what comes next: the pair whose
   releases lie farthest apart, the direction in which to look at them, and two
   thresholds, one for mu and one for epsilon.
2. *Fresh runs* on that one pair give the counts behind the bounds. Nothing was chosen
   by them, so the limits of `dpbraid.audit.bounds` hold as they stand; the error
   1 - confidence is shared by the two bounds, and in each by its two rates.

A claim that does not rest on a secret order is one for every order. It is attacked in
the order of the table, with the row where every proof has its worst case; a claim that
does rest on it is attacked in orders that each run draws and forgets.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.special import ndtr

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.audit import bounds, neighbours
from dpbraid.audit.claims import Claim, claim, order_is_secret, printed
from dpbraid.audit.neighbours import Neighbours
from dpbraid.engine.once import run
from dpbraid.engine.threads import one_blas_thread
from dpbraid.mechanism import Mechanism
from dpbraid.orders import Incremental
from dpbraid.privacy.certificate import Certificate
from dpbraid.privacy.gaussian import gaussian_epsilon
from dpbraid.rows import Rows

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

SCHEMA = "dpbraid.audit/1"
# Pilot runs a side and pair: a share of `runs` within these limits.
_PILOT_RUNS = (40, 500)
_PILOT_SHARE = 0.1
# Releases are cut here, so that their variances are finite.
_LARGEST = 1e100
# A run that takes longer than this is worth a thread of its own.
_LONG_RUN = 3e-3


@dataclass(frozen=True)
class Pilot:
    """What pilot runs on one pair of neighbours showed; an estimate, no bound."""

    neighbours: str
    words: str
    runs: int
    mu: float


@dataclass(frozen=True)
class Counts:
    """The test "score >= threshold" on fresh runs: how often it says "left"."""

    threshold: float
    true_positives: int
    false_positives: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the runs showed, whatever is claimed.

    runs: fresh runs a side, on the pair called `neighbours`. mu, epsilon: lower bounds
    that hold together with probability `confidence`; epsilon is at `delta`.
    false_positives, power: the confidence limits behind mu. fitted_mu: a lower limit of
    that confidence if scores are Gaussian with one variance, else an estimate. left,
    right: the scores.
    """

    pilots: tuple[Pilot, ...]
    neighbours: str
    runs: int
    confidence: float
    delta: float
    mu: float
    false_positives: float
    power: float
    mu_test: Counts
    epsilon: float
    epsilon_test: Counts
    fitted_mu: float
    left: Array
    right: Array
    seed: int
    seconds: float

    @property
    def gaussian_epsilon(self) -> float:
        """The epsilon at delta that goes with mu on the Gaussian curve.

        A bound if the trade-off curve of the pair is Gaussian, as it is where losses
        are linear; else an extrapolation.
        """
        return gaussian_epsilon(self.mu, self.delta)

    @property
    def fitted_epsilon(self) -> float:
        """The same for `fitted_mu`, and known as it is."""
        return gaussian_epsilon(self.fitted_mu, self.delta)


@dataclass(frozen=True, eq=False)
class Audit:
    """A claim and the evidence against it."""

    mechanism: Mechanism
    claim: Claim
    evidence: Evidence

    @property
    def claimed_mu(self) -> float:
        """The mu of the claim, or of the point that its curve allows to the test."""
        rate = self.evidence.false_positives
        if self.claim.mu is not None:
            return self.claim.mu
        return bounds.mu_of(rate, bounds.claimed_power(self.claim.curve, rate))

    @property
    def ratio(self) -> float:
        """Lower bound over claim, in mu: 1 if the claim cannot be improved."""
        if self.claimed_mu == 0:
            return math.inf if self.evidence.mu > 0 else 0.0
        return self.evidence.mu / self.claimed_mu

    @property
    def holds(self) -> bool:
        """Whether no lower bound exceeds the claim."""
        found = self.evidence
        return found.mu <= self.claimed_mu and found.epsilon <= self.claim.epsilon

    @property
    def table(self) -> str:
        """Claim and lower bounds side by side, as text."""
        return _table(self)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; infinite numbers are null."""
        found = self.evidence
        return {
            "schema": SCHEMA,
            "holds": self.holds,
            "claim": {
                "analysis": self.claim.analysis,
                "epsilon": _finite(self.claim.epsilon),
                "delta": self.claim.delta,
                "mu": _finite(self.claim.mu),
                "mu_allowed_to_the_test": _finite(self.claimed_mu),
            },
            "lower_bounds": {
                "confidence": found.confidence,
                "epsilon_threshold_test": _finite(found.epsilon),
                "mu_threshold_test": _finite(found.mu),
                "epsilon_of_mu_if_gaussian": _finite(found.gaussian_epsilon),
                "mu_gaussian_fit_estimate": _finite(found.fitted_mu),
                "epsilon_gaussian_fit_estimate": _finite(found.fitted_epsilon),
                "ratio_in_mu": _finite(self.ratio),
            },
            "tests": {
                name: {
                    "threshold": test.threshold,
                    "true_positives": test.true_positives,
                    "false_positives": test.false_positives,
                }
                for name, test in (
                    ("mu", found.mu_test),
                    ("epsilon", found.epsilon_test),
                )
            },
            "neighbours": found.neighbours,
            "runs_a_side": found.runs,
            "seed": found.seed,
            "seconds": found.seconds,
            "pilots": [
                {
                    "neighbours": p.neighbours,
                    "words": p.words,
                    "runs_a_side": p.runs,
                    "mu_estimate": _finite(p.mu),
                }
                for p in found.pilots
            ],
            "mechanism": self.mechanism.to_json(),
        }


def audit(
    mechanism: Mechanism | Certificate,
    *,
    runs: int = 1000,
    confidence: float = 0.95,
    delta: float = 1e-6,
    analysis: str = "best",
    dimension: int = 2,
    public: Rows | None = None,
    pairs: Sequence[Neighbours] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack a mechanism, and put lower bounds on its privacy loss beside its claim.

    mechanism: or a certificate, whose own numbers, delta and dimension are then taken.
    runs: fresh runs a side; pilot runs come on top. confidence: probability that all
    lower bounds hold. public: public rows to hide canaries in. pairs: neighbours to
    try, the ones of `neighbours` if left out. seconds: a budget of time, after which
    the runs so far count. seed: of all noise, orders and canaries; nothing here is for
    release. progress: called with (runs done, all runs).
    """
    releases = 1
    if isinstance(mechanism, Certificate):
        claimed, dimension = printed(mechanism), mechanism.numeric.dimension
        releases = mechanism.runs
        mechanism = mechanism.mechanism
    else:
        claimed = claim(mechanism, delta=delta, analysis=analysis, dimension=dimension)
    found = gather(
        mechanism,
        runs=runs,
        confidence=confidence,
        delta=claimed.delta,
        dimension=dimension,
        public=public,
        pairs=pairs,
        seed=seed,
        seconds=seconds,
        progress=progress,
        order_known=not (claimed.needs_secret_order and order_is_secret(mechanism)),
        releases=releases,
    )
    return Audit(mechanism, claimed, found)


def gather(
    mechanism: Mechanism,
    *,
    runs: int,
    confidence: float,
    delta: float,
    order_known: bool = False,
    releases: int = 1,
    dimension: int = 2,
    public: Rows | None = None,
    pairs: Sequence[Neighbours] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """The evidence alone, as `audit` collects it: it may serve several claims.

    order_known: attack in the order of the table; else in orders that runs draw, as the
    mechanism says, and the attacker is not told them. releases: how many runs of the
    engine the attacker sees together, as one run of the audit.
    """
    _validate.integer(2, runs=runs)
    _validate.integer(1, dimension=dimension)
    _validate.integer(0, seed=seed)
    _validate.probability(confidence=confidence, delta=delta)
    if seconds is not None:
        _validate.positive(seconds=seconds)
    began = time.monotonic()
    root = SeedSequence(seed)
    if pairs is None:
        rng = np.random.default_rng(root.spawn(1)[0])
        pairs = neighbours.neighbours(mechanism, dimension, public=public, rng=rng)
    if not pairs:
        raise InvalidParameterError("pairs must hold at least one pair of neighbours")
    if order_known:
        mechanism = replace(mechanism, order=Incremental())
    pilot_runs = min(max(round(_PILOT_SHARE * runs), _PILOT_RUNS[0]), _PILOT_RUNS[1])
    total = 2 * (len(pairs) * pilot_runs + runs)
    runner = _Runner(mechanism, releases, total, progress)
    best, attack, pilots = -1.0, None, []
    for number, pair in enumerate(pairs):
        until = None
        if seconds is not None:  # a third of the time for all pilots
            until = began + seconds / 3 * (number + 1) / len(pairs)
        left, right = runner.releases(pair, pilot_runs, root.spawn(1)[0], until)
        expected = None
        if pair.direction is not None:
            expected = np.tile(pair.direction, releases) / math.sqrt(releases)
        look, distance = _direction(left, right, expected)
        pilots.append(Pilot(pair.name, pair.words, len(left), distance))
        if distance > best:
            best = distance
            attack = (pair, look, left @ look, right @ look)
    assert attack is not None
    pair, look, pilot_left, pilot_right = attack
    error = (1 - confidence) / 4
    at_mu, at_epsilon = _thresholds(pilot_left, pilot_right, runs, delta, error)
    until = None if seconds is None else began + seconds
    released = runner.releases(pair, runs, root.spawn(1)[0], until)
    left, right = released[0] @ look, released[1] @ look
    done = len(left)
    mu_test, epsilon_test = (_tested(left, right, t) for t in (at_mu, at_epsilon))
    rates = _rates(mu_test, done, error)
    return Evidence(
        pilots=tuple(pilots),
        neighbours=pair.name,
        runs=done,
        confidence=confidence,
        delta=delta,
        mu=bounds.mu_of(*rates),
        false_positives=rates[0],
        power=rates[1],
        mu_test=mu_test,
        epsilon=max(
            bounds.epsilon_of(false, power, delta)
            for false, power in _both_ways(epsilon_test, done, error / 2)
        ),
        epsilon_test=epsilon_test,
        fitted_mu=bounds.fitted_mu(left, right, 1 - confidence),
        left=left,
        right=right,
        seed=seed,
        seconds=time.monotonic() - began,
    )


# -- runs ------------------------------------------------------------------------------


class _Runner:
    """Runs of one mechanism, counted."""

    def __init__(
        self,
        mechanism: Mechanism,
        releases: int,
        total: int,
        progress: Progress | None,
    ) -> None:
        self._mechanism = mechanism
        self._releases = releases
        self._total = total
        self._progress = progress
        self._done = 0

    def releases(
        self, pair: Neighbours, runs: int, seeds: SeedSequence, until: float | None
    ) -> tuple[Array, Array]:
        """Releases on the left and on the right table, (runs, d) each.

        Runs take turns, so that an end before `runs` leaves as many on either side,
        two at least.
        """
        count = 2 * runs
        tables = (pair.left, pair.right)

        def one(i: int) -> Array:
            parts = [
                run(
                    self._mechanism,
                    tables[i % 2],
                    pair.public,
                    start=pair.start,
                    seed=_child(seeds, i, part),
                ).x
                for part in range(self._releases)
            ]
            # an iterate may have diverged; what is done to it here is post-processing
            return np.clip(np.nan_to_num(np.concatenate(parts)), -_LARGEST, _LARGEST)

        with one_blas_thread():  # held once for all runs
            found = [one(0), one(1), one(2)]  # the first one also compiles
            began = time.monotonic()
            found.append(one(3))
            long = time.monotonic() - began > _LONG_RUN
            found += self._rest(one, 4, count, until, long)
        whole = len(found) // 2 * 2
        self._done += count - whole  # runs that the clock took away
        return np.array(found[0:whole:2]), np.array(found[1:whole:2])

    def _rest(
        self,
        one: Callable[[int], Array],
        first: int,
        count: int,
        until: float | None,
        long: bool,
    ) -> Iterator[Array]:
        """The runs from number `first` on; kernels of long ones share the cores."""
        self._report(first)
        workers = (os.cpu_count() or 1) if long else 1
        with ThreadPoolExecutor(workers) as pool:
            at = first
            while at < count and (until is None or time.monotonic() < until):
                several = range(at, min(at + (2 * workers if long else 50), count))
                yield from pool.map(one, several) if long else map(one, several)
                at = several.stop
                self._report(len(several))

    def _report(self, runs: int) -> None:
        self._done += runs
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _child(seeds: SeedSequence, *numbers: int) -> SeedSequence:
    """What `spawn` would give as its child, and the child of that, of these numbers."""
    return SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, *numbers))


# -- what the pilot runs choose --------------------------------------------------------


def _direction(
    left: Array, right: Array, expected: Array | None
) -> tuple[Array, float]:
    """Where to look at releases, and how far apart pilot runs lie there.

    Either the expected direction, or one learned from half of the pilot runs: the
    difference of means over the variance, a coordinate at a time, which also finds
    what nobody expected to be released. It has to be clearly better on the other half.
    """
    choices = []
    if expected is not None and left.shape[1] == len(expected):
        distance = bounds.separation(left @ expected, right @ expected)
        choices.append((abs(distance), math.copysign(1.0, distance) * expected))
    difference = left[::2].mean(axis=0) - right[::2].mean(axis=0)
    variance = left[::2].var(axis=0) + right[::2].var(axis=0)
    least = max(float(variance.max()), float(np.max(difference**2)), 1e-200)
    learned = difference / np.maximum(variance, 1e-12 * least)
    norm = float(np.linalg.norm(learned))
    if len(left) > 3 and norm > 0:
        learned /= norm
        distance = bounds.separation(left[1::2] @ learned, right[1::2] @ learned)
        margin = 3 * math.sqrt(4 / len(left)) if choices else 0.0
        if not choices or distance > choices[0][0] + margin:
            choices.insert(0, (distance, learned))
    if not choices:
        return np.zeros(left.shape[1]), 0.0
    distance, look = choices[0]
    return look, max(distance, 0.0)


def _thresholds(
    left: Array, right: Array, runs: int, delta: float, error: float
) -> tuple[float, float]:
    """Thresholds for mu, half-way, and for epsilon, where a Gaussian fit has most."""
    means = float(left.mean()), float(right.mean())
    middle = 0.5 * (means[0] + means[1])
    std = math.sqrt(0.5 * float(left.var() + right.var()))
    if std == 0:
        return middle, middle

    def promise(threshold: float) -> float:
        hits = [round(runs * float(ndtr((m - threshold) / std))) for m in means]
        test = Counts(threshold, hits[0], hits[1])
        return max(
            bounds.epsilon_of(false, power, delta)
            for false, power in _both_ways(test, runs, error / 2)
        )

    around = middle + std * np.linspace(-4, 4, 81)
    return middle, max([middle, *around.tolist()], key=promise)


def _tested(left: Array, right: Array, threshold: float) -> Counts:
    return Counts(
        threshold, int(np.sum(left >= threshold)), int(np.sum(right >= threshold))
    )


def _rates(test: Counts, runs: int, error: float) -> tuple[float, float]:
    """Limits (false positives from above, power from below), `error` each."""
    return (
        bounds.rate_above(test.false_positives, runs, error),
        bounds.rate_below(test.true_positives, runs, error),
    )


def _both_ways(test: Counts, runs: int, error: float) -> Iterator[tuple[float, float]]:
    """The same for "left" above the threshold and for "right" below it."""
    yield _rates(test, runs, error)
    yield (
        bounds.rate_above(runs - test.true_positives, runs, error),
        bounds.rate_below(runs - test.false_positives, runs, error),
    )


# -- printing --------------------------------------------------------------------------


def _table(audit: Audit) -> str:
    c, e = audit.claim, audit.evidence
    sure = f"{100 * e.confidence:g} %"
    rows = [
        ("", "claim", "lower bound", "how the bound is known"),
        (
            f"epsilon at delta {c.delta:g}",
            f"{c.epsilon:.4g}",
            f"{e.epsilon:.4g}",
            f"threshold test, Clopper-Pearson, {sure}",
        ),
        (
            "mu" if c.mu is not None else "mu at the test",
            f"{audit.claimed_mu:.4g}",
            f"{e.mu:.4g}",
            f"threshold test on the Gaussian curve, {sure}",
        ),
        ("  ratio in mu", "", f"{audit.ratio:.3f}", "lower bound / claim"),
        (
            "  as epsilon",
            "",
            f"{e.gaussian_epsilon:.4g}",
            "of that mu; a bound if the pair's curve is Gaussian",
        ),
        (
            "  Gaussian fit",
            "",
            f"{e.fitted_mu:.4g}",
            "mu from all scores; a bound if they are Gaussian",
        ),
        (
            "  as epsilon",
            "",
            f"{e.fitted_epsilon:.4g}",
            "of that mu; the same",
        ),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        f"Audit of the analysis '{c.analysis}': {e.runs} runs a side on the pair "
        f"'{e.neighbours}'",
        "",
    ]
    lines += [
        f"{a:<{widths[0]}}  {b:>{widths[1]}}  {d:>{widths[2]}}  {how}".rstrip()
        for a, b, d, how in rows
    ]
    lines += ["", "Pairs tried in pilot runs (estimates of mu):"]
    wide = max(len(p.neighbours) for p in e.pilots)
    lines += [
        f"  {p.neighbours:<{wide}}  {p.mu:6.3g}  {p.words} ({p.runs} runs a side)"
        for p in e.pilots
    ]
    lines += [
        "",
        "The claim holds against this attack."
        if audit.holds
        else "THE CLAIM IS REFUTED: the release tells more about one row than it says.",
    ]
    return "\n".join(lines) + "\n"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
