"""From the original files to cuts: the numbers that the tasks need and no others.

A cut keeps the published values as small integers and leaves all open choices to
`recipes`.
"""

from __future__ import annotations

import numpy as np

from dpbraid.paper.embedded import Cut
from dpbraid.paper.raw import Table

_CRIME_NOT_USED = ("county", "community", "communityname")


def crime(table: Table) -> Cut:
    """The 319 complete rows, all values in hundredths: 'hundredths' (319, 125) uint16.

    'columns' names them; the last is the target. county, community and communityname
    are left out, as they have missing values in most rows or name the place.
    """
    columns = tuple(c for c in table.columns if c not in _CRIME_NOT_USED)
    cells = [row for row in table.select(columns).cells if "?" not in row]
    values = np.array(cells, dtype=np.float64)
    hundredths = np.rint(values * 100)
    if not np.allclose(hundredths / 100, values, rtol=0, atol=1e-9):
        raise ValueError("a Crime value has more than two decimals")
    return {
        "hundredths": hundredths.astype(np.uint16),
        "columns": np.array(columns),
    }
