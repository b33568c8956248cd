"""From tables in files to a private model, and from a model to predictions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.estimators.base import Charge, PrivateEstimator, Progress
from dpbraid.estimators.classifiers import (
    PrivateClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dpbraid.estimators.column_rules import Classes, Real, TargetRule
from dpbraid.estimators.files import load_with_table
from dpbraid.estimators.mean import PrivateMean
from dpbraid.estimators.regressors import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateRidge,
)
from dpbraid.estimators.table_files import TableFile
from dpbraid.estimators.table_rules import TableRules, learn
from dpbraid.privacy.certificate import Certificate

Array = NDArray[np.float64]

TASKS: dict[str, type[PrivateEstimator]] = {
    "logistic": PrivateLogisticRegression,
    "svc": PrivateLinearSVC,
    "ridge": PrivateRidge,
    "lasso": PrivateLasso,
    "elastic_net": PrivateElasticNet,
    "huber": PrivateHuber,
    "mean": PrivateMean,
}


def task_class(task: str) -> type[PrivateEstimator]:
    """The estimator that does a task."""
    if task not in TASKS:
        raise InvalidParameterError(
            f"task must be one of {', '.join(TASKS)}, got {task!r}"
        )
    return TASKS[task]


def estimator(task: str, settings: dict[str, Any]) -> PrivateEstimator:
    """The estimator for a task; settings: its parameters, each one that it takes."""
    cls = task_class(task)
    names = set(cls().get_params())
    for name in settings:
        if name not in names:
            raise InvalidParameterError(f"{name} does not go with task {task!r}")
    return cls(**settings)


def learn_for(task: str, public: TableFile, **options: Any) -> TableRules:
    """The column rules that a public table gives for a task; options: of `learn`."""
    classifier = issubclass(task_class(task), PrivateClassifier)
    rules = learn(public, classes=classifier, **options)
    check(task, rules)
    return rules


def check(task: str, rules: TableRules) -> None:
    """Refuse rules that do not go with a task."""
    cls = task_class(task)
    wanted: type[TargetRule] | None = None
    if cls is not PrivateMean:
        wanted = Classes if issubclass(cls, PrivateClassifier) else Real
    found = None if rules.target is None else type(rules.target)
    if found is not wanted:
        need = "no target" if wanted is None else f"a target of kind {wanted.kind!r}"
        got = "none" if found is None else f"one of kind {found.kind!r}"
        raise InvalidParameterError(f"task {task!r} takes {need}, got {got}")


def fit(
    estimator: PrivateEstimator,
    rules: TableRules,
    private: TableFile,
    public: TableFile | None = None,
    charge: Charge | None = None,
    progress: Progress | None = None,
) -> PrivateEstimator:
    """Fit an estimator on a private table, and on the public one if there is one.

    The certificate, also the one that is charged, names the rules among the user's
    declarations. A private row whose target no rule foresees is a zero row.
    progress: called with (steps done, all steps).
    """
    settings: dict[str, Any] = {"non_finite": "zero"}
    if isinstance(rules.target, Classes):
        settings["classes"] = list(rules.target.classes)
    estimator.set_params(**settings)
    known = {}
    if public is not None:
        X_public, y_public = rules.read_public(public)
        known = {"X_public": X_public}
        if y_public is not None:
            known["y_public"] = y_public

    def declared(certificate: Certificate) -> Certificate:
        words = (*certificate.declarations, rules.declaration)
        return dataclasses.replace(certificate, declarations=words)

    def charge_declared(certificate: Certificate) -> None:
        if charge is not None:
            charge(declared(certificate))

    X, y = rules.read(private)
    estimator.fit(X, y, charge=charge_declared, progress=progress, **known)
    estimator.certificate_ = declared(estimator.certificate_)
    return estimator


@dataclass(frozen=True)
class Quality:
    """How good a model is on public rows: computed from released numbers alone.

    baseline: the same of the best constant prediction; None where there is none.
    """

    measure: str
    rows: int
    value: float
    baseline: float | None
    baseline_is: str


def quality(model: Any, rules: TableRules, public: TableFile) -> Quality:
    """On all rows of the public table that have a label."""
    X, y = rules.read_public(public)
    if y is None:
        distance = float(np.linalg.norm(model.mean_ - X.mean(axis=0)))
        return Quality("distance to the public mean", len(X), distance, None, "")
    found = model.predict(X)
    if isinstance(rules.target, Classes):
        _, counts = np.unique(y, return_counts=True)
        share = float(counts.max() / len(y))
        right = float(np.mean(found == y))
        return Quality("accuracy", len(y), right, share, "the most frequent class has")
    error = float(np.sqrt(np.mean((found - y) ** 2)))
    return Quality(
        "root mean squared error", len(y), error, float(y.std()), "the mean has"
    )


def load(path: Path) -> tuple[Any, TableRules]:
    """A model and the rules of its table."""
    model, table = load_with_table(path, lambda table: table)
    rules = rules_of(model, table)
    if rules is None:
        raise InvalidParameterError(
            f"{path} has no column rules: it was made from arrays, and predicts on "
            "arrays (dpbraid.estimators.load)"
        )
    return model, rules


def rules_of(model: Any, table: Any) -> TableRules | None:
    """The rules in a model's file, if they are those that its certificate names."""
    if table is None:
        return None
    rules = TableRules.from_json(table)
    if rules.declaration not in model.certificate_.declarations:
        raise InvalidParameterError(
            "the column rules in the file are not those that its certificate names"
        )
    if len(rules.features) != model.n_features_in_:
        raise InvalidParameterError(
            f"the column rules give {len(rules.features)} features, and the model has "
            f"{model.n_features_in_}"
        )
    return rules


def predict(
    model: Any, rules: TableRules, file: TableFile, probabilities: bool = False
) -> pa.Table:
    """The prediction for each row, and if asked for the probability of each class."""
    if not hasattr(model, "predict") or (
        probabilities and not hasattr(model, "predict_proba")
    ):
        what = "probabilities" if probabilities else "predictions"
        raise InvalidParameterError(f"a {type(model).__name__} makes no {what}")
    X = rules.read_features(file)
    columns: dict[str, Any] = {"prediction": model.predict(X)}
    if probabilities:
        shares = model.predict_proba(X).T
        for name, share in zip(model.classes_, shares, strict=True):
            columns[f"probability of {name}"] = share
    return pa.table(columns)
