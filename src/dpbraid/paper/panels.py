"""The panels of the paper's figures, each a small declarative entry.

A panel says what is compared; `mechanism` turns one of its algorithms at one learning
rate into a Mechanism, and `paper_noise` gives it the noise of the paper.

The paper runs learning rates that break the condition of its own lemma. They are run
here too, because the figures cannot be made without them; `guarantee_void` says so,
and what is void can never be certified: the lemma's plain formula is not an accountant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import (
    MAX_EPOCHS,
    Common,
    Mechanism,
    Placement,
    alternating,
    dp,
    interleaved,
    priv_pub,
    pub_priv,
    public_only,
)
from dpbraid.orders import Incremental, Order, Reshuffle, ShuffleOnce
from dpbraid.paper import optimum
from dpbraid.paper.tasks import Task
from dpbraid.starts import Given, Start, Zeros

Array = NDArray[np.float64]

# 0.5, 0.1, 0.05, .., 5e-9, 1e-9
LEARNING_RATES = tuple(
    float(f"{digit}e-{power}") for power in range(1, 10) for digit in (5, 1)
)


class Algorithm(StrEnum):
    """The curves of a panel; the value is the name in files and on command lines."""

    INTERLEAVED = "interleaved"
    PRIV_PUB = "priv_pub"
    PUB_PRIV = "pub_priv"
    DP = "dp"
    PUBLIC_ONLY = "public_only"
    INTERLEAVED_EPOCHS = "interleaved_epochs"
    DP_GD = "dp_gd"
    DP_WARM = "dp_warm"
    DP_GD_WARM = "dp_gd_warm"

    @property
    def warm(self) -> bool:
        """Whether it starts at the public solution."""
        return self in (Algorithm.DP_WARM, Algorithm.DP_GD_WARM)


TITLES = {
    Algorithm.INTERLEAVED: "Interleaved",
    Algorithm.PRIV_PUB: "Priv-Pub",
    Algorithm.PUB_PRIV: "Pub-Priv",
    Algorithm.DP: "DP",
    Algorithm.PUBLIC_ONLY: "Public Only",
    Algorithm.INTERLEAVED_EPOCHS: "Interleaved-Epochs",
    Algorithm.DP_GD: "DP-GD",
    Algorithm.DP_WARM: "DP from the public solution",
    Algorithm.DP_GD_WARM: "DP-GD from the public solution",
}

PAPER = (
    Algorithm.INTERLEAVED,
    Algorithm.PRIV_PUB,
    Algorithm.PUB_PRIV,
    Algorithm.DP,
    Algorithm.PUBLIC_ONLY,
)


@dataclass(frozen=True)
class Panel:
    """One plot: G(x; D) after each epoch for some algorithms at one epsilon.

    private_fraction: p, of the algorithms that use both tables. The other fields hold
    for all panels of the paper; replace them for smaller or other runs.
    """

    id: str
    figure: str
    task: str
    epsilon: float
    order: Order = Reshuffle()
    private_fraction: float = 0.5
    algorithms: tuple[Algorithm, ...] = PAPER
    epochs: int = 50
    clip_norm: float = 10.0
    delta: float = 1e-6
    runs: int = 10
    learning_rates: tuple[float, ...] = LEARNING_RATES

    def __post_init__(self) -> None:
        for name, word in (("id", self.id), ("figure", self.figure)):
            if not isinstance(word, str) or not _FILE_NAME.fullmatch(word):
                raise InvalidParameterError(
                    f"{name} must be a name for files, of letters, digits and ' .=+-', "
                    f"got {word!r}"
                )
        _validate.text(task=self.task)
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.probability(delta=self.delta)
        _validate.in_range(0, 1, private_fraction=self.private_fraction)
        _validate.integer(1, MAX_EPOCHS, epochs=self.epochs)
        _validate.integer(1, MAX_RUNS, runs=self.runs)
        if not isinstance(self.order, Order):
            raise InvalidParameterError(f"order must be an Order, got {self.order!r}")
        chosen = [_validate.choice(Algorithm, algorithm=a) for a in self.algorithms]
        object.__setattr__(self, "algorithms", tuple(chosen))
        for rate in self.learning_rates:
            _validate.positive(learning_rate=rate)
        object.__setattr__(self, "learning_rates", tuple(self.learning_rates))
        if not self.algorithms or not self.learning_rates:
            raise InvalidParameterError(
                f"the panel {self.id!r} needs an algorithm and a learning rate"
            )
        _validate.plain(self)


MAX_RUNS = 100_000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .=+-]*")
_EPSILONS = {
    "mnist69": (5, 10),
    "cifar10": (1, 5),
    "crime": (1, 5),
    "compas": (5, 10),
    "creditcard": (5, 10),
}
_VARIED = ("creditcard", "mnist69")


def _panels() -> dict[str, Panel]:
    panels = [
        Panel(f"fig2-{task}-eps{epsilon}", "Figure 2", task, float(epsilon))
        for task, epsilons in _EPSILONS.items()
        for epsilon in epsilons
    ]
    orders: tuple[tuple[str, str, Order], ...] = (
        ("ig", "IG", Incremental()),
        ("so", "SO", ShuffleOnce()),
    )
    panels += [
        Panel(f"{short}-{task}-eps{epsilon}", figure, task, float(epsilon), order=order)
        for short, figure, order in orders
        for task in _VARIED
        for epsilon in _EPSILONS[task]
    ]
    panels += [
        Panel(
            f"p{percent}-{task}-eps{epsilon}",
            f"p = {percent / 100}",
            task,
            float(epsilon),
            private_fraction=percent / 100,
        )
        for percent in (25, 75)
        for task in _VARIED
        for epsilon in _EPSILONS[task]
    ]
    panels += [
        Panel(
            f"epochs-{task}-eps{epsilon}",
            "Interleaved-Epochs",
            task,
            float(epsilon),
            algorithms=(*PAPER, Algorithm.INTERLEAVED_EPOCHS),
        )
        for task in ("creditcard", "crime")
        for epsilon in _EPSILONS[task]
    ]
    return {panel.id: panel for panel in panels}


PANELS = _panels()


def panel(name: str) -> Panel:
    """The panel of that id."""
    if name not in PANELS:
        raise InvalidParameterError(
            f"panel must be one of {', '.join(PANELS)}, got {name!r}"
        )
    return PANELS[name]


def title(algorithm: Algorithm, order: Order) -> str:
    """The name of a curve, with the paper's suffix IG, SO or RR where it has one."""
    suffixes = {"incremental": "-IG", "shuffle_once": "-SO", "reshuffle": "-RR"}
    if algorithm in PAPER and algorithm is not Algorithm.PUBLIC_ONLY:
        return TITLES[algorithm] + suffixes.get(order.kind, "")
    return TITLES[algorithm]


# -- mechanisms --------------------------------------------------------------------


def start_point(algorithm: Algorithm, task: Task) -> Array | None:
    """The public solution, shape (d,), for a warm-started algorithm; None otherwise."""
    if not algorithm.warm:
        return None
    return optimum.solve(task.loss, task.penalty, task.public).x


def mechanism(
    panel: Panel,
    algorithm: Algorithm,
    task: Task,
    learning_rate: float,
    *,
    placement: Placement | str = Placement.EVERY_STEP,
    start: Array | None = None,
) -> Mechanism:
    """One algorithm of a panel at one learning rate, with noise_std = 1.

    start: what `start_point` gave; the engine needs it as well. The row bounds are
    those of the task's tables. DP-GD takes one step an epoch along the mean gradient,
    with n times the learning rate: it moves as far as the n steps of DP do.
    """
    if (start is None) is algorithm.warm:
        raise InvalidParameterError(
            f"start must be {'given' if algorithm.warm else 'left out'} for the "
            f"algorithm {algorithm.value!r}"
        )
    n, epochs, fraction = task.n, panel.epochs, panel.private_fraction
    gd = algorithm in (Algorithm.DP_GD, Algorithm.DP_GD_WARM)
    common: Common = {
        "loss": task.loss,
        "penalty": task.penalty,
        "order": panel.order,
        "clip_norm": panel.clip_norm,
        "batch_size": n if gd else 1,
        "row_norm": task.private.row_norm,
        "public_row_norm": task.public.row_norm,
        "start": _start(start),
    }
    if algorithm is Algorithm.PUBLIC_ONLY:
        return public_only(n, epochs, learning_rate=learning_rate, **common)
    if gd:
        learning_rate *= n
    if algorithm.warm or gd or algorithm is Algorithm.DP:
        return dp(n, epochs, learning_rate=learning_rate, placement=placement, **common)
    schedules: dict[Algorithm, Callable[..., Mechanism]] = {
        Algorithm.INTERLEAVED: interleaved,
        Algorithm.PRIV_PUB: priv_pub,
        Algorithm.PUB_PRIV: pub_priv,
        Algorithm.INTERLEAVED_EPOCHS: alternating,
    }
    return schedules[algorithm](
        n,
        epochs,
        private_fraction=fraction,
        learning_rate=learning_rate,
        placement=placement,
        **common,
    )


def _start(point: Array | None) -> Start:
    if point is None:
        return Zeros()
    # a bound from public facts, a little above the norm; the public solution may be 0
    return Given(float(f"{np.linalg.norm(point) * (1 + 1e-3) + 1e-9:.3e}"))


# -- the noise of the paper ----------------------------------------------------------


class PaperAnalysis(StrEnum):
    """The lemma as printed, or the doubled noise of the authors' scripts."""

    PAPER = "paper"
    PAPER_CODE = "paper-code"


def lemma_noise_std(
    epsilon: float,
    delta: float,
    *,
    clip_norm: float,
    private_epochs: int,
    noisy_steps: int,
) -> float:
    """Noise std of the paper's privacy lemmas, in gradient units (PRIVACY.md 3, A).

    ``G sqrt(2 K / m) (sqrt(L + eps) + sqrt(L)) / eps`` with L = ln(1 / delta), for K
    epochs with private rows and m noisy steps from the last private one on, itself
    included. Solved for the best Renyi order. It is a guarantee for replace-one only
    where the steps after the first private one are nonexpansive or m = 1; this formula
    does not check that.
    """
    _validate.positive(epsilon=epsilon, clip_norm=clip_norm)
    _validate.probability(delta=delta)
    _validate.integer(1, private_epochs=private_epochs, noisy_steps=noisy_steps)
    log_delta = math.log(1 / delta)
    roots = math.sqrt(log_delta + epsilon) + math.sqrt(log_delta)
    return clip_norm * math.sqrt(2 * private_epochs / noisy_steps) * roots / epsilon


def paper_noise(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    analysis: PaperAnalysis | str = PaperAnalysis.PAPER,
) -> Mechanism:
    """The mechanism with the noise of the lemma; without private rows, as it is.

    With epoch-end placement m = 1: one noisy step an epoch, the last private one. With
    batches of b rows, G is clip_norm / b.
    """
    analysis = _validate.choice(PaperAnalysis, analysis=analysis)
    private = {e for e in mechanism.epochs if e.private_rows}
    if not private:
        return mechanism
    if mechanism.clip_norm is None:
        raise InvalidParameterError("clip_norm must be given: the lemma has no other G")
    if any(e.noise_std != 1 for e in private):
        raise InvalidParameterError("noise_std must be 1 before the lemma replaces it")
    std = lemma_noise_std(
        epsilon,
        delta,
        clip_norm=mechanism.clip_norm / mechanism.batch_size,
        private_epochs=sum(e.private_rows > 0 for e in mechanism.epochs),
        noisy_steps=min(
            1 if e.placement is Placement.EPOCH_END else 1 + mechanism.public_steps(e)
            for e in private
        ),
    )
    return mechanism.with_noise(
        2 * std if analysis is PaperAnalysis.PAPER_CODE else std
    )


def largest_valid_rate(mechanism: Mechanism) -> float | None:
    """2 / L over all rows of both tables' bounds; None where no step has to contract.

    Noise on every step: public steps after private ones share in hiding them, so all
    steps have to be nonexpansive (Interleaved); without public steps in private epochs
    each use is paid by its own noise (DP, Priv-Pub, Pub-Priv). Noise at the epoch end:
    private steps have to be, if there is more than one (PRIVACY.md 6.1, 7.5).
    """
    every, end = (
        [e for e in mechanism.epochs if e.private_rows and e.placement is placement]
        for placement in (Placement.EVERY_STEP, Placement.EPOCH_END)
    )
    bounds: list[float | None] = []
    if any(e.public_rows for e in every):
        bounds += [mechanism.row_norm, mechanism.public_bound]
    if any(mechanism.private_steps(e) > 1 for e in end):
        bounds += [mechanism.row_norm]
    if not bounds:
        return None
    return _two_over_smoothness(mechanism, bounds)


def contraction_rate(mechanism: Mechanism) -> float:
    """2 / L over the rows that the mechanism reads: below, no step expands distances.

    A learning rate above can still have a guarantee (`guarantee_void`), but the run
    may oscillate.
    """
    bounds: list[float | None] = []
    if any(e.private_rows for e in mechanism.epochs):
        bounds.append(mechanism.row_norm)
    if any(e.public_rows for e in mechanism.epochs):
        bounds.append(mechanism.public_bound)
    return _two_over_smoothness(mechanism, bounds)


def _two_over_smoothness(mechanism: Mechanism, bounds: list[float | None]) -> float:
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return 0.0  # nothing is known about L
    return 2 / mechanism.loss.smoothness(max(known))


def guarantee_void(mechanism: Mechanism) -> bool:
    """Whether a learning rate breaks the contraction that the guarantee rests on."""
    largest = largest_valid_rate(mechanism)
    if largest is None:
        return False
    return any(e.learning_rate > largest for e in mechanism.epochs)
