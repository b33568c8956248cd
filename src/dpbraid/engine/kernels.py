"""The compiled loops. Each is a few lines, with the equation beside them.

Words: X (d, columns) or x (d,) is the state; T (n, d) a table with labels y and slope
limits C/|a|; `rows` the row numbers of a piece of an epoch in order of use; eta the
learning rate over the batch size, one a column; scale = learning rate * noise std.
Products may be fused with sums, and sums taken in any order (`FAST`); the bounds
on rounding in numeric.py hold for every order. NaN and infinity keep their meaning.
"""

# Numba infers the types of this file; mypy cannot follow it.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np

from dpbraid.engine.compilation import kernel
from dpbraid.engine.normals import next_word
from dpbraid.engine.prefetch import prefetch
from dpbraid.engine.slopes import call

# Rows that `quiet_steps_one` asks for ahead of their step.
_AHEAD = 16

FAST: Any = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@kernel()
def permute(source, out):
    """A uniform permutation of fewer than 2^32 numbers: Fisher and Yates, inside out.

    What is in place j moves to place i, and i to place j, for a uniform one of j = 0..i
    each. A draw takes 32 bits, half a word, as Lemire does (arXiv:1805.10941): j is the
    upper half of bits * (i + 1), drawn again where the lower half would favour some j.
    """
    word, whole = np.uint64(0), False
    if out.shape[0] > 0:
        out[0] = 0
    for i in range(1, out.shape[0]):
        while True:
            word = word >> np.uint64(32) if whole else next_word(source)
            whole = not whole
            product = (word & np.uint64(0xFFFFFFFF)) * np.uint64(i + 1)
            lower = np.uint32(product)
            if lower > i or lower >= (2**32 - (i + 1)) % (i + 1):
                break
        j = np.int64(product >> np.uint64(32))
        out[i] = out[j]
        out[j] = i


@kernel()
def to_grid(x, drawn, grid):
    """x <- grid (round(x / grid) + drawn), and |x|^2; all but |x|^2 exactly."""
    total = 0.0
    for k in range(x.shape[0]):
        x[k] = grid * (np.rint(x[k] / grid) + drawn[k])
        total += x[k] * x[k]
    return total


@kernel(inline="always", **FAST)
def dot(T, r, x):
    """<a_r, x>."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += T[r, k] * x[k]
    return total


@kernel(**FAST)
def row_norms(T, out):
    """out_i = |a_i|."""
    for i in range(T.shape[0]):
        total = 0.0
        for k in range(T.shape[1]):
            total += np.float64(T[i, k]) * np.float64(T[i, k])
        out[i] = np.sqrt(total)


@kernel(inline="always", **FAST)
def clipped(slope, limit):
    """The slope within +-limit; NaN stays NaN."""
    if slope > limit:
        slope = limit
    elif slope < -limit:
        slope = -limit
    return slope


# -- literal steps on margin losses --------------------------------------------------


@kernel(**FAST)
def steps_one(x, T, y, limits, rows, eta, address, parameter, noise, scale):
    """x <- x - eta c_t a_t - scale rho_t, one row a step."""
    for t in range(rows.shape[0]):
        r = rows[t]
        c = clipped(call(address, dot(T, r, x), y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        for k in range(x.shape[0]):
            x[k] -= step * T[r, k] + scale * noise[t, k]


@kernel(**FAST)
def quiet_steps_one(x, T, y, limits, rows, eta, address, parameter):
    """The same without noise, in one pass over x a step.

    <a_t+1, x_t+1> = <a_t+1, x_t> - eta c_t <a_t+1, a_t>: the pass that moves x to x_t
    takes both products for row t + 1, so that no step waits for the slope before it.
    Rows further on are on their way from memory meanwhile.
    """
    last = rows.shape[0] - 1
    line = 64 // T.itemsize
    zero = x.dtype.type(0)
    r, after = rows[0], rows[min(1, last)]
    margin = dot(T, r, x)
    ahead, product = zero, zero
    for k in range(x.shape[0]):
        ahead += T[after, k] * x[k]
        product += T[after, k] * T[r, k]
    for t in range(rows.shape[0]):
        later, far = rows[min(t + 2, last)], rows[min(t + _AHEAD, last)]
        for k in range(0, x.shape[0], line):
            prefetch(T, far, k)
        c = clipped(call(address, margin, y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        margin = ahead - step * product
        ahead, product = zero, zero
        for k in range(x.shape[0]):
            moved = x[k] - step * T[r, k]
            x[k] = moved
            ahead += T[later, k] * moved
            product += T[later, k] * T[after, k]
        r, after = after, later


@kernel(**FAST)
def quiet_pairs_one(x, T, y, limits, rows, eta, address, parameter):
    """The same in one pass over x every two steps, for long rows.

    The pass that takes x over one pair of rows takes the margins of the next pair, the
    second's as above. The number of rows must be even.
    """
    last = rows.shape[0] - 1
    zero = x.dtype.type(0)
    r0, r1 = rows[0], rows[1]
    s0 = s1 = zero
    for t in range(-2, last, 2):
        # the first pass moves nothing, the last one looks ahead for nothing
        n0, n1 = rows[min(t + 2, last)], rows[min(t + 3, last)]
        m0 = m1 = product = zero
        for k in range(x.shape[0]):
            moved = x[k] - (s0 * T[r0, k] + s1 * T[r1, k])
            x[k] = moved
            a0, a1 = T[n0, k], T[n1, k]
            m0 += a0 * moved
            m1 += a1 * moved
            product += a0 * a1
        r0, r1 = n0, n1
        c = clipped(call(address, m0, y[r0], parameter), limits[r0])
        s0 = x.dtype.type(eta * c)
        c = clipped(call(address, m1 - s0 * product, y[r1], parameter), limits[r1])
        s1 = x.dtype.type(eta * c)


@kernel(**FAST)
def steps_many(X, T, y, limits, rows, eta, address, parameter, noise, scale, step):
    """The same for many columns that share row and rho; `step` is room for one row."""
    noisy = noise.shape[0] > 0
    d, columns = X.shape
    for t in range(rows.shape[0]):
        r = rows[t]
        for c in range(columns):
            step[c] = 0
        for k in range(d):
            a = T[r, k]
            for c in range(columns):
                step[c] += a * X[k, c]
        for c in range(columns):
            slope = call(address, step[c], y[r], parameter)
            step[c] = eta[c] * clipped(slope, limits[r])
        if noisy:
            for k in range(d):
                a = T[r, k]
                rho = noise[t, k]
                for c in range(columns):
                    X[k, c] -= step[c] * a + scale[c] * rho
        else:
            for k in range(d):
                a = T[r, k]
                for c in range(columns):
                    X[k, c] -= step[c] * a


@kernel(**FAST)
def add_gradients_one(x, D, T, y, limits, rows, eta, address, parameter):
    """D <- D + eta sum_i c_i a_i over these rows, all at the same x."""
    d = x.shape[0]
    for t in range(rows.shape[0]):
        r = rows[t]
        c = clipped(call(address, dot(T, r, x), y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        for k in range(d):
            D[k] += step * T[r, k]


@kernel(**FAST)
def add_gradients_many(X, D, T, y, limits, rows, eta, address, parameter, step):
    """The same for many columns."""
    d, columns = X.shape
    for t in range(rows.shape[0]):
        r = rows[t]
        for c in range(columns):
            step[c] = 0
        for k in range(d):
            a = T[r, k]
            for c in range(columns):
                step[c] += a * X[k, c]
        for c in range(columns):
            slope = call(address, step[c], y[r], parameter)
            step[c] = eta[c] * clipped(slope, limits[r])
        for k in range(d):
            a = T[r, k]
            for c in range(columns):
                D[k, c] += step[c] * a


@kernel(**FAST)
def finish_step(X, D, noise, t, scale):
    """X <- X - D - scale rho_t, and D <- 0: the end of a minibatch step."""
    noisy = noise.shape[0] > 0
    d, columns = X.shape
    for k in range(d):
        rho = noise[t, k] if noisy else X.dtype.type(0)
        for c in range(columns):
            if noisy:
                X[k, c] -= D[k, c] + scale[c] * rho
            else:
                X[k, c] -= D[k, c]
            D[k, c] = 0


@kernel(**FAST)
def minibatches_one(
    x, D, T, y, limits, rows, batch, eta, address, parameter, noise, scale
):
    """x <- x - eta sum_i c_i a_i - scale rho_t, `batch` rows a step."""
    noisy = noise.shape[0] > 0
    for t, first in enumerate(range(0, rows.shape[0], batch)):
        piece = rows[first : first + batch]
        add_gradients_one(x, D, T, y, limits, piece, eta, address, parameter)
        for k in range(x.shape[0]):
            if noisy:
                x[k] -= D[k] + scale * noise[t, k]
            else:
                x[k] -= D[k]
            D[k] = 0


@kernel(**FAST)
def minibatches_many(
    X, D, T, y, limits, rows, batch, eta, address, parameter, noise, scale, step
):
    """The same for many columns."""
    for t, first in enumerate(range(0, rows.shape[0], batch)):
        piece = rows[first : first + batch]
        add_gradients_many(X, D, T, y, limits, piece, eta, address, parameter, step)
        finish_step(X, D, noise, t, scale)


# -- literal steps on the mean loss ----------------------------------------------------


@kernel(inline="always", **FAST)
def _shrink(squared_norm, eta, clip_norm):
    """Step eta min(1, C / |x - q|), written so that NaN stays NaN."""
    norm = np.sqrt(squared_norm)
    return eta if norm <= clip_norm else eta * (clip_norm / norm)


@kernel(**FAST)
def mean_steps_one(x, T, rows, eta, clip_norm, noise, scale):
    """x <- x - eta clip(x - q_t) - scale rho_t, one row a step."""
    noisy = noise.shape[0] > 0
    d = x.shape[0]
    for t in range(rows.shape[0]):
        r = rows[t]
        total = x.dtype.type(0)
        for k in range(d):
            total += (x[k] - T[r, k]) * (x[k] - T[r, k])
        step = x.dtype.type(_shrink(total, eta, clip_norm))
        if noisy:
            for k in range(d):
                x[k] -= step * (x[k] - T[r, k]) + scale * noise[t, k]
        else:
            for k in range(d):
                x[k] -= step * (x[k] - T[r, k])


@kernel(**FAST)
def _mean_steps(X, T, r, eta, clip_norm, step):
    """step_c = eta_c min(1, C / |x_c - q|)."""
    d, columns = X.shape
    for c in range(columns):
        step[c] = 0
    for k in range(d):
        q = T[r, k]
        for c in range(columns):
            step[c] += (X[k, c] - q) * (X[k, c] - q)
    for c in range(columns):
        step[c] = _shrink(step[c], eta[c], clip_norm)


@kernel(**FAST)
def mean_steps_many(X, T, rows, eta, clip_norm, noise, scale, step, squares, tiny):
    """The same for many columns that share row and rho.

    One pass over X a step: it moves X, and sums |x - q|^2 for the next row.
    Without noise, entries below `tiny` are set to 0: columns that decay to a pixel of 0
    would end in subnormal numbers, which are slow.
    """
    noisy = noise.shape[0] > 0
    zero = X.dtype.type(0)
    d, columns = X.shape
    count = rows.shape[0]
    for t in range(-1, count):
        r = rows[max(t, 0)]
        after = rows[min(t + 1, count - 1)]
        for c in range(columns):
            # before the first row nothing moves
            step[c] = _shrink(squares[c], eta[c], clip_norm) if t >= 0 else 0
            squares[c] = 0
        if noisy and t >= 0:
            for k in range(d):
                q, p, rho = T[r, k], T[after, k], noise[t, k]
                for c in range(columns):
                    x = X[k, c] - (step[c] * (X[k, c] - q) + scale[c] * rho)
                    X[k, c] = x
                    squares[c] += (x - p) * (x - p)
        else:
            for k in range(d):
                q, p = T[r, k], T[after, k]
                for c in range(columns):
                    x = X[k, c] - step[c] * (X[k, c] - q)
                    x = zero if abs(x) < tiny else x
                    X[k, c] = x
                    squares[c] += (x - p) * (x - p)


@kernel(**FAST)
def add_mean_gradients(X, D, T, rows, eta, clip_norm, step):
    """D <- D + eta sum_i clip(x - q_i) over these rows, all at the same X."""
    d, columns = X.shape
    for t in range(rows.shape[0]):
        r = rows[t]
        _mean_steps(X, T, r, eta, clip_norm, step)
        for k in range(d):
            q = T[r, k]
            for c in range(columns):
                D[k, c] += step[c] * (X[k, c] - q)


@kernel(**FAST)
def mean_minibatches(X, D, T, rows, batch, eta, clip_norm, noise, scale, step):
    """x <- x - eta sum_i clip(x - q_i) - scale rho_t, `batch` rows a step."""
    for t, first in enumerate(range(0, rows.shape[0], batch)):
        piece = rows[first : first + batch]
        add_mean_gradients(X, D, T, piece, eta, clip_norm, step)
        finish_step(X, D, noise, t, scale)
