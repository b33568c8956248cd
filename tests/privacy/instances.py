"""Instances that several tests share: mechanisms in short, and exactly solvable runs.

`clipped` gives a mechanism on which every analysis has its say: learning rate 1, clip
norm 1 and rows of norm 1 under the logistic loss, so that the shift of a use is 2 and
noise is in units of the clip norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpbraid as db

Array = NDArray[np.float64]


def clipped(
    n: int,
    epochs: Sequence[tuple[int, float]],
    *,
    clip_norm: float = 1.0,
    placement: str = "every_step",
    rates: Sequence[float] | None = None,
    **changes: Any,
) -> db.Mechanism:
    """n rows; each epoch is (private rows n_d, noise std), then n - n_d public rows."""
    rates = [1.0] * len(epochs) if rates is None else rates
    return db.Mechanism(
        n=n,
        epochs=tuple(
            db.Epoch(
                n_d, n - n_d, rate, 0.0 if n_d == 0 else noise, db.Placement(placement)
            )
            for (n_d, noise), rate in zip(epochs, rates, strict=True)
        ),
        clip_norm=clip_norm,
        **{"loss": db.Logistic(), "row_norm": 1.0, **changes},
    )


def repeated(n: int, epochs: int, position: int, shift: float) -> Array:
    """The shifts of K epochs of n steps with one use at `position` of each."""
    shifts = np.zeros(n * epochs)
    shifts[position - 1 :: n] = shift
    return shifts


def linear_mu(shifts: Sequence[float], noise_stds: Sequence[float]) -> float:
    """Linear losses: all shifts add up, all noise adds up (PRIVACY.md 8.1)."""
    return math.fsum(shifts) / math.sqrt(math.fsum(s * s for s in noise_stds))


def mean_mu(shifts: Array, noise_stds: Array, factors: Array) -> float:
    """x -> c x + shift + noise: exactly Gaussian, by its own recursion (8.2)."""
    gap = variance = 0.0
    for s, sig, c in zip(shifts, noise_stds, factors, strict=True):
        gap, variance = c * gap + s, c * c * variance + sig * sig
    return gap / math.sqrt(variance)


def reset_mu(epochs: int, n: int, position: int, ratio: float) -> float:
    """The contractive-only instance of 4.6; ratio = s/sigma."""
    first = (epochs - 1) ** 2 / (epochs * n - position + 1)
    return ratio * math.sqrt(first + 1 / (n - position + 1))
