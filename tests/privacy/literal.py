"""A mechanism step by step, as Algorithm 1 reads: the slow way to every analysis.

Nothing here is shared with `dpbraid.privacy`: shifts, noise and Lipschitz factors of
single steps come from the mechanism's fields and the formulas of PRIVACY.md 7.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

import dpbraid as db
from dpbraid.privacy import iteration_mu
from tests.strategies import ORDERS, PENALTIES


@dataclass
class Walk:
    """All steps of a run with the replaced row at given positions."""

    shifts: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    epoch_ends: list[int] = field(default_factory=list)

    def mu(self, diameter: float | None = None) -> float:
        ends = None if diameter is None else self.epoch_ends
        return iteration_mu(self.shifts, self.noise, self.factors, diameter, ends)


def walk(
    mechanism: db.Mechanism, uses: Sequence[int], *, contract: bool = True
) -> Walk:
    """uses: for each epoch the private step (1, 2, ..) of the row; 0 for none."""
    m, found, before = mechanism, Walk(), 1.0
    for epoch, use in zip(m.epochs, uses, strict=True):
        private = sizes(epoch.private_rows, m.batch_size)
        steps = private + sizes(epoch.public_rows, m.batch_size)
        for t, rows in enumerate(steps, start=1):
            noisy = epoch.placement is db.Placement.EVERY_STEP or t == len(private)
            found.shifts.append(
                epoch.learning_rate * difference(m) / m.batch_size if t == use else 0
            )
            found.noise.append(epoch.learning_rate * epoch.noise_std if noisy else 0)
            factor = before
            if isinstance(m.loss, db.Mean) and m.clip_norm is None:
                share = rows / m.batch_size
                factor *= share * abs(1 - epoch.learning_rate) + 1 - share
            found.factors.append(factor if contract else 1.0)
            before = 1.0
        # the proximal step belongs to the first step of the next epoch
        step = epoch.learning_rate * epoch.rows / m.batch_size
        before = 1 / (1 + step * getattr(m.penalty, "strong_convexity", 0.0))
        found.epoch_ends.append(len(found.shifts))
    return found


def sizes(rows: int, batch_size: int) -> list[int]:
    """Rows of each step: full batches, then what is left."""
    full, rest = divmod(rows, batch_size)
    return [batch_size] * full + ([rest] if rest else [])


def difference(m: db.Mechanism) -> float:
    """How far two clipped gradients, or two gradients of bounded rows, can differ."""
    if m.clip_norm is not None:
        return 2 * m.clip_norm
    assert m.row_norm is not None
    return 2 * m.row_norm  # logistic: slope at most 1; mean: q - q'


def last_steps(m: db.Mechanism) -> list[int]:
    """The worst position: the last private step of every epoch."""
    return [len(sizes(e.private_rows, m.batch_size)) for e in m.epochs]


@st.composite
def accountable(
    draw: st.DrawFn,
    *,
    placements: Sequence[str] = ("every_step", "epoch_end"),
    quiet: bool = True,
) -> db.Mechanism:
    """Any mixture of epochs whose steps all have a certificate.

    quiet: private epochs may be without noise.
    """
    n = draw(st.integers(1, 6))
    clip_norm = draw(st.sampled_from([None, 0.5, 2.0]))
    loss = draw(st.sampled_from([db.Mean(), db.Logistic()]))
    epochs = []
    for _ in range(draw(st.integers(1, 5))):
        private = draw(st.integers(0, n))
        public = draw(st.integers(0 if private else 1, 6))
        placement = draw(st.sampled_from(placements))
        noise = draw(st.sampled_from([0.0, 0.4, 1.0, 2.5, 9.0]))
        if placement == "epoch_end" and not private:
            noise = 0.0
        if private and not quiet:
            noise = noise or 1.5
        rate = draw(st.sampled_from([0.05, 0.3, 1.0, 1.7]))
        epochs.append(db.Epoch(private, public, rate, noise, db.Placement(placement)))
    return db.Mechanism(
        n=n,
        epochs=tuple(epochs),
        loss=loss,
        penalty=draw(st.sampled_from(PENALTIES)),
        order=draw(st.sampled_from(ORDERS)),
        clip_norm=clip_norm,
        batch_size=draw(st.integers(1, n)),
        row_norm=1.0,
    )


def random_uses(m: db.Mechanism, rng: np.random.Generator) -> list[int]:
    """A position in every epoch, or none."""
    return [int(rng.integers(0, last + 1)) for last in last_steps(m)]
