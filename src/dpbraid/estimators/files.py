"""Models as one JSON file, schema dpbraid.model/1. No pickle: loading runs no code.

A file holds the released coefficients, the public transform as numbers, the certificate
and the classes. Coefficients are written with 17 digits in fixed width, so the size of
a file says nothing about them. Everything is checked on loading; a file that was not
written by `save` is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbraid import _json, _validate
from dpbraid._files import write_atomically
from dpbraid._validate import DpbraidError, InvalidParameterError
from dpbraid.estimators.base import PrivateEstimator
from dpbraid.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpbraid.estimators.mean import PrivateMean
from dpbraid.estimators.regressors import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateRidge,
)
from dpbraid.estimators.transform import SAVABLE, FittedTransform, Step
from dpbraid.privacy.certificate import Certificate

SCHEMA = "dpbraid.model/1"
ESTIMATORS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        PrivateMean,
        PrivateRidge,
        PrivateLasso,
        PrivateElasticNet,
        PrivateHuber,
        PrivateLogisticRegression,
        PrivateLinearSVC,
    )
}
# Parameters that are no numbers or words: they live on in the certificate.
_NOT_IN_FILES = ("order", "public_transform", "classes")

Array = NDArray[np.float64]
T = TypeVar("T")


class ModelFileError(DpbraidError):
    """A file is no model that `save` wrote."""


_fields = partial(_json.fields, ModelFileError)
_items = partial(_json.items, ModelFileError)
_text = partial(_json.text, ModelFileError)


def save(
    model: PrivateEstimator, path: str | Path, *, table: dict[str, Any] | None = None
) -> None:
    """Write a fitted model as one JSON file, whole or not at all.

    table: rules that turn columns of a file into features, kept for whoever reads them
    with `load_with_table`; made from public facts.
    """
    content = json.dumps(to_json(model, table), indent=1, allow_nan=False) + "\n"
    write_atomically(Path(path), content.encode())


def load(path: str | Path) -> Any:
    """The model in a file."""
    return load_with_table(path, lambda table: table)[0]


def load_with_table(
    path: str | Path, read_table: Callable[[dict[str, Any]], T]
) -> tuple[Any, T | None]:
    """The model in a file, and its table rules as `read_table` checks and returns them.

    None without rules.
    """
    data = _json.read(path)
    try:
        model = from_json(data)
    except DpbraidError as error:
        raise ModelFileError(f"{path} is not a valid model: {error}") from None
    table = data["table"]
    return model, None if table is None else read_table(table)


def to_json(
    model: PrivateEstimator, table: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A fitted model as a JSON object."""
    name = type(model).__name__
    if ESTIMATORS.get(name) is not type(model):
        raise InvalidParameterError(
            f"only {', '.join(ESTIMATORS)} can be saved, got {name}"
        )
    if not model.__sklearn_is_fitted__():
        raise InvalidParameterError(f"this {name} is not fitted yet: nothing to save")
    if table is not None and not isinstance(table, dict):
        raise InvalidParameterError("table must be a JSON object")
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    parameters = {
        key: _plain(value)
        for key, value in model.get_params(deep=False).items()
        if key not in _NOT_IN_FILES
    }
    return {
        "schema": SCHEMA,
        "estimator": name,
        "parameters": parameters,
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else [str(n) for n in names],
        "classes": None if classes is None else _classes_to_json(classes),
        "coef": [[_fixed(v) for v in row] for row in _released(model)],
        "transform": _transform_to_json(model.public_transform_),
        "certificate": model.certificate_.to_json(),
        "table": table,
    }


def from_json(data: Any) -> Any:
    """The fitted model that `to_json` described; everything is checked."""
    data = _fields(
        data,
        "model",
        "schema estimator parameters n_features_in feature_names_in classes coef "
        "transform certificate table",
    )
    if data["schema"] != SCHEMA:
        raise ModelFileError(f"schema must be {SCHEMA!r}, got {data['schema']!r}")
    cls = ESTIMATORS.get(_text(data["estimator"], "estimator"))
    if cls is None:
        raise ModelFileError(
            f"estimator must be one of {', '.join(ESTIMATORS)}, "
            f"got {data['estimator']!r}"
        )
    expected = set(cls().get_params(deep=False)) - set(_NOT_IN_FILES)
    parameters = _fields(data["parameters"], "parameters", " ".join(expected))
    certificate = Certificate.from_json(data["certificate"])
    model = cls(**parameters, order=certificate.mechanism.order)
    model._check_parameters()
    d = data["n_features_in"]
    _validate.integer(1, n_features_in=d)
    model.n_features_in_ = d
    names = data["feature_names_in"]
    if names is not None:
        names = [
            _text(n, "feature_names_in") for n in _items(names, "feature_names_in")
        ]
        if len(names) != d:
            raise ModelFileError(f"feature_names_in must hold {d} names")
        model.feature_names_in_ = np.array(names, dtype=object)
    transform = _transform_from_json(data["transform"], d)
    model.public_transform_ = transform
    model.certificate_ = certificate
    model.mechanism_ = certificate.mechanism
    _check_certificate(model)
    x = _coefficients(data["coef"], certificate)
    width = d if transform is None else transform.n_features_out
    if x.shape[1] != width + int(model._with_intercept):
        raise ModelFileError(
            f"coef must hold {width + int(model._with_intercept)} numbers a row"
        )
    if data["table"] is not None and not isinstance(data["table"], dict):
        raise ModelFileError("table must be a JSON object or null")
    classes = data["classes"]
    model._accept(x, None if classes is None else _classes_from_json(classes))
    return model


def _check_certificate(model: Any) -> None:
    """What the model is and what its certificate says must be one thing."""
    certificate = model.certificate_
    m = certificate.mechanism
    if m.loss != model._loss():
        raise ModelFileError("the certificate is for another loss than the estimator's")
    if m.row_norm is None or m.penalty != model._full_penalty(m.n, m.row_norm):
        raise ModelFileError("the certificate is for another penalty than the model's")
    if (model.random_state is None) != (certificate.noise_source.name == "OS_ENTROPY"):
        raise ModelFileError("random_state and the certificate's noise source differ")


def _coefficients(data: Any, certificate: Certificate) -> Array:
    rows = [[_number(v) for v in _items(row, "coef")] for row in _items(data, "coef")]
    if len(rows) != certificate.runs or any(
        len(row) != certificate.numeric.dimension for row in rows
    ):
        raise ModelFileError(
            "coef must hold one row a run of the certificate, "
            f"{certificate.runs}, of {certificate.numeric.dimension} numbers each"
        )
    return np.array(rows)


def _fixed(value: float) -> str:
    """17 digits, enough to read the same number back, in 24 characters."""
    return f"{value:+024.16e}"


def _number(data: Any) -> float:
    if isinstance(data, str) and len(data) == 24:
        try:
            value = float(data)
        except ValueError:
            value = float("nan")
        if np.isfinite(value) and _fixed(value) == data:
            return value
    raise ModelFileError(
        f"coef must hold numbers as texts of 24 characters, got {data!r}"
    )


def _released(model: Any) -> Array:
    released: Array = model._released()
    return released


# -- classes and transform -------------------------------------------------------------

_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "str", "O": "str"}
_TYPES: dict[str, tuple[type, Any]] = {
    "bool": (bool, np.bool_),
    "int": (int, np.int64),
    "float": (float, np.float64),
    "str": (str, None),
}


def _classes_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    kind = _KINDS.get(classes.dtype.kind, "")
    values = classes.tolist()
    if kind not in _TYPES or not all(type(v) is _TYPES[kind][0] for v in values):
        raise InvalidParameterError(
            f"classes of type {classes.dtype} cannot be written to a file; use "
            "integers, numbers, texts or truth values"
        )
    return {"type": kind, "values": values}


def _classes_from_json(data: Any) -> NDArray[Any]:
    data = _fields(data, "classes", "type values")
    if data["type"] not in _TYPES:
        raise ModelFileError(f"the type of classes must be one of {', '.join(_TYPES)}")
    wanted, dtype = _TYPES[data["type"]]
    values = _items(data["values"], "classes")
    if not all(type(v) is wanted for v in values) or sorted(set(values)) != values:
        raise ModelFileError(f"classes must be different and sorted {data['type']}s")
    return np.array(values, dtype=dtype)


def _transform_to_json(transform: FittedTransform | None) -> list[Any] | None:
    if transform is None:
        return None
    if transform.steps is None:
        raise InvalidParameterError(
            f"the public transform {transform.description} cannot be written as "
            f"numbers; models can be saved with {', '.join(SAVABLE)} and pipelines of "
            "them"
        )
    return [step.to_json() for step in transform.steps]


def _transform_from_json(data: Any, dimension: int) -> FittedTransform | None:
    if data is None:
        return None
    steps = tuple(Step.from_json(entry) for entry in _items(data, "transform"))
    columns: int | None = dimension
    for step in steps:
        columns = None if columns is None else step.columns(columns)
    if columns is None:
        raise ModelFileError("the steps of the transform do not fit together")
    return FittedTransform(None, steps, dimension)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
