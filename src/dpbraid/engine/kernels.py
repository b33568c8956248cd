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
from dpbraid.engine.prefetch import prefetch
from dpbraid.engine.slopes import call

# Rows that `quiet_steps_one` asks for ahead of their step.
_AHEAD = 6

_FAST: Any = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@kernel()
def normals(rng, std, out):
    """Fill `out` with normals: std * rng.standard_normal(), drawn in float64.

    Numba compiles NumPy's ziggurat; its draws are the same bits in half the time.
    """
    for k in range(out.shape[0]):
        out[k] = std * rng.standard_normal()


@kernel()
def shuffle(words, out, last):
    """Fisher and Yates: swap out[i] with a uniform one of out[0..i] for i = last .. 1.

    Each draw takes 32 bits of `words` as Lemire does (arXiv:1805.10941): the upper half
    of bits * (i + 1), drawn again where the lower half would favour some results. Stops
    where the words end; the i that is next, 0 for none.
    """
    used = 0
    i = last
    while i > 0 and used < words.shape[0]:
        product = np.uint64(words[used]) * np.uint64(i + 1)
        used += 1
        lower = np.uint32(product)
        if lower < np.uint32(i + 1) and lower < np.uint32(2**32 - (i + 1)) % (i + 1):
            continue
        j = np.int64(product >> np.uint64(32))
        out[i], out[j] = out[j], out[i]
        i -= 1
    return i


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
def products_one(T, rows, x, W, margins, products):
    """margins_i = <a_i, x> and products_i = <a_i, W>, four rows side by side."""
    count = rows.shape[0]
    zero = x.dtype.type(0)
    tiled = count - count % 4
    for i in range(0, tiled, 4):
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        m0 = m1 = m2 = m3 = zero
        p0 = p1 = p2 = p3 = zero
        for k in range(x.shape[0]):
            a0, a1, a2, a3 = T[r0, k], T[r1, k], T[r2, k], T[r3, k]
            m0 += a0 * x[k]
            m1 += a1 * x[k]
            m2 += a2 * x[k]
            m3 += a3 * x[k]
            p0 += a0 * W[k]
            p1 += a1 * W[k]
            p2 += a2 * W[k]
            p3 += a3 * W[k]
        margins[i], margins[i + 1], margins[i + 2], margins[i + 3] = m0, m1, m2, m3
        products[i], products[i + 1], products[i + 2], products[i + 3] = p0, p1, p2, p3
    for i in range(tiled, count):
        margins[i] = _dot(T, rows[i], x)
        products[i] = _dot(T, rows[i], W)


@kernel(**_FAST)
def gather(T, rows, W, A, products):
    """A_i = a_i and products_i = <a_i, W>."""
    d = T.shape[1]
    for i in range(rows.shape[0]):
        r = rows[i]
        p = W.dtype.type(0)
        for k in range(d):
            a = T[r, k]
            A[i, k] = a
            p += a * W[k]
        products[i] = p


@kernel(**_FAST)
def gram(T, rows, G):
    """G_ij = <a_i, a_j>, in tiles of 4 x 4 that stay in registers."""
    count, d = rows.shape[0], T.shape[1]
    zero = T.dtype.type(0)
    tiled = count - count % 4
    for i in range(0, tiled, 4):
        i0, i1, i2, i3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(0, i + 1, 4):
            j0, j1, j2, j3 = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            s00 = s01 = s02 = s03 = zero
            s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = zero
            s30 = s31 = s32 = s33 = zero
            for k in range(d):
                a0, a1, a2, a3 = T[i0, k], T[i1, k], T[i2, k], T[i3, k]
                b0, b1, b2, b3 = T[j0, k], T[j1, k], T[j2, k], T[j3, k]
                s00 += a0 * b0
                s01 += a0 * b1
                s02 += a0 * b2
                s03 += a0 * b3
                s10 += a1 * b0
                s11 += a1 * b1
                s12 += a1 * b2
                s13 += a1 * b3
                s20 += a2 * b0
                s21 += a2 * b1
                s22 += a2 * b2
                s23 += a2 * b3
                s30 += a3 * b0
                s31 += a3 * b1
                s32 += a3 * b2
                s33 += a3 * b3
            G[i, j], G[i, j + 1], G[i, j + 2], G[i, j + 3] = s00, s01, s02, s03
            G[i + 1, j], G[i + 1, j + 1] = s10, s11
            G[i + 1, j + 2], G[i + 1, j + 3] = s12, s13
            G[i + 2, j], G[i + 2, j + 1] = s20, s21
            G[i + 2, j + 2], G[i + 2, j + 3] = s22, s23
            G[i + 3, j], G[i + 3, j + 1] = s30, s31
            G[i + 3, j + 2], G[i + 3, j + 3] = s32, s33
    for i in range(tiled, count):
        for j in range(i + 1):
            total = zero
            for k in range(d):
                total += T[rows[i], k] * T[rows[j], k]
            G[i, j] = total
    for i in range(count):
        for j in range(i):
            G[j, i] = G[i, j]


@kernel(**_FAST)
def bridge(times, products, G, z):
    """Normals z become z_i = <a_i, W_t> given W_B, for t = times[i] steps before row i.

    z | W_B ~ N((t/B) <a_i, W_B>, S), S_ij = (min(t_i, t_j) - t_i t_j / B) <a_i, a_j>.
    S is factored as D R D with D = diag(|a_i|): R has bridge eigenvalues of 1/4 and
    more where every step has one row. Rows of one step can make R singular; a jitter
    of its diagonal above all rounding of G keeps the factor real then, and what is left
    of a pivot is no less than the jitter.
    """
    rows = times.shape[0]
    steps = times[rows - 1] + 1
    L = np.zeros((rows, rows))
    norms = np.empty(rows)
    jitter = 0.0
    for i in range(rows):
        norms[i] = np.sqrt(np.float64(G[i, i]))
        if i > 0 and times[i] == times[i - 1]:
            jitter = 1e-13 if G.itemsize == 8 else 1e-4
    first = 0
    while first < rows and times[first] == 0:
        first += 1
    for i in range(first, rows):
        t = times[i]
        for j in range(first, i + 1):
            s = times[j]
            covariance = s - s * t / steps  # s <= t
            if i == j:
                cosine = 1.0 + jitter
            elif norms[i] > 0 and norms[j] > 0:
                cosine = np.float64(G[i, j]) / norms[i] / norms[j]
            else:
                cosine = 0.0
            total = covariance * cosine
            for k in range(first, j):
                total -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(max(total, jitter * covariance))
            else:
                L[i, j] = total / L[j, j]
    for i in range(rows - 1, first - 1, -1):
        total = 0.0
        for k in range(first, i + 1):
            total += L[i, k] * z[k]
        z[i] = times[i] / steps * products[i] + norms[i] * total
    for i in range(first):
        z[i] = 0.0  # W_0 = 0


@kernel(**_FAST)
def descend_one(
    x, T, W, G, rows, y, limits, after, eta, address, parameter, z, scale, margins
):
    """One block on one column, from the margins <a_i, x_0> to x_B.

    m_i = <a_i, x_0> - eta sum_{s before i} c_s <a_s, a_i> - scale z_i, and
    x_B = x_0 - eta sum c_i a_i - scale W_B. after[i]: first row of the step after i's.
    """
    count = rows.shape[0]
    for i in range(count):
        r = rows[i]
        slope = call(address, margins[i] - scale * z[i], y[r], parameter)
        step = x.dtype.type(eta * _clipped(slope, limits[r]))
        margins[i] = step
        for j in range(after[i], count):
            margins[j] -= step * G[i, j]
    scaled = x.dtype.type(scale)
    for k in range(x.shape[0]):
        x[k] -= scaled * W[k]
    tiled = count - count % 4
    for i in range(0, tiled, 4):
        c0, c1, c2, c3 = margins[i], margins[i + 1], margins[i + 2], margins[i + 3]
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for k in range(x.shape[0]):
            x[k] -= c0 * T[r0, k] + c1 * T[r1, k] + c2 * T[r2, k] + c3 * T[r3, k]
    for i in range(tiled, count):
        c0, r = margins[i], rows[i]
        for k in range(x.shape[0]):
            x[k] -= c0 * T[r, k]


@kernel(**_FAST)
def blocks_one(
    x,
    T,
    y,
    limits,
    rows,
    size,
    times,
    after,
    eta,
    address,
    parameter,
    scale,
    W,
    z,
    given,
    margins,
    products,
    G,
):
    """Blocks of `size` rows on one column, one after the other.

    W (blocks, d) and z (rows,) are their noise: z the numbers <a_i, W_t> where `given`,
    else the normals for `bridge`. times, after: of the rows within a block. The last
    three are room for one block.
    """
    for block in range(W.shape[0]):
        first = block * size
        piece = rows[first : first + size]
        count = piece.shape[0]
        gram_, sums = G[:count, :count], products[:count]
        products_one(T, piece, x, W[block], margins[:count], sums)
        gram(T, piece, gram_)
        noise = z[first : first + count]
        if not given:
            bridge(times[:count], sums, gram_, noise)
        row_data = (piece, y, limits, after[:count])
        loss = (address, parameter)
        descend_one(x, T, W[block], gram_, *row_data, eta, *loss, noise, scale, margins)


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
