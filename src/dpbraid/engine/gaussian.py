"""The Gaussian, correctly rounded to a grid (PRIVACY.md 10.3).

A draw is round(Z / gamma) for a Z that is exactly N(0, std^2): no float error, no cut
tail. A uniform U with infinitely many secret bits defines Z = -sign * PhiInverse(U/2);
64 of them are drawn, and more only where they cannot decide the rounding:

1. sign and m from 64 bits: the tail probability P(Z > z) lies in (m, m + 1) 2^-64;
2. y = h z in float64, with h = std / gamma grid cells a standard deviation;
3. if y is farther from the nearest tie than its error bound, rint(y) is the answer;
4. otherwise draw on, 128 bits at a time, until both ends of the interval of U round
   alike: each is compared with the exact tail probability at the tie next to it, in
   decimal arithmetic of as many digits as it takes.

The error bound of step 3 is (1 + z) 4e-15 for z. It covers the quantile function's
error, measured below 5e-16 (1 + z) against 50 digits for m >= 2^32 (smaller m draw on,
see tests/engine/test_gaussian.py), the rounding of h and of the product, 3e-16 z, and
the width of the interval of U, at most 1/(2 z m), where m >= 2^48 makes it 4e-16; in
between, 1/(z m) is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpbraid.engine.compilation import kernel

_ERROR = 4e-15
_SMALLEST = 2**32
_NARROW = 2**48
_MORE_BITS = 128
MOST_CELLS = 2**40

# Wichura's rational approximations of the normal quantile (Applied Statistics 37,
# 1988, algorithm AS 241, PPND16): numerator and denominator, highest power first.
_CENTER = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
_SIDE = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)
_FAR = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ),
)


@kernel(inline="always")
def _ratio(r, coefficients):  # type: ignore[no-untyped-def]
    top, bottom = coefficients
    numerator = top[0]
    denominator = bottom[0]
    for i in range(1, 8):
        numerator = numerator * r + top[i]
        denominator = denominator * r + bottom[i]
    return numerator / denominator


@kernel()
def upper_quantile(center, tail):  # type: ignore[no-untyped-def]
    """Z >= 0 with P(Z > z) = tail, and center = 1/2 - tail to full precision."""
    if center <= 0.425:
        return center * _ratio(0.180625 - center * center, _CENTER)
    r = np.sqrt(-np.log(tail))
    if r <= 5.0:
        return _ratio(r - 1.6, _SIDE)
    return _ratio(r - 5.0, _FAR)


@kernel()
def _round_all(bits, cells, out, unsure):  # type: ignore[no-untyped-def]
    """Steps 1 to 3 for all bits (int64); the number of unsure draws and where."""
    count = 0
    for i in range(bits.shape[0]):
        s = bits[i]
        # Z > 0 for s >= 0; distance of |U - 1/2| from 0 in units of 2^-64
        inner = s if s >= 0 else -(s + 1)
        m = 0x7FFFFFFFFFFFFFFF - inner
        center = (np.float64(inner) + 0.5) * 2.0**-64
        z = upper_quantile(center, (np.float64(m) + 0.5) * 2.0**-64)
        y = z * cells
        rounded = np.rint(y)
        error = (1.0 + z) * _ERROR
        if m < _NARROW:
            error += 1.0 / (z * max(m, 1))
        if 0.5 - abs(y - rounded) <= cells * error or m < _SMALLEST:
            unsure[count] = i
            count += 1
        out[i] = np.int64(rounded) if s >= 0 else -np.int64(rounded)
    return count


def draw(rng: np.random.Generator, count: int, cells: Fraction) -> NDArray[np.int64]:
    """`count` independent draws of round(Z), Z exactly N(0, cells^2).

    cells: the standard deviation in grid cells, at most MOST_CELLS.
    """
    width = float(cells)
    if not 1 <= width <= MOST_CELLS:
        raise ValueError(f"cells must be in [1, 2^40], got {width!r}")
    raw = rng.bit_generator.random_raw
    bits = np.asarray(raw(count), dtype=np.uint64).view(np.int64)
    out = np.empty(count, np.int64)
    unsure = np.empty(count, np.int64)
    for i in unsure[: _round_all(bits, width, out, unsure)]:
        out[i] = decide(int(bits[i]), cells, lambda: _integer(raw))
    return out


def _integer(raw: Callable[[int], NDArray[np.uint64]]) -> int:
    """_MORE_BITS fresh bits."""
    return int.from_bytes(np.asarray(raw(_MORE_BITS // 64), np.uint64).tobytes())


def decide(bits: int, cells: Fraction, more: Callable[[], int]) -> int:
    """Step 4: the rounded draw for these 64 bits (as a signed integer), exactly.

    more: gives _MORE_BITS fresh bits as an integer each time it is called.
    """
    sign, inner = (1, bits) if bits >= 0 else (-1, -(bits + 1))
    m, length = 2**63 - 1 - inner, 64
    while True:
        m, length = m << _MORE_BITS | more(), length + _MORE_BITS
        if m == 0:  # z has no upper bound yet
            continue
        near = _rounded(Fraction(m + 1, 2**length), cells, length)
        far = _rounded(Fraction(m, 2**length), cells, length)
        if near is not None and near == far:
            return sign * near


def _rounded(probability: Fraction, cells: Fraction, bits: int) -> int | None:
    """round(cells z), P(Z > z) = probability; None where 2^-bits cannot tell.

    z is known to far better than half a cell, so only the tie next to it is in doubt.
    """
    z = upper_quantile(float(Fraction(1, 2) - probability), float(probability))
    below: int = math.floor(z * float(cells))
    least, most = tail((below + Fraction(1, 2)) / cells, bits)
    if probability <= least:  # z is above the tie
        return below + 1
    return below if probability >= most else None


def tail(t: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """P(Z > t) for a standard normal and t >= 0: bounds much closer than 2^-bits.

    1/2 - phi(t) (t + t^3/3 + t^5/(3 5) + ..): all terms are positive, and once
    t^2 < (2k + 3) / 2 the rest of the series is below its last term. Each of the N
    terms carries at most 3k relative errors of 10^-digits; 20 digits are spared.
    """
    digits = bits * 31 // 100 + 40
    with localcontext(Context(prec=digits)):
        x = Decimal(t.numerator) / Decimal(t.denominator)
        square = x * x
        term = total = x
        k = 0
        while term > total.scaleb(-digits) or 2 * square > 2 * k + 3:
            k += 1
            term = term * square / (2 * k + 1)
            total += term
        density = (-square / 2).exp() / (2 * pi(digits)).sqrt()
        value = Fraction(Decimal("0.5") - density * total)
    error = Fraction(1, 10 ** (digits - 20))
    return value - error, value + error


@cache
def pi(digits: int) -> Decimal:
    """Machin's 16 arctan(1/5) - 4 arctan(1/239), in integers with guard digits."""
    one = 10 ** (digits + 10)

    def arctan_inverse(n: int) -> int:
        power: int = one // n
        total, k = power, 1
        while power:
            power //= -n * n  # rounds down: errors stay below one unit a term
            k += 2
            total += power // k
        return total

    value = 16 * arctan_inverse(5) - 4 * arctan_inverse(239)
    with localcontext(Context(prec=digits + 20)):
        return Decimal(value) / Decimal(one)
