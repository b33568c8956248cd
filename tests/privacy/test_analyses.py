"""Every registered analysis keeps the contract; their order among each other."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import ANALYSES, account, calibrate, gaussian_delta
from tests.privacy.contract import AnalysisContract
from tests.privacy.instances import clipped


class TestPaper(AnalysisContract):
    name = "paper"


class TestComposition(AnalysisContract):
    name = "composition"


class TestCompositionOfEpochEnds(AnalysisContract):
    name = "composition"
    placement = "epoch_end"


class TestHiddenState(AnalysisContract):
    name = "hidden_state"


class TestHiddenStateOfEpochEnds(AnalysisContract):
    name = "hidden_state"
    placement = "epoch_end"


class TestEpochEnd(AnalysisContract):
    name = "epoch_end"
    placement = "epoch_end"


class TestSecretOrderOnce(AnalysisContract):
    name = "secret_order"
    order = db.ShuffleOnce()


class TestSecretOrderFresh(AnalysisContract):
    name = "secret_order"
    order = db.Reshuffle()


class TestSecretOrderOfEpochEnds(AnalysisContract):
    name = "secret_order"
    order = db.Reshuffle()
    placement = "epoch_end"


def test_no_analysis_is_left_out() -> None:
    assert {c.name for c in AnalysisContract.__subclasses__()} == set(ANALYSES)


# -- (a) and (g) of the property tests: the analyses among each other ----------------


@settings(max_examples=60)
@given(
    st.integers(1, 60),
    st.integers(1, 30),
    st.floats(0.01, 20),
    st.floats(1e-12, 0.1),
    st.data(),
)
def test_hidden_state_needs_least_and_the_paper_most(
    n: int, k: int, epsilon: float, delta: float, data: st.DataObject
) -> None:
    """sigma_C <= sigma_B <= sigma_A; C = B iff K = 1 or n_d = 1."""
    n_d = data.draw(st.integers(1, n))
    mechanism = clipped(n, [(n_d, 1.0)] * k)
    a, b, c = (
        calibrate(mechanism, epsilon=epsilon, delta=delta, analysis=name)
        .epochs[0]
        .noise_std
        for name in ("paper", "composition", "hidden_state")
    )
    assert c <= b * (1 + 1e-12)
    assert b <= a * (1 + 1e-12)
    equal = k == 1 or n_d == 1
    assert (c > b * (1 - 1e-11)) == equal
    assert c / b == _ratio(n, k, n_d) or abs(c / b / _ratio(n, k, n_d) - 1) < 1e-11


def _ratio(n: int, k: int, n_d: int) -> float:
    """sigma_C / sigma_B by the closed forms 4.3 and B."""
    m = n - n_d + 1
    return float((((k - 1) / n + 1 / m) / (k / m)) ** 0.5)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 8), st.floats(0.3, 10), st.floats(0, 6))
def test_a_secret_order_is_never_worse_than_the_hidden_state(
    n: int, k: int, noise: float, epsilon: float
) -> None:
    """D1 at n_d = n, and D2, are averages over positions of which C is the worst."""
    for order in (db.ShuffleOnce(), db.Reshuffle()):
        mechanism = clipped(n, [(n, noise)] * k, order=order)
        mu = account(mechanism, "hidden_state").mu
        assert mu is not None
        assert account(mechanism, "secret_order").delta(epsilon) <= gaussian_delta(
            epsilon, mu
        ) * (1 + 1e-11)


def test_best_is_the_smallest_at_every_epsilon() -> None:
    for placement in db.Placement:
        for n_d in (1, 5, 8):
            mechanism = clipped(8, [(n_d, 2.0)] * 4, placement=placement)
            best = account(mechanism)
            for epsilon in (0.0, 0.3, 1.0, 4.0, 20.0):
                valid = [p.delta(epsilon) for p in best.alternatives]
                assert best.delta(epsilon) == min(valid)
                least = min(valid) * (1 + 1e-9)
                assert best.at(epsilon).delta(epsilon) <= least
            named = {p.analysis for p in best.alternatives}
            refused = {c.analysis for c in best.considered if "not valid" in c.reason}
            assert named | refused == set(ANALYSES)
            assert not named & refused
