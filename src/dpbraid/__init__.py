"""dpbraid: differentially private convex learning with shuffled gradients."""

from dpbraid._validate import DpbraidError, InvalidParameterError
from dpbraid.losses import Huber, Logistic, Mean, SmoothedHinge, Squared
from dpbraid.mechanism import (
    Epoch,
    Mechanism,
    Placement,
    alternating,
    dp,
    interleaved,
    nonprivate,
    priv_pub,
    pub_priv,
    public_only,
)
from dpbraid.orders import Incremental, Reshuffle, ShuffleBuffer, ShuffleOnce
from dpbraid.penalties import Ball, Box, ElasticNet, FreeLast, Lasso, NoPenalty, Ridge
from dpbraid.privacy import (
    PrivacyAssumptionError,
    PrivacyProfile,
    account,
    calibrate,
)
from dpbraid.rows import InvalidRowsError, Rows
from dpbraid.starts import Given, Normal, Zeros

__version__ = "0.1.0"

__all__ = [
    "Ball",
    "Box",
    "DpbraidError",
    "ElasticNet",
    "Epoch",
    "FreeLast",
    "Given",
    "Huber",
    "Incremental",
    "InvalidParameterError",
    "InvalidRowsError",
    "Lasso",
    "Logistic",
    "Mean",
    "Mechanism",
    "NoPenalty",
    "Normal",
    "Placement",
    "PrivacyAssumptionError",
    "PrivacyProfile",
    "Reshuffle",
    "Ridge",
    "Rows",
    "ShuffleBuffer",
    "ShuffleOnce",
    "SmoothedHinge",
    "Squared",
    "Zeros",
    "__version__",
    "account",
    "alternating",
    "calibrate",
    "dp",
    "interleaved",
    "nonprivate",
    "priv_pub",
    "pub_priv",
    "public_only",
]
