"""Keys and draws: what a key is, how it is split, and the numbers that are drawn from it.

A key is 32 bytes. Child i of a split is the first half of the ChaCha20 block (RFC 8439) with that key, counter i and the nonce
`presk/split\\0`. Draw i is bytes 8i … 8i + 7 of the key stream with the nonce `presk/draws\\0`, counted from block 0, as a
little-endian integer shifted right by 11: an integer below 2⁵³, which stands for u = draw · 2⁻⁵³. So a draw is a function of
its key and its number, and the first k of n draws are the k draws.

Reals are drawn in binary64, every step rounded to nearest even, log and cos correctly (`binary64`): see
docs/decisions/0014-draws-are-correctly-rounded.md. They are injected into the reals exactly.
"""

from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.exact import binary64
from presk.exact.faults import RANGE, Fault

KEY_BYTES: Final = 32
SEEDS: Final = 1 << (8 * KEY_BYTES)
"""Seeds are below this."""

SPLIT_NONCE: Final = b"presk/split\0"
DRAWS_NONCE: Final = b"presk/draws\0"
BLOCKS: Final = 1 << 32
"""RFC 8439's counter has 32 bits: so many blocks of 64 bytes has a stream."""

UNIT_BITS: Final = 53

_BLOCK_BYTES: Final = 64
_PER_BLOCK: Final = 8  # draws


def stream(key: bytes, nonce: bytes, first: int, blocks: int) -> bytes:
    """Blocks `first` … `first + blocks − 1` of the ChaCha20 key stream of RFC 8439, 64 bytes each."""
    if first + blocks > BLOCKS:
        raise Fault(RANGE, f"a key stream ends after {BLOCKS} blocks")
    counter = (first % BLOCKS).to_bytes(4, "little")
    return Cipher(ChaCha20(key, counter + nonce), mode=None).encryptor().update(bytes(_BLOCK_BYTES * blocks))


def master_key(seed: int) -> bytes:
    """The key of `--seed`: the seed as 32 bytes, little-endian. OverflowError unless 0 ≤ seed < 2²⁵⁶."""
    return seed.to_bytes(KEY_BYTES, "little")


def split_key(key: bytes, n: int) -> tuple[bytes, ...]:
    """The first n children of a key."""
    blocks = stream(key, SPLIT_NONCE, 0, n)
    return tuple(blocks[start : start + KEY_BYTES] for start in range(0, len(blocks), _BLOCK_BYTES))


def child(key: bytes, i: int) -> bytes:
    """Child i of a key, from 0."""
    return stream(key, SPLIT_NONCE, i, 1)[:KEY_BYTES]


def draws(key: bytes, n: int) -> NDArray[np.uint64]:
    """The first n draws of a key: integers below 2⁵³."""
    data = stream(key, DRAWS_NONCE, 0, -(-n // _PER_BLOCK))
    return np.frombuffer(data, dtype="<u8", count=n).astype(np.uint64, copy=False) >> np.uint64(64 - UNIT_BITS)


def units(key: bytes, n: int) -> NDArray[np.float64]:
    """The first n draws as numbers in [0, 1)."""
    return draws(key, n).astype(np.float64) * 2.0**-UNIT_BITS


def normals(key: bytes, n: int) -> NDArray[np.float64]:
    """n draws of the standard normal distribution.

    Number i is √(−2·log(1 − u)) · cos(2π·v) (Box and Muller) of the draws u and v of numbers 2i and 2i + 1.
    """
    pairs = draws(key, 2 * n).reshape(n, 2)
    complement = (np.uint64(1 << UNIT_BITS) - pairs[:, 0]).astype(np.float64) * 2.0**-UNIT_BITS  # exact, in (0, 1]
    radius = np.sqrt(-2.0 * binary64.log(complement))
    angle = (2.0 * np.pi) * (pairs[:, 1].astype(np.float64) * 2.0**-UNIT_BITS)
    return radius * binary64.cos(angle)


def scaled_normals(key: bytes, n: int, std: mpq) -> NDArray[np.float64]:
    """`normal(std = …)` of a key."""
    return scaled(normals(key, n), std)


def scaled(drawn: NDArray[np.float64], std: mpq) -> NDArray[np.float64]:
    """Normal draws with a standard deviation, which is rounded to binary64 and then multiplies each draw."""
    return float(std) * drawn


def xavier_uniform(key: bytes, n: int, fan_in: int, fan_out: int) -> NDArray[np.float64]:
    """n draws uniform on [−a, a], a = √(6 / (fan_in + fan_out)): −a + (2a)·u, rounded after each operation."""
    if n == 0:
        return np.zeros(0)
    a = float(np.sqrt(np.float64(6.0) / np.float64(fan_in + fan_out)))
    return -a + (2.0 * a) * units(key, n)


def below(key: bytes, n: int, rate: mpq) -> NDArray[np.bool_]:
    """For each of the first n draws whether u < rate, decided exactly."""
    limit = -((-rate * (1 << UNIT_BITS)) // 1)  # u < rate iff the integer is below ⌈rate·2⁵³⌉
    if limit <= 0:
        return np.zeros(n, dtype=np.bool_)
    return draws(key, n) < np.uint64(min(int(limit), 1 << UNIT_BITS))


def indices(key: bytes, n: int, bound: int) -> NDArray[np.int64] | NDArray[np.object_]:
    """n indices below a bound: ⌊u · bound⌋, exactly. Bounds of 2⁶³ and more give Python integers."""
    numbers = draws(key, n)
    if bound <= 1 << 10:
        return ((numbers * np.uint64(bound)) >> np.uint64(UNIT_BITS)).astype(np.int64)
    exact = [(number * bound) >> UNIT_BITS for number in numbers.tolist()]
    return np.array(exact, dtype=np.int64 if bound < 1 << 63 else object)
