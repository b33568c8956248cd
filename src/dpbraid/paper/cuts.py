"""From the original tables to cuts: the numbers that the tasks need and no others.

A cut keeps the published values as small integers, in the order of the file, and leaves
all open choices to `recipes`. ``<task>`` makes the cut from the originals, `trim` keeps
the part of it that the package embeds.

Where a table is standardised by its own statistics, the cut has them exactly: 'count',
and 'sum' and 'square_sum' of each column over all rows, also those that are cut off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbraid.paper.embedded import Cut, DataError
from dpbraid.paper.raw import Images, Table

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


# -- images: 'pixels' (m, p) uint8, 'labels' (m,), 'position' within the class ----


def mnist69(images: Images) -> Cut:
    """All sixes and nines, p = 784."""
    return _image_cut(images, np.isin(images.labels, (6, 9)))


def mnist69_trim(cut: Cut) -> Cut:
    """The first 1000 of each digit."""
    return _keep(cut, cut["position"] < 1000)


def cifar10(images: Images) -> Cut:
    """All training images, p = 3072, channel first."""
    return _image_cut(images, np.full(len(images.labels), True))


def cifar10_trim(cut: Cut) -> Cut:
    """Positions 0..99 of each class, and 200..449 of classes 0 to 3: 2000 images."""
    position = cut["position"]
    public = (cut["labels"] < 4) & (position >= 200) & (position < 450)
    return _keep(cut, (position < 100) | public)


def _image_cut(images: Images, keep: Mask) -> Cut:
    labels = images.labels[keep]
    position = np.zeros(len(labels), dtype=np.uint16)
    for label in np.unique(labels):
        of_class = labels == label
        position[of_class] = np.arange(np.count_nonzero(of_class))
    return {"pixels": images.pixels[keep], "labels": labels, "position": position}


# -- tables ------------------------------------------------------------------------

_CRIME_NOT_USED = ("county", "community", "communityname")


def crime(table: Table) -> Cut:
    """The 319 complete rows, all values in hundredths: 'hundredths' (319, 125) uint16.

    'columns' names them; the last is the target. county, community and communityname
    are left out: they name the place, and the first two are missing in most rows.
    """
    columns = tuple(c for c in table.columns if c not in _CRIME_NOT_USED)
    cells = [row for row in table.select(columns).cells if "?" not in row]
    values = _numbers(cells)
    hundredths = np.rint(values * 100)
    if not np.allclose(hundredths / 100, values, rtol=0, atol=1e-9):
        raise DataError("a Crime value has more than two decimals")
    return {"hundredths": hundredths.astype(np.uint16), "columns": np.array(columns)}


COMPAS_FEATURES = (
    "male",
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "age_25_to_45",
    "age_over_45",
    "age_under_25",
    "charge_felony",
    "charge_misdemeanor",
)


def compas(table: Table) -> Cut:
    """The rows of the two groups: 'features' (5278, 11), 'label' 0/1, 'public' 0/1.

    ProPublica's own filter leaves 6172 rows, whose statistics are in the cut; of
    these, 2103 are private and 3175 public. No row can be told by a name or number.
    """
    rows = [dict(zip(table.columns, cells, strict=True)) for cells in table.cells]
    rows = [row for row in rows if _compas_usable(row)]
    features = np.array([_compas_features(row) for row in rows], dtype=np.int64)
    labels = np.array([row["two_year_recid"] == "1" for row in rows], dtype=np.uint8)
    race = np.array([row["race"] for row in rows])
    public = race == "African-American"
    keep = public | (race == "Caucasian")
    return {
        "features": features[keep].astype(np.uint8),
        "columns": np.array(COMPAS_FEATURES),
        "label": labels[keep],
        "public": public[keep].astype(np.uint8),
        **_moments(features),
    }


def _compas_usable(row: dict[str, str]) -> bool:
    days = row["days_b_screening_arrest"]
    return (
        days != ""
        and -30 <= float(days) <= 30
        and row["is_recid"] != "-1"
        and row["c_charge_degree"] != "O"
        and row["score_text"] != "N/A"
    )


def _compas_features(row: dict[str, str]) -> list[int]:
    counts = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count")
    return [
        int(row["sex"] == "Male"),
        *(int(row[name]) for name in (*counts, "priors_count")),
        *(
            int(row["age_cat"] == group)
            for group in ("25 - 45", "Greater than 45", "Less than 25")
        ),
        *(int(row["c_charge_degree"] == degree) for degree in "FM"),
    ]


_CREDIT_NOT_FEATURES = ("ID", "EDUCATION", "MARRIAGE", "default.payment.next.month")


def creditcard(table: Table) -> Cut:
    """All 30000 rows: 'features' (30000, 21) int32, 'education', 'default' 0/1.

    The features are SEX and the 20 numeric columns, in the order of the file.
    """
    columns = tuple(c for c in table.columns if c not in _CREDIT_NOT_FEATURES)
    features = _integers(table.select(columns).cells)
    education = _integers(table.select(("EDUCATION",)).cells)[:, 0]
    default = _integers(table.select(_CREDIT_NOT_FEATURES[-1:]).cells)[:, 0]
    return {
        "features": features.astype(np.int32),
        "columns": np.array(columns),
        "education": education.astype(np.uint8),
        "default": default.astype(np.uint8),
        **_moments(features),
    }


def creditcard_trim(cut: Cut) -> Cut:
    """Of each education code, the first 200 defaults and the first 200 others."""
    keep = np.full(len(cut["default"]), False)
    for education in np.unique(cut["education"]):
        for default in (0, 1):
            alike = (cut["education"] == education) & (cut["default"] == default)
            keep[np.flatnonzero(alike)[:200]] = True
    return _keep(cut, keep)


# -- shared ------------------------------------------------------------------------

_NOT_BY_ROW = ("columns", "count", "sum", "square_sum")


def whole(cut: Cut) -> Cut:
    """The trim of the small tables: everything."""
    return cut


def _keep(cut: Cut, rows: Mask) -> Cut:
    return {
        name: values if name in _NOT_BY_ROW else values[rows]
        for name, values in cut.items()
    }


def _moments(features: Integers) -> Cut:
    return {
        "count": np.array(len(features), dtype=np.int64),
        "sum": features.sum(axis=0),
        "square_sum": (features**2).sum(axis=0),
    }


def _integers(cells: tuple[tuple[str, ...], ...]) -> Integers:
    values = _numbers(list(cells))
    integers = values.astype(np.int64)
    if not np.array_equal(integers, values):
        raise DataError("the table has a value that is not an integer")
    return integers


def _numbers(cells: list[tuple[str, ...]]) -> NDArray[np.float64]:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        raise DataError("the table has a cell that is not a number") from None
