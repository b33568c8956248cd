"""scikit-learn estimators: a private model from a private and a public table."""

from dpbraid.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpbraid.estimators.files import load, load_with_table, save
from dpbraid.estimators.mean import PrivateMean
from dpbraid.estimators.regressors import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateRidge,
)
from dpbraid.estimators.transform import PublicTransform

__all__ = [
    "PrivateElasticNet",
    "PrivateHuber",
    "PrivateLasso",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateMean",
    "PrivateRidge",
    "PublicTransform",
    "load",
    "load_with_table",
    "save",
]
