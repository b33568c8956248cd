"""Which schedule, how many epochs, what learning rate: from public facts alone.

For every schedule that the public rows allow and both placements, the noise that the
guarantee asks for is put into the proved bound, which is then minimised over the number
of epochs and the learning rate. Nothing here reads a row, so asking is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.losses import Logistic
from dpbraid.mechanism import (
    Mechanism,
    Placement,
    alternating,
    dp,
    interleaved,
    nearest,
    priv_pub,
    pub_priv,
    public_only,
)
from dpbraid.penalties import Ball
from dpbraid.theory.bounds import Bound, best_learning_rate, convergence_bound
from dpbraid.theory.constants import LARGEST, Constants, facts
from dpbraid.theory.excess_risk import Analysis, Schedule, Setting, required_noise

SCHEDULES = ("dp", "interleaved", "priv_pub", "pub_priv", "alternating", "public_only")


@dataclass(frozen=True)
class Facts:
    """What the advice rests on; all of it public knowledge.

    setting: sizes, guarantee, constants, and the share p of private steps. radius: the
    penalty projects on |x| <= radius, so iterates and x* stay there. public_rows: how
    many there are. public_gap: a bound on the distance between the mean gradients of
    public and private rows, None if nothing is known about it. strong_convexity: of a
    penalty besides the ball; curvature_gap: like public_gap for mean Hessians.
    """

    setting: Setting
    radius: float
    public_rows: int = 0
    public_gap: float | None = None
    strong_convexity: float = 0.0
    curvature_gap: float | None = None

    def __post_init__(self) -> None:
        _validate.positive(radius=self.radius)
        _validate.integer(0, public_rows=self.public_rows)
        _validate.nonnegative(strong_convexity=self.strong_convexity)
        for name in ("public_gap", "curvature_gap"):
            value = getattr(self, name)
            if value is not None:
                _validate.nonnegative(**{name: value})


@dataclass(frozen=True)
class Candidate:
    """One schedule and placement at its best number of epochs and learning rate."""

    schedule: str
    placement: Placement
    epochs: int
    learning_rate: float
    noise_std: float
    bound: Bound


@dataclass(frozen=True)
class Advice:
    """The schedule with the least proved bound, and why.

    candidates: all that were compared, best first, the chosen one among them; where
    nothing is known about the public gap, those with public rows are as if it were 0.
    break_even_gap: the largest public_gap at which one of the candidates with public
    rows, as it is, is as good as the best without; None where there is no such
    candidate, 0 where none helps even without any gap.
    """

    schedule: str
    placement: Placement
    epochs: int
    learning_rate: float
    noise_std: float
    bound: Bound
    reason: str
    candidates: tuple[Candidate, ...]
    break_even_gap: float | None
    known: Facts

    def __str__(self) -> str:
        return (
            f"{self.schedule}, {_noise(self.placement, self.noise_std)}, "
            f"K = {self.epochs}, learning rate {self.learning_rate:.3g}: "
            f"excess risk <= {self.bound.total:.3g}\n{self.reason}"
        )


def advise(
    *,
    n: int,
    dimension: int,
    epsilon: float,
    delta: float,
    smoothness: float,
    lipschitz: float,
    radius: float,
    private_fraction: float = 0.5,
    public_rows: int = 0,
    public_gap: float | None = None,
    gradient_std: float | None = None,
    strong_convexity: float = 0.0,
    curvature_gap: float | None = None,
    placements: Sequence[Placement | str] = tuple(Placement),
    max_epochs: int = 256,
) -> Advice:
    """Which schedule and K the proved bound prefers; public facts only, no data.

    smoothness, lipschitz: L and G of every row's loss (`loss.smoothness(row_norm)`,
    clip_norm or `loss.lipschitz(row_norm)`). radius: parameters are projected on the
    ball of this radius around the start point 0. public_gap: see `Facts`; where it is
    None, only schedules without public rows are recommended, and break_even_gap tells
    how close public rows would have to be.
    """
    _validate.positive(radius=radius)
    _validate.in_range(0, LARGEST, radius=radius)
    setting = Setting(
        n=n,
        dimension=dimension,
        epsilon=epsilon,
        delta=delta,
        private_fraction=private_fraction,
        lipschitz=lipschitz,
        smoothness=smoothness,
        distance=radius,
        gradient_std=gradient_std,
    )
    known = Facts(
        setting, radius, public_rows, public_gap, strong_convexity, curvature_gap
    )
    _validate.integer(2, 4096, max_epochs=max_epochs)
    if not placements:
        raise InvalidParameterError("placements must name at least one placement")
    where = [_validate.choice(Placement, placements=p) for p in placements]
    assumed = known if public_gap is not None else replace(known, public_gap=0.0)
    every = [
        best_candidate(assumed, schedule, placement, max_epochs)
        for schedule in possible_schedules(known, max_epochs)
        for placement in (where if schedule != "public_only" else where[:1])
    ]
    every.sort(key=lambda c: c.bound.total)
    without = next(c for c in every if c.schedule == "dp")
    public = [c for c in every if c.schedule != "dp"]
    chosen = every[0] if public_gap is not None else without
    gaps = [break_even_gap(assumed, candidate, without) for candidate in public]
    gap = max(gaps, default=None)
    return Advice(
        schedule=chosen.schedule,
        placement=chosen.placement,
        epochs=chosen.epochs,
        learning_rate=chosen.learning_rate,
        noise_std=chosen.noise_std,
        bound=chosen.bound,
        reason=_reason(chosen, every, public_gap, gap, radius * lipschitz, max_epochs),
        candidates=tuple(every),
        break_even_gap=gap,
        known=known,
    )


def possible_schedules(known: Facts, max_epochs: int) -> tuple[str, ...]:
    """The schedules that the public rows and the share of private steps allow."""
    n, p = known.setting.n, known.setting.private_fraction
    possible = ["dp"]
    n_d = nearest(p * n)
    if 0 < n - n_d <= known.public_rows and n_d > 0:
        possible.append("interleaved")
    if known.public_rows >= n:
        if nearest(p * max_epochs) > 0:
            possible += ["priv_pub", "pub_priv", "alternating"]
        possible.append("public_only")
    return tuple(possible)


def planned_mechanism(
    known: Facts, schedule: str, epochs: int, learning_rate: float, placement: Placement
) -> Mechanism:
    """The schedule with the noise that the guarantee asks for.

    For the bound alone: what runs is calibrated by `dpbraid.privacy`.
    """
    setting = known.setting
    # the bound asks the loss nothing: smoothness and Lipschitz constant are facts
    common = {"loss": Logistic(), "penalty": Ball(known.radius)}
    if schedule == "public_only":
        return public_only(
            setting.n,
            epochs,
            learning_rate=learning_rate,
            **common,  # type: ignore[arg-type]
        )
    if placement is Placement.EPOCH_END:
        analysis = Analysis.COMPOSITION
    else:
        analysis = Analysis.HIDDEN_STATE
    like = Schedule.PRIV_PUB if schedule == "alternating" else Schedule(schedule)
    noise = required_noise(
        setting, like, epochs, placement=placement, analysis=analysis
    )
    options = {
        "learning_rate": learning_rate,
        "noise_std": noise,
        "placement": placement,
        **common,
    }
    if schedule == "dp":
        return dp(setting.n, epochs, **options)  # type: ignore[arg-type]
    make: dict[str, Callable[..., Mechanism]] = {
        "interleaved": interleaved,
        "priv_pub": priv_pub,
        "pub_priv": pub_priv,
        "alternating": alternating,
    }
    p = setting.private_fraction
    return make[schedule](setting.n, epochs, private_fraction=p, **options)


def known_constants(known: Facts, mechanism: Mechanism) -> Constants:
    """The constants of the theorem from the facts."""
    setting = known.setting
    return facts(
        mechanism,
        dimension=setting.dimension,
        smoothness=setting.smoothness,
        distance=setting.distance,
        gradient_std=setting.sigma_any,
        strong_convexity=known.strong_convexity,
        diameter=2 * known.radius,
        public_gap=known.public_gap or 0.0,
        curvature_gap=known.curvature_gap,
    )


def best_candidate(
    known: Facts, schedule: str, placement: Placement, max_epochs: int
) -> Candidate:
    """The least bound over a geometric grid of K and all learning rates."""
    grid = epoch_grid(max_epochs)
    if schedule in ("priv_pub", "pub_priv", "alternating"):
        p = known.setting.private_fraction
        grid = [K for K in grid if nearest(p * K) > 0]
    found = [_best_rate(known, schedule, placement, K) for K in grid]
    return min(found, key=lambda c: c.bound.total)


def epoch_grid(max_epochs: int) -> list[int]:
    """2, 3, 4, 6, 8, 12, .. up to max_epochs, and max_epochs itself."""
    powers = [2**j for j in range(1, max_epochs.bit_length())]
    grid = {max_epochs, *powers, *(3 * K // 2 for K in powers)}
    return sorted(K for K in grid if max_epochs >= K)


def _best_rate(known: Facts, schedule: str, placement: Placement, K: int) -> Candidate:
    planned = planned_mechanism(known, schedule, K, 1.0, placement)
    constants = known_constants(known, planned)
    rate = best_learning_rate(constants, planned)
    bound = convergence_bound(constants, planned, learning_rate=rate)
    noise = max(epoch.noise_std for epoch in planned.epochs)
    return Candidate(schedule, placement, K, rate, noise, bound)


def break_even_gap(known: Facts, public: Candidate, without: Candidate) -> float:
    """The public_gap where `public`, its K and rate kept, is as good as `without`."""
    mechanism = planned_mechanism(
        known, public.schedule, public.epochs, public.learning_rate, public.placement
    )

    def better(gap: float) -> bool:
        at = known_constants(replace(known, public_gap=gap), mechanism)
        return convergence_bound(at, mechanism).total < without.bound.total

    if not better(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while better(high) and high < 1e12:
        low, high = high, 2 * high
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if better(middle) else (low, middle)
    return low


def _reason(
    chosen: Candidate,
    every: list[Candidate],
    public_gap: float | None,
    gap: float | None,
    trivial: float,
    max_epochs: int,
) -> str:
    """Why, in one to three sentences."""
    terms = {
        "initialisation": chosen.bound.initialisation,
        "optimisation": chosen.bound.optimisation,
        "dissimilarity": chosen.bound.nonvanishing + chosen.bound.vanishing,
        "noise": chosen.bound.noise,
    }
    largest = sorted(terms, key=lambda name: -terms[name])[:2]
    plan = f"{chosen.schedule} with {_noise(chosen.placement, chosen.noise_std)}"
    text = (
        f"Of {len(every)} plans compared, {plan} has the least proved excess risk"
        if public_gap is not None
        else f"Without a bound on public_gap no public row is relied on; {plan} is the "
        "best of the plans without"
    )
    text += f" ({chosen.bound.total:.3g}; mostly {largest[0]} and {largest[1]})."
    if gap is not None:
        if gap == 0:
            text += (
                " Public rows would not help even if their mean gradient were equal."
            )
        else:
            text += f" Public rows pay off if their gap is below {gap:.3g}."
    if chosen.epochs == max_epochs:
        text += f" K is the largest allowed ({max_epochs}): more would lower the bound."
    if chosen.bound.total >= trivial:
        text += (
            f" The start point itself is within {trivial:.3g} of the optimum (radius "
            "times G), so the theory promises nothing at this size: more rows or a "
            "larger epsilon are needed."
        )
    return text


def _noise(placement: Placement, noise_std: float) -> str:
    return f"noise at {placement.value.replace('_', ' ')}" if noise_std else "no noise"
