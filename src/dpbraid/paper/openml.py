"""The data sets from OpenML, through scikit-learn's fetcher.

What arrives has to give the embedded cut, number by number; anything else (another
version, another order of rows) is refused. COMPAS is not offered: the version there
(42193) has lost the rows of all other groups, and so the statistics of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

from dpbraid._validate import InvalidParameterError
from dpbraid.paper import cuts, embedded, raw
from dpbraid.paper.embedded import Cut, DataError
from dpbraid.paper.tasks import source

# called as fetcher(name=.., version=.., as_frame=False, parser="liac-arff", ..)
Fetcher = Callable[..., Any]


def fetch(name: str, fetcher: Fetcher | None = None, **options: Any) -> Cut:
    """The whole cut of a task, for ``tasks.load(name, cut=...)``.

    fetcher: in the place of ``sklearn.datasets.fetch_openml``; options go to it, for
    example data_home. Needs the network unless the set is in the cache.
    """
    entry = source(name)
    if name not in _SETS:
        raise InvalidParameterError(
            f"OpenML has the sets of {', '.join(_SETS)}, got {name!r}; say where the "
            "original files are (--data-dir)"
        )
    called, version, convert = _SETS[name]
    bunch = (fetcher or sklearn.datasets.fetch_openml)(
        name=called,
        version=version,
        as_frame=False,
        parser="liac-arff",
        **options,
    )
    try:
        cut = convert(bunch)
        same = _equal(entry.trim(cut), embedded.read(name))
    except (DataError, AttributeError, KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{called} version {version} of OpenML is not as expected: {error}"
        ) from None
    if not same:
        raise DataError(
            f"{called} version {version} of OpenML differs from the published set "
            f"that the task {name!r} is made of; say where the original files are "
            "(--data-dir)"
        )
    return cut


def _mnist69(bunch: Any) -> Cut:
    """70000 images, the training images first."""
    return cuts.mnist69(_images(bunch, 60_000))


def _cifar10(bunch: Any) -> Cut:
    """60000 images, the training images first."""
    return cuts.cifar10(_images(bunch, 50_000))


def _images(bunch: Any, count: int) -> raw.Images:
    pixels = np.asarray(bunch.data)[:count].astype(np.uint8)
    labels = np.asarray(bunch.target)[:count].astype(np.float64).astype(np.uint8)
    return raw.Images(pixels, labels)


def _crime(bunch: Any) -> Cut:
    """1994 rows with the names of the original; NaN where a value is missing."""
    table = _table(bunch, "ViolentCrimesPerPop", list(bunch.feature_names))
    return cuts.crime(table)


_CREDIT_COLUMNS = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *(f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)


def _creditcard(bunch: Any) -> Cut:
    """30000 rows with the columns x1..x23 in the order of the original."""
    table = _table(bunch, "default.payment.next.month", list(_CREDIT_COLUMNS))
    return cuts.creditcard(table)


def _table(bunch: Any, target: str, names: list[str]) -> raw.Table:
    data = np.column_stack([np.asarray(bunch.data, dtype=object), bunch.target])
    if data.shape[1] != len(names) + 1:
        raise DataError(f"it has {data.shape[1] - 1} features, not {len(names)}")
    cells = tuple(tuple(_cell(value) for value in row) for row in data)
    # the file's order in the cut is features, then target
    return raw.Table((*names, target), cells)


def _cell(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and np.isnan(value))
    return "?" if missing else str(value)


def _equal(a: Cut, b: Cut) -> bool:
    def same(x: NDArray[Any], y: NDArray[Any]) -> bool:
        return x.dtype == y.dtype and np.array_equal(x, y)

    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)


_SETS: dict[str, tuple[str, int, Callable[[Any], Cut]]] = {
    "mnist69": ("mnist_784", 1, _mnist69),
    "cifar10": ("CIFAR_10", 1, _cifar10),
    "crime": ("us_crime", 1, _crime),
    "creditcard": ("default-of-credit-card-clients", 1, _creditcard),
}
