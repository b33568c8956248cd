"""Fitting: seeds, charges, schedules, classes, transforms, pipelines, memory."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

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
)
from dpbraid.privacy import PrivacyAssumptionError, gaussian_mu
from dpbraid.privacy.certificate import Certificate
from dpbraid.privacy.verify import verify
from dpbraid.release import NoiseSource

rng = np.random.default_rng(11)
X = rng.normal(size=(80, 4))
y_real = X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.normal(size=80)
y_two = (y_real > 0).astype(int)
y_three = np.digitize(y_real, [-0.7, 0.7])
X_public = rng.normal(size=(90, 4))
public_two = (X_public[:, 0] > 0).astype(int)

REAL: dict[str, Any] = {"row_norm": 3.0, "label_bound": 3.0, "epochs": 4}
CLASS: dict[str, Any] = {"row_norm": 3.0, "classes": [0, 1], "epochs": 4}
EVERY = {
    "mean": (PrivateMean(row_norm=3.0), None),
    "ridge": (PrivateRidge(**REAL), y_real),
    "lasso": (PrivateLasso(alpha=0.01, **REAL), y_real),
    "elastic net": (PrivateElasticNet(alpha=0.01, **REAL), y_real),
    "huber": (PrivateHuber(**REAL), y_real),
    "logistic": (PrivateLogisticRegression(**CLASS), y_two),
    "svc": (PrivateLinearSVC(**CLASS), y_two),
    "three classes": (
        PrivateLogisticRegression(**{**CLASS, "classes": [0, 1, 2]}),
        y_three,
    ),
}


def released(model: Any) -> np.ndarray:
    return np.asarray(model._released())


@pytest.mark.parametrize("name", EVERY)
def test_without_a_seed_no_two_fits_agree_with_one_all_do(name: str) -> None:
    """Unseeded coordinates are multiples of a grid finer than 2^-30 noise stds.

    Two of them agree with probability below 2^-29, so this fails by chance with
    probability below 2^-29 a case.
    """
    model, y = EVERY[name]
    first, second = (released(clone(model).fit(X, y)) for _ in range(2))
    assert np.all(first != second)
    seeded = clone(model).set_params(random_state=5)
    first, second = (released(clone(seeded).fit(X, y)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = clone(model).set_params(random_state=6).fit(X, y)
    assert np.all(released(other) != first)


@pytest.mark.parametrize("name", EVERY)
def test_the_global_state_of_numpy_is_neither_read_nor_moved(name: str) -> None:
    model, y = EVERY[name]
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    first = released(clone(model).fit(X, y))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert np.all(released(clone(model).fit(X, y)) != first)


@pytest.mark.parametrize("name", EVERY)
def test_the_certificate_keeps_the_promise_and_verifies(name: str) -> None:
    model, y = EVERY[name]
    fitted = clone(model).set_params(epsilon=2.0, delta=1e-5).fit(X, y)
    certificate = fitted.certificate_
    assert certificate.epsilon is not None
    assert 2.0 * (1 - 1e-6) < certificate.epsilon <= 2.0
    assert certificate.delta == 1e-5
    assert [check for check in verify(certificate) if not check.holds] == []
    assert Certificate.loads(certificate.dumps()) == certificate
    assert fitted.mechanism_ == certificate.mechanism


def test_a_seeded_model_says_that_it_is_not_private() -> None:
    model = PrivateRidge(**REAL, random_state=0).fit(X, y_real)
    assert not model.certificate_.is_private
    assert model.certificate_.noise_source is NoiseSource.USER_SEED
    assert "not private" in repr(model)
    assert "NOT CERTIFIED" in model.certificate_.text()
    assert "not private" not in repr(PrivateRidge(**REAL))


def test_one_vs_rest_splits_the_budget_exactly() -> None:
    """k runs at mu / sqrt(k) each are mu together."""
    fitted = clone(EVERY["three classes"][0]).set_params(epsilon=3.0).fit(X, y_three)
    certificate = fitted.certificate_
    assert certificate.runs == 3
    assert fitted.coef_.shape == (3, 4)
    assert certificate.mu == pytest.approx(gaussian_mu(3.0, 1e-6), rel=1e-9)
    m, epoch = certificate.mechanism, certificate.mechanism.epochs[0]
    assert m.sensitivity is not None
    per_run = math.sqrt(len(m.epochs)) * m.sensitivity / m.batch_size / epoch.noise_std
    assert math.sqrt(3) * per_run == pytest.approx(certificate.mu, rel=1e-5)
    assert "One run a class, 3 runs in all" in certificate.text()
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    with pytest.raises(PrivacyAssumptionError, match="compose exactly only where mu"):
        clone(fitted).set_params(analysis="secret_order").fit(X, y_three)


def test_a_changed_number_of_runs_does_not_verify() -> None:
    from dataclasses import replace

    fitted = clone(EVERY["three classes"][0]).fit(X, y_three)
    for runs in (4, 30):
        changed = replace(fitted.certificate_, runs=runs)
        assert not all(check.holds for check in verify(changed))


def test_the_charge_comes_before_the_release() -> None:
    charged: list[Certificate] = []
    fitted = PrivateRidge(**REAL).fit(X, y_real, charge=charged.append)
    assert charged == [fitted.certificate_]

    def refuse(certificate: Certificate) -> None:
        raise RuntimeError("over the limit")

    model = PrivateRidge(**REAL)
    with pytest.raises(RuntimeError, match="over the limit"):
        model.fit(X, y_real, charge=refuse)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "certificate_")


def test_nothing_is_charged_for_a_fit_that_cannot_run() -> None:
    charged: list[Certificate] = []
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(DpbraidError, match="Nothing was released"):
        PrivateRidge(**REAL).fit(bad, y_real, charge=charged.append)
    with pytest.raises(DpbraidError, match="public rows"):
        PrivateRidge(**REAL, schedule="pub_priv").fit(X, y_real, charge=charged.append)
    assert charged == []


@pytest.mark.parametrize(
    "schedule", ["dp", "interleaved", "priv_pub", "pub_priv", "alternating"]
)
@pytest.mark.parametrize("placement", ["epoch_end", "every_step"])
def test_every_schedule_runs_under_its_certificate(
    schedule: str, placement: str
) -> None:
    model = PrivateLogisticRegression(
        **CLASS, schedule=schedule, noise_placement=placement, batch_size=8
    )
    fitted = model.fit(X, y_two, X_public, public_two)
    assert [check for check in verify(fitted.certificate_) if not check.holds] == []
    assert fitted.certificate_.epsilon <= 1.0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"row_norm": None}, "row norm is unknown"),
        ({"classes": None}, "the classes are unknown"),
        ({"classes": "yes"}, "'from_y'"),
        ({"classes": [1, 1]}, "must differ"),
        ({"classes": [1]}, "two classes or more"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"epochs": 0}, "epochs"),
        ({"penalty": "l3"}, "penalty"),
        ({"C": -1.0}, "C must"),
        ({"schedule": "sgd"}, "schedule"),
        ({"order": "random"}, "order"),
        ({"noise_placement": "end"}, "noise_placement"),
        ({"analysis": "magic"}, "analysis"),
        ({"start": "best"}, "start"),
        ({"start": "public"}, "needs public rows"),
        ({"random_state": np.random.RandomState(0)}, "random_state"),
        ({"non_finite": "drop"}, "non_finite"),
        ({"public_transform": StandardScaler()}, "PublicTransform"),
        ({"public_transform": PublicTransform(StandardScaler())}, "needs X_public"),
        (
            {"learning_rate": 50.0, "batch_size": 8, "analysis": "epoch_end"},
            "learning_rate",
        ),
    ],
)
def test_errors_say_what_is_wrong(change: dict[str, Any], text: str) -> None:
    with pytest.raises(DpbraidError, match=text):
        PrivateLogisticRegression(**{**CLASS, **change}).fit(X, y_two)


def test_bounds_and_classes_come_from_public_rows_and_the_file_says_so() -> None:
    fitted = PrivateLogisticRegression(epochs=2).fit(X, y_two, X_public, public_two)
    text = fitted.certificate_.text().replace("\n    ", " ")
    assert "The row norm is the largest of the public rows." in text
    assert "The 2 classes are those of the public rows." in text
    declared = PrivateLogisticRegression(epochs=2, row_norm=3, classes="from_y")
    text = declared.fit(X, y_two).certificate_.text().replace("\n    ", " ")
    assert "declared to be public knowledge" in text
    ridge = PrivateRidge(epochs=2).fit(X, y_real, X_public, X_public[:, 0])
    assert any("label bound" in d for d in ridge.certificate_.declarations)
    with pytest.raises(DpbraidError, match="range of y is unknown"):
        PrivateRidge(row_norm=3).fit(X, y_real)


def test_a_label_outside_of_the_classes_is_a_zero_row() -> None:
    """The fit is that of the table with this row at 0, whatever its features are."""
    odd = y_two.copy()
    odd[5] = 9
    changed = X.copy()
    changed[5] = 1e6
    fits = [
        PrivateLogisticRegression(**CLASS, random_state=1).fit(table, odd)
        for table in (X, changed)
    ]
    np.testing.assert_array_equal(released(fits[0]), released(fits[1]))


def test_public_transforms_are_fitted_on_public_rows_alone() -> None:
    transform = PublicTransform(make_pipeline(StandardScaler(), PCA(2)))
    model = PrivateLogisticRegression(
        classes=[0, 1], epochs=3, public_transform=transform, random_state=0
    ).fit(X, y_two, X_public)
    expected = make_pipeline(StandardScaler(), PCA(2)).fit(X_public)
    assert model.public_transform_ is not None
    np.testing.assert_allclose(
        model.public_transform_.transform(X), expected.transform(X), atol=1e-12
    )
    assert model.coef_.shape == (1, 2)
    assert model.n_features_in_ == 4
    by_hand = expected.transform(X) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), by_hand)
    assert any("PCA" in d for d in model.certificate_.declarations)


def test_a_transform_that_mixes_rows_is_refused() -> None:
    mixing = FunctionTransformer(lambda Z: Z - Z.mean(axis=0))
    with pytest.raises(DpbraidError, match="each row by itself"):
        PrivateMean(public_transform=PublicTransform(mixing)).fit(X, X_public=X_public)


def test_clone_pipeline_and_grid_search_on_public_rows() -> None:
    pipeline = make_pipeline(
        FunctionTransformer(np.tanh), PrivateLogisticRegression(**CLASS)
    )
    assert clone(pipeline).fit(X, y_two).predict(X).shape == (80,)
    search = GridSearchCV(
        PrivateLogisticRegression(**{**CLASS, "epsilon": 1e6}), {"C": [1e-6, 1.0]}, cv=3
    )
    search.fit(X_public, public_two)
    assert search.best_params_ == {"C": 1.0}
    transform = PublicTransform(StandardScaler())
    nested = PrivateRidge(**REAL, public_transform=transform)
    nested.set_params(public_transform__transformer__with_mean=False)
    assert clone(nested).public_transform.transformer.with_mean is False


def test_start_at_the_public_solution_helps_where_rows_are_alike() -> None:
    """With much noise and public rows of the same law; fixed seeds."""
    truth = X_public @ [1.0, -1.0, 0.5, 0.0]
    errors = {}
    for start in ("zeros", "public"):
        fits = [
            PrivateRidge(
                epsilon=0.2, start=start, fit_intercept=False, random_state=seed
            ).fit(X, y_real, X_public, truth)
            for seed in range(10)
        ]
        errors[start] = np.mean(
            [np.linalg.norm(fit.coef_ - [1.0, -1.0, 0.5, 0.0]) for fit in fits]
        )
    assert errors["public"] < errors["zeros"]


def test_the_mean_finds_the_region_from_a_wrong_public_centre() -> None:
    """Coarse passes first: the public mean is off by two clip norms."""
    cloud = rng.normal(size=(2000, 3)) + np.array([6.0, 0.0, 0.0])
    public = rng.normal(size=(100, 3))
    fitted = PrivateMean(epsilon=2.0, row_norm=12.0, random_state=0)
    mean = fitted.fit(cloud, X_public=public).mean_
    assert np.linalg.norm(mean - cloud.mean(axis=0)) < 0.3
    noises = [epoch.noise_std for epoch in fitted.mechanism_.epochs]
    assert noises[0] > 2 * noises[-1]


def test_public_rows_that_are_all_alike_say_nothing_of_distances() -> None:
    """Then the clip norm is that without public rows."""
    alike = np.ones((30, 4))
    fitted = PrivateMean(row_norm=3.0, random_state=0).fit(X, X_public=alike)
    assert fitted.mechanism_.clip_norm == 3.0


def test_unfitted_models_say_so() -> None:
    with pytest.raises(NotFittedError):
        PrivateRidge().predict(X)


def test_a_fit_takes_little_memory_beside_the_table() -> None:
    """At most two tables at once beside the caller's: under 4x in all."""
    big = rng.normal(size=(40_000, 50))
    labels = (big[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(row_norm=9.0, classes=[0, 1], epochs=2)
    model.fit(big[:100], labels[:100])  # compiles
    tracemalloc.start()
    try:
        model.fit(big, labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"peak beside the caller's table: {peak / big.nbytes:.2f} tables")
    assert peak < 3 * big.nbytes
