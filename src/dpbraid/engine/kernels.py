"""The compiled loops. Each is a few lines of ENGINE.md with the equation beside it.

Words: X (d, columns) or x (d,) is the state; T (n, d) a table with labels y and slope
limits C/|a|; `rows` the row numbers of a piece of an epoch in order of use; eta the
learning rate over the batch size, one a column; scale = learning rate * noise std.
Products may be fused with sums, and sums taken in any order (`_FAST`); the bounds
on rounding in numeric.py hold for every order. NaN and infinity keep their meaning.
"""

# Numba infers the types of this file; mypy cannot follow it.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np

from dpbraid.engine.compilation import kernel
from dpbraid.engine.normals import fill, from_word, next_word
from dpbraid.engine.prefetch import prefetch
from dpbraid.engine.slopes import call

# Rows that `quiet_steps_one` asks for ahead of their step.
_AHEAD = 16

_FAST: Any = {
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


@kernel(inline="always", **_FAST)
def _dot(T, r, x):
    """<a_r, x>."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += T[r, k] * x[k]
    return total


@kernel(**_FAST)
def row_norms(T, out):
    """out_i = |a_i|."""
    for i in range(T.shape[0]):
        total = 0.0
        for k in range(T.shape[1]):
            total += np.float64(T[i, k]) * np.float64(T[i, k])
        out[i] = np.sqrt(total)


@kernel(inline="always", **_FAST)
def _clipped(slope, limit):
    """The slope within +-limit; NaN stays NaN."""
    if slope > limit:
        slope = limit
    elif slope < -limit:
        slope = -limit
    return slope


# -- literal steps on margin losses --------------------------------------------------


@kernel(**_FAST)
def steps_one(x, T, y, limits, rows, eta, address, parameter, noise, scale):
    """x <- x - eta c_t a_t - scale rho_t, one row a step."""
    for t in range(rows.shape[0]):
        r = rows[t]
        c = _clipped(call(address, _dot(T, r, x), y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        for k in range(x.shape[0]):
            x[k] -= step * T[r, k] + scale * noise[t, k]


@kernel(**_FAST)
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
    margin = _dot(T, r, x)
    ahead, product = zero, zero
    for k in range(x.shape[0]):
        ahead += T[after, k] * x[k]
        product += T[after, k] * T[r, k]
    for t in range(rows.shape[0]):
        later, far = rows[min(t + 2, last)], rows[min(t + _AHEAD, last)]
        for k in range(0, x.shape[0], line):
            prefetch(T, far, k)
        c = _clipped(call(address, margin, y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        margin = ahead - step * product
        ahead, product = zero, zero
        for k in range(x.shape[0]):
            moved = x[k] - step * T[r, k]
            x[k] = moved
            ahead += T[later, k] * moved
            product += T[later, k] * T[after, k]
        r, after = after, later


@kernel(**_FAST)
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
        c = _clipped(call(address, m0, y[r0], parameter), limits[r0])
        s0 = x.dtype.type(eta * c)
        c = _clipped(call(address, m1 - s0 * product, y[r1], parameter), limits[r1])
        s1 = x.dtype.type(eta * c)


@kernel(**_FAST)
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
            step[c] = eta[c] * _clipped(slope, limits[r])
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


@kernel(**_FAST)
def add_gradients_one(x, D, T, y, limits, rows, eta, address, parameter):
    """D <- D + eta sum_i c_i a_i over these rows, all at the same x."""
    d = x.shape[0]
    for t in range(rows.shape[0]):
        r = rows[t]
        c = _clipped(call(address, _dot(T, r, x), y[r], parameter), limits[r])
        step = x.dtype.type(eta * c)
        for k in range(d):
            D[k] += step * T[r, k]


@kernel(**_FAST)
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
            step[c] = eta[c] * _clipped(slope, limits[r])
        for k in range(d):
            a = T[r, k]
            for c in range(columns):
                D[k, c] += step[c] * a


@kernel(**_FAST)
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


@kernel(**_FAST)
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


@kernel(**_FAST)
def minibatches_many(
    X, D, T, y, limits, rows, batch, eta, address, parameter, noise, scale, step
):
    """The same for many columns."""
    for t, first in enumerate(range(0, rows.shape[0], batch)):
        piece = rows[first : first + batch]
        add_gradients_many(X, D, T, y, limits, piece, eta, address, parameter, step)
        finish_step(X, D, noise, t, scale)


# -- literal steps on the mean loss ----------------------------------------------------


@kernel(inline="always", **_FAST)
def _shrink(squared_norm, eta, clip_norm):
    """Step eta min(1, C / |x - q|), written so that NaN stays NaN."""
    norm = np.sqrt(squared_norm)
    return eta if norm <= clip_norm else eta * (clip_norm / norm)


@kernel(**_FAST)
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


@kernel(**_FAST)
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


@kernel(**_FAST)
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


@kernel(**_FAST)
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


@kernel(**_FAST)
def mean_minibatches(X, D, T, rows, batch, eta, clip_norm, noise, scale, step):
    """x <- x - eta sum_i clip(x - q_i) - scale rho_t, `batch` rows a step."""
    for t, first in enumerate(range(0, rows.shape[0], batch)):
        piece = rows[first : first + batch]
        add_mean_gradients(X, D, T, piece, eta, clip_norm, step)
        finish_step(X, D, noise, t, scale)


# -- blocks (ENGINE.md, "One block of B steps") ----------------------------------------


@kernel(**_FAST)
def gather(T, rows, A):
    """A_i = a_i."""
    d = T.shape[1]
    for i in range(rows.shape[0]):
        r = rows[i]
        for k in range(d):
            A[i, k] = T[r, k]


@kernel(**_FAST)
def products(T, rows, x, w, G, margins, sums):
    """margins_i = <a_i, x>, sums_i = <a_i, w> and G_ij = <a_i, a_j> for i < j.

    In tiles of 5 x 5 that stay in registers: a pass of two fives, or of one with x, w.
    """
    count, d = rows.shape[0], T.shape[1]
    zero = T.dtype.type(0)
    tiled = count - count % 5
    for j in range(0, tiled, 5):
        j0, j1, j2, j3, j4 = rows[j], rows[j + 1], rows[j + 2], rows[j + 3], rows[j + 4]
        s01 = s02 = s03 = s04 = s12 = s13 = s14 = s23 = s24 = s34 = zero
        m0 = m1 = m2 = m3 = m4 = p0 = p1 = p2 = p3 = p4 = zero
        for k in range(d):
            b0, b1, b2, b3, b4 = T[j0, k], T[j1, k], T[j2, k], T[j3, k], T[j4, k]
            m, p = x[k], w[k]
            s01 += b0 * b1
            s02 += b0 * b2
            s03 += b0 * b3
            s04 += b0 * b4
            s12 += b1 * b2
            s13 += b1 * b3
            s14 += b1 * b4
            s23 += b2 * b3
            s24 += b2 * b4
            s34 += b3 * b4
            m0 += b0 * m
            m1 += b1 * m
            m2 += b2 * m
            m3 += b3 * m
            m4 += b4 * m
            p0 += b0 * p
            p1 += b1 * p
            p2 += b2 * p
            p3 += b3 * p
            p4 += b4 * p
        G[j, j + 1], G[j, j + 2], G[j, j + 3], G[j, j + 4] = s01, s02, s03, s04
        G[j + 1, j + 2], G[j + 1, j + 3], G[j + 1, j + 4] = s12, s13, s14
        G[j + 2, j + 3], G[j + 2, j + 4], G[j + 3, j + 4] = s23, s24, s34
        margins[j], margins[j + 1], margins[j + 2] = m0, m1, m2
        margins[j + 3], margins[j + 4] = m3, m4
        sums[j], sums[j + 1], sums[j + 2], sums[j + 3], sums[j + 4] = p0, p1, p2, p3, p4
        for i in range(0, j, 5):
            i0, i1, i2 = rows[i], rows[i + 1], rows[i + 2]
            i3, i4 = rows[i + 3], rows[i + 4]
            s00 = s01 = s02 = s03 = s04 = s10 = s11 = s12 = s13 = s14 = zero
            s20 = s21 = s22 = s23 = s24 = s30 = s31 = s32 = s33 = s34 = zero
            s40 = s41 = s42 = s43 = s44 = zero
            for k in range(d):
                a0, a1, a2, a3, a4 = T[i0, k], T[i1, k], T[i2, k], T[i3, k], T[i4, k]
                b0, b1, b2, b3, b4 = T[j0, k], T[j1, k], T[j2, k], T[j3, k], T[j4, k]
                s00 += a0 * b0
                s01 += a0 * b1
                s02 += a0 * b2
                s03 += a0 * b3
                s04 += a0 * b4
                s10 += a1 * b0
                s11 += a1 * b1
                s12 += a1 * b2
                s13 += a1 * b3
                s14 += a1 * b4
                s20 += a2 * b0
                s21 += a2 * b1
                s22 += a2 * b2
                s23 += a2 * b3
                s24 += a2 * b4
                s30 += a3 * b0
                s31 += a3 * b1
                s32 += a3 * b2
                s33 += a3 * b3
                s34 += a3 * b4
                s40 += a4 * b0
                s41 += a4 * b1
                s42 += a4 * b2
                s43 += a4 * b3
                s44 += a4 * b4
            G[i, j], G[i, j + 1], G[i, j + 2] = s00, s01, s02
            G[i, j + 3], G[i, j + 4] = s03, s04
            G[i + 1, j], G[i + 1, j + 1], G[i + 1, j + 2] = s10, s11, s12
            G[i + 1, j + 3], G[i + 1, j + 4] = s13, s14
            G[i + 2, j], G[i + 2, j + 1], G[i + 2, j + 2] = s20, s21, s22
            G[i + 2, j + 3], G[i + 2, j + 4] = s23, s24
            G[i + 3, j], G[i + 3, j + 1], G[i + 3, j + 2] = s30, s31, s32
            G[i + 3, j + 3], G[i + 3, j + 4] = s33, s34
            G[i + 4, j], G[i + 4, j + 1], G[i + 4, j + 2] = s40, s41, s42
            G[i + 4, j + 3], G[i + 4, j + 4] = s43, s44
    for j in range(tiled, count):
        margins[j], sums[j] = _dot(T, rows[j], x), _dot(T, rows[j], w)
        for i in range(j):
            total = zero
            for k in range(d):
                total += T[rows[i], k] * T[rows[j], k]
            G[i, j] = total


@kernel()
def fill_beside(source, std, out, T, rows):
    """Fill `out` (d,) with std times normals; these rows come from memory meanwhile.

    Three cache lines of eight numbers a normal, a row beside its share of the normals.
    """
    d, count = T.shape[1], rows.shape[0]
    for i in range(count):
        r, column = rows[i], 0
        for k in range(i * d // count, (i + 1) * d // count):
            if column < d:
                prefetch(T, r, column)
                prefetch(T, r, min(column + 8, d - 1))
                prefetch(T, r, min(column + 16, d - 1))
            column += 24
            out[k] = std * from_word(source, next_word(source))


@kernel(**_FAST)
def bridge(times, norms, sums, G, z, U):
    """Normals z become z_i = <a_i, W_t> given W_B, for t = times[i] steps before row i.

    z | W_B ~ N((t/B) <a_i, W_B>, S), S_ij = (min(t_i, t_j) - t_i t_j / B) <a_i, a_j>.
    S = D R D with D = diag(norms), R = U^T U; U, room for it, is found row by row.
    R has bridge eigenvalues of 1/4 and more where every step has one row. Rows of one
    step can make R singular; a jitter of its diagonal above all rounding of G keeps the
    factor real then, and what is left of a pivot is no less than the jitter. `sums` are
    the <a_i, W_B>.
    """
    rows = times.shape[0]
    steps = times[rows - 1] + 1
    jitter = 0.0
    for i in range(1, rows):
        if times[i] == times[i - 1]:
            jitter = 1e-13 if G.itemsize == 8 else 1e-4
    first = 0
    while first < rows and times[first] == 0:
        z[first] = 0.0  # W_0 = 0
        first += 1
    for i in range(first, rows):
        s = times[i]
        U[i, i] = (s - s * s / steps) * (1.0 + jitter)
        for j in range(i + 1, rows):
            covariance = s - s * times[j] / steps  # s <= times[j]
            cosine = np.float64(G[i, j]) / norms[i] / norms[j]
            U[i, j] = covariance * cosine if norms[i] * norms[j] > 0 else 0.0
    for k in range(first, rows):
        # row k less its part in the rows above, four at a time
        fours = first + (k - first) // 4 * 4
        for i in range(first, fours, 4):
            f0, f1, f2, f3 = U[i, k], U[i + 1, k], U[i + 2, k], U[i + 3, k]
            for j in range(k, rows):
                part = f0 * U[i, j] + f1 * U[i + 1, j]
                U[k, j] -= part + f2 * U[i + 2, j] + f3 * U[i + 3, j]
        for i in range(fours, k):
            f0 = U[i, k]
            for j in range(k, rows):
                U[k, j] -= f0 * U[i, j]
        s = times[k]
        U[k, k] = np.sqrt(max(U[k, k], jitter * (s - s * s / steps)))
        inverse = 1.0 / U[k, k]
        for j in range(k + 1, rows):
            U[k, j] *= inverse
    for i in range(rows - 1, first - 1, -1):
        total = 0.0
        for k in range(first, i + 1):
            total += U[k, i] * z[k]
        z[i] = times[i] / steps * sums[i] + norms[i] * total


@kernel(**_FAST)
def _move(x, T, rows, c, scale, w):
    """x <- x - sum_i c_i a_i - scale w, five rows a pass."""
    count = rows.shape[0]
    tiled = count - count % 5
    for k in range(x.shape[0]):
        x[k] -= scale * w[k]
    for i in range(0, tiled, 5):
        c0, c1, c2, c3, c4 = c[i], c[i + 1], c[i + 2], c[i + 3], c[i + 4]
        i0, i1, i2, i3, i4 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3], rows[i + 4]
        for k in range(x.shape[0]):
            moved = c0 * T[i0, k] + c1 * T[i1, k] + c2 * T[i2, k]
            x[k] -= moved + c3 * T[i3, k] + c4 * T[i4, k]
    for i in range(tiled, count):
        step, r = c[i], rows[i]
        for k in range(x.shape[0]):
            x[k] -= step * T[r, k]


@kernel(**_FAST)
def blocks_one(
    x, T, y, limits, norms, rows, size, times, after, eta, slope, scale, source, W, z
):
    """Blocks of `size` rows on one column, one after the other.

    m_i = <a_i, x_0> - eta sum_{s before i} c_s <a_s, a_i> - scale z_i, and
    x_B = x_0 - eta sum c_i a_i - scale W_B. times: of a block's rows; after[i]: the
    first row of the step after row i's. slope: its address and parameter. The noise of
    each block is drawn from `source` into W[0] and z; where that is (0, 0) it stands in
    W (blocks, d) and z (rows,).
    """
    given = source[0] == 0
    G, U = np.empty((size, size), T.dtype), np.empty((size, size))
    margins, sums = np.empty(size, T.dtype), np.empty(size, T.dtype)
    row_norms = np.empty(size)
    for first in range(0, rows.shape[0], size):
        block = rows[first : first + size]
        count = block.shape[0]
        if given:
            w, noise = W[first // size], z[first : first + count]
        else:
            w, noise = W[0], z[:count]
            fill_beside(source, np.sqrt(times[count - 1] + 1.0), w, T, block)
            fill(source, 1.0, noise)
        products(T, block, x, w, G, margins, sums)
        if not given:
            for i in range(count):
                row_norms[i] = norms[block[i]]
            bridge(times[:count], row_norms, sums, G, noise, U)
        for i in range(count):
            r = block[i]
            c = call(slope[0], margins[i] - scale * noise[i], y[r], slope[1])
            step = x.dtype.type(eta * _clipped(c, limits[r]))
            margins[i] = step
            for j in range(after[i], count):
                margins[j] -= step * G[i, j]
        _move(x, T, block, margins, x.dtype.type(scale), w)


@kernel(**_FAST)
def descend_many(M, G, rows, y, limits, after, eta, address, parameter, z, scale, tiny):
    """The recursion of a block on many columns: M (rows, columns) becomes eta c_i.

    Steps below `tiny` are set to 0: the subnormal numbers that flat losses make in
    single precision are slow.
    """
    count, columns = M.shape
    for i in range(count):
        r = rows[i]
        for c in range(columns):
            slope = call(address, M[i, c] - scale[c] * z[i], y[r], parameter)
            step = eta[c] * _clipped(slope, limits[r])
            M[i, c] = 0 if abs(step) < tiny else step
        for j in range(after[i], count):
            g = G[i, j]
            for c in range(columns):
                M[j, c] -= g * M[i, c]


@kernel(**_FAST)
def slopes(M, rows, y, limits, eta, address, parameter, tiny):
    """M_ic <- eta_c c_i for margins M, all at the same X."""
    count, columns = M.shape
    for i in range(count):
        r = rows[i]
        for c in range(columns):
            slope = call(address, M[i, c], y[r], parameter)
            step = eta[c] * _clipped(slope, limits[r])
            M[i, c] = 0 if abs(step) < tiny else step
