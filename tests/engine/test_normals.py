"""The compiled normals are NumPy's, word for word; and what their layers rest on."""

from __future__ import annotations

import numpy as np
import pytest
from randomgen import AESCounter

from dpbraid.engine import block_kernels, normals
from dpbraid.engine.normals import Words


def generator(source: str) -> np.random.Generator:
    bits = AESCounter(key=5) if source == "secure" else np.random.SFC64(5)
    return np.random.Generator(bits)


@pytest.mark.parametrize("source", ["secure", "seeded"])
def test_the_normals_are_those_of_numpy(source: str) -> None:
    """Drawn anew, from the tail and beside the layers as often as there: 4e6 draws.

    NumPy's tables and ours differ by 4e-14; one of them, rounded otherwise at one of
    4e6 decisions, would put all later words out of step.
    """
    words, theirs = Words.of(generator(source)), generator(source)
    ours = np.empty(1_000_000)
    for _ in range(4):
        normals.fill(words.source, 1.0, ours)
        expected = theirs.standard_normal(len(ours))
        np.testing.assert_allclose(ours, expected, rtol=1e-13)
        assert np.max(np.abs(ours)) > 4.5  # the tail begins at 3.65
    assert words.rng.bit_generator.random_raw() == theirs.bit_generator.random_raw()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_beside_rows_on_their_way_are_the_same(dtype: type) -> None:
    """Fewer and more rows than columns, and lines that are not whole."""
    for n, d in ((1, 1), (3, 50), (7, 333), (60, 20)):
        T, rows = np.zeros((n, d), dtype), np.arange(n)[::-1].copy()
        one, other = np.empty(d, dtype), np.empty(d, dtype)
        words = Words.of(generator("seeded")), Words.of(generator("seeded"))
        block_kernels.fill_beside(words[0].source, 0.5, one, T, rows)
        normals.fill(words[1].source, 0.5, other)
        assert np.array_equal(one, other)
        assert len(set(one)) == d


def test_the_layers_have_equal_areas_and_end_at_zero() -> None:
    """Each between two heights and its edge; layer 0 with the tail; all below 1."""
    widths, _, heights = normals._tables()
    edges = widths[:256] * 2.0**52
    np.testing.assert_array_equal(widths[256:], -widths[:256])
    areas = edges[1:] * (heights[:-1] - heights[1:])
    np.testing.assert_allclose(areas, edges[0] * heights[-1], rtol=1e-12)
    np.testing.assert_allclose(heights[1:], np.exp(-(edges[1:] ** 2) / 2), rtol=1e-14)
    assert heights[0] == 1.0
