"""The constants of a problem that the convergence theorem speaks of.

For private rows d_i, public rows p_j, F(x) = 1/n sum_i f(x; d_i), G = F + psi and its
minimiser x* (paper, appendix, Notation): L_i and their mean L, per epoch the mean and
the largest smoothness L-hat^(k), L-hat^(k)*, the smoothness L_H^(k) and the
dissimilarity C_i^(k) of H^(k) = G - G^(k), sigma_any^2 = 1/n sum_i |grad f_i(x*)|^2,
|x_1 - x*|^2 and mu_psi.

Two ways to them: `constants_not_private` measures them on the rows (research only: the
result is not private), `facts` takes public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.engine import inputs
from dpbraid.engine.objective import objective
from dpbraid.losses import Loss, MarginLoss, Mean, Squared
from dpbraid.mechanism import Epoch, Mechanism
from dpbraid.orders import Incremental, Reshuffle
from dpbraid.penalties import Ball, Box, NoPenalty, Penalty, Ridge
from dpbraid.rows import Rows
from dpbraid.starts import Given, Normal
from dpbraid.theory.dissimilarity import (
    cancel_common_rows,
    dissimilarity_not_private,
    largest_singular_value,
    quadratic_difference,
)

Array = NDArray[np.float64]

# Products of up to twelve such numbers are within the range of float64.
LARGEST = 1e25

PUBLIC_FACTS = "public facts"
NOT_PRIVATE = "private rows: NOT PRIVATE"


@dataclass(frozen=True)
class EpochConstants:
    """What one epoch adds to the theorem.

    smoothness: L-hat^(k), mean over the steps of the epoch; largest_smoothness:
    L-hat^(k)*; public_smoothness: 1/n times the sum of L over its public steps;
    difference_smoothness: L_H^(k), and difference_reason how it came about;
    dissimilarity: C_n^(k); dissimilarity_squares: 1/n sum_{i=n_d+1}^{n-1} (C_i^(k))^2.
    Where the order decides, each is the worst over orders, except that these two are
    root mean squares for an order drawn afresh in each epoch (docs/theory.md 1);
    worst_dissimilarity is C_n^(k) over all orders in any case. fresh_order: the order
    is independent of the point it is applied at, and mean_dissimilarity then bounds n
    times the gradient of the mean of H^(k) over orders.
    """

    smoothness: float
    largest_smoothness: float
    public_smoothness: float = 0.0
    difference_smoothness: float = 0.0
    difference_reason: str = "no public row"
    dissimilarity: float = 0.0
    dissimilarity_squares: float = 0.0
    worst_dissimilarity: float = 0.0
    mean_dissimilarity: float = 0.0
    fresh_order: bool = False

    @property
    def surrogate(self) -> bool:
        """Whether the epoch optimises another objective than G."""
        return self.dissimilarity > 0 or self.dissimilarity_squares > 0


@dataclass(frozen=True)
class Constants:
    """All constants of the theorem for one mechanism, epoch by epoch.

    smoothness: L, the mean of the L_i of the private rows; distance_squared:
    |x_1 - x*|^2; gradient_variance: sigma_any^2; strong_convexity: mu_psi; diameter:
    of the set that the penalty keeps every epoch's iterate in, where there is one;
    assumed_radius: a radius that the caller vouches for and nothing enforces.
    source says what the numbers were computed from.
    """

    n: int
    dimension: int
    smoothness: float
    distance_squared: float
    gradient_variance: float
    strong_convexity: float
    epochs: tuple[EpochConstants, ...]
    diameter: float | None = None
    assumed_radius: float | None = None
    minimum: float | None = None
    source: str = PUBLIC_FACTS

    @property
    def largest_mean_smoothness(self) -> float:
        """Max over epochs of L-hat^(k)."""
        return max(e.smoothness for e in self.epochs)

    @property
    def mean_smoothness(self) -> float:
        """L-bar*: the larger of L and the largest L-hat^(k)."""
        return max(self.smoothness, self.largest_mean_smoothness)

    @property
    def largest_smoothness(self) -> float:
        """Max over epochs of L-hat^(k)*."""
        return max(e.largest_smoothness for e in self.epochs)

    def runs(self) -> list[tuple[int, EpochConstants]]:
        """The epochs as (how often in a row, constants)."""
        return [(len(list(group)), at) for at, group in groupby(self.epochs)]


def constants_not_private(
    mechanism: Mechanism,
    private: Rows,
    public: Rows | None = None,
    *,
    start: Array | None = None,
    radius: float | None = None,
    minimiser: Array | None = None,
    samples: int = 1,
) -> Constants:
    """Measure every constant on the rows: research only, the result is NOT PRIVATE.

    start: the start point of a mechanism that starts at a given one. radius: a ball
    that the caller promises all epoch iterates and x* stay in, for losses whose
    dissimilarity is unbounded on R^d; the penalty's own set is used without asking.
    minimiser: x*, where the caller has it already.
    """
    inputs.check(mechanism, private, public)
    loss, penalty = mechanism.loss, mechanism.penalty
    _check_size(private, "private")
    if public is not None:
        _check_size(public, "public")
    own = domain_radius(penalty, private.dimension)
    if math.isfinite(own):
        _validate.in_range(0, LARGEST, radius=own)
    _validate.in_range(0, LARGEST, strong_convexity=penalty.strong_convexity)
    if radius is not None:
        _validate.positive(radius=radius)
        _validate.in_range(0, LARGEST, radius=radius)
    domain = min(own, math.inf if radius is None else radius)
    best = minimiser_not_private(loss, penalty, private) if minimiser is None else None
    x = best if minimiser is None else np.asarray(minimiser, dtype=np.float64)
    assert x is not None
    gradients = loss.gradients(x, private.X, private.y, None)
    smoothness = row_smoothness_not_private(loss, private.X)
    shared: dict[tuple[int, int, int], EpochConstants] = {}
    epochs = []
    for epoch in mechanism.epochs:
        kind = (epoch.private_rows, epoch.public_rows, epoch.public_start)
        if kind not in shared:
            shared[kind] = _epoch_constants(
                mechanism, epoch, private, public, smoothness, domain, samples
            )
        epochs.append(shared[kind])
    return Constants(
        n=len(private),
        dimension=private.dimension,
        smoothness=float(smoothness.mean()),
        distance_squared=_distance_squared(mechanism, x, start),
        gradient_variance=float(np.mean(np.sum(gradients**2, axis=1))),
        strong_convexity=penalty.strong_convexity,
        epochs=tuple(epochs),
        diameter=domain_diameter(penalty, private.dimension),
        assumed_radius=radius if radius is not None and radius < own else None,
        minimum=objective(loss, penalty, x, private),
        source=NOT_PRIVATE,
    )


def facts(
    mechanism: Mechanism,
    *,
    dimension: int,
    smoothness: float,
    distance: float,
    gradient_std: float,
    strong_convexity: float = 0.0,
    diameter: float | None = None,
    public_gap: float = 0.0,
    curvature_gap: float | None = None,
) -> Constants:
    """The constants from public facts alone; nothing here reads a private row.

    smoothness: L of every row, private or public; distance: |x_1 - x*|; gradient_std:
    a bound on the root mean square over a table of the rows' gradients, at x* and,
    where public rows are used, at every x of the domain (G does); public_gap: a bound,
    there too, on the distance of the mean gradient of the public rows of an epoch from
    that of all private rows; curvature_gap: the same for mean Hessians (left out:
    smoothness, which always holds). Public rows may come in any order (docs/theory.md
    1.3).
    """
    _validate.integer(1, dimension=dimension)
    _validate.positive(smoothness=smoothness)
    _validate.in_range(
        0,
        LARGEST,
        smoothness=smoothness,
        distance=distance,
        gradient_std=gradient_std,
        strong_convexity=strong_convexity,
        public_gap=public_gap,
        curvature_gap=smoothness if curvature_gap is None else curvature_gap,
    )
    curvature = smoothness if curvature_gap is None else curvature_gap
    fresh = isinstance(mechanism.order, Reshuffle)
    inside = mechanism.start.norm_bound(dimension) <= domain_radius(
        mechanism.penalty, dimension
    )
    shared = {
        m: _facts_of_epoch(
            mechanism.n,
            m,
            smoothness,
            gradient_std,
            public_gap,
            curvature,
            fresh=fresh,
            start_inside=inside,
        )
        for m in {epoch.public_rows for epoch in mechanism.epochs}
    }
    return Constants(
        n=mechanism.n,
        dimension=dimension,
        smoothness=smoothness,
        distance_squared=distance**2,
        gradient_variance=gradient_std**2,
        strong_convexity=strong_convexity,
        epochs=tuple(shared[epoch.public_rows] for epoch in mechanism.epochs),
        diameter=diameter,
    )


def _facts_of_epoch(
    n: int,
    m: int,
    smoothness: float,
    std: float,
    gap: float,
    curvature: float,
    *,
    fresh: bool,
    start_inside: bool,
) -> EpochConstants:
    """docs/theory.md 1.3: means t gap apart, and how far t rows stray from a mean.

    Sums over t < m by Minkowski: the root of a sum of squares is a norm.
    """
    if m == 0:
        return EpochConstants(smoothness, smoothness)
    squares = (m - 1) * m * (2 * m - 1) / 6  # sum of t^2

    def strays(rows: int) -> float:
        """Sum of t (rows - t): mean squares of t rows' distance from t means."""
        return rows * m * (m - 1) / 2 - squares

    # public rows whatever their order; t of n private rows
    middle = gap * math.sqrt(squares) + std * math.sqrt(strays(m))
    worst = m * gap + std * math.sqrt(m * (n - m))
    if fresh:
        vanishing = middle**2 + std**2 * strays(n) / max(n - 1, 1)
        last = math.hypot(m * gap, std * math.sqrt(m * (n - m) / max(n - 1, 1)))
    else:
        vanishing = (middle + std * math.sqrt(strays(n))) ** 2
        last = worst
    # a subset of m rows may miss the mean Hessian of all by all of L
    L_H = curvature if m == n else smoothness * m / n
    return EpochConstants(
        smoothness=smoothness,
        largest_smoothness=smoothness,
        public_smoothness=smoothness * m / n,
        difference_smoothness=L_H,
        difference_reason="public facts",
        dissimilarity=last,
        dissimilarity_squares=vanishing / n,
        worst_dissimilarity=worst,
        mean_dissimilarity=m * gap,
        fresh_order=fresh and start_inside,
    )


def _epoch_constants(
    mechanism: Mechanism,
    epoch: Epoch,
    private: Rows,
    public: Rows | None,
    smoothness: Array,
    radius: float,
    samples: int,
) -> EpochConstants:
    loss, n, n_d = mechanism.loss, len(private), epoch.private_rows
    table_order = isinstance(mechanism.order, Incremental)
    if table_order:
        mine = smoothness[:n_d]
    elif n_d == n:
        mine = smoothness
    else:  # any n_d rows: the smoothest last, their worst mean and maximum
        mine = -np.sort(-smoothness)[:n_d]
    if epoch.public_rows == 0:
        return EpochConstants(float(mine.sum()) / n, float(mine.max()))
    assert public is not None
    stop = epoch.public_start + epoch.public_rows
    P = public.X[epoch.public_start : stop]
    py = None if public.y is None else public.y[epoch.public_start : stop]
    theirs = row_smoothness_not_private(loss, P)
    C = dissimilarity_not_private(
        loss,
        private,
        public,
        epoch.public_rows,
        public_start=epoch.public_start,
        radius=radius,
        table_order=table_order,
        samples=samples,
    )
    # a fresh order is independent of the point it is applied at: mean squares do
    fresh = isinstance(mechanism.order, Reshuffle)
    squares = C.mean_square if fresh else C.upper**2
    L_H, reason = difference_smoothness_not_private(loss, private, P, py, table_order)
    return EpochConstants(
        smoothness=float(mine.sum() + theirs.sum()) / n,
        largest_smoothness=float(np.concatenate([mine, theirs]).max()),
        public_smoothness=float(theirs.sum()) / n,
        difference_smoothness=L_H,
        difference_reason=reason,
        dissimilarity=math.sqrt(squares[-1]),
        dissimilarity_squares=float(squares[:-1].sum()) / n,
        worst_dissimilarity=C.last,
        mean_dissimilarity=C.last_mean,
        fresh_order=fresh and mechanism.start.norm_bound(private.dimension) <= radius,
    )


def _check_size(rows: Rows, name: str) -> None:
    """Squares of squares must not leave the range of float64; names no value."""
    sizes = np.abs(rows.X).max(axis=1)
    if rows.y is not None:
        sizes = np.concatenate([sizes, np.abs(rows.y)])
    if np.any((sizes > LARGEST) | ((sizes > 0) & (sizes < 1 / LARGEST))):
        raise InvalidParameterError(
            f"rows and labels of the {name} table must be 0 or of a size in "
            f"[{1 / LARGEST:g}, {LARGEST:g}] for the bounds: scale the columns"
        )


def row_smoothness_not_private(loss: Loss, X: Array) -> Array:
    """L_i of each row (L-tilde_i of a public one), at its own norm: NOT PRIVATE."""
    norms = np.linalg.norm(X, axis=1)
    return np.array([loss.smoothness(float(norm)) for norm in norms])


def difference_smoothness_not_private(
    loss: Loss, private: Rows, P: Array, py: Array | None, table_order: bool
) -> tuple[float, str]:
    """L_H for m public rows, the worst over orders, and how it came about.

    Reads private rows: the result is NOT PRIVATE.
    """
    n, m = len(private), len(P)
    if isinstance(loss, Mean):
        return 0.0, "exact: all rows have the Hessian I"
    if not isinstance(loss, MarginLoss):
        raise InvalidParameterError(f"loss must be Mean or a margin loss, got {loss!r}")
    assert private.y is not None
    assert py is not None
    A, y = private.X, private.y
    if m == n or table_order:
        A, y, P, py = cancel_common_rows(A[n - m :], y[n - m :], P, py)
        if len(A) == 0:
            return 0.0, "exact: the public rows are a permutation of the private ones"
        if isinstance(loss, Squared):
            H = quadratic_difference(A, y, P, py)
            return H.norm / n, "exact: quadratic, the order leaves no choice"
    longest = float(np.sum(-np.sort(-np.sum(A**2, axis=1))[:m]))
    mine = min(largest_singular_value(A) ** 2, longest)
    theirs = largest_singular_value(P) ** 2
    bound = loss.curvature * max(mine, theirs) / n
    return bound, "upper bound: the larger of the two positive semidefinite Hessians"


def domain_radius(penalty: Penalty, dimension: int) -> float:
    """Radius around 0 of a ball that holds every value of the prox; may be infinite."""
    if isinstance(penalty, Ball):
        return penalty.radius
    if isinstance(penalty, Box):
        largest = max(abs(penalty.lower), abs(penalty.upper))
        return largest * math.sqrt(dimension)
    return math.inf


def domain_diameter(penalty: Penalty, dimension: int) -> float | None:
    """Diameter of the set that every prox lands in, where there is one."""
    if isinstance(penalty, Box):
        return (penalty.upper - penalty.lower) * math.sqrt(dimension)
    return penalty.diameter


def _distance_squared(mechanism: Mechanism, x: Array, start: Array | None) -> float:
    """|x_1 - x*|^2, its mean over a random start (the bound is linear in it)."""
    rule = mechanism.start
    if isinstance(rule, Normal):
        # cutting at 20 std only takes variance away
        return float(x @ x) + len(x) * rule.std**2
    if isinstance(rule, Given):
        point = rule.point(len(x), np.random.default_rng(0), start)
        return float(np.sum((point - x) ** 2))
    return float(x @ x)


# -- the minimiser -----------------------------------------------------------------


def minimiser_not_private(
    loss: Loss,
    penalty: Penalty,
    rows: Rows,
    *,
    tolerance: float = 1e-10,
    max_steps: int = 200_000,
) -> Array:
    """x* = argmin 1/n sum f + psi, shape (d,): NOT PRIVATE.

    Closed form where there is one, else accelerated proximal gradient with restarts
    until a step moves x by less than tolerance * (1 + |x|).
    """
    n = len(rows)
    if isinstance(loss, Mean):
        return penalty.prox(rows.X.mean(axis=0), 1.0)
    if isinstance(loss, Squared) and isinstance(penalty, NoPenalty | Ridge):
        assert rows.y is not None
        return _least_squares(rows.X, rows.y, n * penalty.strong_convexity / 2)
    if not isinstance(loss, MarginLoss):
        raise InvalidParameterError(f"loss must be Mean or a margin loss, got {loss!r}")
    smoothness = loss.curvature * largest_singular_value(rows.X) ** 2 / n
    if smoothness == 0:
        return penalty.prox(np.zeros(rows.dimension), 1.0)

    def step(x: Array) -> Array:
        gradient = loss.gradients(x, rows.X, rows.y, None).mean(axis=0)
        return penalty.prox(x - gradient / smoothness, 1 / smoothness)

    return _accelerated(step, rows.dimension, tolerance, max_steps)


def _least_squares(A: Array, y: Array, weight: float) -> Array:
    """Argmin |A x - y|^2 + weight |x|^2, by the smaller of the two Gram matrices."""
    n, d = A.shape
    if weight == 0:
        x = np.linalg.lstsq(A, y)[0]
    elif n < d:
        x = A.T @ np.linalg.solve(A @ A.T + weight * np.eye(n), y)
    else:
        x = np.linalg.solve(A.T @ A + weight * np.eye(d), A.T @ y)
    return np.asarray(x, np.float64)


def _accelerated(
    step: Callable[[Array], Array], dimension: int, tolerance: float, max_steps: int
) -> Array:
    """Nesterov's momentum around a proximal gradient step, restarted when it turns."""
    x = step(np.zeros(dimension))
    ahead, weight = x, 1.0
    for _ in range(max_steps):
        new = step(ahead)
        moved = new - ahead
        if np.linalg.norm(moved) <= tolerance * (1 + np.linalg.norm(new)):
            return new
        if moved @ (new - x) < 0:
            ahead, weight = new, 1.0
        else:
            following = (1 + math.sqrt(1 + 4 * weight**2)) / 2
            ahead = new + (weight - 1) / following * (new - x)
            weight = following
        x = new
    raise InvalidParameterError(
        f"no minimiser within {max_steps} steps: the objective may have none "
        "(separable labels without a penalty); add a penalty or raise max_steps"
    )
