"""Model files: lossless, checked, one size for all released numbers, no code."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from dpbraid import DpbraidError
from dpbraid.estimators import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
    PublicTransform,
    load,
    load_with_table,
    save,
)

rng = np.random.default_rng(2)
X = rng.normal(size=(40, 3))
X_public = 2 + rng.normal(size=(30, 3))
y = X @ [1.0, 0.0, -1.0]
REAL: dict[str, Any] = {"row_norm": 2.0, "label_bound": 2.0, "epochs": 3}


def classifier(classes: list[Any], **options: Any) -> PrivateLogisticRegression:
    labels = [classes[i % len(classes)] for i in range(40)]
    model = PrivateLogisticRegression(
        row_norm=2.0, classes=classes, epochs=3, **options
    )
    return model.fit(X, labels)


MODELS: dict[str, Callable[[], Any]] = {
    "mean": lambda: PrivateMean(row_norm=2.0).fit(X),
    "ridge": lambda: PrivateRidge(**REAL).fit(X, y),
    "no intercept": lambda: PrivateRidge(**REAL, fit_intercept=False).fit(X, y),
    "lasso": lambda: PrivateLasso(**REAL).fit(X, y),
    "elastic net": lambda: PrivateElasticNet(**REAL).fit(X, y),
    "huber": lambda: PrivateHuber(**REAL).fit(X, y),
    "texts": lambda: classifier(["a", "b"]),
    "numbers": lambda: classifier([-1.5, 2.0]),
    "truth values": lambda: classifier([False, True]),
    "three": lambda: classifier([3, 1, 2]),
    "svc": lambda: PrivateLinearSVC(
        row_norm=2.0, classes=[0, 1], epochs=3, order="shuffle_once"
    ).fit(X, (y > 0).astype(int)),
    "seeded": lambda: PrivateRidge(**REAL, random_state=3).fit(X, y),
    "public start": lambda: PrivateMean(row_norm=2.0).fit(X, X_public=X_public),
}
TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 3), clip=True),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer("l1"),
    Normalizer("l2"),
    Normalizer("max"),
    PCA(2),
    PCA(2, whiten=True),
    make_pipeline(StandardScaler(), PCA(2), Normalizer()),
]


@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_same_model_back(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again._released(), model._released())
    assert again.certificate_ == model.certificate_
    assert again.mechanism_ == model.mechanism_
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if hasattr(model, "classes_"):
        assert again.classes_.tolist() == model.classes_.tolist()
    assert ("not private" in repr(again)) == ("not private" in repr(model))
    save(again, tmp_path / "again.json")
    first, second = (tmp_path / f for f in ("model.json", "again.json"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)
def test_transforms_in_files_do_what_scikit_learn_does(
    transformer: Any, tmp_path: Path
) -> None:
    model = PrivateRidge(
        epochs=2, label_bound=2.0, public_transform=PublicTransform(transformer)
    ).fit(X, y, X_public)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    expected = transformer.fit(X_public).transform(X)
    np.testing.assert_allclose(
        again.public_transform_.transform(X), expected, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_transform_that_is_no_numbers_cannot_be_saved(tmp_path: Path) -> None:
    transform = PublicTransform(PolynomialFeatures(2))
    model = PrivateRidge(epochs=2, label_bound=2.0, public_transform=transform)
    model.fit(X, y, X_public)
    assert any("the user's word" in d for d in model.certificate_.declarations)
    with pytest.raises(DpbraidError, match="cannot be written as numbers"):
        save(model, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_the_size_of_a_file_says_nothing_about_the_numbers(tmp_path: Path) -> None:
    model = MODELS["ridge"]()
    sizes = set()
    for value in (0.0, -1.0, 1e-300, -1.2345678901234567e200, 5e-324, 1 / 3):
        model.coef_ = np.full(3, value)
        save(model, tmp_path / "model.json")
        sizes.add((tmp_path / "model.json").stat().st_size)
        np.testing.assert_array_equal(load(tmp_path / "model.json").coef_, model.coef_)
    assert len(sizes) == 1


def test_feature_names_and_table_rules_are_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateRidge(**REAL).fit(frame, y)
    save(model, tmp_path / "model.json", table={"rules": [1, 2]})
    again, table = load_with_table(tmp_path / "model.json", lambda t: t["rules"])
    assert table == [1, 2]
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "a", "c"]])


def wrong(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one field replaced; DELETE takes it out."""
    changed = copy.deepcopy(data)
    *parents, last = path.split(".")
    at: Any = changed
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at[step]
    key: Any = int(last) if isinstance(at, list) else last
    if value == "DELETE":
        del at[key]
    else:
        at[key] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "dpbraid.model/2"),
        ("estimator", "os.system"),
        ("estimator", ["PrivateRidge"]),
        ("estimator", "PrivateHuber"),
        ("estimator", "PrivateLogisticRegression"),
        ("parameters.epsilon", -1),
        ("parameters.epsilon", "DELETE"),
        ("parameters.alpha", "1"),
        ("parameters.alpha", 2.0),
        ("parameters.label_bound", -1),
        ("parameters.fit_intercept", 1),
        ("parameters.more", 1),
        ("parameters.random_state", 3),
        ("parameters.fit_intercept", False),
        ("n_features_in", 4),
        ("n_features_in", -1),
        ("feature_names_in", ["a"]),
        ("classes", {"type": "int", "values": [0, 1]}),
        ("coef", []),
        ("coef.0", []),
        ("coef.0.0", 1.0),
        ("coef.0.0", "nan"),
        ("coef.0.0", "+0000000000000000000.inf"),
        ("coef.0.0", "+1.0"),
        ("transform", [{"kind": "affine", "shift": [0.0], "scale": [1.0]}]),
        ("transform", [{"kind": "eval", "code": "1"}]),
        ("transform", [{"kind": "linear", "matrix": [[1.0], [2.0]]}]),
        ("certificate", None),
        ("certificate.mechanism.n", 0),
        ("certificate.runs", 2),
        ("certificate.numeric.dimension", 9),
        ("table", [1]),
        ("certificate", "DELETE"),
    ],
)
def test_a_changed_file_is_refused(path: str, value: Any, tmp_path: Path) -> None:
    save(MODELS["ridge"](), tmp_path / "model.json")
    data = wrong(json.loads((tmp_path / "model.json").read_text()), path, value)
    (tmp_path / "model.json").write_text(json.dumps(data))
    with pytest.raises(DpbraidError, match="not a valid model"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize("text", ["", "[1]", "{", "NaN", '{"schema": NaN}', "\x80abc"])
def test_what_is_no_model_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DpbraidError, match="not a"):
        load(tmp_path / "model.json")


def test_an_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(DpbraidError, match="not fitted"):
        save(PrivateRidge(), tmp_path / "model.json")


def test_a_classifier_of_one_class_is_no_model(tmp_path: Path) -> None:
    save(MODELS["texts"](), tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    del data["classes"]["values"][1:]
    (tmp_path / "model.json").write_text(json.dumps(data))
    with pytest.raises(DpbraidError, match="classes must match the rows"):
        load(tmp_path / "model.json")
