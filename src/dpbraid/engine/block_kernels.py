"""The compiled blocks (docs/engine.md, "Blocks"); words as in kernels.py.

One column does all of a block in one call, its noise included, while the rows of the
block come from memory. Many columns are matrix products around the same pieces.
"""

# Numba infers the types of this file; mypy cannot follow it.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from dpbraid.engine.compilation import kernel
from dpbraid.engine.kernels import FAST, clipped, dot
from dpbraid.engine.normals import fill, from_word, next_word
from dpbraid.engine.prefetch import prefetch
from dpbraid.engine.slopes import call


@kernel(**FAST)
def gather(T, rows, A):
    """A_i = a_i."""
    d = T.shape[1]
    for i in range(rows.shape[0]):
        r = rows[i]
        for k in range(d):
            A[i, k] = T[r, k]


@kernel(**FAST)
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
        margins[j], sums[j] = dot(T, rows[j], x), dot(T, rows[j], w)
        for i in range(j):
            total = zero
            for k in range(d):
                total += T[rows[i], k] * T[rows[j], k]
            G[i, j] = total


@kernel()
def fill_beside(source, std, out, T, rows):
    """Fill `out` (d,) with std times normals; these rows come from memory meanwhile.

    Three cache lines of eight numbers a normal, a row beside its share of the normals;
    to ask for what lies behind a row's end does no harm.
    """
    d, count = T.shape[1], rows.shape[0]
    for i in range(count):
        r, column = rows[i], 0
        for k in range(i * d // count, (i + 1) * d // count):
            if column < d:
                prefetch(T, r, column)
                prefetch(T, r, column + 8)
                prefetch(T, r, column + 16)
            column += 24
            out[k] = std * from_word(source, next_word(source))


@kernel(**FAST)
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


@kernel(**FAST)
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


@kernel(**FAST)
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
            step = x.dtype.type(eta * clipped(c, limits[r]))
            margins[i] = step
            for j in range(after[i], count):
                margins[j] -= step * G[i, j]
        _move(x, T, block, margins, x.dtype.type(scale), w)


@kernel(**FAST)
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
            step = eta[c] * clipped(slope, limits[r])
            M[i, c] = 0 if abs(step) < tiny else step
        for j in range(after[i], count):
            g = G[i, j]
            for c in range(columns):
                M[j, c] -= g * M[i, c]


@kernel(**FAST)
def slopes(M, rows, y, limits, eta, address, parameter, tiny):
    """M_ic <- eta_c c_i for margins M, all at the same X."""
    count, columns = M.shape
    for i in range(count):
        r = rows[i]
        for c in range(columns):
            slope = call(address, M[i, c], y[r], parameter)
            step = eta[c] * clipped(slope, limits[r])
            M[i, c] = 0 if abs(step) < tiny else step
