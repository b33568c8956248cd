"""Convergence theory: constants, dissimilarity, bounds, excess risk, advice.

What a module reads from private rows is research only: such functions end in
``_not_private``. `bounds` and `excess_risk` are arithmetic on numbers, `advise` answers
from public facts alone.
"""
