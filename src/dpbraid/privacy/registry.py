"""The register of analyses: one theorem, one module, one name."""

from __future__ import annotations

from collections.abc import Callable

from dpbraid.mechanism import Mechanism
from dpbraid.privacy.profile import PrivacyProfile

Analysis = Callable[[Mechanism], PrivacyProfile]

ANALYSES: dict[str, Analysis] = {}


def register(name: str) -> Callable[[Analysis], Analysis]:
    """Put an analysis under its name; it raises PrivacyAssumptionError to refuse."""

    def add(analysis: Analysis) -> Analysis:
        if name in ANALYSES:
            raise ValueError(f"analysis {name!r} is registered twice")
        ANALYSES[name] = analysis
        return analysis

    return add
