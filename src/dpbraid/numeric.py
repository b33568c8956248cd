"""What finite precision does to the guarantee (PRIVACY.md 10)."""

from __future__ import annotations

from dpbraid.mechanism import Mechanism
from dpbraid.release import NumericModel


def numeric_model(mechanism: Mechanism, dimension: int) -> NumericModel:
    """The numeric model under which the engine runs this mechanism."""
    return NumericModel(dimension, None, None, 0.0)
