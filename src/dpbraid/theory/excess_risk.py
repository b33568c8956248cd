"""Excess risk at given privacy: the paper's Table 1 and what is proved instead.

Per schedule: the noise that (epsilon, delta) asks for, the learning rate and number of
epochs that balance the bound, and the leading terms. Public facts only.

The paper's column (sec. subsec:comparison; appendix, tables algo_pub_data_order_noise
and empirical_excess_risk_algo_pub_data) with its typing errors corrected
(PRIVACY.md 11): n + 1 - n_d for n - 1 + n_d in the noise term, S = pK private epochs
first in Priv-Pub and last in Pub-Priv, 1 + in the order alpha. It rests on the printed
noise term, which is wrong, so its exponents 4/3 are too good: the proved column has the
same X with exponent 1 (docs/theory.md 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Placement, nearest
from dpbraid.privacy.gaussian import gaussian_mu


class Schedule(StrEnum):
    """The schedules of the paper's table."""

    DP = "dp"
    INTERLEAVED = "interleaved"
    PRIV_PUB = "priv_pub"
    PUB_PRIV = "pub_priv"


class Analysis(StrEnum):
    """How much noise a guarantee costs.

    PAPER: the paper's Renyi bound, minimised over its order in closed form (PRIVACY.md
    method A). COMPOSITION: the same structure, Gaussians composed exactly (B; at the
    epoch end E, which is best possible there). HIDDEN_STATE: iterates hidden across
    epochs (C; for noise at every step).
    """

    PAPER = "paper"
    COMPOSITION = "composition"
    HIDDEN_STATE = "hidden_state"


@dataclass(frozen=True)
class Setting:
    """Public facts: sizes, guarantee, Lipschitz and smoothness constants.

    private_fraction: share p of gradient steps on private rows, 1 for dp. distance:
    a bound on |x_1 - x*|. gradient_std: a bound on sigma_any (left out: lipschitz).
    """

    n: int
    dimension: int
    epsilon: float
    delta: float
    private_fraction: float = 1.0
    lipschitz: float = 1.0
    smoothness: float = 1.0
    distance: float = 1.0
    gradient_std: float | None = None

    def __post_init__(self) -> None:
        _validate.integer(1, n=self.n, dimension=self.dimension)
        _validate.positive(
            epsilon=self.epsilon,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            distance=self.distance,
        )
        _validate.probability(delta=self.delta)
        _validate.in_range(0, 1, private_fraction=self.private_fraction)
        if self.private_fraction == 0:
            raise InvalidParameterError("private_fraction must be > 0, got 0")
        if self.gradient_std is not None:
            _validate.nonnegative(gradient_std=self.gradient_std)

    @property
    def sigma_any(self) -> float:
        """The bound on sigma_any."""
        return self.lipschitz if self.gradient_std is None else self.gradient_std


@dataclass(frozen=True)
class Row:
    """One row of the table: choices, and the leading terms of the excess risk.

    alpha: the order of the paper's Renyi bound, None for other analyses. noise_std is
    that of one noisy step (of the one noisy step at the epoch end). privacy: the term
    that noise and initialisation balance to; dissimilarity_factor: what
    (C_n)^2/(n^2 beta) is multiplied with. rate: the privacy term as a formula.
    """

    schedule: Schedule
    placement: Placement
    proved: bool
    alpha: float | None
    noise_std: float
    learning_rate: float
    epochs: int
    privacy: float
    dissimilarity_factor: float
    rate: str


# -- noise for a guarantee ---------------------------------------------------------


def budget(epsilon: float, delta: float, analysis: Analysis | str) -> float:
    """The mu that the analysis turns (epsilon, delta) into: noise is in 1/mu.

    The paper's bound alpha R + log(1/delta)/(alpha - 1), R = mu^2/2, is least at
    alpha = 1 + sqrt(log(1/delta)/R) (PRIVACY.md 3, method A).
    """
    if _validate.choice(Analysis, analysis=analysis) is Analysis.PAPER:
        log = math.log(1 / delta)
        return math.sqrt(2) * epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return gaussian_mu(epsilon, delta)


def required_noise(
    setting: Setting,
    schedule: Schedule | str,
    epochs: int,
    *,
    placement: Placement | str = Placement.EVERY_STEP,
    analysis: Analysis | str = Analysis.COMPOSITION,
) -> float:
    """noise_std for (epsilon, delta) under replacement of one row, public facts only.

    For sizing and tables; a mechanism that runs is calibrated by `dpbraid.privacy`,
    which also checks the contraction that the analyses rest on.
    """
    schedule = _validate.choice(Schedule, schedule=schedule)
    placement = _validate.choice(Placement, placement=placement)
    analysis = _validate.choice(Analysis, analysis=analysis)
    uses = private_epochs(setting, schedule, epochs)
    if uses == 0:
        return 0.0
    mu = budget(setting.epsilon, setting.delta, analysis)
    # steps that share the cost of one use: those from the last private one on
    m = _shared_steps(setting, schedule)
    if placement is Placement.EPOCH_END:
        cost = float(uses)
    elif analysis is Analysis.HIDDEN_STATE:
        cost = (uses - 1) / setting.n + 1 / m
    else:
        cost = uses / m
    return 2 * setting.lipschitz * math.sqrt(cost) / mu


def private_epochs(setting: Setting, schedule: Schedule, epochs: int) -> int:
    """S = pK in Priv-Pub and Pub-Priv, K otherwise."""
    if schedule in (Schedule.PRIV_PUB, Schedule.PUB_PRIV):
        return nearest(setting.private_fraction * epochs)
    return epochs


def _shared_steps(setting: Setting, schedule: Schedule) -> int:
    if schedule is Schedule.INTERLEAVED:
        return setting.n + 1 - nearest(setting.private_fraction * setting.n)
    return 1


# -- the tables --------------------------------------------------------------------


def paper_table(setting: Setting) -> tuple[Row, ...]:
    """The paper's Table 1 with constants and logarithms as its appendix has them.

    NOT PROVED: see the module docstring. O(..) is read with constant 1; the units of
    G, L and |x_1 - x*| are the paper's (it treats them as constants).
    """
    return tuple(_paper_row(setting, schedule) for schedule in Schedule)


def _paper_row(setting: Setting, schedule: Schedule) -> Row:
    n, d = setting.n, setting.dimension
    p, m = setting.private_fraction, _shared_steps(setting, schedule)
    X = math.sqrt(d) / (setting.epsilon * math.sqrt(n))
    share, rate = 1.0, "(1/n)^(2/3) (sqrt(d)/eps)^(4/3)"
    if schedule is Schedule.INTERLEAVED:
        share, rate = 1 / m, "(1/(n [(1-p)n+1]))^(2/3) (sqrt(d)/eps)^(4/3)"
    elif schedule is not Schedule.DP:
        share, rate = p, "(p/n)^(2/3) (sqrt(d)/eps)^(4/3)"
    X *= math.sqrt(share)
    K = max(2, math.ceil(1 / X**2))  # n eps^2/d over the share
    noise = required_noise(setting, schedule, K, analysis=Analysis.PAPER)
    uses = private_epochs(setting, schedule, K)
    alpha = 1 + noise * math.sqrt(m * math.log(1 / setting.delta) / (2 * uses)) / (
        setting.lipschitz
    )
    eta = setting.distance ** (2 / 3) / (
        n * setting.smoothness * (K * (1 + math.log(K))) ** (1 / 3)
    )
    return Row(
        schedule=schedule,
        placement=Placement.EVERY_STEP,
        proved=False,
        alpha=alpha,
        noise_std=noise,
        learning_rate=eta,
        epochs=K,
        privacy=X ** (4 / 3),
        dissimilarity_factor=0.0 if schedule is Schedule.DP else 1.0,
        rate=rate,
    )


def proved_table(
    setting: Setting,
    placement: Placement | str = Placement.EVERY_STEP,
    analysis: Analysis | str = Analysis.COMPOSITION,
) -> tuple[Row, ...]:
    """The same table from the proved bound (docs/theory.md 4), for either placement.

    Logarithms are dropped, constants are kept: with V = per-epoch noise variance,
    D^2/(2 eta n K) + eta d V/n is least at eta = D/sqrt(2 d V K), where it is
    sqrt(2) D sqrt(d V/K)/n. V/K does not depend on K, so K only has to be large enough
    for the other terms.
    """
    placement = _validate.choice(Placement, placement=placement)
    analysis = _validate.choice(Analysis, analysis=analysis)
    if analysis is Analysis.HIDDEN_STATE:
        raise InvalidParameterError(
            "analysis must be 'paper' or 'composition' for the table: under "
            "'hidden_state' the noise is no power of K; use advise"
        )
    return tuple(
        _proved_row(setting, schedule, placement, analysis) for schedule in Schedule
    )


def _proved_row(
    setting: Setting, schedule: Schedule, placement: Placement, analysis: Analysis
) -> Row:
    n, d, D = setting.n, setting.dimension, setting.distance
    mu = budget(setting.epsilon, setting.delta, analysis)
    at_end = placement is Placement.EPOCH_END
    spread = 1 if at_end else n / _shared_steps(setting, schedule)
    share = 1.0
    if schedule in (Schedule.PRIV_PUB, Schedule.PUB_PRIV):
        share = setting.private_fraction
    per_epoch = (2 * setting.lipschitz / mu) ** 2 * spread * share  # V/K
    privacy = math.sqrt(2 * d * per_epoch) * D / n
    # eta n = reach/K: optimisation below the privacy term, geometric sum below 2
    reach = D * n / math.sqrt(2 * d * per_epoch)
    uncertainty = 5 * setting.sigma_any**2 * setting.smoothness
    K = max(2, math.ceil(reach * math.sqrt(uncertainty / privacy)))
    steepness = 2 * math.sqrt(10) * setting.smoothness * reach
    while steepness * math.sqrt(1 + math.log(K)) > K:
        K = math.ceil(steepness * math.sqrt(1 + math.log(K)))
    noise = required_noise(setting, schedule, K, placement=placement, analysis=analysis)
    alpha = None
    if analysis is Analysis.PAPER:
        alpha = 1 + math.sqrt(2 * math.log(1 / setting.delta)) / mu
    return Row(
        schedule=schedule,
        placement=placement,
        proved=True,
        alpha=alpha,
        noise_std=noise,
        learning_rate=reach / (n * K),
        epochs=K,
        privacy=privacy,
        dissimilarity_factor=0.0 if schedule is Schedule.DP else 1.0,
        rate=_rate(schedule, at_end),
    )


def _rate(schedule: Schedule, at_end: bool) -> str:
    if schedule in (Schedule.PRIV_PUB, Schedule.PUB_PRIV):
        return "sqrt(p d)/(n eps)" if at_end else "sqrt(p d/n)/eps"
    if schedule is Schedule.INTERLEAVED and not at_end:
        return "sqrt(d/(n [(1-p)n+1]))/eps"
    return "sqrt(d)/(n eps)" if at_end else "sqrt(d/n)/eps"
