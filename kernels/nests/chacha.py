"""The ChaCha20 block of RFC 8439 in kernel IR, one block a lane, and the draws that are made of it.

A key is eight words. Draw i of a key is bytes 8i … 8i + 7 of its stream with the nonce of draws, as an integer below 2⁵³, so that a
block has eight of them. Child i of a key is the first half of block i with the nonce of splits.
"""

from collections.abc import Sequence
from struct import unpack
from typing import Final

from presk.kernels.build import Builder, Value
from presk.kernels.ir import BinaryOp, Elem

KEY_WORDS: Final = 8
DRAWS: Final = 8
"""Draws of a block."""
UNIT_BITS: Final = 53
DRAWS_NONCE: Final = b"presk/draws\0"
SPLIT_NONCE: Final = b"presk/split\0"

_CONSTANTS: Final = unpack("<4I", b"expand 32-byte k")
_ROUNDS: Final = 10
"""Double rounds: one of columns, one of diagonals."""
_QUARTERS: Final = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)


def block(b: Builder, key: int, counter: Value, nonce: bytes) -> list[Value]:
    """The sixteen words of the blocks whose numbers are the counter's lanes (of `i32`); `key` is a buffer of eight words."""
    lanes = counter.lanes
    start = [b.bits(Elem.I32, word, lanes) for word in _CONSTANTS]
    start += [b.splat(b.load(key, b.at(base=place)), lanes) for place in range(KEY_WORDS)]
    start += [counter, *(b.bits(Elem.I32, word, lanes) for word in unpack("<3I", nonce))]
    loop = b.loop(_ROUNDS, start)
    with loop:
        words = list(loop.inside)
        for places in _QUARTERS:
            for place, word in zip(places, _quarter(b, *(words[place] for place in places))):
                words[place] = word
        loop.next = words
    return [b.add(word, first) for word, first in zip(loop.after, start)]


def _quarter(b: Builder, x: Value, y: Value, z: Value, w: Value) -> tuple[Value, Value, Value, Value]:
    """The quarter round."""
    x = b.add(x, y)
    w = _rotated(b, b.binary(BinaryOp.XOR, w, x), 16)
    z = b.add(z, w)
    y = _rotated(b, b.binary(BinaryOp.XOR, y, z), 12)
    x = b.add(x, y)
    w = _rotated(b, b.binary(BinaryOp.XOR, w, x), 8)
    z = b.add(z, w)
    y = _rotated(b, b.binary(BinaryOp.XOR, y, z), 7)
    return x, y, z, w


def _rotated(b: Builder, x: Value, by: int) -> Value:
    left = b.binary(BinaryOp.SHL, x, b.const(Elem.I32, by, x.lanes))
    right = b.binary(BinaryOp.LSHR, x, b.const(Elem.I32, 32 - by, x.lanes))
    return b.binary(BinaryOp.OR, left, right)


def numbers(b: Builder, words: Sequence[Value]) -> list[Value]:
    """The eight draws of blocks: two words are 64 bits, of which the upper 53 count."""
    return [_number(b, low, high) for low, high in zip(words[0::2], words[1::2])]


def _number(b: Builder, low: Value, high: Value) -> Value:
    lanes = low.lanes
    kept = 64 - UNIT_BITS
    upper = b.binary(BinaryOp.SHL, _unsigned(b, high), b.const(Elem.I64, 32 - kept, lanes))
    lower = b.binary(BinaryOp.LSHR, _unsigned(b, low), b.const(Elem.I64, kept, lanes))
    return b.binary(BinaryOp.OR, upper, lower)


def _unsigned(b: Builder, word: Value) -> Value:
    """A word as a natural number of 64 bits."""
    wide = b.convert(word, Elem.I64)
    return b.binary(BinaryOp.AND, wide, b.const(Elem.I64, 0xFFFFFFFF, word.lanes))
