"""The streams: AES-128 in counter mode under fresh keys; seeds that come back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import SeedSequence
from randomgen import AESCounter
from scipy import stats

from dpbraid import InvalidParameterError
from dpbraid.engine import kernels, noise
from dpbraid.engine.normals import Words
from dpbraid.release import NoiseSource
from tests.engine.given_words import GivenWords

# -- AES-128 as FIPS 197 writes it, to hold the library to -----------------------------


def _times(a: int, b: int) -> int:
    """Product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _substitute(byte: int) -> int:
    """The S-box: the inverse in GF(2^8), then an affine map."""
    inverse = next((i for i in range(256) if _times(byte, i) == 1), 0)
    bits = 0x63
    for shift in range(5):
        bits ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
    return bits


S_BOX = [_substitute(byte) for byte in range(256)]


def aes_128(key: bytes, block: bytes) -> bytes:
    words = [list(key[i : i + 4]) for i in range(0, 16, 4)]
    factor = 1
    for i in range(4, 44):
        word = list(words[-1])
        if i % 4 == 0:
            word = [S_BOX[b] for b in (*word[1:], word[0])]
            word[0] ^= factor
            factor = _times(factor, 2)
        words.append([a ^ b for a, b in zip(words[i - 4], word, strict=True)])
    keys = [[b for word in words[4 * r : 4 * r + 4] for b in word] for r in range(11)]
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for r in range(1, 11):
        state = [S_BOX[b] for b in state]
        state = [state[(i + 4 * (i % 4)) % 16] for i in range(16)]
        if r < 10:
            mixed = []
            for c in range(0, 16, 4):
                column = state[c : c + 4]
                for i in range(4):
                    a, b, x, y = (column[(i + k) % 4] for k in range(4))
                    mixed.append(_times(a, 2) ^ _times(b, 3) ^ x ^ y)
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[r], strict=True)]
    return bytes(state)


def test_the_reference_is_fips_197() -> None:
    key = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert aes_128(key, plain).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_the_stream_is_aes_128_in_counter_mode() -> None:
    """All ten rounds, consecutive counters, every byte of each block."""
    key = 0x0123456789ABCDEFFEDCBA9876543210
    words = AESCounter(key=key).random_raw(16)
    expected = b"".join(
        aes_128(key.to_bytes(16, "little"), i.to_bytes(16, "little")) for i in range(8)
    )
    assert words.astype("<u8").tobytes() == expected


# -- the streams -----------------------------------------------------------------------


def test_secure_streams_have_keys_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[int] = []
    real = noise.secrets.randbits

    def recorded(bits: int) -> int:
        assert bits == 128
        keys.append(real(bits))
        return keys[-1]

    monkeypatch.setattr(noise.secrets, "randbits", recorded)
    first, second = noise.secure(), noise.secure()
    assert len(set(keys)) == 6
    streams = (first.noise, first.start, second.start)
    assert len({s.integers(2**62) for s in streams}) == 3
    orders = (first.order, second.order)
    assert len({tuple(s.permutation(30).tolist()) for s in orders}) == 2
    assert first.source is NoiseSource.OS_ENTROPY
    # the key in use is the one that was drawn
    again = np.random.Generator(AESCounter(key=keys[4]))
    assert second.noise.standard_normal() == again.standard_normal()


@pytest.mark.parametrize("bad", [-1, 1.5, True, "1"])
def test_a_seed_is_an_integer(bad: object) -> None:
    with pytest.raises(InvalidParameterError) as error:
        noise.seeded(bad)  # type: ignore[arg-type]
    assert str(error.value) == f"seed must be an integer >= 0, got {bad!r}"


def test_seeded_streams_come_back_and_leave_the_seed_alone() -> None:
    def draws(streams: noise.Streams) -> list[tuple[int, ...]]:
        return [
            tuple(rng.permutation(30).tolist())
            for rng in (streams.order, streams.noise, streams.start)
        ]

    root = SeedSequence(7)
    assert draws(noise.seeded(7)) == draws(noise.seeded(root))
    assert draws(noise.seeded(root)) == draws(noise.seeded(root))
    assert root.n_children_spawned == 0
    assert len(set(draws(noise.seeded(7)) + draws(noise.seeded(8)))) == 6
    assert draws(noise.seeded(root.spawn(1)[0])) != draws(noise.seeded(root))
    assert noise.seeded(7).source is NoiseSource.USER_SEED


def test_no_global_state() -> None:
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    noise.secure().noise.standard_normal(100)
    noise.seeded(3).order.permutation(100)
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    assert np.array_equal(before, after)


# -- permutations ----------------------------------------------------------------------

ALPHA = 1e-6


def shuffled(bits: list[int], n: int) -> tuple[list[int], int]:
    """Fisher and Yates from the inside out with Lemire's draws; and the words used."""
    out, words = list(range(min(n, 1))), iter(bits)
    used = 0
    for i in range(1, n):
        while True:
            product = next(words) * (i + 1)
            used += 1
            # 2^32 mod (i + 1) of the lower halves would favour some results
            if product % 2**32 >= 2**32 % (i + 1):
                break
        j = product >> 32
        out.append(i)
        out[i], out[j] = out[j], out[i]
    return out, used


@given(st.lists(st.integers(0, 2**32 - 1), min_size=40, max_size=40), st.integers(0, 9))
def test_the_compiled_permutation_is_the_plain_one(bits: list[int], n: int) -> None:
    """The lower half of a word, then the upper; small bits among them, drawn again."""
    bits = [word if word % 3 else word % 7 for word in bits] + [2**31] * 20
    words = GivenWords(a | b << 32 for a, b in zip(bits[::2], bits[1::2], strict=True))
    out = np.empty(n, np.int64)
    kernels.permute(Words.of(words).source, out)  # type: ignore[arg-type]
    expected, used = shuffled(bits, n)
    assert out.tolist() == expected
    assert words.used == (used + 1) // 2


@pytest.mark.parametrize("source", ["secure", "seeded"])
def test_permutations_are_uniform(source: str) -> None:
    """Chi-square over the 24 permutations of four rows, false alarm 1e-6."""
    order = (noise.secure() if source == "secure" else noise.seeded(5)).order
    drawn = Counter(tuple(order.permutation(4).tolist()) for _ in range(24_000))
    counts = [*drawn.values(), *[0] * (24 - len(drawn))]
    assert stats.chisquare(counts).pvalue > ALPHA


def test_long_permutations_are_uniform_in_every_place() -> None:
    """Where rows 0, 500 and 999 of 1000 end up: chi-square, false alarm 1e-6 each."""
    order = noise.seeded(6).order
    places = np.array([np.argsort(order.permutation(1000)) for _ in range(20_000)])
    for row in (0, 500, 999):
        counts = np.bincount(places[:, row], minlength=1000)
        assert stats.chisquare(counts).pvalue > ALPHA


def test_permutations_of_few_rows_and_of_more_than_32_bits() -> None:
    order = noise.seeded(0).order
    assert order.permutation(1).tolist() == [0]
    assert sorted(order.permutation(2).tolist()) == [0, 1]

    class Large(GivenWords):
        def permutation(self, n: int) -> str:
            return f"NumPy's permutation of {n}"

    shuffler = noise.Shuffler(Large([]))  # type: ignore[arg-type]
    assert shuffler.permutation(2**32) == f"NumPy's permutation of {2**32}"  # type: ignore[comparison-overlap]
