"""What finite precision does to the guarantee: PRIVACY.md 10.2, made to hold.

A release with one noise an epoch (placement "epoch_end") keeps its state on a grid: at
the last private step ``x <- gamma (round(x/gamma) + round(Z/gamma))`` with Z exactly
Gaussian (engine/gaussian.py). As gamma round(x/gamma) lies on the grid, this is the
rounding of ``gamma round(x/gamma) + Z``: the run is a post-processing of a chain in
real numbers, whose maps differ from the exact, nonexpansive ones by rounding alone.

**What is proved.** Let phi be the exact maps from one noise to the next (public steps,
proximal step, private steps) and h a bound on the distance of the computed ones from
them, for all |x| <= X. Then two runs that differ in one row are, just before a noise,
at most

    |difference just after the last noise| + shift + E,  E = 2 sum h + 2 gamma sqrt(d)

apart: each run's rounding errors count once, and so do the grid's gamma/2 a coordinate
at both ends. So every shift grows by a factor of at most 1 + max E/shift, and so does
mu for a row at its worst position. Where a row may stay out of an epoch, its uses can
be fewer than the epochs that add errors; from its first use on, the errors of K epochs
are at most K E, hence K E/shift times the uses so far: that is the loss there. It is
the same to divide every noise_std by 1 + noise_loss.

**Errors of one step** (u = 2^-53; sums in any order, products fused or not; see
``_StepError``), from the standard model fl(a op b) = (a op b)(1 + e), |e| <= u:

- a margin: d u |a| |x|, as each product is rounded at most d times on its way; or,
  where it is <a, x'> - s <a, a'> for the x = x' - s a' before, another (d + 4) u of
  |a| |s a'|, |s a'| <= eta G, and 4 u |a| |x| for x and the difference;
- its slope: curvature times that, and SLOPE_ULPS u relative to the slope itself, which
  every slope function has to keep (tests/engine/test_numeric.py holds them to it);
- clipping is 1-Lipschitz in the slope; limits are lowered by more than their rounding;
- the step: (b + 8) u eta G for its sums and products, 2 u |x| for the subtraction.

**The bound X** holds with certainty, from public facts: the start's bound, eta G a
step, the proximal steps (nonexpansive, within the penalty's diameter), and for the
noise std (2 sqrt(d) + 16). A Gaussian vector is longer with probability below e^-128;
the engine projects onto the ball of radius `iterate_bound` after each noise, which is
nonexpansive and in all likelihood never does anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbraid._validate import InvalidParameterError
from dpbraid.losses import MarginLoss, Mean
from dpbraid.mechanism import Mechanism, Placement
from dpbraid.release import NumericModel

UNIT = 2.0**-53
# A float64 slope is within SLOPE_ULPS * UNIT of the exact one, relative to it.
SLOPE_ULPS = 8
# Second-order terms: products of (1 + e) expand to less than this times their sum.
_SECOND_ORDER = 1.01
# Underflow adds less than this to any error of a step.
_UNDERFLOW = 1e-280
# Grid cells a standard deviation: 2^30 and more where the iterates leave room,
_FINE = 2.0**-30
# and at least 2^8.
_COARSE = 2.0**-8


def numeric_model(mechanism: Mechanism, dimension: int) -> NumericModel:
    """The numeric model under which the engine releases this mechanism's iterate.

    The grid's model where all noise is at epoch ends and public bounds limit the
    iterates and their rounding errors: a clip norm, or a bound on rows under which the
    loss has a Lipschitz constant; and for margin losses a bound on rows. Elsewhere the
    guarantee is one for real arithmetic: grid None, noise_loss 0.
    """
    noisy = [e for e in mechanism.epochs if e.noise_std > 0]
    real = NumericModel(dimension, None, None, 0.0)
    if not noisy or any(e.placement is not Placement.EPOCH_END for e in noisy):
        return real
    bounds = _Bounds.of(mechanism)
    if bounds is None:
        return real
    norms = _Norms(mechanism, dimension, bounds)
    least = min(e.learning_rate * e.noise_std for e in noisy)
    # exact in float64: |x|/gamma < 2^52
    gamma = max(_power_below(least * _FINE), _power_below(norms.most * 2.0**-50))
    if not gamma <= least * _COARSE:
        raise InvalidParameterError(
            f"noise_std is too small for float64: the noise of an epoch is {least:.3g} "
            f"a coordinate, and iterates may reach {norms.most:.3g}; use more noise, "
            "fewer epochs, a smaller learning_rate or a Ball penalty"
        )
    loss = _noise_loss(mechanism, dimension, bounds, norms, gamma)
    return NumericModel(dimension, gamma, norms.most, loss)


@dataclass(frozen=True)
class _Bounds:
    """Public facts: bounds on rows R and gradients G of both tables, and the shift.

    gradient None: an unclipped mean, whose gradient is bounded by |x| + R.
    shift: the mechanism's sensitivity.
    """

    row: float
    public_row: float
    gradient: float | None
    public_gradient: float | None
    shift: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> _Bounds | None:
        """None where the public facts bound nothing."""
        m, loss, clip = mechanism, mechanism.loss, mechanism.clip_norm
        row, public_row = m.row_norm, m.public_bound
        shift = m.sensitivity
        if shift is None:
            return None
        if isinstance(loss, Mean):
            if clip is not None:
                return cls(0.0, 0.0, clip, clip, shift)
            if row is None or public_row is None:
                return None
            if any(e.learning_rate > 2 for e in m.epochs):
                return None
            return cls(row, public_row, None, None, shift)
        if row is None or public_row is None or not isinstance(loss, MarginLoss):
            return None
        gradients = [
            min(g for g in (clip, loss.lipschitz(r)) if g is not None)
            for r in (row, public_row)
        ]
        return cls(row, public_row, gradients[0], gradients[1], shift)


class _Norms:
    """A-priori norms of the iterates.

    most: at any noise; window: how much |x| can grow from one noise to the next.
    """

    def __init__(self, mechanism: Mechanism, dimension: int, bounds: _Bounds) -> None:
        penalty, zero = mechanism.penalty, np.zeros(dimension)
        root = math.sqrt(dimension)
        # Given checks a computed norm
        x = mechanism.start.norm_bound(dimension) * (1 + 1e-6)
        self.most, self.window = x, 0.0
        since = x
        for count, epoch in mechanism.runs():
            std = epoch.learning_rate * epoch.noise_std
            step = mechanism.prox_step(epoch)
            shift = float(np.linalg.norm(penalty.prox(zero, step)))
            own_floor, own = _growth(
                epoch.learning_rate,
                mechanism.private_steps(epoch),
                bounds.gradient,
                bounds.row,
            )
            others_floor, others = _growth(
                epoch.learning_rate,
                mechanism.public_steps(epoch),
                bounds.public_gradient,
                bounds.public_row,
            )
            for _ in range(count):
                before = x
                x = max(x, own_floor) + own
                if std > 0:
                    self.window = max(self.window, x - since)
                    x += std * (2 * root + 16)
                    since = x
                self.most = max(self.most, x, before)
                x = max(x, others_floor) + others
                self.most = max(self.most, x)
                self.window = max(self.window, x - since)
                if penalty.diameter is not None:
                    x = min(x, penalty.diameter)
                    since = min(since, x)
                x += shift
        self.most = (max(self.most, x) + _UNDERFLOW) * (1 + 1e-6)
        self.window = (max(self.window, x - since) + _UNDERFLOW) * (1 + 1e-6)

    @property
    def everywhere(self) -> float:
        """Bound on |x| at any time, given |x| <= most after each noise."""
        return self.most + self.window


def _growth(
    eta: float, steps: int, gradient: float | None, row: float
) -> tuple[float, float]:
    """(floor, add): these steps take |x| to at most max(|x|, floor) + add."""
    if gradient is not None:
        return 0.0, steps * eta * gradient
    # (1 - eta) x + eta q: a mixture where eta <= 1; beyond, |1 - eta| <= 1 shrinks x
    if eta <= 1:
        return (row if steps else 0.0), 0.0
    return 0.0, steps * eta * row


def _noise_loss(
    mechanism: Mechanism,
    dimension: int,
    bounds: _Bounds,
    norms: _Norms,
    gamma: float,
) -> float:
    """max E / shift over the noises; times their number where rows may stay out."""
    X = norms.everywhere
    private = _StepError(mechanism, dimension, X, bounds.row, bounds.gradient)
    public = _StepError(
        mechanism, dimension, X, bounds.public_row, bounds.public_gradient
    )
    # the proximal step and the projection onto the ball of radius `iterate_bound`
    prox = (dimension + 16) * UNIT * _SECOND_ORDER * X + _UNDERFLOW
    grid = 2 * gamma * math.sqrt(dimension)
    loss = errors = 0.0
    noises, started, stays_out = 0, False, False
    for count, epoch in mechanism.runs():
        eta = epoch.learning_rate
        shift = eta / mechanism.batch_size * bounds.shift
        own = mechanism.private_steps(epoch) * private.of(eta)
        others = mechanism.public_steps(epoch) * public.of(eta) + prox
        for _ in range(count):
            if epoch.private_rows:
                started = True
                errors += own
                stays_out |= epoch.private_rows < mechanism.n
            if epoch.noise_std > 0:
                loss = max(loss, (2 * (errors + prox) + grid) / shift)
                errors = 0.0
                noises += 1
            if started:  # before the first private step the two runs are one
                errors += others
    return loss * (noises if stays_out else 1) * _SECOND_ORDER


@dataclass(frozen=True)
class _StepError:
    """Bound on |computed step - exact step| for all |x| <= norm."""

    mechanism: Mechanism
    dimension: int
    norm: float
    row: float
    gradient: float | None

    def of(self, eta: float) -> float:
        """For one step at this learning rate."""
        loss, b, d = self.mechanism.loss, self.mechanism.batch_size, self.dimension
        if isinstance(loss, MarginLoss):
            assert self.gradient is not None
            # |a| |slope(m^) - slope(m)| <= curvature |a| |m^ - m|
            sizes = self.norm + eta * self.gradient
            margin = loss.curvature * self.row * (d + 4) * self.row * sizes
            relative = (SLOPE_ULPS + b + 8) * self.gradient
        else:
            bound = self.norm + self.row if self.gradient is None else self.gradient
            # the norm's square, root, quotient, and the lowered clip norm
            margin, relative = 0.0, (3 * d + b + 40) * bound
        error = UNIT * (eta * (margin + relative) + 2 * self.norm)
        return error * _SECOND_ORDER + _UNDERFLOW


def _power_below(value: float) -> float:
    """The largest power of two <= value."""
    return math.ldexp(0.5, math.frexp(value)[1])
