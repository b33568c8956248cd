"""Release: what leaves the engine, and how its noise was made. Nothing else leaves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpbraid.mechanism import Mechanism

Array = NDArray[np.float64]


class NoiseSource(StrEnum):
    """Where the randomness of a run came from."""

    OS_ENTROPY = "operating system entropy, AES-128 counter streams"
    USER_SEED = "user seed: reproducible, not private"


@dataclass(frozen=True)
class NumericModel:
    """What finite precision does to the guarantee (PRIVACY.md 10.2; numeric.py).

    grid: the power of two whose multiples the state is moved to at each epoch's noise,
    which is the exactly rounded Gaussian; None where the guarantee holds for real
    arithmetic only (noise on every step, or nothing public that bounds rounding
    errors). iterate_bound: bound on |x| at every noise, kept by projection.
    noise_loss >= 0: the guarantee is the one of the mechanism with every noise_std
    divided by 1 + noise_loss.
    """

    dimension: int
    grid: float | None
    iterate_bound: float | None
    noise_loss: float


@dataclass(frozen=True, eq=False)
class Release:
    """The last iterate of one run of a mechanism, shape (d,), and nothing else."""

    x: Array
    mechanism: Mechanism
    noise_source: NoiseSource
    numeric: NumericModel

    @property
    def is_private(self) -> bool:
        """Whether the noise was secret; a seeded run is never private."""
        return self.noise_source is NoiseSource.OS_ENTROPY
