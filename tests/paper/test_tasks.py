from __future__ import annotations

import numpy as np
import pytest

from dpbraid.paper import embedded, tasks

SIZES = {"crime": (159, 160, 124)}


@pytest.mark.parametrize("name", tasks.names())
def test_has_the_sizes_of_the_paper(name):
    task = tasks.load(name)
    n, public, d = SIZES[name]
    assert task.private.X.shape == (n, d)
    assert task.public.X.shape == (public, d)


@pytest.mark.parametrize("name", tasks.names())
def test_bounds_touch_no_row_by_default(name):
    task = tasks.load(name)
    split = tasks.source(name).split(embedded.read(name), task.options)
    assert np.array_equal(task.private.X, split.private.X)
    assert np.array_equal(task.public.X, split.public.X)
