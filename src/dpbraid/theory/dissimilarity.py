"""How far public rows lead away from the private ones: C_i of the paper.

Assumption "dissim_partial_lipschitzness": in an epoch with n_d private rows, for
i = n_d + t,

    C_i >= | sum_{j = n_d+1}^{i} grad f(x; d_{pi_j}) - sum_{j <= t} grad f(x; p_j) |

for every order pi and every x of the domain (docs/theory.md 1). An order puts any t
private rows there, so C_i is a maximum over subsets T of size t (over the one subset
that the table's order puts there, for IG). Its value depends on n_d through t alone.

Three numbers come back for each t: a certified upper bound, a sampled lower bound, and
a bound on the root mean square over a *fresh* uniform order (RR), which is what the
proof needs where the order is independent of the iterates, and far smaller.

Everything here reads private rows: no result is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.losses import Loss, MarginLoss, Mean, Squared
from dpbraid.rows import Rows

Array = NDArray[np.float64]

# Norms and eigenvalues in float64 are right to far better than this factor, sums of
# gradients to this share of the sum of their lengths: bounds move outwards by them.
_SLACK = 1 + 1e-9
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class NotPrivateDissimilarity:
    """C_{n_d + t} for t = 1..m public rows; read from private rows, NOT PRIVATE.

    upper: certified, over all orders (or the one of the table) and all x of the domain;
    lower: attained by a sampled order and x, so lower <= C <= upper;
    mean_square: certified bound on E |.|^2 over a fresh uniform order, for every x;
    last_mean: certified bound on |E(.)| over such an order at t = m, for every x;
    exact: for each t, whether upper is C itself; reason: how upper came about.
    """

    upper: Array
    lower: Array
    mean_square: Array
    last_mean: float
    exact: NDArray[np.bool_]
    reason: str

    @property
    def last(self) -> float:
        """C_n, the non-vanishing one: C_n^full where n_d = 0, else C_n^part."""
        return float(self.upper[-1]) if len(self.upper) else 0.0


def dissimilarity_not_private(
    loss: Loss,
    private: Rows,
    public: Rows | None,
    public_rows: int,
    *,
    public_start: int = 0,
    radius: float = math.inf,
    table_order: bool = False,
    samples: int = 8,
    seed: int = 0,
) -> NotPrivateDissimilarity:
    """C_i for an epoch of n - public_rows private and then public_rows public rows.

    radius: the domain is the ball |x| <= radius around 0; infinite for all of R^d.
    table_order: the private rows come in the order of the table (IG). samples: number
    of sampled directions, from `seed`, behind the lower bound; more never lowers it.
    The result is NOT PRIVATE.
    """
    n = len(private)
    if not 0 <= public_rows <= n:
        raise InvalidParameterError(
            f"public_rows must be an integer in [0, n={n}], got {public_rows!r}"
        )
    if public_rows == 0:
        none = np.zeros(0)
        exact = np.zeros(0, dtype=np.bool_)
        return NotPrivateDissimilarity(none, none, none, 0.0, exact, "no public row")
    if public is None or len(public) < public_start + public_rows:
        raise InvalidParameterError(
            f"public table must have >= {public_start + public_rows} rows"
        )
    stop = public_start + public_rows
    p = public.X[public_start:stop]
    py = None if public.y is None else public.y[public_start:stop]
    if isinstance(loss, Mean):
        upper, square, middle, exact, reason = _mean(private.X, p, table_order)
    elif isinstance(loss, MarginLoss):
        assert private.y is not None
        assert py is not None
        upper, square, middle, exact, reason = _margin(
            loss, private.X, private.y, p, py, radius, table_order
        )
    else:
        raise InvalidParameterError(f"loss must be Mean or a margin loss, got {loss!r}")
    lower = _sampled(loss, private, p, py, radius, table_order, samples, seed)
    return NotPrivateDissimilarity(
        upper * _SLACK, lower, square * _SLACK, middle * _SLACK, exact, reason
    )


# -- mean estimation: the gradients x - q differ by what does not depend on x ------


def _mean(
    Q: Array, P: Array, table_order: bool
) -> tuple[Array, Array, float, NDArray[np.bool_], str]:
    n, m = len(Q), len(P)
    t = np.arange(1, m + 1)
    sums = np.cumsum(P, axis=0)
    centre = Q.mean(axis=0)
    middle = np.linalg.norm(t[:, None] * centre - sums, axis=1)
    U = Q - centre
    # a uniform subset of t of n rows has covariance t(n-t)/(n-1) times that of the rows
    square = middle**2 + _spread(t, n, float(np.mean(np.sum(U**2, axis=1))))
    if m == n and _same_multiset(Q, P):
        middle[-1] = square[-1] = 0.0
    last_mean = float(middle[-1])
    if table_order:
        upper = np.linalg.norm(np.cumsum(Q[n - m :], axis=0) - sums, axis=1)
        every = np.ones(m, dtype=np.bool_)
        return upper, square, last_mean, every, "mean: independent of x, one order"
    if Q.shape[1] == 1:
        ordered = np.sort(Q[:, 0])
        low = np.cumsum(ordered)[:m] - sums[:, 0]
        high = np.cumsum(ordered[::-1])[:m] - sums[:, 0]
        upper = np.maximum(np.abs(low), np.abs(high))
        exact = np.ones(m, dtype=np.bool_)
        reason = "mean, d = 1: independent of x, extreme subsets"
    else:
        upper = middle + _subset_deviation(U, t)
        exact = t == n
        reason = "mean: independent of x, subsets by singular value or longest rows"
    if m == n:  # every order ends with all rows
        upper[-1] = last_mean
    return upper, square, last_mean, exact, reason


def _subset_deviation(U: Array, t: NDArray[np.int64]) -> Array:
    """Bound on max_{|T| = t} |sum_T u_i| for centred rows u_i.

    sum_T u = U'(1_T - t/n) and |1_T - t/n|^2 = t(n - t)/n; or the longest rows of T or
    of its complement.
    """
    n = len(U)
    longest = np.concatenate([[0.0], np.cumsum(-np.sort(-np.linalg.norm(U, axis=1)))])
    by_length = longest[np.minimum(t, n - t)]
    by_value = largest_singular_value(U) * np.sqrt(t * (n - t) / n)
    deviation: Array = np.minimum(by_length, by_value)
    return deviation


def _spread(t: NDArray[np.int64], n: int, variance: float) -> Array:
    """Mean square of a sum of t of n rows around its mean; variance may be infinite."""
    factor = t * (n - t) / max(n - 1, 1)
    spread: Array = np.multiply(
        factor, variance, out=np.zeros(len(t)), where=factor > 0
    )
    return spread


# -- margin losses: sums of slope(<x, a>, y) a -------------------------------------


def largest_slopes(loss: MarginLoss, X: Array, y: Array, radius: float) -> Array:
    """Sup of |phi'(<x, a>, y)| over |x| <= radius, row by row: phi' is monotone."""
    bound = math.inf if loss.slope_bound is None else loss.slope_bound
    norms = np.linalg.norm(X, axis=1)
    if math.isinf(radius):
        unbounded: Array = np.where(norms > 0, bound, 0.0)
        return unbounded
    reach = radius * norms
    ends = np.maximum(np.abs(loss.slope(reach, y)), np.abs(loss.slope(-reach, y)))
    limited: Array = np.minimum(ends, bound)
    return limited


def _margin(
    loss: MarginLoss,
    A: Array,
    y: Array,
    P: Array,
    py: Array,
    radius: float,
    table_order: bool,
) -> tuple[Array, Array, float, NDArray[np.bool_], str]:
    n, m = len(A), len(P)
    t = np.arange(1, m + 1)
    slopes = largest_slopes(loss, A, y, radius)
    sums = _Sums(loss, A, y, P, py, slopes, largest_slopes(loss, P, py, radius), radius)
    upper = np.minimum(sums.by_length(), sums.by_singular_value())
    reason = "slopes at their bound, longest rows or singular values"
    if math.isfinite(radius):
        upper = np.minimum(upper, sums.from_zero())
        reason += ", or value at 0 plus radius times curvature"
    lengths = slopes * np.linalg.norm(A, axis=1)
    variance = float(np.mean(lengths**2))
    middle = sums.middle()
    square = np.minimum(upper**2, middle**2 + _spread(t, n, variance))
    exact = np.zeros(m, dtype=np.bool_)
    fixed = m == n or table_order
    if fixed:
        last, exact[-1], how = _fixed_subset(loss, A, y, P, py, radius)
        upper[-1] = min(upper[-1], last)
        square[-1] = upper[-1] ** 2
        reason += f"; C_n: {how}"
    last_mean = min(float(middle[-1]), float(upper[-1]))
    if not fixed and isinstance(loss, Squared) and math.isfinite(radius):
        share = math.sqrt(m / n)  # the mean over orders: m/n of all private rows
        quadratic = quadratic_difference(share * A, share * y, P, py)
        last_mean = min(last_mean, quadratic.largest_on_ball(radius))
        square[-1] = min(square[-1], last_mean**2 + _spread(t, n, variance)[-1])
    return upper, square, last_mean, exact, reason


@dataclass(frozen=True, eq=False)
class _Sums:
    """Bounds on |sum_T s_i a_i - sum_{j<=t} s_j p_j| for every t at once."""

    loss: MarginLoss
    A: Array
    y: Array
    P: Array
    py: Array
    slopes: Array
    public_slopes: Array
    radius: float

    @cached_property
    def values(self) -> tuple[float, float]:
        """|A| and |P|."""
        return largest_singular_value(self.A), largest_singular_value(self.P)

    def by_length(self) -> Array:
        """Triangle inequality over rows, the longest t private ones."""
        mine = _largest_sums(self.slopes * np.linalg.norm(self.A, axis=1), len(self.P))
        theirs = np.cumsum(self.public_slopes * np.linalg.norm(self.P, axis=1))
        total: Array = mine + theirs
        return total

    def by_singular_value(self) -> Array:
        """|A_T' s_T| <= |A| |s_T|."""
        mine = np.sqrt(_largest_sums(self.slopes**2, len(self.P)))
        theirs = np.sqrt(np.cumsum(self.public_slopes**2))
        total: Array = self.values[0] * mine + self.values[1] * theirs
        return total

    def middle(self) -> Array:
        """Sup over x of |t/n sum_D g - sum_{j<=t} g_j|: the mean over subsets."""
        n, m = len(self.A), len(self.P)
        share = np.arange(1, m + 1) / n
        A, P = self.values
        crude: Array = share * A * np.linalg.norm(self.slopes) + P * np.sqrt(
            np.cumsum(self.public_slopes**2)
        )
        if math.isinf(self.radius):
            return crude
        at_zero = np.linalg.norm(self._middle_at_zero(), axis=1)
        curvature = self._psd_difference(share * A**2, P**2)
        smaller: Array = np.minimum(crude, at_zero + self.radius * curvature)
        return smaller

    def from_zero(self) -> Array:
        """Value at 0, plus radius times the Hessian of the difference."""
        m = len(self.P)
        t = np.arange(1, m + 1)
        G = _gradients_at_zero(self.loss, self.A, self.y)
        value = np.linalg.norm(self._middle_at_zero(), axis=1)
        value = value + _subset_deviation(G - G.mean(axis=0), t)
        largest = _largest_sums(np.sum(self.A**2, axis=1), m)
        mine = np.minimum(self.values[0] ** 2, largest)
        hessian = self._psd_difference(mine, self.values[1] ** 2)
        bound: Array = value + self.radius * hessian
        return bound

    def _middle_at_zero(self) -> Array:
        t = np.arange(1, len(self.P) + 1)[:, None]
        G = _gradients_at_zero(self.loss, self.A, self.y)
        sums = np.cumsum(_gradients_at_zero(self.loss, self.P, self.py), axis=0)
        middle: Array = t * G.mean(axis=0) - sums
        return middle

    def _psd_difference(self, mine: Array, theirs: float) -> Array:
        """|H - H'| <= max(|H|, |H'|) for positive semidefinite H, H'."""
        of_public = np.minimum(theirs, np.cumsum(np.sum(self.P**2, axis=1)))
        larger: Array = self.loss.curvature * np.maximum(mine, of_public)
        return larger


def _gradients_at_zero(loss: MarginLoss, X: Array, y: Array) -> Array:
    return loss.gradients(np.zeros(X.shape[1]), X, y, None)


def _largest_sums(values: Array, m: int) -> Array:
    sums: Array = np.cumsum(-np.sort(-values))[:m]
    return sums


def _fixed_subset(
    loss: MarginLoss, A: Array, y: Array, P: Array, py: Array, radius: float
) -> tuple[float, bool, str]:
    """C_n where the order leaves no choice: the last m rows against all public ones."""
    m = len(P)
    A, y, P, py = cancel_common_rows(A[len(A) - m :], y[len(y) - m :], P, py)
    if len(A) == 0:
        return 0.0, True, "0, the public rows are a permutation of the private ones"
    if isinstance(loss, Squared) and math.isfinite(radius):
        quadratic = quadratic_difference(A, y, P, py)
        return quadratic.largest_on_ball(radius), True, "quadratic on a ball"
    slopes = largest_slopes(loss, A, y, radius)
    public_slopes = largest_slopes(loss, P, py, radius)
    sums = _Sums(loss, A, y, P, py, slopes, public_slopes, radius)
    bound = min(float(sums.by_length()[-1]), float(sums.by_singular_value()[-1]))
    if math.isinf(radius):
        return bound, False, "slopes at their bound"
    zero = np.linalg.norm(
        _gradients_at_zero(loss, A, y).sum(axis=0)
        - _gradients_at_zero(loss, P, py).sum(axis=0)
    )
    larger = max(sums.values) ** 2
    from_zero = float(zero) + radius * loss.curvature * larger
    return min(bound, from_zero), False, "value at 0 plus radius times curvature"


# -- pieces shared with the smoothness of H ----------------------------------------


def cancel_common_rows(
    A: Array, y: Array, P: Array, py: Array
) -> tuple[Array, Array, Array, Array]:
    """Drop rows that stand in both tables, one for one: their gradients cancel."""
    waiting: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.column_stack([A, y])):
        waiting.setdefault(row.tobytes(), []).append(i)
    drop: list[int] = []
    keep: list[int] = []
    for j, row in enumerate(np.column_stack([P, py])):
        found = waiting.get(row.tobytes())
        if found:
            drop.append(found.pop())
        else:
            keep.append(j)
    rest = np.setdiff1d(np.arange(len(A)), drop)
    return A[rest], y[rest], P[keep], py[keep]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """sum_A grad - sum_P grad = H x - b of the squared loss, in H's own basis.

    values: the eigenvalues of H on the span of the rows; b: b in its eigenvectors.
    """

    values: Array
    b: Array

    @property
    def norm(self) -> float:
        """|H|, from above."""
        return float(np.abs(self.values).max(initial=0.0)) * _SLACK

    def largest_on_ball(self, radius: float) -> float:
        """Max of |H x - b| over |x| <= radius, from above, to 1e-9.

        Lagrangian dual of a trust-region problem: for every l > |H|^2 the value
        l r^2 + |b|^2 + b'H (l - H^2)^{-1} H b is above the squared maximum, and the
        least of them meets it.
        """
        squares = self.values**2
        weights = squares * self.b**2
        top = float(squares.max(initial=0.0))
        constant = float(self.b @ self.b)
        if top == 0:
            return math.sqrt(constant) * _SLACK

        def dual(log_excess: float) -> float:
            excess = math.exp(log_excess)
            gaps = (top - squares) + excess
            terms = np.divide(weights, gaps, out=np.zeros_like(gaps), where=weights > 0)
            return (top + excess) * radius**2 + constant + float(terms.sum())

        # convex in the excess over |H|^2: golden section on its logarithm is enough
        low, high = math.log(top) - 46.0, math.log(top) + 46.0
        shrink = (math.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - shrink * (high - low), low + shrink * (high - low)
            if dual(left) < dual(right):
                high = right
            else:
                low = left
        return math.sqrt(dual((low + high) / 2)) * _SLACK


def quadratic_difference(A: Array, y: Array, P: Array, py: Array) -> Quadratic:
    """The squared loss's difference of gradient sums, A's less P's."""
    rows = np.vstack([A, P])
    signs = np.concatenate([np.full(len(A), 2.0), np.full(len(P), -2.0)])
    labels = signs * np.concatenate([y, py])
    if rows.shape[0] < rows.shape[1]:
        # rows' = Q R: H and b in the basis Q of the rows' span
        rows = np.asarray(np.linalg.qr(rows.T, mode="r")).T
    values, vectors = np.linalg.eigh(rows.T @ (signs[:, None] * rows))
    return Quadratic(values, vectors.T @ (rows.T @ labels))


def largest_singular_value(X: Array) -> float:
    """|X|, from above; 0 for a table without rows."""
    gram = X @ X.T if X.shape[0] <= X.shape[1] else X.T @ X
    if gram.size == 0:
        return 0.0
    value = max(float(np.linalg.eigvalsh(gram)[-1]), 0.0)
    return math.sqrt(value) * _SLACK


def _same_multiset(Q: Array, P: Array) -> bool:
    zero = np.zeros(len(Q)), np.zeros(len(P))
    return len(cancel_common_rows(Q, zero[0], P, zero[1])[0]) == 0


# -- the lower bound ---------------------------------------------------------------


def _sampled(
    loss: Loss,
    private: Rows,
    P: Array,
    py: Array | None,
    radius: float,
    table_order: bool,
    samples: int,
    seed: int,
) -> Array:
    """Largest |sum| over sampled x and orders, for every t.

    A direction w orders the private rows by <w, gradient>: its first t rows are the
    subset that goes furthest along w. Both ends of the order are tried. At x = 0, w
    leads from the mean of the first 1, 2, 4, .. public gradients to that of all private
    ones; more public rows only add to these, so the bound for a t never falls in m.
    """
    m, d = len(P), private.dimension
    rng = np.random.default_rng(seed)
    best = np.zeros(m)
    reach = radius if math.isfinite(radius) else 10.0
    for sample in range(max(samples, 1)):
        x = np.zeros(d)
        if sample and not isinstance(loss, Mean):
            x = rng.standard_normal(d)
            x *= reach / np.linalg.norm(x)
        G = loss.gradients(x, private.X, private.y, None)
        towards = loss.gradients(x, P, py, None)
        sums = np.cumsum(towards, axis=0)
        lengths = np.cumsum(np.linalg.norm(towards, axis=1))
        if table_order:
            along = [np.arange(len(G) - m, len(G))]
        else:
            if sample:
                directions = G[[rng.integers(len(G))]]
            else:
                first = 2 ** np.arange(m.bit_length())
                directions = G.mean(axis=0) - sums[first - 1] / first[:, None]
            ranks = np.argsort(directions @ G.T, axis=1, kind="stable")
            along = [*ranks[:, :m], *ranks[:, ::-1][:, :m]]
        for rows in along:
            reached = np.linalg.norm(np.cumsum(G[rows], axis=0) - sums, axis=1)
            summed = lengths + np.cumsum(np.linalg.norm(G[rows], axis=1))
            best = np.maximum(best, reached - _ROUNDING * summed)
    return best
