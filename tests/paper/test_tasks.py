from __future__ import annotations

import numpy as np
import pytest

from dpbraid import InvalidParameterError
from dpbraid.engine import inputs
from dpbraid.mechanism import public_only
from dpbraid.paper import cuts, embedded, tasks
from dpbraid.paper.embedded import DataError
from dpbraid.paper.options import (
    Cifar10Options,
    CompasOptions,
    CreditCardOptions,
    CrimeColumns,
    CrimeOptions,
    Feature21,
    Half,
    Mnist69Options,
    PixelScale,
    Rotation,
    RowBound,
    RowOrder,
    Scaling,
    Target,
    TaskOptions,
)
from dpbraid.paper.recipes import MissingRowsError

# n, public rows, d: the table of the paper has n and d (COMPAS misprinted as 2013)
SIZES = {
    "mnist69": (1000, 1000, 784),
    "cifar10": (1000, 1000, 3072),
    "crime": (159, 160, 124),
    "compas": (2103, 3175, 11),
    "creditcard": (200, 200, 21),
}
ALL = sorted(SIZES)


@pytest.fixture(scope="module")
def loaded():
    return {name: tasks.load(name) for name in ALL}


def test_names():
    assert tasks.names() == tuple(SIZES)


@pytest.mark.parametrize("name", ALL)
def test_has_the_sizes_of_the_paper(loaded, name):
    task = loaded[name]
    n, public, d = SIZES[name]
    assert task.private.X.shape == (n, d)
    assert task.public.X.shape == (public, d)
    assert (task.n, task.dimension) == (n, d)


@pytest.mark.parametrize("name", ALL)
def test_bounds_touch_no_row_by_default(loaded, name):
    task = loaded[name]
    split = tasks.source(name).split(embedded.read(name), task.options)
    assert np.array_equal(task.private.X, split.private.X)
    assert np.array_equal(task.public.X, split.public.X)
    for rows in (task.private, task.public):
        largest = np.linalg.norm(rows.X, axis=1).max()
        assert largest <= rows.row_norm <= largest * 1.002


@pytest.mark.parametrize("name", ALL)
def test_the_engine_takes_it(loaded, name):
    task = loaded[name]
    mechanism = public_only(
        task.n,
        1,
        learning_rate=0.1,
        loss=task.loss,
        penalty=task.penalty,
        row_norm=task.private.row_norm,
        public_row_norm=task.public.row_norm,
    )
    inputs.check(mechanism, task.private, task.public)


@pytest.mark.parametrize("name", ALL)
def test_public_bound_cuts_private_rows(name):
    options = tasks.source(name).options(row_bound="public")
    task = tasks.load(name, options)
    assert task.private.row_norm == task.public.row_norm
    assert np.linalg.norm(task.private.X, axis=1).max() <= task.public.row_norm


# -- recipes, against facts of the data that were counted elsewhere ----------------


def test_mnist(loaded):
    task = loaded["mnist69"]
    mean, public = task.private.X.mean(axis=0), task.public.X.mean(axis=0)
    assert np.linalg.norm(mean) == pytest.approx(7.0969347, abs=1e-6)
    assert np.linalg.norm(mean - public) == pytest.approx(3.06, abs=5e-3)
    # nines that are not turned are further away
    assert np.linalg.norm(mean - public[::-1]) == pytest.approx(4.84, abs=5e-3)


def test_mnist_pixels():
    unit, signed, bytes_ = (
        tasks.load("mnist69", Mnist69Options(pixels=scale)).private.X
        for scale in PixelScale
    )
    assert (unit.min(), unit.max()) == (0, 1)
    np.testing.assert_allclose(signed, 2 * unit - 1)
    np.testing.assert_allclose(bytes_, 255 * unit, rtol=1e-15)
    assert np.linalg.norm(bytes_.mean(axis=0)) == pytest.approx(1810, abs=1)


def test_cifar(loaded):
    task = loaded["cifar10"]
    assert np.array_equal(np.bincount(task.private.y.astype(int)), [100] * 10)
    assert np.array_equal(np.bincount(task.public.y.astype(int)), [250] * 4)
    # no image is in both sets
    private = {row.tobytes() for row in task.private.X}
    assert len(private) == 1000
    assert private.isdisjoint(row.tobytes() for row in task.public.X)


def test_cifar_orders():
    shuffled, sorted_, file = (
        tasks.load("cifar10", Cifar10Options(order=order)).public
        for order in (RowOrder.RANDOM, RowOrder.CLASS, RowOrder.FILE)
    )
    assert np.array_equal(sorted_.y, np.repeat(np.arange(4.0), 250))
    # each class appears in the first half of a shuffled table, within 5 std of 125
    counts = np.bincount(shuffled.y[:500].astype(int), minlength=4)
    assert np.all(np.abs(counts - 125) < 5 * np.sqrt(125 * 0.75 * 0.5))
    assert not np.array_equal(file.y, sorted_.y)
    for rows in (shuffled, file):
        assert {r.tobytes() for r in rows.X} == {r.tobytes() for r in sorted_.X}
    again = tasks.load("cifar10").public
    assert np.array_equal(again.X, shuffled.X)
    other = tasks.load("cifar10", Cifar10Options(order_seed=1)).public
    assert not np.array_equal(other.X, shuffled.X)


def test_cifar_target():
    index = tasks.load("cifar10").private.y
    unit = tasks.load("cifar10", Cifar10Options(target=Target.UNIT)).private.y
    np.testing.assert_allclose(unit, index / 9)


def test_cifar_rows_that_are_not_embedded():
    with pytest.raises(MissingRowsError, match="--data-dir"):
        tasks.load("cifar10", Cifar10Options(private_per_class=200))
    with pytest.raises(MissingRowsError, match="images 200 to 699 of class 0"):
        tasks.load("cifar10", Cifar10Options(public_per_class=500))


def test_fewer_public_rows_than_private_ones_are_refused():
    with pytest.raises(InvalidParameterError, match="n=1000 private rows but 400"):
        tasks.load("cifar10", Cifar10Options(public_per_class=100))


def test_crime(loaded):
    task = loaded["crime"]
    assert np.mean(task.private.y**2) == pytest.approx(0.27181698, abs=1e-8)
    assert set(np.unique(task.private.X[:, 1])) <= set(range(1, 11))  # fold
    features = task.private.X[:, 2:]
    assert features.min() >= 0
    assert features.max() <= 1


def test_crime_columns():
    with_, without = (
        tasks.load("crime", CrimeOptions(columns=columns)).private.X
        for columns in (CrimeColumns.ALL, CrimeColumns.PREDICTIVE)
    )
    assert np.array_equal(with_[:, 2:], without)


def test_crime_halves():
    first, last = (
        tasks.load("crime", CrimeOptions(private_half=half, rotation="none"))
        for half in (Half.FIRST, Half.LAST)
    )
    assert len(first.private) == len(last.private) == 159
    both = np.concatenate([first.private.X, first.public.X])
    assert np.array_equal(both, np.concatenate([last.public.X, last.private.X]))


def test_crime_rotation():
    plain = tasks.load("crime", CrimeOptions(rotation=Rotation.NONE)).public
    literal = tasks.load("crime").public
    matrix = np.linalg.lstsq(plain.X, literal.X, rcond=None)[0]
    np.testing.assert_allclose(plain.X @ matrix, literal.X, atol=1e-7)
    noise = matrix - np.eye(124)
    # 15376 normals: the mean within 6/124, the std within 6/(124 sqrt 2) of 1
    assert abs(noise.mean()) < 6 / 124
    assert abs(noise.std() - 1) < 6 / (124 * np.sqrt(2))
    other = tasks.load("crime", CrimeOptions(rotation_seed=1)).public
    assert not np.allclose(other.X, literal.X)
    assert np.array_equal(other.y, literal.y)


def test_compas(loaded):
    task = loaded["compas"]
    assert np.mean(task.private.y == 1) == pytest.approx(0.391, abs=5e-4)
    assert np.mean(task.public.y == 1) == pytest.approx(0.523, abs=5e-4)
    raw = tasks.load("compas", CompasOptions(scaling=Scaling.RAW))
    for X in (raw.private.X, raw.public.X):
        assert np.all(X[:, 6:9].sum(axis=1) == 1)  # age groups
        assert np.all(X[:, 9:].sum(axis=1) == 1)  # degree of the charge
        assert X[:, 1].min() >= 18
    assert np.linalg.matrix_rank(raw.private.X) == 10


def test_compas_holds_no_personal_column():
    cut = embedded.read("compas")
    assert {k: v.shape for k, v in cut.items()} == {
        "features": (5278, 11),
        "columns": (11,),
        "label": (5278,),
        "public": (5278,),
        "count": (),
        "sum": (11,),
        "square_sum": (11,),
    }
    assert tuple(cut["columns"]) == cuts.COMPAS_FEATURES
    assert all(v.dtype.kind in "iu" for k, v in cut.items() if k != "columns")


def test_creditcard(loaded):
    task = loaded["creditcard"]
    assert np.sum(task.private.y == 1) == 100
    assert np.sum(task.public.y == 1) == 10
    cut = embedded.read("creditcard")
    assert int(cut["count"]) == 30000
    assert "EDUCATION" not in cut["columns"]
    private = cut["features"][cut["education"] == 3]
    mean = cut["sum"] / 30000
    std = np.sqrt(cut["square_sum"] / 30000 - mean**2)
    # every private row is a row of education 3, standardised
    rows = {tuple(np.round(row, 6)) for row in (private - mean) / std}
    assert {tuple(np.round(row, 6)) for row in task.private.X} <= rows


def test_creditcard_choices():
    task = tasks.load(
        "creditcard",
        CreditCardOptions(public_education=1, private_defaults=30, public_defaults=200),
    )
    assert np.sum(task.private.y == 1) == 30
    assert np.all(task.public.y == 1)
    with pytest.raises(DataError, match="EDUCATION 6 has only 8 rows with default 1"):
        tasks.load("creditcard", CreditCardOptions(private_education=6))
    with pytest.raises(InvalidParameterError, match="public_education must differ"):
        CreditCardOptions(private_education=2)


def test_creditcard_feature_21():
    sex = tasks.load("creditcard")
    constant = tasks.load("creditcard", CreditCardOptions(feature21="intercept"))
    differ = np.flatnonzero(np.any(sex.private.X != constant.private.X, axis=0))
    assert list(embedded.read("creditcard")["columns"][differ]) == ["SEX"]
    assert np.all(constant.private.X[:, differ] == 1)
    assert np.all(constant.public.X[:, differ] == 1)


@pytest.mark.parametrize("name", ["compas", "creditcard"])
@pytest.mark.parametrize("scaling", ["private", "public", "both"])
def test_scaling(name, scaling):
    options = tasks.source(name).options
    task = tasks.load(name, options(scaling=scaling))
    tables = {"private": [task.private.X], "public": [task.public.X]}
    X = np.concatenate(tables.get(scaling, [task.private.X, task.public.X]))
    assert np.abs(X.mean(axis=0)).max() < 1e-12
    np.testing.assert_allclose(X.std(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("name", ["compas", "creditcard"])
def test_scaling_by_all_rows_is_exact(name):
    options = tasks.source(name).options
    raw = tasks.load(name, options(scaling="raw"))
    task = tasks.load(name)
    cut = embedded.read(name)
    mean = cut["sum"] / cut["count"]
    np.testing.assert_allclose(
        task.private.X * np.sqrt(cut["square_sum"] / cut["count"] - mean**2) + mean,
        raw.private.X,
        rtol=1e-9,
        atol=1e-6,
    )


def test_statistics_are_those_of_the_whole_table(originals):
    for name in ("compas", "creditcard"):
        cut = tasks.source(name).from_files(originals)
        if name == "creditcard":
            features = cut["features"].astype(np.int64)
            assert np.array_equal(features.sum(axis=0), cut["sum"])
            assert np.array_equal((features**2).sum(axis=0), cut["square_sum"])
        assert np.array_equal(embedded.read(name)["sum"], cut["sum"])


# -- the original files in the place of the embedded ones --------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_original_files_give_the_same_task(loaded, originals, name):
    task = tasks.load(name, data_dir=originals)
    assert np.array_equal(task.private.X, loaded[name].private.X)
    assert np.array_equal(task.public.X, loaded[name].public.X)
    if task.private.y is not None:
        assert np.array_equal(task.private.y, loaded[name].private.y)


def test_rows_that_only_the_original_files_have(originals):
    options = Cifar10Options(private_per_class=50, public_per_class=300)
    task = tasks.load("cifar10", options, data_dir=originals)
    assert len(task.public) == 1200


# -- options -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_options_are_described_with_a_reason(name):
    for option in tasks.source(name).options.describe():
        assert len(option.why) > 20 or option.name in ("ridge", "lasso")
        assert option.allowed


@pytest.mark.parametrize("name", ALL)
def test_options_go_through_json(name):
    options = tasks.source(name).options()
    assert TaskOptions.from_json(options.to_json()) == options


def test_options_from_texts():
    parsed = CreditCardOptions.parse(
        {"lasso": "0.001", "feature21": "intercept", "order_seed": "3"}
    )
    assert parsed == CreditCardOptions(
        lasso=0.001, feature21=Feature21.INTERCEPT, order_seed=3
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"colour": "red"}, "creditcard has the options row_bound, .* got 'colour'"),
        ({"scaling": "half"}, "scaling must be one of 'all', .* got 'half'"),
        ({"lasso": "much"}, "lasso must be a number > 0, got 'much'"),
        ({"lasso": "-1"}, "lasso must be a finite number > 0"),
        ({"order_seed": "1.5"}, "order_seed must be an integer >= 0, got '1.5'"),
    ],
)
def test_wrong_texts(texts, message):
    with pytest.raises(InvalidParameterError, match=message):
        CreditCardOptions.parse(texts)


def test_private_rows_cannot_reach_the_public_ones():
    with pytest.raises(InvalidParameterError, match=r"\[1, 200\]"):
        Cifar10Options(private_per_class=201)


def test_wrong_names_and_options():
    with pytest.raises(InvalidParameterError, match="task must be one of"):
        tasks.load("iris")
    with pytest.raises(InvalidParameterError, match="must be CrimeOptions"):
        tasks.load("crime", Mnist69Options())


def test_penalty_weights_are_options():
    assert tasks.load("compas", CompasOptions(lasso=0.001)).penalty.weight == 0.001
    assert tasks.load("crime", CrimeOptions(ridge=0.5)).penalty.weight == 0.5
    assert tasks.load("mnist69", Mnist69Options(radius=3)).penalty.radius == 3.0
    assert Mnist69Options().row_bound is RowBound.DATA
