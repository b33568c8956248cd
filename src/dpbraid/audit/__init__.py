"""Attacks on our own guarantees: lower bounds on privacy loss, next to the claim.

Tables are made up from public bounds or from public rows; no private row is touched.
"""

from dpbraid.audit.attack import Audit, Evidence, audit, gather
from dpbraid.audit.claims import Claim, claim
from dpbraid.audit.neighbours import Neighbours, neighbours
from dpbraid.audit.one_run import OneRun, one_run

__all__ = [
    "Audit",
    "Claim",
    "Evidence",
    "Neighbours",
    "OneRun",
    "audit",
    "claim",
    "gather",
    "neighbours",
    "one_run",
]
