"""Privacy amplification by iteration: the exact optimal allocation (PRIVACY.md 1, 4).

A run is x_t = phi_t(x_{t-1}) + N(0, sig_t^2 I) from a start that no private row
touches. phi_t is c_t-Lipschitz, and phi_t on the two tables differs by at most s_t.

**Theorem 1.** If a_t >= 0 with z_t = c_t z_{t-1} + s_t - a_t >= 0, z_0 = z_T = 0 and
a_t = 0 where sig_t = 0, the last iterate is mu-GDP with mu^2 = sum a_t^2 / sig_t^2.

**Theorem 2.** Measure shifts and noise at the last noise, step T (what follows it is
post-processing): multiply s_t, sig_t and a_t by c_{t+1} .. c_T. The smallest mu^2 is
then the sum of dS^2/dv over the edges of the greatest convex minorant of the points
(v_t, S_t), v and S the running sums of variance and shift. It is infinite if a shift
comes after the last noise.

**Bounded domain (4.5).** Where both states are known to lie in a set of diameter D
after step tau, z may be cut to D there. The best is never to cut, or to cut once with
nothing removed before: the same problem from tau on with a first shift of D.

Here the minorant is kept as its edges (dv, dS), pooled from the right until the slopes
dS/dv increase. All terms are sums of positive numbers, so nothing cancels. What would
underflow is rounded to the side of more loss: noise to 0, a shift up to `LEAST`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError

Array = NDArray[np.float64]

_UNIT = 2.0**-53
# A variance below this share of the largest is left out, so that nothing underflows;
# less noise can only raise mu (Lemma M).
NEGLIGIBLE = 1e-100
# No shift is taken for less than this share of the largest, and none costs less than
# this squared: what underflows is never free.
LEAST = 1e-140


def iteration_mu(
    shifts: ArrayLike,
    noise_stds: ArrayLike,
    contractions: ArrayLike | None = None,
    diameter: float | None = None,
    epoch_ends: Sequence[int] | None = None,
) -> float:
    """The smallest mu that Theorem 1 proves for the last of T noisy maps, rounded up.

    shifts: s_t >= 0, how far the two maps of step t can differ; 0 where the replaced
    row is not used. noise_stds: sig_t >= 0. contractions: c_t >= 0, a Lipschitz
    constant of phi_t that holds on at least one of the two tables; None for 1
    throughout. Whatever happens between two steps belongs to the later one.

    diameter, epoch_ends: after each of the steps numbered in epoch_ends (1 to T) the
    states on both tables lie in one set of this diameter, by a projection there; one
    after step T is post-processing and changes nothing. Both or neither.

    Returns inf where a shift comes after the last noise, and 0 without any shift. What
    comes after the last noise, and noise before the first shift, changes nothing.
    """
    s = _sequence("shifts", shifts)
    sig = _sequence("noise_stds", noise_stds)
    c = None if contractions is None else _sequence("contractions", contractions)
    for name, values in (("noise_stds", sig), ("contractions", c)):
        if values is not None and len(values) != len(s):
            raise InvalidParameterError(
                f"{name} must have one entry a step as shifts has, {len(s)}, "
                f"got {len(values)}"
            )
    if (diameter is None) != (epoch_ends is None):
        raise InvalidParameterError(
            "diameter and epoch_ends must be given together: the domain bounds the "
            "iterates at the epoch ends only"
        )
    cut_after = np.zeros(len(s) + 1, dtype=bool)
    if epoch_ends is not None:
        _validate.nonnegative(diameter=diameter)
        for end in epoch_ends:
            _validate.integer(1, len(s), epoch_ends=end)
        cut_after[np.asarray(list(epoch_ends), dtype=np.int64)] = True
    used, noisy = np.flatnonzero(s > 0), np.flatnonzero(sig > 0)
    if len(used) == 0:
        return 0.0
    if len(noisy) == 0 or used[-1] > noisy[-1]:
        return math.inf
    last = int(noisy[-1]) + 1
    s, sig, c = s[:last], sig[:last], np.ones(last) if c is None else c[:last]
    weights = final_weights(c)
    # segments begin where a row is used or a domain has just been enforced
    starts = np.flatnonzero((s > 0) | cut_after[:last])
    caps = None
    if diameter is not None:
        # weights * c: what a change just before step t = 1, .. is worth at the end
        worth = np.maximum(weights * c, LEAST)[starts]
        caps = np.where(cut_after[starts], diameter * worth, math.inf)
    return segments_mu(starts, sig * weights, s, weights, caps, last)


def segments_mu(
    starts: NDArray[np.int64],
    noise_stds: Array,
    shifts: Array,
    worth: Array,
    caps: Array | None,
    products: int,
) -> float:
    """mu of steps cut into segments at `starts`.

    noise_stds and caps are measured at the last noise; shifts are as they happen, and
    worth says what each of them is worth there.
    """
    scale_s = float(np.max(shifts)) * float(np.max(worth))
    scale_sig = float(np.max(noise_stds))
    if not np.any(shifts > 0):
        return 0.0
    if scale_sig == 0:
        return math.inf
    relative = shifts / np.max(shifts) * np.maximum(worth / np.max(worth), LEAST)
    relative = np.where(shifts > 0, np.maximum(relative, LEAST), 0.0)
    variances = np.add.reduceat(final_variances(noise_stds / scale_sig), starts)
    moved = np.add.reduceat(relative, starts)
    cost = minorant_cost(variances, moved, None if caps is None else caps / scale_s)
    mu = rounded_mu(cost, products) * (scale_s / scale_sig)
    return max(mu, math.ulp(0.0))


def minorant_cost(variances: Array, shifts: Array, caps: Array | None = None) -> float:
    """Sum of dS^2/dv over the edges of the greatest convex minorant.

    Segment i has variance dv_i and shift dS_i, which comes before its noise. caps:
    caps[i] is a bound on all the shift that is left when segment i begins, inf for
    none; the result is then the smallest over using none or one of them.
    """
    if caps is None:
        variances, shifts = _pooled_once(variances, shifts)
        bounds = [math.inf] * len(variances)
    else:
        bounds = caps.tolist()
    return segments_cost(
        zip(variances[::-1].tolist(), shifts[::-1].tolist(), bounds[::-1], strict=True)
    )


def segments_cost(backwards: Iterable[tuple[float, float, float]]) -> float:
    """`minorant_cost` of segments (dv, dS, cap), handed over from the last one on."""
    # the minorant of the segments from i on, first edge on top: (dv, dS, cost from it)
    edges: list[tuple[float, float, float]] = []
    best = math.inf
    for dv, ds, cap in backwards:
        if cap < math.inf:
            best = min(best, _cost_with_first(edges, dv, ds + cap))
        while edges and ds * edges[-1][0] >= edges[-1][1] * dv:
            pooled = edges.pop()
            dv, ds = dv + pooled[0], ds + pooled[1]
        rest = edges[-1][2] if edges else 0.0
        edges.append((dv, ds, rest + _edge_cost(dv, ds)))
    return min(best, edges[-1][2]) if edges else 0.0


def _cost_with_first(
    edges: list[tuple[float, float, float]], dv: float, ds: float
) -> float:
    """The cost with one more segment in front; `edges` stays as it is."""
    i = len(edges)
    while i and ds * edges[i - 1][0] >= edges[i - 1][1] * dv:
        i -= 1
        dv, ds = dv + edges[i][0], ds + edges[i][1]
    return _edge_cost(dv, ds) + (edges[i - 1][2] if i else 0.0)


def _edge_cost(dv: float, ds: float) -> float:
    if ds == 0:
        return 0.0
    return max(ds / dv * ds, LEAST**2) if dv > 0 else math.inf


def single_cost(shift: float, std: float) -> float:
    """mu^2 of one shift > 0 that is paid by one noise."""
    if std == 0:
        return math.inf
    ratio = shift / std
    return max(ratio * ratio, LEAST**2)


def _pooled_once(variances: Array, shifts: Array) -> tuple[Array, Array]:
    """Neighbours whose slopes do not increase share an edge: pool each such stretch."""
    something = (variances > 0) | (shifts > 0)
    variances, shifts = variances[something], shifts[something]
    if len(variances) < 2:
        return variances, shifts
    increases = shifts[:-1] * variances[1:] < shifts[1:] * variances[:-1]
    starts = np.flatnonzero(np.concatenate(([True], increases)))
    return np.add.reduceat(variances, starts), np.add.reduceat(shifts, starts)


def final_weights(contractions: Array) -> Array:
    """c_{t+1} .. c_T for each t: what a change at step t is worth after step T."""
    weights = np.ones_like(contractions)
    with np.errstate(over="ignore", under="ignore"):
        weights[:-1] = np.cumprod(contractions[:0:-1])[::-1]
    if not np.all(np.isfinite(weights)):
        raise InvalidParameterError(
            "contractions must have products in the range of float, got overflow"
        )
    return weights


def final_variances(noise_stds: Array) -> Array:
    """Squares of stds <= 1, without the negligible ones."""
    with np.errstate(under="ignore"):
        variances: Array = noise_stds**2
    variances[variances < NEGLIGIBLE] = 0.0
    return variances


def rounded_mu(cost: float, products: int) -> float:
    """sqrt(cost), rounded up above the error of `products` multiplications (4.6)."""
    return math.sqrt(cost) * (1 + 8 * (products + 8) * _UNIT)


def _sequence(name: str, values: ArrayLike) -> Array:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise InvalidParameterError(
            f"{name} must be a sequence of at least one number, got shape {array.shape}"
        )
    if not np.all(np.isfinite(array) & (array >= 0)):
        bad = array[~(np.isfinite(array) & (array >= 0))][0]
        raise InvalidParameterError(
            f"{name} must be finite numbers >= 0, got {float(bad)!r}"
        )
    return array
