"""What every registered analysis must do, as a test class to inherit from.

A subclass gives the name of the analysis and, where the defaults do not fit it, the
order and the placement; pytest collects the subclasses only.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import (
    ANALYSES,
    PrivacyAssumptionError,
    account,
    calibrate,
    independent,
)
from tests.privacy.instances import clipped

EPSILONS = (0.0, 1e-8, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1e3)
DELTAS = (0.5, 1e-2, 1e-6, 1e-12, 1e-50, 1e-150, 1e-300)
FULL = os.environ.get("DPBRAID_FULL") == "1"
# One method for many classes is what a contract is.
FEW = settings(
    max_examples=200 if FULL else 6,
    suppress_health_check=[HealthCheck.differing_executors],
)

noises = st.floats(0.3, 30)
sizes = st.integers(1, 12)
epochs = st.integers(1, 5)


class AnalysisContract:
    """Inherit, and set `name`."""

    name: ClassVar[str]
    placement: ClassVar[str] = "every_step"
    order: ClassVar[db.Order] = db.Incremental()

    def mechanism(
        self, n: int = 8, k: int = 3, n_d: int | None = None, noise: float = 3.0
    ) -> db.Mechanism:
        rows = n if n_d is None else n_d
        return clipped(
            n, [(rows, noise)] * k, order=self.order, placement=self.placement
        )

    def delta(self, epsilon: float, **changes: Any) -> float:
        return account(self.mechanism(**changes), self.name).delta(epsilon)

    # -- a privacy profile ------------------------------------------------------------

    def test_is_registered(self) -> None:
        assert self.name in ANALYSES
        profile = account(self.mechanism(), self.name)
        assert profile.analysis == self.name
        assert all(a.name and a.statement and a.evidence for a in profile.assumptions)
        assert {"adjacency", "one use per epoch", "release", "sensitivity"} <= {
            a.name for a in profile.assumptions
        }
        assert profile.considered == ()

    @pytest.mark.parametrize("log_mu", range(-8, 4))
    def test_finite_and_ordered_over_the_whole_range(self, log_mu: int) -> None:
        """One step's shift over its noise from 1e-8 to 1e3, epsilon from 0 to 1e3."""
        profile = account(self.mechanism(n_d=6, noise=2 / 10.0**log_mu), self.name)
        deltas = [profile.delta(epsilon) for epsilon in EPSILONS]
        assert all(0 < delta <= 1 for delta in deltas), deltas  # and no NaN
        assert deltas == sorted(deltas, reverse=True)
        found = [profile.epsilon(delta) for delta in DELTAS]
        assert all(0 <= epsilon < math.inf for epsilon in found), found
        assert found == sorted(found)

    @FEW
    @given(noises, sizes, epochs, st.data())
    def test_epsilon_is_the_smallest(
        self, noise: float, n: int, k: int, data: st.DataObject
    ) -> None:
        n_d = data.draw(st.integers(1, n))
        profile = account(self.mechanism(n, k, n_d, noise), self.name)
        for delta in (0.3, 1e-6, 1e-60):
            epsilon = profile.epsilon(delta)
            assert profile.delta(epsilon) <= delta * (1 + 1e-14)
            if epsilon > 0:
                assert profile.delta(epsilon * (1 - 1e-5)) > delta

    def test_refuses_a_negative_epsilon_and_an_impossible_delta(self) -> None:
        profile = account(self.mechanism(), self.name)
        for epsilon in (-1e-9, math.nan, math.inf):
            with pytest.raises(db.InvalidParameterError, match="epsilon must be"):
                profile.delta(epsilon)
        for delta in (0.0, 1.0, -0.5, math.nan):
            with pytest.raises(db.InvalidParameterError, match="delta must be"):
                profile.epsilon(delta)

    # -- monotone ---------------------------------------------------------------------

    @FEW
    @given(noises, st.floats(1.001, 2), sizes, epochs, st.floats(0, 5), st.data())
    def test_more_noise_is_never_worse(
        self,
        noise: float,
        factor: float,
        n: int,
        k: int,
        epsilon: float,
        data: st.DataObject,
    ) -> None:
        n_d = data.draw(st.integers(1, n))
        less = self.delta(epsilon, n=n, k=k, n_d=n_d, noise=noise)
        more = self.delta(epsilon, n=n, k=k, n_d=n_d, noise=noise * factor)
        assert more <= less * (1 + 1e-9)

    @FEW
    @given(noises, sizes, epochs, st.floats(0, 5), st.data())
    def test_another_epoch_is_never_free(
        self, noise: float, n: int, k: int, epsilon: float, data: st.DataObject
    ) -> None:
        n_d = data.draw(st.integers(1, n))
        fewer = self.delta(epsilon, n=n, k=k, n_d=n_d, noise=noise)
        assert fewer <= self.delta(epsilon, n=n, k=k + 1, n_d=n_d, noise=noise) * (
            1 + 1e-3
        )

    @FEW
    @given(noises, st.integers(2, 12), epochs, st.floats(0, 5), st.data())
    def test_another_private_row_is_never_free(
        self, noise: float, n: int, k: int, epsilon: float, data: st.DataObject
    ) -> None:
        """The same steps, one more of them private: uses move later or come more."""
        n_d = data.draw(st.integers(1, n - 1))
        fewer = self.delta(epsilon, n=n, k=k, n_d=n_d, noise=noise)
        assert fewer <= self.delta(epsilon, n=n, k=k, n_d=n_d + 1, noise=noise) * (
            1 + 1e-3
        )

    # -- towards more loss ------------------------------------------------------------

    @FEW
    @given(noises, sizes, epochs, st.floats(0, 5), st.data())
    def test_never_below_the_second_route(
        self, noise: float, n: int, k: int, epsilon: float, data: st.DataObject
    ) -> None:
        n_d = data.draw(st.integers(1, n))
        mechanism = self.mechanism(n, k, n_d, noise)
        first = account(mechanism, self.name).delta(epsilon)
        limit = first * (1 + 1e-6) + 1e-14
        second = independent.recheck(mechanism, self.name, epsilon, target=limit)
        assert second <= limit

    # -- calibration and files --------------------------------------------------------

    @FEW
    @given(
        st.sampled_from([0.05, 1.0, 5.0, 50.0]),
        st.sampled_from([1e-2, 1e-6, 1e-30]),
        sizes,
        epochs,
        st.data(),
    )
    def test_calibrate_gives_the_smallest_noise_that_holds(
        self, epsilon: float, delta: float, n: int, k: int, data: st.DataObject
    ) -> None:
        start = self.mechanism(n, k, data.draw(st.integers(1, n)))
        found = calibrate(start, epsilon=epsilon, delta=delta, analysis=self.name)
        assert account(found, self.name).delta(epsilon) <= delta
        less = found.with_noise(1 - 1e-6)
        assert account(less, self.name).delta(epsilon) > delta
        # only the noise is changed, and all of it by one factor
        factors = {
            e.noise_std / s.noise_std
            for e, s in zip(found.epochs, start.epochs, strict=True)
            if s.noise_std
        }
        assert max(factors) == pytest.approx(min(factors), rel=1e-15)
        assert [replace(e, noise_std=0) for e in found.epochs] == [
            replace(e, noise_std=0) for e in start.epochs
        ]

    @FEW
    @given(noises, sizes, epochs, st.data())
    def test_a_file_gives_the_same_profile(
        self, noise: float, n: int, k: int, data: st.DataObject
    ) -> None:
        mechanism = self.mechanism(n, k, data.draw(st.integers(1, n)), noise)
        ours = account(mechanism, self.name)
        other = account(db.Mechanism.loads(mechanism.dumps()), self.name)
        assert other.assumptions == ours.assumptions
        assert (other.mu, other.released_std) == (ours.mu, ours.released_std)
        for epsilon in (0.0, 1.0, 7.0):
            assert other.delta(epsilon) == ours.delta(epsilon)

    # -- refusals and edges -----------------------------------------------------------

    def test_refuses_a_gradient_without_bound(self) -> None:
        unbounded = replace(self.mechanism(), clip_norm=None, row_norm=None)
        with pytest.raises(PrivacyAssumptionError, match="unbounded") as caught:
            account(unbounded, self.name)
        assert caught.value.valid == ()
        assert "clip_norm is None" in str(caught.value)

    def test_without_private_rows_nothing_is_lost(self) -> None:
        profile = account(self.mechanism(n_d=0), self.name)
        assert [profile.delta(epsilon) for epsilon in (0.0, 1.0)] == [0.0, 0.0]
        assert profile.epsilon(1e-300) == 0.0

    def test_without_noise_everything_is(self) -> None:
        profile = account(self.mechanism(noise=0.0), self.name)
        assert profile.delta(1e3) == 1.0
        assert profile.epsilon(1e-6) == math.inf

    @pytest.mark.parametrize("noise", [1e-150, 1e150])
    def test_refuses_noise_beyond_its_arithmetic(self, noise: float) -> None:
        with pytest.raises(db.InvalidParameterError, match=r"noise_std must be within"):
            account(self.mechanism(noise=noise), self.name)
