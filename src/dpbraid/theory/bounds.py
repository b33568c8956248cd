"""Convergence bounds with explicit constants, term by term.

Theorem (docs/theory.md 2, the paper's thm:convergence_generalized_shufflg_fm_appendix
with its noise lemma repaired). For convex smooth rows, any convex penalty, any order,
S_s the bound on E G(x_1^(s+1)) - G(x*) after s epochs,

    S_s = |x_1 - x*|^2 / (2 eta n s)
          + c sum_{l=2}^{s} S_{l-1} / (s - l + 2) + sum_{k=1}^{s} e_k / (s + 1 - k),
    c   = 10 eta^2 n^2 L max_k L-hat^(k),
    e_k = 5 eta^2 n^2 sigma_any^2 L-hat^(k)                    optimisation uncertainty
        + (C_n^(k))^2 / (2 n^2 beta_k)                         non-vanishing dissim.
        + 5 eta^2 L-hat^(k)* / n sum_{i=n_d+1}^{n-1} (C_i^(k))^2   vanishing dissim.
        + noise_k,
    noise_k = d sigma_k^2 (eta / (1 + eta n mu_psi) + 5 eta^2 n L-hat^(k))  every step,
    noise_k = d w_k^2 (eta / (n (1 + eta n mu_psi))
                       + 5 eta^2 / n sum of public L)                       epoch end.

The paper's noise term, 6 eta^2 n d sigma^2 L-hat^(k)*, is wrong: its lemma noise_bias
drops the direct dependence -eta I, and exact runs exceed it (docs/theory.md 3). The
printed forms are kept for comparison and never count as theorems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.mechanism import Epoch, Mechanism, Placement
from dpbraid.orders import Incremental
from dpbraid.penalties import Ball, Box, Lasso
from dpbraid.theory.constants import LARGEST, Constants, EpochConstants

Array = NDArray[np.float64]

# The recursion takes a time that grows with the square of their number.
MOST_EPOCHS = 20_000

TERMS = ("initialisation", "optimisation", "nonvanishing", "vanishing", "noise")


class Form(StrEnum):
    """How the recursion over epochs is summed up; each form is above the one before.

    ITERATED: the recursion itself, number by number. THEOREM: its closed form, with
    M = max over s, as in the paper's theorem. COROLLARY: each sum over r epochs bounded
    by 1 + log r times its largest entry, as in the paper's corollaries (DP-ShuffleG,
    Priv-Pub, Pub-Priv, Interleaved, non-private: whichever the mechanism is).
    PRINTED_*: the paper's formulas with the paper's noise term: not proved.
    """

    ITERATED = "iterated"
    THEOREM = "theorem"
    COROLLARY = "corollary"
    PRINTED_THEOREM = "printed_theorem"
    PRINTED_COROLLARY = "printed_corollary"

    @property
    def printed(self) -> bool:
        """Whether the form carries the paper's noise term."""
        return self in (Form.PRINTED_THEOREM, Form.PRINTED_COROLLARY)


@dataclass(frozen=True)
class Condition:
    """One condition of the theorem, whether it holds, and the numbers behind it."""

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class Bound:
    """The bound on E G(x_1^(K+1)) - G(x*), term by term, with its conditions.

    additional: what the printed theorems for l1 and projection add (their offset
    terms), 0 in the proved forms. betas: beta_k of each epoch, infinite where none is
    needed. source: what the constants were computed from.
    """

    form: Form
    initialisation: float
    optimisation: float
    nonvanishing: float
    vanishing: float
    noise: float
    additional: float
    betas: tuple[float, ...]
    conditions: tuple[Condition, ...]
    source: str

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return self.additional + math.fsum(getattr(self, term) for term in TERMS)

    @property
    def is_theorem(self) -> bool:
        """Whether the total is a proved bound: all conditions hold."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failed(self) -> tuple[Condition, ...]:
        """The conditions that do not hold."""
        return tuple(c for c in self.conditions if not c.holds)

    def __str__(self) -> str:
        lines = [f"{name:15s} {getattr(self, name):.4g}" for name in TERMS]
        if self.additional:
            lines.append(f"{'additional':15s} {self.additional:.4g}")
        state = "proved" if self.is_theorem else "NOT proved"
        lines.append(f"{'total':15s} {self.total:.4g}  ({self.form.value}, {state})")
        lines += [f"fails: {c.name}: {c.detail}" for c in self.failed]
        return "\n".join(lines)


def convergence_bound(
    constants: Constants,
    mechanism: Mechanism,
    form: Form | str = Form.ITERATED,
    *,
    learning_rate: float | None = None,
    l1_offset: float | None = None,
) -> Bound:
    """The bound for the last iterate of `mechanism`.

    Raises InvalidParameterError for mechanisms that the theorem says nothing about:
    batches, epochs of other than n rows, learning rates that change. Every other
    condition is checked and reported in the result. learning_rate: in place of the
    mechanism's own. l1_offset: the B of the paper's assumption l1_offset, asked for by
    the printed forms under a Lasso alone.
    """
    form = _validate.choice(Form, form=form)
    own = common_learning_rate(mechanism)
    if learning_rate is None:
        learning_rate = own
    _validate.in_range(1 / LARGEST, LARGEST, learning_rate=learning_rate)
    if l1_offset is not None:
        _validate.in_range(0, LARGEST, l1_offset=l1_offset)
    _check_size(constants, mechanism)
    shares, betas = _epoch_terms(constants, mechanism, learning_rate, form)
    initial = constants.distance_squared / (2 * learning_rate * constants.n)
    growth = float(_growth(constants, learning_rate))
    extra = _printed_extra(constants, mechanism, learning_rate, form, l1_offset)
    additional = 0.0
    if form is Form.ITERATED:
        terms = _iterated(_direct(initial, shares), growth)[-1]
    else:
        corollary = form in (Form.COROLLARY, Form.PRINTED_COROLLARY)
        terms, additional = _closed(
            initial, shares, extra, growth, corollary, form.printed
        )
    conditions = _conditions(constants, mechanism, learning_rate, form, betas)
    return _bound(form, terms, additional, betas, conditions, constants.source)


def every_form(
    constants: Constants, mechanism: Mechanism, *, l1_offset: float | None = None
) -> tuple[Bound, ...]:
    """The bound in every form; without the printed ones where l1_offset is missing."""
    offset_missing = isinstance(mechanism.penalty, Lasso) and l1_offset is None
    return tuple(
        convergence_bound(constants, mechanism, form, l1_offset=l1_offset)
        for form in Form
        if not (form.printed and offset_missing)
    )


def bound_by_epoch(constants: Constants, mechanism: Mechanism) -> tuple[Bound, ...]:
    """The iterated bound after each epoch, s = 1..K, with the noise as it is."""
    learning_rate = common_learning_rate(mechanism)
    _check_size(constants, mechanism)
    form = Form.ITERATED
    shares, betas = _epoch_terms(constants, mechanism, learning_rate, form)
    initial = constants.distance_squared / (2 * learning_rate * constants.n)
    growth = _growth(constants, learning_rate)
    rows = _iterated(_direct(initial, shares), growth)
    conditions = _conditions(constants, mechanism, learning_rate, form, betas)
    return tuple(
        _bound(form, terms, 0.0, betas[:s], conditions, constants.source)
        for s, terms in enumerate(rows, start=1)
    )


def _bound(
    form: Form,
    terms: Array,
    additional: float,
    betas: tuple[float, ...],
    conditions: tuple[Condition, ...],
    source: str,
) -> Bound:
    named = {name: float(value) for name, value in zip(TERMS, terms, strict=True)}
    return Bound(
        form=form,
        additional=additional,
        betas=betas,
        conditions=conditions,
        source=source,
        **named,
    )


def largest_learning_rate(constants: Constants, form: Form | str, epochs: int) -> float:
    """The largest eta that the form allows.

    The proved forms need what the one-epoch lemma needs, 1/(n sqrt(10 L-hat L-hat*));
    the printed ones keep the geometric sum below 2 besides.
    """
    form = _validate.choice(Form, form=form)
    per_epoch = max(e.smoothness * e.largest_smoothness for e in constants.epochs)
    if per_epoch == 0:
        return math.inf
    if not form.printed:
        return 1 / (constants.n * math.sqrt(10 * per_epoch))
    mean = constants.mean_smoothness
    both = 10 * mean * constants.largest_smoothness * (1 + math.log(epochs))
    return 1 / (2 * constants.n * math.sqrt(both))


def best_learning_rate(constants: Constants, mechanism: Mechanism) -> float:
    """The allowed eta with the least iterated bound, to 2 %.

    A grid over six decades below the largest allowed one, then a finer grid between
    the neighbours of its best.
    """
    common_learning_rate(mechanism)
    _check_size(constants, mechanism)
    limit = largest_learning_rate(constants, Form.ITERATED, len(mechanism.epochs))
    if math.isinf(limit):
        raise InvalidParameterError(
            "learning_rate must be given: all rows have smoothness 0, any rate is "
            "allowed"
        )
    rates = np.minimum(limit * np.geomspace(1e-6, 1, 41), limit)
    chosen = limit
    for _ in range(2):
        totals = _iterated_totals(constants, mechanism, rates)
        if not np.any(np.isfinite(totals)):
            break
        best = int(np.argmin(totals))
        chosen = float(rates[best])
        low, high = rates[max(best - 1, 0)], rates[min(best + 1, len(rates) - 1)]
        rates = np.minimum(np.geomspace(low, high, 41), limit)
    return chosen


def _iterated_totals(constants: Constants, mechanism: Mechanism, rates: Array) -> Array:
    """The iterated bound at many learning rates at once."""
    betas = _betas(constants, Form.ITERATED)
    kinds, index = _kinds(constants, mechanism, betas)
    columns = []
    for rate in rates:
        terms = _terms_of_kinds(constants, kinds, float(rate), Form.ITERATED)
        initial = constants.distance_squared / (2 * rate * constants.n)
        columns.append(_direct(initial, terms.sum(axis=1)[index, None]).sum(axis=1))
    growths = _growth(constants, rates)
    totals: Array = _iterated(np.column_stack(columns), growths)[-1]
    return totals


def common_learning_rate(mechanism: Mechanism) -> float:
    """The one learning rate; refuses what the theorem says nothing about."""
    if mechanism.batch_size != 1:
        raise InvalidParameterError(
            "batch_size must be 1: the theorem treats single rows, got "
            f"{mechanism.batch_size}"
        )
    noise = max(epoch.noise_std for epoch in mechanism.epochs)
    _validate.in_range(0, LARGEST, noise_std=noise)
    rates = {epoch.learning_rate for epoch in mechanism.epochs}
    if len(rates) > 1:
        raise InvalidParameterError(
            f"learning_rate must be the same in all epochs, got {sorted(rates)}"
        )
    for k, epoch in enumerate(mechanism.epochs, start=1):
        if epoch.rows != mechanism.n:
            raise InvalidParameterError(
                f"private_rows + public_rows must be n={mechanism.n} in every epoch, "
                f"got {epoch.rows} in epoch {k}"
            )
    return rates.pop()


def _check_size(constants: Constants, mechanism: Mechanism) -> None:
    if constants.n != mechanism.n or len(constants.epochs) != len(mechanism.epochs):
        raise InvalidParameterError(
            f"constants are for n={constants.n} and {len(constants.epochs)} epochs, "
            f"got a mechanism with n={mechanism.n} and {len(mechanism.epochs)} epochs"
        )
    if len(mechanism.epochs) > MOST_EPOCHS:
        raise InvalidParameterError(
            f"bounds are for at most {MOST_EPOCHS} epochs, got {len(mechanism.epochs)}"
        )


# -- one epoch ---------------------------------------------------------------------


_Kind = tuple[Epoch, EpochConstants, float]


def _epoch_terms(
    constants: Constants, mechanism: Mechanism, eta: float, form: Form
) -> tuple[Array, tuple[float, ...]]:
    """e_k split into the last four TERMS, shape (K, 4), and beta_k."""
    betas = _betas(constants, form)
    kinds, index = _kinds(constants, mechanism, betas)
    return _terms_of_kinds(constants, kinds, eta, form)[index], betas


def _kinds(
    constants: Constants, mechanism: Mechanism, betas: tuple[float, ...]
) -> tuple[list[_Kind], NDArray[np.int64]]:
    """The different epochs, and which of them each epoch is."""
    # equal constants are mostly one object: no hashing of many numbers
    numbers: dict[tuple[Epoch, int, float], int] = {}
    kinds: list[_Kind] = []
    index = []
    for epoch, at, beta in zip(mechanism.epochs, constants.epochs, betas, strict=True):
        number = numbers.setdefault((epoch, id(at), beta), len(kinds))
        if number == len(kinds):
            kinds.append((epoch, at, beta))
        index.append(number)
    return kinds, np.array(index)


def _terms_of_kinds(
    constants: Constants, kinds: list[_Kind], eta: float, form: Form
) -> Array:
    noise = printed_noise if form.printed else proved_noise
    n = constants.n
    return np.array(
        [
            [
                5 * eta**2 * n**2 * constants.gradient_variance * at.smoothness,
                _nonvanishing(constants, at, beta, form, eta),
                5 * eta**2 * at.largest_smoothness * at.dissimilarity_squares,
                noise(constants, at, epoch, eta),
            ]
            for epoch, at, beta in kinds
        ]
    )


def _betas(constants: Constants, form: Form) -> tuple[float, ...]:
    """The largest beta_k with mu_psi >= L_H^(k) + beta_k: the term falls in beta.

    The proof takes a beta of its own in each epoch; the printed theorem has one.
    """
    mu = constants.strong_convexity
    free = [
        mu - e.difference_smoothness if e.dissimilarity > 0 else math.inf
        for e in constants.epochs
    ]
    if form.printed:
        least = min(free)
        return tuple(least if math.isfinite(b) else math.inf for b in free)
    return tuple(free)


def _nonvanishing(
    constants: Constants, at: EpochConstants, beta: float, form: Form, eta: float
) -> float:
    """(C_n)^2/(2 n^2 beta), or by the diameter of a set that holds all iterates.

    The least of what docs/theory.md 2.5 proves: with beta; the largest |grad H| of the
    set times its diameter; |grad H(z)| times the diameter with L_H for the rest; and,
    for an order drawn afresh, the mean H alone plus a part that vanishes with eta.
    """
    if at.dissimilarity == 0:
        return 0.0
    n = constants.n
    C, worst = at.dissimilarity / n, at.worst_dissimilarity / n
    by_beta = C**2 / (2 * beta) if beta > 0 else math.inf
    diameter = _diameter(constants)
    if form.printed or diameter is None:
        return by_beta
    least = min(
        by_beta,
        worst * diameter,
        C * diameter + at.difference_smoothness * diameter**2 / 2,
    )
    slack = 1 / (2 * n * eta) - at.smoothness - at.difference_smoothness / 2
    if at.fresh_order and slack > 0:
        reach = max(diameter, math.sqrt(constants.distance_squared))
        mean = at.mean_dissimilarity / n * reach
        least = min(least, mean + C**2 / (4 * slack))
    return least


def _diameter(constants: Constants) -> float | None:
    if constants.assumed_radius is not None:
        return 2 * constants.assumed_radius
    return constants.diameter


def proved_noise(
    constants: Constants, at: EpochConstants, epoch: Epoch, eta: float
) -> float:
    """noise_k (docs/theory.md 2.3 every step, 2.4 epoch end)."""
    n = constants.n
    direct = eta / (1 + eta * n * constants.strong_convexity)
    variance = constants.dimension * epoch.noise_std**2
    if epoch.placement is Placement.EPOCH_END:
        return variance * (direct / n + 5 * eta**2 * at.public_smoothness)
    return variance * (direct + 5 * eta**2 * n * at.smoothness)


def printed_noise(
    constants: Constants, at: EpochConstants, epoch: Epoch, eta: float
) -> float:
    """6 eta^2 n d sigma^2 L-hat^(k)* (paper, lemma expected_one_epoch_convergence).

    At the epoch end the same with w^2 for n sigma^2: what the printed proof would give.
    """
    rows = 1 if epoch.placement is Placement.EPOCH_END else constants.n
    variance = rows * epoch.noise_std**2
    return 6 * eta**2 * constants.dimension * variance * at.largest_smoothness


def _printed_extra(
    constants: Constants,
    mechanism: Mechanism,
    eta: float,
    form: Form,
    l1_offset: float | None,
) -> Array:
    """What thm:convergence_l1 and thm:convergence_proj add to e_k.

    At the epoch end with w^2 for n sigma^2, as in `printed_noise`.
    """
    extra = np.zeros(len(mechanism.epochs))
    if not form.printed:
        return extra
    if isinstance(mechanism.penalty, Lasso) and l1_offset is None:
        raise InvalidParameterError(
            "l1_offset must be given for the printed forms under a Lasso (the B of the "
            "paper's assumption); the proved forms need none"
        )
    for k, (epoch, at) in enumerate(
        zip(mechanism.epochs, constants.epochs, strict=True)
    ):
        variance = constants.dimension * epoch.noise_std**2
        if epoch.placement is Placement.EPOCH_END:
            variance /= constants.n
        if isinstance(mechanism.penalty, Lasso):
            assert l1_offset is not None
            extra[k] = 2 * variance * l1_offset / math.sqrt(2 * math.pi)
        elif isinstance(mechanism.penalty, Ball | Box):
            extra[k] = variance / 2 + 5 * eta**2 * at.dissimilarity**2
    return extra


# -- over epochs -------------------------------------------------------------------


def _growth(constants: Constants, eta: float | Array) -> Array:
    """C = 10 eta^2 n^2 L max_k L-hat^(k) (lemma bregmandiv_relationship)."""
    mean = constants.largest_mean_smoothness
    return np.asarray(10 * constants.n**2 * constants.smoothness * mean * eta**2)


def _direct(initial: float, shares: Array) -> Array:
    """initial / s, then sum_{k<=s} e_k/(s+1-k) for each column e of shares, s = 1..K.

    Shape (K, 1 + columns of shares).
    """
    K = len(shares)
    inverse = 1 / np.arange(1, K + 1)
    sums = [np.convolve(column, inverse)[:K] for column in shares.T]
    return np.column_stack([initial * inverse, *sums])


def _iterated(direct: Array, growth: Array | float) -> Array:
    """S_s of the module docstring, s = 1..K, for each column of its direct part.

    growth: c, for all columns or one a column.
    """
    S = direct.copy()
    weights = 1 / np.arange(1, len(S) + 1)
    with np.errstate(over="ignore"):  # far above the largest learning rate
        for s in range(2, len(S) + 1 if np.any(growth) else 2):
            # sum_{l=2}^{s} S_{l-1}/(s-l+2): weights 1/s, .., 1/2
            S[s - 1] += growth * (weights[1:s][::-1] @ S[: s - 1])
    return S


def _closed(
    initial: float,
    shares: Array,
    extra: Array,
    growth: float,
    corollary: bool,
    printed: bool,
) -> tuple[Array, float]:
    """Lemma bregmandiv_relationship: (a/K + b (1 + log K) + M) sum_i q^i."""
    K = len(shares)
    log = 1 + math.log(K)
    amplification = 2.0 if printed else _geometric(2 * growth * log, K)
    optimisation = log * float(shares[:, 0].max())
    e = np.column_stack([shares[:, 1:], extra])
    if corollary:
        used = np.count_nonzero(e, axis=0)
        M = e.max(axis=0) * (1 + np.log(np.maximum(used, 1)))
    else:
        M = _largest_sum(e)
    sums = np.array([initial / K, optimisation, *M])
    # the geometric sum may be infinite where a term is 0
    parts = np.multiply(sums, amplification, out=np.zeros_like(sums), where=sums > 0)
    return parts[:-1], float(parts[-1])


def _geometric(q: float, K: int) -> float:
    """sum_{i=0}^{K-1} q^i, infinite where it overflows."""
    if q < 1:
        return (1 - q**K) / (1 - q)
    try:
        return float(K) if q == 1 else (q**K - 1) / (q - 1)
    except OverflowError:
        return math.inf


def _largest_sum(e: Array) -> Array:
    """The split of M = max_s sum_{k<=s} e_k/(s+1-k) at the s that attains it."""
    K = len(e)
    weights = 1 / np.arange(1, K + 1)
    sums = np.column_stack([np.convolve(column, weights)[:K] for column in e.T])
    best: Array = sums[int(np.argmax(sums.sum(axis=1)))]
    return best


# -- conditions --------------------------------------------------------------------


def _conditions(
    constants: Constants,
    mechanism: Mechanism,
    eta: float,
    form: Form,
    betas: tuple[float, ...],
) -> tuple[Condition, ...]:
    limit = largest_learning_rate(constants, form, len(mechanism.epochs))
    if form.printed and isinstance(mechanism.penalty, Ball | Box):
        limit = _projection_learning_rate(constants, len(mechanism.epochs))
    found = [
        Condition(
            "learning rate",
            eta <= limit * (1 + 1e-12),
            f"learning_rate {eta:.4g}, largest allowed {limit:.4g}",
        ),
        _domain(constants, mechanism),
        _convexity(constants, betas, form),
        _clipping(mechanism),
        _public_order(mechanism),
    ]
    if form.printed:
        found.append(
            Condition(
                "noise lemma",
                all(epoch.noise_std == 0 for epoch in mechanism.epochs),
                "the printed noise term drops the direct dependence of the last iterate"
                " on the noise (docs/theory.md 3): not a bound where there is noise",
            )
        )
    return tuple(found)


def _projection_learning_rate(constants: Constants, epochs: int) -> float:
    """thm:convergence_proj: L-bar* is one larger."""
    mean = constants.mean_smoothness + 1
    both = 10 * mean * constants.largest_smoothness * (1 + math.log(epochs))
    return 1 / (2 * constants.n * math.sqrt(both))


def _domain(constants: Constants, mechanism: Mechanism) -> Condition:
    """Every point of the proof lies where the dissimilarity was bounded."""
    surrogate = [e for e in constants.epochs if e.surrogate]
    if not surrogate:
        return Condition("domain", True, "no dissimilarity")
    if any(math.isinf(e.dissimilarity + e.dissimilarity_squares) for e in surrogate):
        return Condition(
            "domain",
            False,
            "the dissimilarity is unbounded on R^d for this loss: use a Ball or Box "
            "penalty, or pass a radius to get a bound that rests on it",
        )
    if constants.assumed_radius is not None:
        return Condition(
            "domain",
            False,
            f"rests on the caller's word that iterates stay within radius "
            f"{constants.assumed_radius:.4g}; Gaussian noise can leave every ball",
        )
    return Condition("domain", True, "dissimilarity bounded on the whole domain")


def _convexity(constants: Constants, betas: tuple[float, ...], form: Form) -> Condition:
    """mu_psi >= L_H^(k) + beta_k with beta_k > 0, or a bounded domain instead."""
    name = "strong convexity"
    finite = [beta for beta in betas if math.isfinite(beta)]
    largest = max(e.difference_smoothness for e in constants.epochs)
    detail = f"mu_psi {constants.strong_convexity:.4g}, largest L_H {largest:.4g}"
    if not finite:
        return Condition(name, True, detail + ", no non-vanishing dissimilarity")
    if min(finite) > 0:
        return Condition(name, True, detail + f", least beta {min(finite):.4g}")
    diameter = _diameter(constants)
    if diameter is not None and not form.printed:
        return Condition(
            name, True, detail + f"; not needed on a domain of diameter {diameter:.4g}"
        )
    return Condition(name, False, detail + ": mu_psi must exceed L_H")


def _clipping(mechanism: Mechanism) -> Condition:
    name = "clipping"
    if mechanism.clip_norm is None:
        return Condition(name, True, "no clipping")
    bound = None
    if mechanism.row_norm is not None and mechanism.public_bound is not None:
        largest = max(mechanism.row_norm, mechanism.public_bound)
        bound = mechanism.loss.lipschitz(largest)
    if bound is not None and bound <= mechanism.clip_norm:
        return Condition(name, True, "never active: gradients are within clip_norm")
    return Condition(
        name,
        False,
        f"gradients may exceed clip_norm {mechanism.clip_norm:.4g}; the theorem is "
        "about unclipped ones",
    )


def _public_order(mechanism: Mechanism) -> Condition:
    fixed = isinstance(mechanism.public_order, Incremental)
    unused = all(epoch.public_rows == 0 for epoch in mechanism.epochs)
    return Condition(
        "public order",
        fixed or unused,
        "public rows in the order of their table"
        if fixed or unused
        else "C_i was bounded for the order of the public table, another one is drawn",
    )
