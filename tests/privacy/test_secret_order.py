"""D1 to D5: averages over secret orders, against enumeration, simulation and bounds.

Randomised checks have fixed seeds, so they fail always or never; the bands are five
standard errors wide (one-sided false-failure rate 3e-7 over seeds).
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpbraid as db
from dpbraid.privacy import (
    PrivacyAssumptionError,
    account,
    gaussian,
    gaussian_delta,
    gaussian_mu,
    iteration_mu,
    participation,
    positions,
    secret_order,
    steps,
    subsampling,
)
from tests.privacy.instances import clipped
from tests.privacy.literal import accountable, last_steps, sizes, walk

Array = NDArray[np.float64]
FULL = os.environ.get("DPBRAID_FULL") == "1"
FEW = settings(max_examples=300 if FULL else 40)

UNIFORM = (db.ShuffleOnce(), db.Reshuffle())


def secret_delta(mechanism: db.Mechanism, epsilon: float) -> float:
    return account(mechanism, "secret_order").delta(epsilon)


def theorem(mechanism: db.Mechanism) -> str:
    assumptions = account(mechanism, "secret_order").assumptions
    return next(a.evidence for a in assumptions if a.name == "theorem")


def inner(epsilon: float, p: float) -> float:
    return math.log1p(math.expm1(epsilon) / p)


# -- D5: the law of the hull's cost, in rationals -------------------------------------


def hull_cost(increments: tuple[int, ...]) -> Fraction:
    """Cost of Theorem 2 at unit spacing, in rationals."""
    edges: list[tuple[int, int]] = []
    for ds in reversed(increments):
        dv = 1
        while edges and ds * edges[-1][0] >= edges[-1][1] * dv:
            pooled = edges.pop()
            dv, ds = dv + pooled[0], ds + pooled[1]
        edges.append((dv, ds))
    return sum((Fraction(ds * ds, dv) for dv, ds in edges), Fraction(0))


def enumerated(m: int, p: Fraction) -> dict[Fraction, Fraction]:
    law: dict[Fraction, Fraction] = {}
    for increments in itertools.product((0, 1), repeat=m):
        cost, used = hull_cost(increments), sum(increments)
        law[cost] = law.get(cost, Fraction(0)) + p**used * (1 - p) ** (m - used)
    return law


def by_cycles(m: int, p: Fraction) -> dict[Fraction, Fraction]:
    """D5: f_m = (1/m) sum_l h_l * f_{m-l}, h_l the law of Bin(l, p)^2/l."""
    laws = [{Fraction(0): Fraction(1)}]
    for size in range(1, m + 1):
        law: dict[Fraction, Fraction] = {}
        for length in range(1, size + 1):
            for k in range(length + 1):
                weight = math.comb(length, k) * p**k * (1 - p) ** (length - k)
                for rest, probability in laws[size - length].items():
                    cost = Fraction(k * k, length) + rest
                    law[cost] = law.get(cost, 0) + weight * probability / size
        laws.append(law)
    return laws[m]


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 3), Fraction(3, 4)])
@pytest.mark.parametrize("m", range(1, 13 if FULL else 10))
def test_the_law_of_the_hull_is_exact(m: int, p: Fraction) -> None:
    exact = enumerated(m, p)
    assert by_cycles(m, p) == exact
    values, weights = participation.hull_cost_law(m, float(p))
    if m <= 8:  # every value is on the grid
        positive = {cost: w for cost, w in exact.items() if cost > 0}
        assert len(values) == len(positive)
        for value, weight, cost in zip(values, weights, sorted(positive), strict=True):
            assert value == pytest.approx(float(cost), rel=1e-14)
            assert weight == pytest.approx(float(positive[cost]), rel=1e-12)
    else:  # rounded up, and hardly: every tail probability is at least the exact one
        for cost in exact:
            tail = sum(w for c, w in exact.items() if c >= cost > 0)
            ours = float(np.sum(weights[values >= float(cost) - 1e-9]))
            assert cost == 0 or ours >= float(tail) * (1 - 1e-12)
        mean = float(sum(c * w for c, w in exact.items()))
        assert 0 <= float(values @ weights) - mean < m / 256


@pytest.mark.parametrize(("m", "p"), [(50, 0.5), (100, 0.2), (300, 0.7), (1000, 0.05)])
def test_the_mean_of_the_law(m: int, p: float) -> None:
    """E C_m = p^2 m + p (1 - p) H_m, rounding up each of H_m cycles to the grid.

    Beyond 128 epochs the law is that of blocks, with the corners between them forced.
    """
    values, weights = participation.hull_cost_law(m, p)
    blocks = -(-m // 128)
    parts = [m * (i + 1) // blocks - m * i // blocks for i in range(blocks)]
    cycles = [sum(1 / i for i in range(1, part + 1)) for part in parts]
    exact = p * p * m + p * (1 - p) * sum(cycles)
    found = float(values @ weights)
    print(f"m={m}, p={p}: mean {found:.5f}, of exact blocks {exact:.5f}")
    assert exact * (1 - 1e-12) <= found <= exact + sum(cycles) / (256 if m < 65 else 32)
    assert float(np.sum(weights)) <= 1 + 1e-12


# -- D1: one permutation --------------------------------------------------------------


@FEW
@given(
    st.integers(1, 30), st.integers(1, 6), st.floats(0.4, 9), st.floats(0, 5), st.data()
)
def test_shuffle_once_closed_form(
    n: int, k: int, noise: float, epsilon: float, data: st.DataObject
) -> None:
    """(1/n) sum_j delta_G(e; (s/sigma) sqrt((K - 1)/n + 1/(n - j + 1)))."""
    n_d = data.draw(st.integers(1, n))
    mechanism = clipped(n, [(n_d, noise)] * k, order=db.ShuffleOnce())
    exact = sum(
        gaussian_delta(
            inner(epsilon, n_d / n),
            2 / noise * math.sqrt((k - 1) / n + 1 / (n - j + 1)),
        )
        for j in range(1, n_d + 1)
    )
    found = secret_delta(mechanism, epsilon)
    assert exact / n * (1 - 1e-11) <= found <= exact / n * (1 + 1e-10) + 1e-300


@FEW
@given(accountable(quiet=False), st.floats(0, 4))
def test_shuffle_once_slot_by_slot(mechanism: db.Mechanism, epsilon: float) -> None:
    """Mixed epochs and batches: the same slot in every epoch that reaches it."""
    reached = max(e.private_rows for e in mechanism.epochs)
    if not reached:
        return
    mechanism = replace(mechanism, order=db.ShuffleOnce())
    total = 0.0
    for slot in range(1, reached + 1):
        step = -(-slot // mechanism.batch_size)
        uses = [step if e.private_rows >= slot else 0 for e in mechanism.epochs]
        mu = walk(mechanism, uses, contract=False).mu()
        total += gaussian_delta(inner(epsilon, reached / mechanism.n), mu)
    found = secret_delta(mechanism, epsilon)
    assert found == pytest.approx(total / mechanism.n, rel=1e-10)


# -- D2: fresh permutations -----------------------------------------------------------


@FEW
@given(st.integers(1, 30), st.integers(2, 8), st.floats(0.4, 9), st.floats(0, 5))
def test_reshuffle_closed_form(n: int, k: int, noise: float, epsilon: float) -> None:
    """mu^2(j) = (s^2/sigma^2) ((K - 2)/n + g(j))."""
    plan = steps.read(clipped(n, [(n, noise)] * k))
    total = 0.0
    for j in range(1, n + 1):
        g = 4 / (n + 1) if j <= (n + 1) / 2 else 1 / j + 1 / (n - j + 1)
        total += gaussian_delta(epsilon, 2 / noise * math.sqrt((k - 2) / n + g))
    assert positions.reshuffle(plan).delta(epsilon) == pytest.approx(
        total / n, rel=1e-10
    )


@FEW
@given(accountable(quiet=False), st.floats(0, 4))
def test_reshuffle_slot_by_slot(mechanism: db.Mechanism, epsilon: float) -> None:
    """Worst positions before, a uniform slot or none in the last private epoch."""
    private = [k for k, e in enumerate(mechanism.epochs) if e.private_rows]
    if not private:
        return
    rows, uses = mechanism.epochs[private[-1]].private_rows, last_steps(mechanism)
    total = 0.0
    for slot in range(mechanism.n):
        step = -(-(slot + 1) // mechanism.batch_size) if slot < rows else 0
        uses[private[-1]] = step
        total += gaussian_delta(epsilon, walk(mechanism, uses, contract=False).mu())
    found = positions.reshuffle(steps.read(mechanism)).delta(epsilon)
    assert found == pytest.approx(total / mechanism.n, rel=1e-10, abs=1e-300)


# -- the truth, by enumeration and by simulation --------------------------------------


def exact_average(
    mechanism: db.Mechanism, epsilon: float, outcomes: list[list[tuple[int, float]]]
) -> float:
    """E delta_G(mu(order)) over independent positions with probabilities, per epoch."""
    total = 0.0
    for chosen in itertools.product(*outcomes):
        weight = math.prod(p for _, p in chosen)
        mu = walk(mechanism, [use for use, _ in chosen], contract=False).mu()
        total += weight * gaussian_delta(epsilon, mu)
    return total


@pytest.mark.parametrize("placement", ["every_step", "epoch_end"])
@pytest.mark.parametrize(
    ("n", "n_d", "k", "b"), [(4, 2, 4, 1), (5, 4, 3, 2), (3, 3, 4, 1)]
)
def test_above_the_average_over_all_orders(
    n: int, n_d: int, k: int, b: int, placement: str
) -> None:
    """D2 and D3 bound E over orders of the exact hull, enumerated in full."""
    mechanism = clipped(n, [(n_d, 2.0)] * k, placement=placement, batch_size=b)
    law = [(-(-slot // b), 1 / n) for slot in range(1, n_d + 1)]
    if n_d < n:
        law.append((0, 1 - n_d / n))
    plan = steps.read(mechanism)
    for epsilon in (0.0, 0.5, 2.0):
        exact = exact_average(mechanism, epsilon, [law] * k)
        second = positions.reshuffle(plan).delta(epsilon)
        assert exact <= second * (1 + 1e-12)
        if n_d < n:
            m = len(sizes(n_d, b))
            total = m + len(sizes(n - n_d, b))
            ratio = 2 / b / 2.0
            third = (
                participation.every_step(k, n_d, n, b, m, total, ratio)
                if placement == "every_step"
                else participation.epoch_end(k, n_d, n, ratio)
            ).delta(epsilon)
            print(f"{placement}, epsilon={epsilon}: D3/exact = {third / exact:.4f}")
            assert exact <= third * (1 + 1e-12)
            assert third <= exact * (1.6 if placement == "every_step" else 1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_d", "epsilon", "noise"), [(500, 1.0, 1.125), (500, 5.0, 0.268), (900, 1.0, 1.9)]
)
def test_above_simulated_hulls(n_d: int, epsilon: float, noise: float) -> None:
    """D3 against Monte Carlo over exact hulls, n = 1000, K = 50 (PRIVACY.md 12)."""
    n, k, runs = 1000, 50, 20_000 if FULL else 1000
    rng = np.random.default_rng(11)
    mus = []
    for _ in range(runs):
        takes_part = np.flatnonzero(rng.random(k) < n_d / n)
        at = takes_part * n + rng.integers(0, n_d, len(takes_part))
        # the shift comes before the noise of its step: K corners and the end
        segments = np.diff(np.append(at, n * k))[::-1]
        cost = iteration_cost(segments)
        mus.append(2 / noise * math.sqrt(cost))
    deltas = gaussian.delta_array(epsilon, np.array(mus))
    mean = float(np.mean(deltas))
    error = float(np.std(deltas)) / math.sqrt(runs)
    bound = participation.every_step(k, n_d, n, 1, n_d, n, 2 / noise).delta(epsilon)
    print(f"n_d={n_d}, epsilon={epsilon}: {mean:.3g} +- {error:.1g}, D3 {bound:.3g}")
    assert bound >= mean - 5 * error
    assert bound <= 1.5 * (mean + 5 * error)


def iteration_cost(backwards: NDArray[np.int64]) -> float:
    """Cost of unit shifts with so much noise from each to the next, last one first."""
    edges: list[tuple[float, float]] = []
    for dv, ds in ((float(v), 1.0) for v in backwards):
        while edges and ds * edges[-1][0] >= edges[-1][1] * dv:
            pooled = edges.pop()
            dv, ds = dv + pooled[0], ds + pooled[1]
        edges.append((dv, ds))
    return sum(ds * ds / dv for dv, ds in edges)


def mixture_delta(gaps: Array, weights: Array, std: float, epsilon: float) -> float:
    """Hockey-stick of two mirrored mixtures of N(+-gap/2, std^2), by quadrature."""
    x = np.linspace(-0.5 * gaps.max() - 12 * std, 0.5 * gaps.max() + 12 * std, 400_001)
    p = sum(
        w * np.exp(-0.5 * ((x - g / 2) / std) ** 2)
        for g, w in zip(gaps, weights, strict=True)
    )
    q = p[::-1]
    scale = (x[1] - x[0]) / (std * math.sqrt(2 * math.pi))
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)) * scale)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize(("n", "n_d", "k"), [(10, 5, 8), (10, 2, 8), (10, 10, 8)])
def test_above_the_exact_loss_of_linear_runs(
    n: int, n_d: int, k: int, epsilon: float
) -> None:
    """8.5: linear losses with a hidden participation give a mixture of Gaussians."""
    noise = 2.0
    for placement in ("every_step", "epoch_end"):
        count = k * (n if placement == "every_step" else 1)
        uses = np.arange(k + 1)
        p = n_d / n
        weights = np.array([math.comb(k, u) * p**u * (1 - p) ** (k - u) for u in uses])
        fresh = mixture_delta(2.0 * uses, weights, noise * math.sqrt(count), epsilon)
        once = mixture_delta(
            np.array([0.0, 2.0 * k]),
            np.array([1 - p, p]),
            noise * math.sqrt(count),
            epsilon,
        )
        for order, exact in ((db.Reshuffle(), fresh), (db.ShuffleOnce(), once)):
            mechanism = clipped(n, [(n_d, noise)] * k, order=order, placement=placement)
            bound = secret_delta(mechanism, epsilon)
            print(f"{placement}, {order.kind}: bound {bound:.4g}, exact {exact:.4g}")
            assert exact <= bound * (1 + 1e-6) + 1e-12


# -- D4: subsampling and composition --------------------------------------------------


@FEW
@given(st.floats(0.05, 3), st.integers(1, 40), st.floats(0, 8))
def test_without_a_secret_it_is_gaussian_composition(
    mu: float, k: int, epsilon: float
) -> None:
    """p = 1, fixed position: sqrt(K) mu, by the grid as well."""
    law = subsampling.EpochLaw(np.array([mu]), np.ones(1), 1.0)
    curve = subsampling.ComposedCurve(((k, law),))
    exact = gaussian_delta(epsilon, mu * math.sqrt(k))
    assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-300)
    assert exact * (1 - 1e-11) <= curve._by_grid(epsilon) <= exact * 1.01 + 1e-30


@FEW
@given(st.floats(0.05, 3), st.floats(0.01, 1), st.floats(0, 8))
def test_one_epoch_is_its_profile(mu: float, p: float, epsilon: float) -> None:
    law = subsampling.EpochLaw(np.array([mu]), np.ones(1), p)
    exact = p * gaussian_delta(inner(epsilon, p), mu)
    found = subsampling.ComposedCurve(((1, law),))._by_grid(epsilon)
    # what is beyond 13.4 standard deviations counts as 1e-40
    assert exact * (1 - 1e-11) <= found <= exact * (1 + 1e-9) + 2e-40


def test_composition_of_two_different_epochs() -> None:
    """Against the double integral over two Gaussian losses."""
    one = subsampling.EpochLaw(np.array([0.7]), np.ones(1), 1.0)
    two = subsampling.EpochLaw(np.array([1.3]), np.ones(1), 1.0)
    for epsilon in (0.0, 1.0, 6.0):
        exact = gaussian_delta(epsilon, math.sqrt(3 * 0.7**2 + 2 * 1.3**2))
        for laws in (((3, one), (2, two)), ((2, two), (3, one))):
            found = subsampling.ComposedCurve(laws)._by_grid(epsilon)
            assert exact * (1 - 1e-11) <= found <= exact * 1.01


@FEW
@given(st.floats(0.05, 2), st.floats(0.02, 0.98), st.integers(2, 20), st.floats(0, 6))
def test_composed_subsampling_lies_between_its_bounds(
    mu: float, p: float, k: int, epsilon: float
) -> None:
    """At least one epoch by itself; at most composition with certain participation."""
    law = subsampling.EpochLaw(np.array([mu]), np.ones(1), p)
    found = subsampling.ComposedCurve(((k, law),))._by_grid(epsilon)
    assert found >= p * gaussian_delta(inner(epsilon, p), mu) * (1 - 1e-11)
    certain = gaussian_delta(epsilon, mu * math.sqrt(k))
    assert found <= certain * 1.01 + 1e-30


def test_never_above_composition_without_the_secret() -> None:
    """Also where the grid has no more to say: delta far below 1e-40."""
    mechanism = clipped(8, [(4, 30.0)] * 3, placement="epoch_end")
    uncertified = replace(mechanism, row_norm=None)  # leaves D4 alone
    composed = account(uncertified, "composition")
    found = account(uncertified, "secret_order")
    assert theorem(uncertified) == "D4"
    for epsilon in (0.5, 3.0, 8.0):
        assert found.delta(epsilon) <= composed.delta(epsilon) * (1 + 1e-11)
    assert 0 < found.delta(8.0) < 1e-60


# -- (g) ------------------------------------------------------------------------------


@FEW
@given(st.integers(2, 20), st.integers(2, 30), st.floats(0.4, 9), st.floats(0, 5))
def test_full_participation_of_d3_is_d2(
    n: int, k: int, noise: float, epsilon: float
) -> None:
    second = positions.reshuffle(steps.read(clipped(n, [(n, noise)] * k)))
    third = participation.every_step(k, n, n, 1, n, n, 2 / noise)
    assert third.delta(epsilon) >= second.delta(epsilon) * (1 - 1e-11)
    assert third.delta(epsilon) <= second.delta(epsilon) * (1 + 1e-8)


@FEW
@given(
    st.integers(2, 12), st.integers(2, 12), st.floats(-1, 3), st.floats(0, 5), st.data()
)
def test_each_theorem_falls_with_the_noise(
    n: int, k: int, log_noise: float, epsilon: float, data: st.DataObject
) -> None:
    """D2, D3, D3' and D4 by themselves: nonincreasing in sigma, and 0 in the end."""
    n_d = data.draw(st.integers(1, n - 1))
    ratio = 2 / 10**log_noise
    more = data.draw(st.floats(1.001, 3))
    law = subsampling.EpochLaw(np.array([ratio]), np.ones(1), n_d / n)
    curves = (
        positions.reshuffle(steps.read(clipped(n, [(n_d, 2 / ratio)] * k))),
        participation.every_step(k, n_d, n, 1, n_d, n, ratio),
        participation.epoch_end(k, n_d, n, ratio),
        subsampling.ComposedCurve(((k, law),)),
    )
    for curve in curves:
        delta = curve.delta(epsilon)
        assert 0 <= delta <= 1
        assert curve.scaled(more).delta(epsilon) <= delta * (1 + 1e-3)
        assert curve.scaled(1e12).delta(epsilon + 0.01) < 1e-40


@pytest.mark.parametrize("placement", ["every_step", "epoch_end"])
def test_much_noise_hides_all(placement: str) -> None:
    deltas = [
        secret_delta(clipped(10, [(5, noise)] * 6, placement=placement), 0.5)
        for noise in (1.0, 3.0, 10.0, 100.0, 1e4, 1e8)
    ]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] < 1e-300


# -- which theorems are used, and when not --------------------------------------------


def test_the_theorems_that_are_used() -> None:
    half = [(4, 2.0)] * 3
    assert theorem(clipped(8, half, order=db.ShuffleOnce())) == "D1"
    assert theorem(clipped(8, half)) == "D2, D3, D4"
    assert theorem(clipped(8, [(8, 2.0)] * 3)) == "D2, D4"
    assert theorem(clipped(8, [(4, 2.0), (5, 2.0)])) == "D2, D4"  # unequal epochs
    assert theorem(clipped(8, [(4, 2.0), (4, 3.0)])) == "D2, D4"
    assert theorem(clipped(8, half, rates=[1.0, 0.5, 1.0])) == "D2, D4"
    assert theorem(clipped(8, [(4, 2.0)])) == "D2, D4"  # one epoch
    assert theorem(clipped(8, half, rates=[9.0] * 3)) == "D4"  # above 2/L


def test_d4_is_not_used_for_one_permutation() -> None:
    """Participation is drawn once for all epochs: nothing fresh to compose."""
    once = clipped(20, [(2, 2.0)] * 10, order=db.ShuffleOnce(), placement="epoch_end")
    fresh = replace(once, order=db.Reshuffle())
    exact = mixture_delta(
        np.array([0.0, 20.0]), np.array([0.9, 0.1]), 2 * math.sqrt(10), 2.0
    )
    assert secret_delta(fresh, 2.0) < exact <= secret_delta(once, 2.0)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (db.Incremental(), "order 'incremental' is not a uniform permutation"),
        (db.ShuffleBuffer(3), "order 'shuffle_buffer' is not a uniform permutation"),
        (db.ShuffleOnce(secret=False), "order 'shuffle_once' has secret=False"),
        (db.Reshuffle(secret=False), "order 'reshuffle' has secret=False"),
    ],
)
def test_refuses_an_order_that_is_no_secret(order: db.Order, message: str) -> None:
    mechanism = clipped(8, [(4, 2.0)] * 3, order=order)
    with pytest.raises(PrivacyAssumptionError, match=message) as caught:
        account(mechanism, "secret_order")
    assert caught.value.valid == ("composition", "hidden_state", "paper")


def test_the_assumptions_name_what_each_theorem_rests_on() -> None:
    def names(mechanism: db.Mechanism) -> set[str]:
        return {a.name for a in account(mechanism, "secret_order").assumptions}

    half = [(4, 2.0)] * 3
    all_steps = {"private steps nonexpansive", "public steps nonexpansive"}
    hidden = {"secret order", "proximal steps nonexpansive"}
    assert all_steps | hidden <= names(clipped(8, half))
    # public steps without a certificate: the private ones still carry a use
    partly = names(clipped(8, half, public_row_norm=100.0))
    assert "private steps nonexpansive" in partly
    assert not partly & {"public steps nonexpansive", "proximal steps nonexpansive"}
    assert not all_steps & names(clipped(8, half, rates=[9.0] * 3))


# -- bins -----------------------------------------------------------------------------


@FEW
@given(st.integers(1, 5000), st.integers(1, 7), st.integers(0, 5000), st.data())
def test_bins_cover_every_slot_once_and_round_up(
    last: int, b: int, public: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, last))
    found = list(positions.bins(first, last, b, -(-last // b) + public))
    assert sum(slots for _, slots in found) == last - first + 1
    # walk down: each bin's slots are all at or before its step
    slot = last
    for step, slots in found:
        assert -(-slot // b) <= step
        slot -= slots
    assert slot == first - 1


@pytest.mark.parametrize("placement", ["every_step", "epoch_end"])
@pytest.mark.parametrize("public_norm", [1.0, 100.0])
@pytest.mark.parametrize("norm", [1.0, 100.0])
def test_a_later_use_pays_no_less_within_an_epoch(
    norm: float, public_norm: float, placement: str
) -> None:
    """What bins rest on, with and without certificates for either kind of step."""
    mechanism = clipped(
        9, [(5, 2.0)], placement=placement, row_norm=norm, public_row_norm=public_norm
    )
    plan = steps.read(mechanism)
    ((_, epoch),) = plan.runs
    costs = [positions.epoch_cost(plan, epoch, step) for step in range(1, 6)]
    assert costs == sorted(costs)


@pytest.mark.parametrize("order", UNIFORM)
def test_binned_slots_are_above_the_truth_without_a_certificate(
    order: db.Order,
) -> None:
    """Regression: the last private step alone has all noise of the public steps, and
    its bin took that for every slot in it."""
    n, n_d, noise = 10_000, 5000, 2.0
    mechanism = clipped(
        n, [(n_d, noise)], row_norm=100.0, public_row_norm=1.0, order=order
    )
    for epsilon in (0.0, 1.0, 8.0):
        e = inner(epsilon, n_d / n)
        own = gaussian_delta(e, 2 / noise)
        last = gaussian_delta(e, 2 / noise / math.sqrt(n - n_d + 1))
        exact = ((n_d - 1) * own + last) / n
        assert exact * (1 - 1e-11) <= secret_delta(mechanism, epsilon) < exact * 1.001


@FEW
@given(
    accountable(quiet=False), st.sampled_from(UNIFORM), st.floats(-120, 100), st.data()
)
def test_only_ratios_of_shift_and_noise_count(
    mechanism: db.Mechanism, order: db.Order, power: float, data: st.DataObject
) -> None:
    """Regression: squares of tiny learning rates underflowed; delta came out less."""
    mechanism = replace(
        mechanism, order=order, loss=db.Logistic(), row_norm=1e-60, clip_norm=1.0
    )
    scaled = replace(
        mechanism,
        epochs=tuple(
            replace(e, learning_rate=e.learning_rate * 10**power)
            for e in mechanism.epochs
        ),
    )
    epsilon = data.draw(st.floats(0, 4))
    assert secret_delta(scaled, epsilon) == pytest.approx(
        secret_delta(mechanism, epsilon), rel=1e-8, abs=1e-300
    )


def test_own_learning_rates_cost_subsampling_nothing() -> None:
    """D4 pays each epoch by itself: only the ratio of its shift and noise counts."""
    same = clipped(20, [(6, 2.0)] * 12, placement="epoch_end", order=db.Reshuffle())
    rates = [1 / (k + 1) for k in range(12)]
    falling = clipped(20, [(6, 2.0)] * 12, placement="epoch_end", rates=rates)
    laws = []
    for mechanism in (same, falling):
        plan = steps.read(mechanism)
        curve = secret_order._subsampling(plan)
        assert isinstance(curve, subsampling.ComposedCurve)
        laws.append(curve.laws)
        for _, epoch in plan.runs:
            ratio = epoch.shift / epoch.noise
            assert all(float(law.mus[0]) >= ratio for _, law in curve.laws)
    assert [count for count, _ in laws[1]] == [12]
    assert laws[1][0][1].mus == pytest.approx(laws[0][0][1].mus, rel=1e-14)
    louder = clipped(20, [(6, 2.0), (6, 2.0 + 1e-9)], placement="epoch_end")
    apart = secret_order._subsampling(steps.read(louder))
    assert isinstance(apart, subsampling.ComposedCurve)
    assert len(apart.laws) == 2


def test_bins_cost_next_to_nothing() -> None:
    """Many rows: binned against exact, both rounded towards more loss."""
    n, noise, epsilon = 20_000, 5.0, 1.0
    mechanism = clipped(n, [(n, noise)] * 20, order=db.ShuffleOnce())
    j = np.arange(1, n + 1)
    mus = 2 / noise * np.sqrt(19 / n + 1 / (n - j + 1))
    exact = float(np.mean(gaussian.delta_array(epsilon, mus)))
    found = secret_delta(mechanism, epsilon)
    print(f"binned / exact - 1 = {found / exact - 1:.2e}")
    assert exact * (1 - 1e-11) <= found <= exact * 1.001


def test_gains_of_section_5() -> None:
    """n = 1000, K = 50, delta = 1e-6: sigma/G of C and D at n_d = n."""
    for epsilon, hidden, secret in (
        (1, 8.654, 5.287),
        (5, 2.008, 1.413),
        (10, 1.108, 0.832),
    ):
        mechanism = clipped(1000, [(1000, 1.0)] * 50)
        found = [
            db.privacy.calibrate(
                replace(mechanism, order=order),
                epsilon=epsilon,
                delta=1e-6,
                analysis=name,
            )
            .epochs[0]
            .noise_std
            for name, order in (
                ("hidden_state", db.Incremental()),
                ("secret_order", db.ShuffleOnce()),
                ("secret_order", db.Reshuffle()),
            )
        ]
        assert found == pytest.approx([hidden, secret, secret], abs=6e-4)


def test_released_noise_of_interleaved_epoch_ends() -> None:
    """6.3: E + D4 at p = 1/2, eps = 1 releases 214.6 G; a fixed subset needs 422 G."""
    mechanism = clipped(1000, [(500, 1.0)] * 50, placement="epoch_end")
    found = db.privacy.calibrate(
        mechanism, epsilon=1, delta=1e-6, analysis="secret_order"
    )
    released = account(found, "secret_order").released_std
    assert released == pytest.approx(214.6, rel=2e-3)
    fixed = 2 * 50 / gaussian_mu(1.0, 1e-6)
    assert fixed == pytest.approx(422.5, abs=0.1)
    assert iteration_mu([2.0] * 50, [fixed / math.sqrt(50)] * 50) <= gaussian_mu(
        1, 1e-6
    ) * (1 + 1e-9)
