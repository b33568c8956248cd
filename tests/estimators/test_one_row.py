"""Changing one private row, in any way, changes nothing but the released numbers."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from dpbraid.estimators import (
    PrivateElasticNet,
    PrivateHuber,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
    PublicTransform,
    save,
)
from dpbraid.estimators.tables import NonFinite, private_features

N, D = 12, 3
rng = np.random.default_rng(3)
X: list[list[Any]] = rng.normal(size=(N, D)).tolist()
PUBLIC = rng.normal(size=(20, D))
NUMBERS: list[Any] = rng.normal(size=N).tolist()
WORDS: list[Any] = [["no", "yes"][i % 2] for i in range(N)]
THREE: list[Any] = [i % 3 for i in range(N)]
FEW: dict[str, Any] = {"epochs": 2}
RELEASED = ("coef_", "intercept_", "mean_")

CASES: dict[str, tuple[Callable[..., Any], list[Any] | None]] = {
    "mean": (lambda **k: PrivateMean(row_norm=2, **FEW, **k), None),
    "ridge": (lambda **k: PrivateRidge(row_norm=2, label_bound=1, **FEW, **k), NUMBERS),
    "lasso": (lambda **k: PrivateLasso(row_norm=2, label_bound=1, **FEW, **k), NUMBERS),
    "elastic net": (
        lambda **k: PrivateElasticNet(row_norm=2, label_bound=1, **FEW, **k),
        NUMBERS,
    ),
    "huber": (lambda **k: PrivateHuber(row_norm=2, label_bound=1, **FEW, **k), NUMBERS),
    "logistic": (
        lambda **k: PrivateLogisticRegression(
            row_norm=2, classes=["no", "yes"], **FEW, **k
        ),
        WORDS,
    ),
    "three classes": (
        lambda **k: PrivateLogisticRegression(
            row_norm=2, classes=[0, 1, 2], **FEW, **k
        ),
        THREE,
    ),
    "svc": (
        lambda **k: PrivateLinearSVC(classes=["no", "yes"], **FEW, **k),
        WORDS,
    ),
    "scaled": (
        lambda **k: PrivateLogisticRegression(
            classes=[0, 1, 2],
            public_transform=PublicTransform(StandardScaler()),
            **FEW,
            **k,
        ),
        THREE,
    ),
    "quantiles": (
        lambda **k: PrivateRidge(
            label_bound=1,
            public_transform=PublicTransform(QuantileTransformer(n_quantiles=5)),
            **FEW,
            **k,
        ),
        NUMBERS,
    ),
}

finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, -1.7e308, 5e-324, 0.0, -0.0, 2**70, 10**300, True, "1.5"]),
)
broken = st.sampled_from(
    [
        *(float("nan"), float("inf"), 10**400, 1j, np.complex128(1), np.complex64(2j)),
        *(None, "a text", "", object(), {"a": 1}, [1.0], np.datetime64("2020-01-01")),
    ]
)
labels = st.one_of(
    finite, st.sampled_from(["no", "yes", "new", "a much longer label", "", 7, -1])
)


def outcome(model: Any, table: Any, y: Any, folder: Path) -> dict[str, Any]:
    """All that anybody could see of a fit, without the released numbers."""
    seen: dict[str, Any] = {}
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    public = () if model.row_norm is not None else (PUBLIC,)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            warnings.simplefilter("always")
            try:
                model.fit(table, y, *public)
            except Exception as error:
                chain = (error.__cause__, error.__suppress_context__)
                seen["error"] = (type(error), str(error), chain)
    finally:
        logging.getLogger().removeHandler(handler)
    seen["warnings"] = [(w.category, str(w.message)) for w in caught]
    seen["printed"] = (out.getvalue(), err.getvalue(), log.getvalue())
    seen["repr"] = repr(model)
    attributes = {k: v for k, v in vars(model).items() if k not in RELEASED}
    transform = attributes.pop("public_transform_", None)
    attributes.pop("public_transform")
    seen["transform"] = repr(transform)
    seen["attributes"] = {
        k: v.tolist() if isinstance(v, np.ndarray) else copy.copy(v)
        for k, v in attributes.items()
    }
    seen["shapes"] = {k: np.shape(getattr(model, k, None)) for k in RELEASED}
    if "error" not in seen and (transform is None or transform.steps is not None):
        path = folder / "model.json"
        save(model, path)
        seen["size"] = path.stat().st_size
        data = json.loads(path.read_text())
        data.pop("coef")
        seen["file"] = data
    return seen


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row=st.lists(finite, min_size=D, max_size=D),
    label=labels,
    place=st.integers(0, N - 1),
)
def test_any_row_leaves_everything_else_as_it_is(
    case: str, row: list[Any], label: Any, place: int, tmp_path: Path
) -> None:
    make, y = CASES[case]
    table = [*X[:place], row, *X[place + 1 :]]
    changed = None if y is None else [*y[:place], label, *y[place + 1 :]]
    if y is NUMBERS and isinstance(label, str):
        changed = [*y[:place], 1e300, *y[place + 1 :]]
    before = outcome(make(), X, y, tmp_path)
    after = outcome(make(), table, changed, tmp_path)
    assert "error" not in before
    assert after == before


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cell=broken, place=st.integers(0, N - 1), column=st.integers(0, D - 1))
def test_a_broken_row_is_refused_in_one_way_or_becomes_a_zero_row(
    case: str, cell: Any, place: int, column: int, tmp_path: Path
) -> None:
    make, y = CASES[case]
    table = copy.copy(X)
    table[place] = [*X[place][:column], cell, *X[place][column + 1 :]]
    worst = copy.copy(X)
    worst[0] = [float("nan")] * D
    refused = outcome(make(), worst, y, tmp_path)
    assert "nothing was released" in refused["error"][1].lower()
    assert outcome(make(), table, y, tmp_path) == refused
    whole = outcome(make(non_finite="zero"), X, y, tmp_path)
    assert outcome(make(non_finite="zero"), table, y, tmp_path) == whole


def test_no_cell_decides_what_the_cells_of_other_rows_mean() -> None:
    """Durations and dates mean the same, whether there is a text in row 0 or not."""
    found = []
    for other in (1.0, "a text"):
        cells = [other, "2", np.timedelta64(3, "s"), np.datetime64("2020-01-01")]
        table = np.array(cells, dtype=object)[:, None]
        numbers, whole = private_features(table, NonFinite.ZERO)
        found.append((numbers[1:].tolist(), whole[1:].tolist()))
    assert found[0] == found[1]


def numbers(model: Any) -> np.ndarray:
    return np.concatenate(
        [np.ravel(getattr(model, name)) for name in RELEASED if hasattr(model, name)]
    )


@pytest.mark.parametrize("case", CASES)
def test_other_rows_keep_their_meaning(case: str) -> None:
    """One odd row moves the released numbers by no more than one row can.

    Without noise to speak of and with the same seed, the fits differ by the row alone:
    at most twice the clip norm over n a pass (the tables above are refused or zeroed
    row by row, so nothing else may move).
    """
    make, y = CASES[case]
    odd = [*X[:4], ["1", True, 1e300], *X[5:]]
    odd_y = None if y is None else [*y[:4], "new" if y is not NUMBERS else 5, *y[5:]]
    public = () if make().row_norm is not None else (PUBLIC,)
    fits = [
        make(epsilon=1e9, random_state=0).fit(table, labels, *public)
        for table, labels in ((X, y), (odd, odd_y))
    ]
    mechanism = fits[0].mechanism_
    reach = sum(
        2 * mechanism.clip_norm * epoch.learning_rate / mechanism.batch_size
        for epoch in mechanism.epochs
    )
    runs = fits[0].certificate_.runs
    apart = np.linalg.norm(numbers(fits[0]) - numbers(fits[1]))
    assert 0 < apart <= reach * np.sqrt(runs) * 1.001
