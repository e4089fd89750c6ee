"""Keys, masks and the order of samples, once more: ChaCha20 from RFC 8439 and what the project's documents say of keys.

Written from docs/decisions/0014 (draws), 0020 (the order of samples) and the definition of ChaCha20, with numpy's integers and no
library's cipher.
"""

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

_CONSTANTS: Final = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_ROUNDS: Final = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
_QUARTER: Final = ((0, 1, 3, 16), (2, 3, 1, 12), (0, 1, 3, 8), (2, 3, 1, 7))
"""One quarter round: for each line a += b; d ^= a; d <<<= n, with places in (a, b, c, d)."""


def key_stream(key: bytes, nonce: bytes, first: int, blocks: int) -> bytes:
    """Blocks of the key stream, 64 bytes each."""
    state = np.empty((16, blocks), dtype=np.uint32)
    state[:4] = _CONSTANTS[:, None]
    state[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    state[12] = np.arange(first, first + blocks, dtype=np.uint64).astype(np.uint32)
    state[13:] = np.frombuffer(nonce, dtype="<u4")[:, None]
    work = state.copy()
    for _ in range(10):
        for places in _ROUNDS:
            for one, other, turned, by in _QUARTER:
                a, b, d = places[one], places[other], places[turned]
                work[a] += work[b]
                mixed = work[d] ^ work[a]
                work[d] = (mixed << np.uint32(by)) | (mixed >> np.uint32(32 - by))
    return (work + state).T.astype("<u4").tobytes()


def master(seed: int) -> bytes:
    """The key of a seed."""
    return seed.to_bytes(32, "little")


def child(key: bytes, number: int) -> bytes:
    """A child of a key."""
    return key_stream(key, b"presk/split\0", number, 1)[:32]


def split(key: bytes) -> tuple[bytes, bytes]:
    """The two keys of `split_key(key)`."""
    return child(key, 0), child(key, 1)


def kept(rate: str, key: bytes, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which elements `dropout(rate, key, x)` keeps, for an x of a shape: those whose draw is not below the rate."""
    count = int(np.prod(shape, dtype=np.int64))
    words = np.frombuffer(key_stream(key, b"presk/draws\0", 0, -(-count // 8)), dtype="<u8", count=count)
    limit = -(-Fraction(rate) * (1 << 53) // 1)
    return ((words >> np.uint64(11)) >= np.uint64(int(limit))).reshape(shape)


def order(seed: int, epoch: int, count: int) -> list[int]:
    """The samples of an epoch in their order, for so few that no two have the same word."""
    words = np.frombuffer(
        key_stream(child(master(seed), epoch), b"presk/order\0", 0, -(-count // 8)), dtype="<u8", count=count
    )
    assert len(set(words.tolist())) == count
    return sorted(range(count), key=lambda sample: int(words[sample]))
