"""The OpenML route, with a stand-in for the network."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpbraid import InvalidParameterError
from dpbraid.paper import embedded, openml, raw, tasks
from dpbraid.paper.embedded import DataError


def stand_in(bunch, calls):
    def fetch(**arguments):
        calls.append(arguments)
        return bunch

    return fetch


def mnist_bunch():
    """The embedded images and one more digit among them, as fetch_openml gives it."""
    cut = embedded.read("mnist69")
    data = np.concatenate([cut["pixels"], np.zeros((1, 784))]).astype(np.float64)
    target = np.array([*map(str, cut["labels"]), "3"], dtype=object)
    return SimpleNamespace(data=data, target=target)


def test_mnist():
    calls = []
    cut = openml.fetch("mnist69", stand_in(mnist_bunch(), calls), data_home="/there")
    assert calls == [
        {
            "name": "mnist_784",
            "version": 1,
            "as_frame": False,
            "parser": "liac-arff",
            "data_home": "/there",
        }
    ]
    task = tasks.load("mnist69", cut=cut)
    assert np.array_equal(task.private.X, tasks.load("mnist69").private.X)


def test_other_numbers_are_refused():
    bunch = mnist_bunch()
    bunch.data[0, 300] += 1
    with pytest.raises(DataError, match="differs from the published set"):
        openml.fetch("mnist69", stand_in(bunch, []))


def test_another_form_is_refused():
    with pytest.raises(DataError, match="is not as expected"):
        openml.fetch("creditcard", stand_in(SimpleNamespace(data=[[1]]), []))
    few = SimpleNamespace(data=np.zeros((2, 3)), target=np.zeros(2))
    with pytest.raises(DataError, match="3 features, not 23"):
        openml.fetch("creditcard", stand_in(few, []))


def cifar_bunch():
    """The embedded images, with blanks in the places of those that were cut off."""
    cut = embedded.read("cifar10")
    rows, labels, seen = [], [], [0] * 10
    for pixels, label, position in zip(
        cut["pixels"], cut["labels"], cut["position"], strict=True
    ):
        blanks = int(position) - seen[label]
        rows += [np.zeros(3072)] * blanks + [pixels]
        labels += [label] * (blanks + 1)
        seen[label] += blanks + 1
    return SimpleNamespace(data=np.array(rows), target=np.array(labels).astype(str))


def test_cifar():
    bunch = cifar_bunch()
    assert len(bunch.data) > 2000
    cut = openml.fetch("cifar10", stand_in(bunch, []))
    task = tasks.load("cifar10", cut=cut)
    assert np.array_equal(task.public.X, tasks.load("cifar10").public.X)


def test_another_order_of_rows_is_refused():
    bunch = cifar_bunch()
    order = np.argsort(bunch.target, kind="stable")
    bunch.data, bunch.target = bunch.data[order], bunch.target[order]
    with pytest.raises(DataError, match="differs from the published set"):
        openml.fetch("cifar10", stand_in(bunch, []))


def test_sets_that_are_not_there():
    with pytest.raises(InvalidParameterError, match="--data-dir"):
        openml.fetch("compas", stand_in(None, []))


def test_tables(originals):
    """The original tables in the form of OpenML give the embedded cuts."""
    table = raw.creditcard(originals)
    columns = [c for c in table.columns if c not in ("ID", table.columns[-1])]
    data = np.array(table.select(tuple(columns)).cells, dtype=np.float64)
    target = np.array(table.column(table.columns[-1]), dtype=object)
    bunch = SimpleNamespace(data=data, target=target)
    assert len(openml.fetch("creditcard", stand_in(bunch, []))["default"]) == 30000

    table = raw.crime(originals)
    cells = np.array(table.cells, dtype=object)
    cells[cells == "?"] = np.nan
    bunch = SimpleNamespace(
        data=cells[:, :-1], target=cells[:, -1], feature_names=table.columns[:-1]
    )
    assert len(openml.fetch("crime", stand_in(bunch, []))["hundredths"]) == 319
