"""scikit-learn estimators: a private model from a private and a public table."""

from dpbraid.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpbraid.estimators.files import load, load_with_table, save
from dpbraid.estimators.transform import PublicTransform

__all__ = [
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PublicTransform",
    "load",
    "load_with_table",
    "save",
]
