"""The non-private optimum G* of an objective, with a bound on what is missing to it.

G(x) = f(x) + psi(x) with f the mean loss. Nothing here is private.

The bound holds for every convex f and psi, whatever solver found x. Let g be the
gradient of f at x. For all z, ``f(z) >= f(x) + <g, z - x>``, hence

    G(x) - G* <= psi(x) + <g, x> + psi*(-g) =: gap

with psi* the convex conjugate of psi (for margin losses this is the duality gap at the
dual point of x). Each term of the sum over coordinates is >= 0 by Fenchel and Young.
The lasso's conjugate is infinite outside of its dual ball; as losses are >= 0, every
minimiser has |z|_1 <= G(x) / weight, and psi restricted to that ball has the conjugate
``max(0, |v|_inf - weight) * radius``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.engine.objective import objective
from dpbraid.losses import Loss, MarginLoss, Mean, Squared
from dpbraid.paper.tasks import Task
from dpbraid.penalties import (
    Ball,
    Box,
    ElasticNet,
    Lasso,
    NoPenalty,
    Penalty,
    Ridge,
)
from dpbraid.rows import Rows

Array = NDArray[np.float64]


class NotConvergedError(RuntimeError):
    """The solver stopped above the gap that was asked for."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """x: (d,), value = G(x), and gap >= G(x) - G*, up to rounding of the gap itself.

    residual: of the KKT conditions, the length of ``x - prox(x - g)``, which is 0 at a
    minimiser and nowhere else.
    """

    x: Array
    value: float
    gap: float
    residual: float


@dataclass(frozen=True, eq=False)
class Reference:
    """What every table of results is read against, all of it on the private rows.

    optimum: G* of the private rows; public: the optimum of the public rows; zero_value
    and public_value: G at the zero vector and at the public solution.
    """

    optimum: Optimum
    public: Optimum
    zero_value: float
    public_value: float


def reference(task: Task, *, tolerance: float = 1e-10) -> Reference:
    """The optimum of a task, and the two points that cost no privacy."""
    optimum, public = (
        solve(task.loss, task.penalty, rows, tolerance=tolerance)
        for rows in (task.private, task.public)
    )
    zero_value, public_value = (
        objective(task.loss, task.penalty, x, task.private)
        for x in (np.zeros(task.dimension), public.x)
    )
    return Reference(optimum, public, zero_value, public_value)


def solve(
    loss: Loss,
    penalty: Penalty,
    rows: Rows,
    *,
    tolerance: float = 1e-10,
) -> Optimum:
    """The minimiser of G over the rows, with gap <= tolerance or NotConvergedError.

    Closed forms for the mean under every penalty and for ridge regression; active-set
    Newton steps for lasso, elastic net and ridge; proximal gradient steps for sets.
    """
    _validate.positive(tolerance=tolerance)
    if isinstance(loss, Mean):
        found = _optimum(loss, penalty, rows, penalty.prox(rows.X.mean(axis=0), 1.0))
    elif isinstance(loss, Squared) and isinstance(penalty, Ridge):
        found = _optimum(loss, penalty, rows, _ridge(penalty.weight, rows))
    elif isinstance(loss, MarginLoss) and isinstance(penalty, Ball | Box):
        found = _accelerated(loss, penalty, rows, tolerance)
    elif isinstance(loss, MarginLoss):
        l1, l2 = _weights(penalty)
        found = _newton(loss, l1, l2, penalty, rows, tolerance)
    else:
        raise InvalidParameterError(f"loss {loss.kind!r} has no solver")
    if not found.gap <= tolerance:
        raise NotConvergedError(
            f"the {loss.kind} loss with {penalty!r} stopped at gap {found.gap:.3g}, "
            f"above tolerance {tolerance:g}"
        )
    return found


def gap(loss: Loss, penalty: Penalty, x: Array, rows: Rows) -> float:
    """A bound on G(x) - G* (see the module)."""
    return max(0.0, _gap(loss, penalty, x, rows))


def kkt_residual(loss: Loss, penalty: Penalty, x: Array, rows: Rows) -> float:
    """Length of the proximal gradient step of size 1 from x."""
    step = x - penalty.prox(x - gradient(loss, x, rows), 1.0)
    return float(np.linalg.norm(step))


def _gap(loss: Loss, penalty: Penalty, x: Array, rows: Rows) -> float:
    g = gradient(loss, x, rows)
    if isinstance(penalty, Ridge):
        return float(np.sum((penalty.weight * x + g) ** 2)) / (2 * penalty.weight)
    if isinstance(penalty, Lasso):
        w = penalty.weight
        radius = objective(loss, penalty, x, rows) / w
        outside = max(0.0, float(np.max(np.abs(g))) - w)
        return float(np.sum(w * np.abs(x) + g * x)) + radius * outside
    if isinstance(penalty, ElasticNet):
        excess = np.maximum(np.abs(g) - penalty.l1, 0.0)
        terms = penalty.l1 * np.abs(x) + penalty.l2 / 2 * x**2 + g * x
        return float(np.sum(terms + excess**2 / (2 * penalty.l2)))
    if isinstance(penalty, Ball):
        return float(g @ x) + penalty.radius * float(np.linalg.norm(g))
    if isinstance(penalty, Box):
        return float(np.sum(g * x + np.maximum(-g * penalty.lower, -g * penalty.upper)))
    if isinstance(penalty, NoPenalty) and isinstance(loss, Mean):
        return float(g @ g) / 2  # f is 1-strongly convex
    raise InvalidParameterError(
        f"penalty {penalty.kind!r} gives no bound on the gap with the loss "
        f"{loss.kind!r}: the minimum need not exist"
    )


def gradient(loss: Loss, x: Array, rows: Rows) -> Array:
    """Gradient of the mean loss, not clipped, shape (d,)."""
    if isinstance(loss, MarginLoss) and rows.y is not None:
        slopes = loss.slope(rows.X @ x, rows.y)
        mean: Array = rows.X.T @ slopes / len(rows)
        return mean
    total: Array = loss.gradients(x, rows.X, rows.y, None).mean(axis=0)
    return total


def _optimum(loss: Loss, penalty: Penalty, rows: Rows, x: Array) -> Optimum:
    return Optimum(
        x,
        value=objective(loss, penalty, x, rows),
        gap=gap(loss, penalty, x, rows),
        residual=kkt_residual(loss, penalty, x, rows),
    )


def _weights(penalty: Penalty) -> tuple[float, float]:
    """(l1, l2) with psi = l1 |x|_1 + l2/2 |x|^2."""
    if isinstance(penalty, Lasso):
        return penalty.weight, 0.0
    if isinstance(penalty, ElasticNet):
        return penalty.l1, penalty.l2
    if isinstance(penalty, Ridge):
        return 0.0, penalty.weight
    raise InvalidParameterError(
        f"penalty {penalty.kind!r} has no solver: the minimum need not exist"
    )


def _ridge(weight: float, rows: Rows) -> Array:
    """Zero of 2/n X^T (X x - y) + weight x, through the smaller of the two systems."""
    X, y = rows.X, rows.y
    if y is None:
        raise InvalidParameterError("y is missing: ridge regression needs labels")
    n, d = X.shape
    wide = d > n
    gram = X @ X.T if wide else X.T @ X
    system = 2 / n * gram
    system[np.diag_indices_from(system)] += weight
    factor = scipy.linalg.cho_factor(system)
    x = np.zeros(d)
    for _ in range(3):  # the second and third time refine
        residual = -(2 / n) * (X.T @ (X @ x - y)) - weight * x
        if wide:  # (2/n X^T X + w)^-1 r = (r - 2/n X^T (2/n X X^T + w)^-1 X r) / w
            inner = scipy.linalg.cho_solve(factor, X @ residual)
            x = x + (residual - 2 / n * (X.T @ inner)) / weight
        else:
            x = x + scipy.linalg.cho_solve(factor, residual)
    return x


def _newton(
    loss: MarginLoss, l1: float, l2: float, penalty: Penalty, rows: Rows, limit: float
) -> Optimum:
    """Newton steps on an active set of coordinates, for psi = l1 |x|_1 + l2/2 |x|^2.

    The signs of the active coordinates are held in a step (Lee et al., 2006, feature
    sign search): it ends at the best of the points where one of them would change and
    of the shortened full steps. The inactive coordinate that most wants to leave zero
    joins where its need is greater than what is left on the active ones. Where no
    point is better, one proximal gradient step is.
    """
    assert rows.y is not None
    n, d = rows.X.shape
    curvature = loss.curvature * float(np.mean(rows.X**2)) or 1.0
    x = np.zeros(d)
    signs = np.zeros(d)
    active = np.full(d, l1 == 0)
    best = _optimum(loss, penalty, rows, x)
    for _ in range(200 + 20 * d):
        g = gradient(loss, x, rows)
        pull = np.where(active, g + l1 * signs + l2 * x, 0.0)
        need = np.where(active, 0.0, np.abs(g) - l1)
        joins = int(np.argmax(need))
        if need[joins] > np.max(np.abs(pull)):
            active[joins], signs[joins] = True, -np.sign(g[joins])
            pull[joins] = g[joins] + l1 * signs[joins]
        A = rows.X[:, active]
        hessian = (A.T * _curvatures(loss, rows.X @ x, rows.y)) @ A / n
        # keeps directions without curvature finite: they end at a change of sign
        hessian[np.diag_indices_from(hessian)] += l2 + 1e-12 * curvature
        direction = np.zeros(d)
        direction[active] = -np.linalg.solve(hessian, pull[active])
        x = _best_on_ray(loss, penalty, rows, x, direction, kinks=l1 > 0)
        if l1 > 0:
            active, signs = x != 0, np.sign(x)
        found = _optimum(loss, penalty, rows, x)
        if best.gap <= limit and not found.gap < best.gap / 2:
            break  # as far as rounding goes
        if found.gap < best.gap:
            best = found
    return best


def _curvatures(loss: MarginLoss, margins: Array, y: Array) -> Array:
    """phi'' at the margins, by differences: it steers the steps, not the result."""
    h = 1e-5 * (1 + np.abs(margins))
    rise: Array = (loss.slope(margins + h, y) - loss.slope(margins - h, y)) / (2 * h)
    return rise


def _best_on_ray(
    loss: MarginLoss,
    penalty: Penalty,
    rows: Rows,
    x: Array,
    direction: Array,
    *,
    kinks: bool,
) -> Array:
    candidates = [x + direction]
    if kinks:
        crossing = np.flatnonzero(x * (x + direction) < 0)
        times = -x[crossing] / direction[crossing]
        for j, t in zip(crossing, times, strict=True):
            point = x + t * direction
            point[j] = 0.0
            candidates.append(point)
    here = objective(loss, penalty, x, rows)
    values = [objective(loss, penalty, point, rows) for point in candidates]
    # next to the optimum the values agree to rounding, and the gap still tells
    level = values[0] <= here + 1e-14 * abs(here)
    if level and gap(loss, penalty, candidates[0], rows) < gap(loss, penalty, x, rows):
        return candidates[0]
    if min(values) < here:
        return candidates[int(np.argmin(values))]
    for halvings in range(1, 40):
        point = x + 0.5**halvings * direction
        if objective(loss, penalty, point, rows) < here:
            return point
    step = 1.0 / _smoothness(loss, rows)
    return penalty.prox(x - step * gradient(loss, x, rows), step)


def _smoothness(loss: MarginLoss, rows: Rows) -> float:
    """Of the mean loss on these rows."""
    norm = float(np.linalg.norm(rows.X, 2))
    return loss.curvature * norm**2 / len(rows) or 1.0


def _accelerated(
    loss: MarginLoss, penalty: Penalty, rows: Rows, limit: float
) -> Optimum:
    """Accelerated proximal gradient steps, for penalties that only project.

    FISTA (Beck and Teboulle, 2009) with the restart of O'Donoghue and Candes (2015):
    momentum that points uphill is forgotten.
    """
    step = 1.0 / _smoothness(loss, rows)
    x = ahead = penalty.prox(np.zeros(rows.dimension), step)
    momentum = 1.0
    best = _optimum(loss, penalty, rows, x)
    for count in range(200_000):
        new = penalty.prox(ahead - step * gradient(loss, ahead, rows), step)
        if (ahead - new) @ (new - x) > 0:
            ahead, momentum = x, 1.0
            continue
        grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / grown * (new - x)
        x, momentum = new, grown
        if count % 50 == 0:
            found = _optimum(loss, penalty, rows, x)
            if best.gap <= limit:
                break
            if found.gap < best.gap:
                best = found
    return best
