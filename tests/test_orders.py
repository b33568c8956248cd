"""Orders: what each promises. Statistical tests fail with probability 1e-6 at most."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from scipy import stats

import dpbraid as db
from dpbraid.orders import Order
from tests.strategies import ORDERS

ALPHA = 1e-6


def epochs(order: Order, n: int, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    permutations = order.permutations(n, np.random.default_rng(seed))
    return [tuple(p.tolist()) for p in islice(permutations, count)]


@pytest.mark.parametrize("order", ORDERS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_every_epoch_is_a_permutation(order: Order, n: int) -> None:
    for permutation in epochs(order, n, 20):
        assert sorted(permutation) == list(range(n))


def test_incremental_is_the_table() -> None:
    assert epochs(db.Incremental(), 4, 3) == [(0, 1, 2, 3)] * 3


def test_shuffle_once_repeats_and_reshuffle_does_not() -> None:
    once = epochs(db.ShuffleOnce(), 30, 5)
    assert len(set(once)) == 1
    assert once[0] != tuple(range(30))
    assert len(set(epochs(db.Reshuffle(), 30, 5))) == 5


def test_a_buffer_of_one_is_incremental() -> None:
    assert epochs(db.ShuffleBuffer(1), 6, 3) == [tuple(range(6))] * 3


def uniformity_p_value(permutations: list[tuple[int, ...]]) -> float:
    counts = Counter(permutations)
    return float(stats.chisquare([*counts.values(), *[0] * (24 - len(counts))]).pvalue)


@pytest.mark.parametrize(
    "order", [db.Reshuffle(), db.ShuffleBuffer(4), db.ShuffleBuffer(9)], ids=repr
)
def test_full_shuffles_are_uniform(order: Order) -> None:
    """Chi-square over the 24 permutations of four rows, false alarm 1e-6."""
    assert uniformity_p_value(epochs(order, 4, 24_000)) > ALPHA


def test_shuffle_once_is_uniform_over_seeds() -> None:
    drawn = [epochs(db.ShuffleOnce(), 4, 1, seed)[0] for seed in range(6000)]
    assert uniformity_p_value(drawn) > ALPHA


def test_the_uniformity_test_sees_a_small_buffer() -> None:
    assert uniformity_p_value(epochs(db.ShuffleBuffer(3), 4, 24_000)) < ALPHA


def test_a_buffer_cannot_bring_a_row_forward_further_than_its_size() -> None:
    for permutation in epochs(db.ShuffleBuffer(3), 12, 200):
        assert all(row < position + 3 for position, row in enumerate(permutation))


def test_bad_parameters() -> None:
    with pytest.raises(db.InvalidParameterError, match=r"size must be an integer >= 1"):
        db.ShuffleBuffer(0)
    with pytest.raises(db.InvalidParameterError, match="secret must be True or False"):
        db.Reshuffle(secret=1)  # type: ignore[arg-type]
