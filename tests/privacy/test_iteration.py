"""Theorems 1 and 2: the hull against independent optimisers and closed forms.

Properties (b) to (f) of the note on privacy accounting, as hypothesis tests.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpbraid as db
from dpbraid.privacy import iteration, iteration_mu
from tests.privacy.instances import linear_mu, mean_mu, repeated, reset_mu

Array = NDArray[np.float64]

maybe = st.one_of(st.just(0.0), st.floats(0.05, 3))


@dataclass(frozen=True)
class Chain:
    """Steps with shifts, noise and contractions; a domain enforced after some."""

    shifts: tuple[float, ...]
    noise: tuple[float, ...]
    factors: tuple[float, ...]
    ends: tuple[int, ...] = ()

    def mu(self, diameter: float | None = None) -> float:
        ends = None if diameter is None else self.ends
        return iteration_mu(self.shifts, self.noise, self.factors, diameter, ends)


@st.composite
def chains(
    draw: st.DrawFn, most: int = 8, factor: st.SearchStrategy[float] | None = None
) -> Chain:
    """A few steps; any of them may be without shift, without noise, and contract."""
    count = draw(st.integers(1, most))
    if factor is None:
        factor = st.one_of(st.just(1.0), st.floats(0.3, 1))

    def column(values: st.SearchStrategy[float]) -> tuple[float, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    ends = draw(st.sets(st.integers(1, count)))
    return Chain(column(maybe), column(maybe), column(factor), tuple(sorted(ends)))


# -- independent optimisers -----------------------------------------------------------


def least_squares_mu(chain: Chain) -> float:
    """Theorem 1 as a quadratic program: z_t as free variables, solved by SLSQP.

    a_t = c_t z_{t-1} + s_t - z_t >= 0 with z >= 0; noiseless steps carry everything.
    """
    from scipy.optimize import minimize

    s, sig, c = (np.array(v) for v in (chain.shifts, chain.noise, chain.factors))
    noisy = np.flatnonzero(sig > 0)
    if len(noisy) == 0 or np.any(s[noisy[-1] + 1 :] > 0):
        return math.inf if np.any(s > 0) else 0.0
    # between noises nothing can be removed: fold into (arriving shift, factor, noise)
    arriving, factors, shift, factor = [], [], 0.0, 1.0
    for t in range(noisy[-1] + 1):
        shift, factor = c[t] * shift + s[t], factor * c[t]
        if sig[t] > 0:
            arriving.append(shift)
            factors.append(factor)
            shift, factor = 0.0, 1.0
    a_s, a_c, a_sig = np.array(arriving), np.array(factors), sig[noisy]

    def removed(z: Array) -> Array:
        before = np.concatenate(([0.0], z))
        after = np.concatenate((z, [0.0]))
        return np.asarray(a_c * before + a_s - after)

    def cost(z: Array) -> float:
        return float(np.sum((removed(z) / a_sig) ** 2))

    k = len(noisy)
    if k == 1:
        return math.sqrt(cost(np.zeros(0)))
    best = min(
        (
            minimize(
                cost,
                np.full(k - 1, start),
                method="SLSQP",
                bounds=[(0, None)] * (k - 1),
                constraints=[{"type": "ineq", "fun": removed}],
                options={"maxiter": 500, "ftol": 1e-14},
            )
            for start in (0.0, 0.5)
        ),
        key=lambda found: (np.min(removed(found.x)) < -1e-9, found.fun),
    )
    return math.sqrt(best.fun)


@settings(max_examples=60)
@given(chains(6))
def test_the_hull_is_the_optimum(chain: Chain) -> None:
    found, other = chain.mu(), least_squares_mu(chain)
    if math.isinf(other):
        assert math.isinf(found)
    else:
        assert found == pytest.approx(other, rel=2e-5, abs=1e-7)


def capped_mu(chain: Chain, diameter: float) -> float:
    """Bounded domain by brute force: which cut, if any, is the only one that counts.

    After a cut at tau with z = D the chain starts anew: a chain with first shift D.
    """
    best = chain.mu()
    for tau in chain.ends:
        if tau == len(chain.shifts):
            continue
        first = diameter * chain.factors[tau] + chain.shifts[tau]
        rest = Chain(
            (first, *chain.shifts[tau + 1 :]),
            chain.noise[tau:],
            chain.factors[tau:],
        )
        best = min(best, least_squares_mu(rest))
    return best


@settings(max_examples=40)
@given(chains(5), st.floats(0.05, 3))
def test_the_bounded_domain_is_the_best_cut(chain: Chain, diameter: float) -> None:
    assume(any(chain.shifts))
    assert chain.mu(diameter) == pytest.approx(
        capped_mu(chain, diameter), rel=2e-5, abs=1e-7
    )


def simulated_cost(chain: Chain, allocation: Array, diameter: float) -> float:
    """sum a^2/sig^2 of one allocation under the capped recursion; inf if not valid."""
    z = cost = 0.0
    for t, a in enumerate(allocation):
        z = chain.factors[t] * z + chain.shifts[t]
        a = min(a, z)
        if a > 0:
            if chain.noise[t] == 0:
                return math.inf
            cost += (a / chain.noise[t]) ** 2
        z -= a
        if t + 1 in chain.ends:
            z = min(z, diameter)
    return math.inf if z > 1e-12 else cost


def test_no_allocation_beats_the_bounded_domain() -> None:
    """Every allocation on a grid, with cuts active as often as they like."""
    chain = Chain((1.0, 0.4, 0.8, 0.0), (1.0, 0.7, 0.9, 1.3), (1, 0.9, 1, 0.8), (1, 2))
    grid = np.linspace(0, 2.2, 23)
    for diameter in (0.1, 0.3, 0.7, 2.0):
        mu = chain.mu(diameter)
        best = min(
            simulated_cost(chain, np.array([*head, math.inf]), diameter)
            for head in itertools.product(grid, repeat=3)
        )
        assert mu**2 <= best * (1 + 1e-12)
        assert mu**2 >= best * 0.9  # the grid comes near


# -- closed forms ---------------------------------------------------------------------


@settings(max_examples=100)
@given(st.integers(1, 7), st.integers(1, 8), st.floats(0.1, 5), st.data())
def test_uniform_case(k: int, n: int, ratio: float, data: st.DataObject) -> None:
    """4.3: mu^2 = ratio^2 ((K - 1)/n + 1/(n - j + 1)), for every position."""
    j = data.draw(st.integers(1, n))
    found = iteration_mu(repeated(n, k, j, ratio), np.ones(n * k))
    exact = ratio * math.sqrt((k - 1) / n + 1 / (n - j + 1))
    assert 0 <= found / exact - 1 < 1e-12


@settings(max_examples=150)
@given(st.integers(1, 6), st.integers(1, 8), st.floats(0.2, 0.999), st.data())
def test_one_contraction_factor(k: int, n: int, c: float, data: st.DataObject) -> None:
    """4.4: no corner binds, or only the one before the last use."""
    j = data.draw(st.integers(1, n))
    found = iteration_mu(repeated(n, k, j, 1.0), np.ones(n * k), np.full(n * k, c))
    last = c ** (2 * (n - j)) * (1 - c * c) / (1 - c ** (2 * (n - j + 1)))
    binds = last + c ** (2 * n - 2) * (1 - c * c) / (1 - c**n) ** 2 * (
        1 - c ** (n * (k - 1))
    ) / (1 + c ** (n * (k - 1)))
    free = sum(c ** (n * i + n - j) for i in range(k)) ** 2 * (1 - c * c)
    free /= 1 - c ** (2 * (n * (k - 1) + n - j + 1))
    first = sum(c ** (i * n - 1) for i in range(1, k))
    variance = (1 - c ** (2 * n * (k - 1))) / (1 - c * c)
    slope = first / (variance * c ** (n - j + 1)) if k > 1 else 0.0
    early = slope <= c ** (n - j) * (1 - c * c) / (1 - c ** (2 * (n - j + 1)))
    assert found**2 == pytest.approx(binds if early else free, rel=1e-9)


@pytest.mark.parametrize(
    ("j", "factor", "mu2"),
    [
        (1000, 1, 1.049),
        (1000, 0.909, 1.017),
        (1000, 0.5, 1.0008),
        (500, 1, 0.051),
        (500, 0.909, 0.0206),
        (500, 0.5, 0.0032),
    ],
)
def test_contraction_of_the_proximal_step(j: int, factor: float, mu2: float) -> None:
    """The figures of 4.4, at their printed digits."""
    n, k = 1000, 50
    factors = np.ones(n * k)
    factors[n::n] = factor
    found = iteration_mu(repeated(n, k, j, 1.0), np.ones(n * k), factors) ** 2
    assert found == pytest.approx(mu2, abs=5e-5)


@pytest.mark.parametrize(("diameter", "scaled"), [(1, 4), (5, 20), (10, 40), (20, 51)])
def test_bounded_domain_of_the_note(diameter: float, scaled: float) -> None:
    """4.5: n mu^2 for n = 1000, K = 50, j = 500, at the printed digits."""
    n, k = 1000, 50
    found = iteration_mu(
        repeated(n, k, 500, 1.0),
        np.ones(n * k),
        diameter=diameter,
        epoch_ends=range(n, n * k + 1, n),
    )
    assert n * found**2 == pytest.approx(scaled, abs=0.51)


# -- (b) to (f) -----------------------------------------------------------------------


@settings(max_examples=200)
@given(chains(), st.floats(-30, 30), st.floats(0.1, 2))
def test_invariant_under_scaling(chain: Chain, power: float, diameter: float) -> None:
    factor = 10**power
    scaled = replace(
        chain,
        shifts=tuple(factor * s for s in chain.shifts),
        noise=tuple(factor * sig for sig in chain.noise),
    )
    assert scaled.mu() == pytest.approx(chain.mu(), rel=1e-11)
    if any(chain.shifts):
        found = scaled.mu(factor * diameter)
        assert found == pytest.approx(chain.mu(diameter), rel=1e-11)


@settings(max_examples=300)
@given(chains(), st.floats(1.01, 3), st.floats(0.1, 2), st.data())
def test_monotone_in_shift_noise_contraction_and_diameter(
    chain: Chain, more: float, diameter: float, data: st.DataObject
) -> None:
    t = data.draw(st.integers(0, len(chain.shifts) - 1))

    def changed(values: tuple[float, ...], value: float) -> tuple[float, ...]:
        return (*values[:t], value, *values[t + 1 :])

    larger = changed(chain.shifts, chain.shifts[t] * more + 0.1)
    louder = changed(chain.noise, chain.noise[t] * more + 0.1)
    looser = changed(chain.factors, min(chain.factors[t] * more, 1.0))
    for bound in (None, diameter):
        mu = chain.mu(bound)
        slack = 1 + 1e-12
        assert replace(chain, shifts=larger).mu(bound) * slack >= mu
        assert replace(chain, noise=louder).mu(bound) <= mu * slack
        assert replace(chain, factors=looser).mu(bound) * slack >= mu
    assert chain.mu(diameter * more) * slack >= chain.mu(diameter)
    assert chain.mu(diameter) <= chain.mu() * slack


@settings(max_examples=300)
@given(chains(), st.floats(0, 1), st.floats(0.1, 2), st.data())
def test_a_later_use_costs_no_less(
    chain: Chain, share: float, diameter: float, data: st.DataObject
) -> None:
    """Lemma M: part of a shift moves to a later step, with c_t <= 1."""
    count = len(chain.shifts)
    assume(count > 1)
    i = data.draw(st.integers(0, count - 2))
    j = data.draw(st.integers(i + 1, count - 1))
    moved = list(chain.shifts)
    moved[i], moved[j] = moved[i] * (1 - share), moved[j] + moved[i] * share
    later = replace(chain, shifts=tuple(moved))
    assert later.mu() * (1 + 1e-12) >= chain.mu()
    assert later.mu(diameter) * (1 + 1e-12) >= chain.mu(diameter)


@settings(max_examples=200)
@given(chains(factor=st.just(1.0)))
def test_at_least_all_shift_over_all_noise(chain: Chain) -> None:
    """(c), and (f) for linear losses: K s / sqrt(V) <= mu."""
    assume(any(chain.noise))
    assert chain.mu() >= linear_mu(chain.shifts, chain.noise) * (1 - 1e-12)


@settings(max_examples=200)
@given(chains(factor=st.just(1.0)), st.data())
def test_at_least_any_use_by_itself(chain: Chain, data: st.DataObject) -> None:
    """(c): mu^2 is at least what the last uses need for themselves."""
    t = data.draw(st.integers(0, len(chain.shifts) - 1))
    alone = replace(chain, shifts=(0.0,) * t + chain.shifts[t:])
    assert chain.mu() * (1 + 1e-12) >= alone.mu()


@settings(max_examples=100)
@given(st.integers(1, 9), st.integers(1, 5), st.floats(0.1, 3), st.floats(0.1, 3))
def test_epoch_end_noise(k: int, n: int, shift: float, noise: float) -> None:
    """(d): K s^2 / w^2."""
    stds = np.zeros(n * k)
    stds[n - 1 :: n] = noise
    found = iteration_mu(repeated(n, k, n, shift), stds)
    assert found == pytest.approx(shift / noise * math.sqrt(k), rel=1e-12)


@settings(max_examples=200)
@given(chains(), st.integers(1, 4), st.floats(0.1, 2), st.floats(0.05, 1))
def test_what_changes_nothing(
    chain: Chain, count: int, noise: float, factor: float
) -> None:
    """(e): noise before the first use; steps without noise or use after the last."""
    early = Chain(
        (0.0,) * count + chain.shifts,
        (noise,) * count + chain.noise,
        (factor,) * count + chain.factors,
    )
    late = Chain(
        chain.shifts + (0.0,) * count,
        chain.noise + (0.0,) * count,
        chain.factors + (factor,) * count,
    )
    for other in (early, late):
        assert other.mu() == pytest.approx(chain.mu(), rel=1e-12)


@settings(max_examples=50)
@given(chains(), st.floats(1e-300, 1))
def test_a_use_after_the_last_noise_is_not_hidden(chain: Chain, shift: float) -> None:
    later = Chain((*chain.shifts, shift), (*chain.noise, 0.0), (*chain.factors, 1.0))
    assert later.mu() == math.inf


@settings(max_examples=200)
@given(chains())
def test_at_least_the_exact_mean(chain: Chain) -> None:
    """(f): x -> c x + s + noise is exactly Gaussian, and never above the bound."""
    used = [t for t, s in enumerate(chain.shifts) if s]
    assume(used and any(chain.noise))
    exact = mean_mu(*(np.array(v) for v in (chain.shifts, chain.noise, chain.factors)))
    assert exact <= chain.mu() * (1 + 1e-12)


# -- how near it is -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("j", "ratio"), [(1000, 1.0000005), (900, 1.0009), (500, 1.005)]
)
def test_tight_on_the_reset_instance(j: int, ratio: float) -> None:
    """4.6: nothing better is possible for maps that are only nonexpansive."""
    n, k = 1000, 50
    bound = iteration_mu(repeated(n, k, j, 1.0), np.ones(n * k))
    exact = reset_mu(k, n, j, 1.0)
    print(f"j={j}: bound / exact = {bound / exact:.9f}")
    assert bound >= exact
    assert bound / exact == pytest.approx(ratio, abs=6e-4 if j < 1000 else 1e-7)


# -- rounding and edges ---------------------------------------------------------------


def test_neighbours_of_an_idle_stretch_stay_apart() -> None:
    """A stretch without use and noise lies between two uses with rising slopes."""
    apart = iteration._pooled_once(np.array([100.0, 0, 1]), np.array([1.0, 0, 1]))
    assert [list(part) for part in apart] == [[100, 1], [1, 1]]
    # the tiny shift in the middle is no shift any more after scaling
    found = iteration_mu([1, 5e-324, 2], [1, 0, 1])
    assert found == pytest.approx(math.sqrt(1 + 4), rel=1e-12)


def test_what_underflows_is_not_free() -> None:
    # all contraction after the last noise: post-processing
    assert iteration_mu([1, 0, 0], [1, 0, 0], [1, 1e-200, 1e-200]) >= 1
    # contraction before the last noise: next to nothing, but not nothing
    faint = iteration_mu([1, 0, 0], [1, 0, 1], [1, 1e-200, 1e-200])
    assert 0 < faint < 1e-100
    assert iteration_mu([1e-200], [1e200]) > 0


@settings(max_examples=100)
@given(chains(8))
def test_rounded_up(chain: Chain) -> None:
    """Against the same hull in exact rationals."""
    from fractions import Fraction

    s, sig, c = (
        [Fraction(x) for x in v] for v in (chain.shifts, chain.noise, chain.factors)
    )
    noisy = [t for t, x in enumerate(sig) if x > 0]
    assume(noisy and any(s) and not any(s[noisy[-1] + 1 :]))
    weight, edges = Fraction(1), []
    for t in range(noisy[-1], -1, -1):
        dv, ds = (sig[t] * weight) ** 2, s[t] * weight
        while edges and ds * edges[-1][0] >= edges[-1][1] * dv:
            pooled = edges.pop()
            dv, ds = dv + pooled[0], ds + pooled[1]
        edges.append((dv, ds))
        weight *= c[t]
    exact = sum(ds * ds / dv for dv, ds in edges if ds)
    assert Fraction(chain.mu()) ** 2 >= exact
    assert Fraction(chain.mu()) ** 2 <= exact * (1 + Fraction(1, 10**12))


def test_refuses_what_makes_no_sense() -> None:
    for arguments, message in (
        (([], []), "shifts must be a sequence"),
        (([1], [1, 1]), "noise_stds must have one entry a step"),
        (([-1], [1]), "shifts must be finite numbers >= 0"),
        (([1], [math.nan]), "noise_stds must be finite numbers"),
        (([1], [1], None, 1.0), "diameter and epoch_ends must be given together"),
        (([1], [1], None, 1.0, [2]), r"epoch_ends must be an integer in \[1, 1\]"),
        (([1] * 3, [1] * 3, [1e200] * 3), "contractions must have products in"),
    ):
        with pytest.raises(db.InvalidParameterError, match=message):
            iteration_mu(*arguments)
    assert iteration_mu([0, 0], [1, 1]) == 0
    assert iteration_mu([1], [0]) == math.inf
