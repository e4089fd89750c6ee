import struct
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from presk.exact import draws
from presk.exact.faults import Fault
from tests.exact.support import from_mpmath

# --- ChaCha20, against RFC 8439 and against an implementation from its text -----------------------------------------------


def chacha_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """Section 2.3 of RFC 8439, word by word."""

    def rotated(word, by):
        return ((word << by) | (word >> (32 - by))) & 0xFFFFFFFF

    def quarter(state, a, b, c, d):
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xFFFFFFFF
            state[z] = rotated(state[z] ^ state[x], by)

    start = [
        *struct.unpack("<4I", b"expand 32-byte k"),
        *struct.unpack("<8I", key),
        counter,
        *struct.unpack("<3I", nonce),
    ]
    state = list(start)
    for _ in range(10):
        for columns in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            quarter(state, *columns)
        for diagonals in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(state, *diagonals)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(start, state)))


RFC_BLOCKS = [
    # section 2.3.2
    (
        bytes(range(32)),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    # appendix A.1, vectors 1 and 2
    (
        bytes(32),
        0,
        "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32),
        1,
        "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
]


@pytest.mark.parametrize("key, counter, nonce, expected", RFC_BLOCKS)
def test_blocks_of_the_rfc(key, counter, nonce, expected):
    assert draws.stream(key, bytes.fromhex(nonce), counter, 1).hex() == expected
    assert chacha_block(key, counter, bytes.fromhex(nonce)).hex() == expected


def test_encryption_of_the_rfc():
    """Section 2.4.2: the key stream begins at counter 1."""
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    stream = draws.stream(bytes(range(32)), bytes.fromhex("000000000000004a00000000"), 1, 2)
    cipher = bytes(x ^ y for x, y in zip(text, stream))
    assert cipher[:16].hex() == "6e2e359a2568f98041ba0728dd0d6981"
    assert cipher[-16:].hex() == "0bbf74a35be6b40b8eedf2785e42874d"


def test_nonces_are_twelve_bytes():
    assert draws.SPLIT_NONCE == b"presk/split\x00"
    assert draws.DRAWS_NONCE == b"presk/draws\x00"
    assert len(draws.SPLIT_NONCE) == len(draws.DRAWS_NONCE) == 12


def test_a_stream_ends_with_its_counter():
    last = draws.stream(bytes(32), draws.DRAWS_NONCE, draws.BLOCKS - 1, 1)
    assert last == chacha_block(bytes(32), draws.BLOCKS - 1, draws.DRAWS_NONCE)
    with pytest.raises(Fault, match="ends after"):
        draws.stream(bytes(32), draws.DRAWS_NONCE, draws.BLOCKS - 1, 2)


# --- keys ---------------------------------------------------------------------------------------------------------------


def test_a_seed_is_a_key_little_endian():
    assert draws.master_key(0) == bytes(32)
    assert draws.master_key(258) == bytes([2, 1]) + bytes(30)
    assert draws.master_key(draws.SEEDS - 1) == b"\xff" * 32
    for wrong in (-1, draws.SEEDS):
        with pytest.raises(OverflowError):
            draws.master_key(wrong)


def test_children_are_halves_of_blocks():
    key = draws.master_key(7)
    expected = tuple(chacha_block(key, i, b"presk/split\0")[:32] for i in range(5))
    assert draws.split_key(key, 5) == expected
    assert tuple(draws.child(key, i) for i in range(5)) == expected
    assert draws.split_key(key, 0) == ()
    assert len({key, *expected}) == 6


@given(st.binary(min_size=32, max_size=32), st.integers(0, 40), st.integers(0, 40))
def test_first_children_do_not_depend_on_how_many(key, few, more):
    assert draws.split_key(key, few + more)[:few] == draws.split_key(key, few)


# --- draws --------------------------------------------------------------------------------------------------------------


def test_draws_are_the_upper_bits_of_eight_bytes():
    key = draws.master_key(3)
    stream = b"".join(chacha_block(key, i, b"presk/draws\0") for i in range(3))
    expected = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") >> 11 for i in range(20)]
    assert draws.draws(key, 20).tolist() == expected
    assert draws.units(key, 20).tolist() == [number / 2**53 for number in expected]


@given(st.binary(min_size=32, max_size=32), st.integers(0, 50), st.integers(0, 50))
def test_the_first_draws_are_the_draws_of_fewer(key, few, more):
    everything = draws.draws(key, few + more)
    assert everything[:few].tolist() == draws.draws(key, few).tolist()
    assert draws.normals(key, few + more)[:few].tolist() == draws.normals(key, few).tolist()
    assert draws.xavier_uniform(key, few + more, 3, 4)[:few].tolist() == draws.xavier_uniform(key, few, 3, 4).tolist()
    assert draws.below(key, few + more, mpq(1, 3))[:few].tolist() == draws.below(key, few, mpq(1, 3)).tolist()
    assert draws.indices(key, few + more, 9)[:few].tolist() == draws.indices(key, few, 9).tolist()


# Computed with the block function above, mpmath at 400 bits, and one rounding to binary64 after each operation.
DRAWS_OF_SEED_0 = ["0x16f23bf5835e01", "0x10d5701f7588ef", "0x1f1ebfce354704"]
NORMALS_OF_SEED_0 = ["-0x1.915c3e12dd719p+0", "-0x1.da967fbe3d7dfp-1", "-0x1.5192212a43a9ap-2"]
CHILD_OF_SEED_0 = "17738beb83d431e83bf18d5be44f5e95d2d50f83fa71ec9b15a2afaac70f1d8f"


def binary64(value) -> float:
    """An mpmath number rounded once to binary64 (all values here are normal numbers or 0)."""
    return float(from_mpmath(value, 53))


def reference_normals(key: bytes, n: int) -> list[float]:
    stream = b"".join(chacha_block(key, i, b"presk/draws\0") for i in range(-(-n // 4)))
    words = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") >> 11 for i in range(2 * n)]
    found = []
    with mpmath.workprec(400):
        for u, v in zip(words[::2], words[1::2]):
            log = binary64(mpmath.log(1 - mpmath.mpf(u) / 2**53))
            radius = binary64(mpmath.sqrt(-2 * mpmath.mpf(log)))
            angle = binary64(mpmath.mpf(2 * np.pi) * (mpmath.mpf(v) / 2**53))
            cosine = binary64(mpmath.cos(mpmath.mpf(angle)))
            found.append(binary64(mpmath.mpf(radius) * mpmath.mpf(cosine)))
    return found


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**200 + 17])
def test_normals_are_rounded_after_each_operation(seed):
    key = draws.master_key(seed)
    assert draws.normals(key, 300).tolist() == reference_normals(key, 300)


def test_published_draws():
    """The numbers a seed gives are part of what a program means: they may never change."""
    key = draws.master_key(0)
    assert [hex(number) for number in draws.draws(key, 3).tolist()] == DRAWS_OF_SEED_0
    assert [number.hex() for number in draws.normals(key, 3).tolist()] == NORMALS_OF_SEED_0
    assert draws.child(key, 0).hex() == CHILD_OF_SEED_0


def test_moments():
    numbers = draws.normals(draws.master_key(5), 200_000)
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(numbers**power) - moment) < 5 * (spread / len(numbers)) ** 0.5
    scaled = draws.scaled_normals(draws.master_key(5), 1000, mpq(1, 50))
    assert scaled.tolist() == [0.02 * number for number in numbers[:1000].tolist()]


def test_xavier():
    key = draws.master_key(9)
    bound = (6 / (48 + 16)) ** 0.5
    numbers = draws.xavier_uniform(key, 4000, 48, 16)
    assert numbers.tolist() == [-bound + 2 * bound * u for u in draws.units(key, 4000).tolist()]
    assert -bound <= numbers.min() < -0.99 * bound
    assert 0.99 * bound < numbers.max() <= bound
    assert draws.xavier_uniform(key, 0, 0, 0).tolist() == []


@given(st.integers(0, 2**53), st.integers(0, 3), st.integers(1, 7))
def test_below_is_exact(numerator, above, denominator):
    key = draws.master_key(4)
    rate = mpq(numerator * denominator + above, denominator << 53)
    numbers = draws.draws(key, 64).tolist()
    limit = Fraction(int(rate.numerator), int(rate.denominator))
    assert draws.below(key, 64, rate).tolist() == [Fraction(number, 1 << 53) < limit for number in numbers]


def test_below_at_a_draw():
    """u < rate is false at u itself and true just above it."""
    key = draws.master_key(4)
    third = int(draws.draws(key, 3)[2])
    assert not draws.below(key, 3, mpq(third, 1 << 53))[2]
    assert draws.below(key, 3, mpq(third, 1 << 53) + mpq(1, 1 << 80))[2]
    assert not draws.below(key, 3, mpq(0)).any()
    assert draws.below(key, 3, mpq(1)).all()


@pytest.mark.parametrize("bound", [1, 2, 10, 1 << 10, (1 << 10) + 1, 50257, (1 << 63) - 1, 1 << 63, 10**30])
def test_indices_are_floors(bound):
    key = draws.master_key(8)
    numbers = draws.draws(key, 200).tolist()
    assert draws.indices(key, 200, bound).tolist() == [number * bound >> 53 for number in numbers]
    assert draws.indices(key, 0, bound).tolist() == []
