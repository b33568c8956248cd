"""Privacy: a Mechanism in, a proved guarantee out. Nothing else is read."""

from dpbraid.privacy.account import account, calibrate
from dpbraid.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpbraid.privacy.iteration import iteration_mu
from dpbraid.privacy.profile import (
    Assumption,
    Considered,
    PrivacyAssumptionError,
    PrivacyProfile,
)
from dpbraid.privacy.registry import ANALYSES

__all__ = [
    "ANALYSES",
    "Assumption",
    "Considered",
    "PrivacyAssumptionError",
    "PrivacyProfile",
    "account",
    "calibrate",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "iteration_mu",
]
