"""The canonical encoding of plain values: equal values give equal bytes, different values different ones.

The encoding is msgpack (every item starts with its type and, where it has one, its length), restricted so that it is a
function in both directions:

* ``1``, ``1.0``, ``True``, ``"1"``, ``b"1"``, ``mpz(1)`` and ``mpq(1)`` are seven values; ``0.0`` and ``-0.0`` are
  two; ``None`` is a value and differs from absence, since a longer tuple or mapping has another length;
* **NaN**: all NaNs are one value (the quiet NaN without sign or payload), since no option may depend on which NaN it
  is;
* integers of 64 bits are msgpack integers in their shortest form, larger ones an extension; both have any size;
* a tuple is an array; a frozen set is an extension that holds its sorted items; a mapping has text keys, sorted;
* everything else is a ``TypeError``. Subclasses are refused too: a numpy scalar or an enumeration is not the number
  that it compares equal to.

Keys of stages and ingredients are made of this encoding, never of ``repr``, ``hash`` or pickle.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import isnan
from types import MappingProxyType
from typing import Any, Final

from msgspec.msgpack import Decoder, Encoder, Ext

EXT_MPZ: Final = 1
EXT_MPQ: Final = 2
EXT_BIG: Final = 3
EXT_SET: Final = 4

_INT_MIN: Final = -(2**63)
_INT_END: Final = 2**64
_NAN: Final = float("nan")


def encode_number(value: object) -> Ext:
    """A gmpy2 integer or rational as a tagged extension; ``TypeError`` for everything else.

    The type is recognized by name, since gmpy2 takes some 30 ms to import and whoever holds such a number has done so.
    """
    kind = type(value)
    if kind.__module__ == "gmpy2" and kind.__name__ == "mpz":
        return Ext(EXT_MPZ, _digits(int(value)))  # type: ignore[call-overload]
    if kind.__module__ == "gmpy2" and kind.__name__ == "mpq":
        parts = int(value.numerator), int(value.denominator)  # type: ignore[attr-defined]
        return Ext(EXT_MPQ, _ENCODER.encode([_digits(part) for part in parts]))
    raise TypeError(f"a value of type {kind.__module__}.{kind.__qualname__} has no canonical encoding")


known_number = lru_cache(maxsize=2048, typed=True)(encode_number)
"""As ``encode_number``, for encoders: programs are full of 0 and 1, of which a tenth of all encoding would be."""


def decode_number(code: int, data: memoryview) -> object:
    """The inverse of ``encode_number``; ``ValueError`` for bytes that it never makes."""
    # Heavy, so at the edge: see above.
    from gmpy2 import mpq, mpz

    if code == EXT_MPZ:
        return mpz(_number(data))
    if code != EXT_MPQ:
        raise ValueError(f"unknown extension {code}")
    numerator, denominator = (_number(part) for part in _PAIR_DECODER.decode(data))
    value = mpq(numerator, denominator) if denominator > 0 else None
    if value is None or value.denominator != denominator:
        raise ValueError("a fraction that is not in lowest terms")
    return value


def canonical(value: object) -> bytes:
    """The canonical bytes of a plain value; ``TypeError`` where it has none (see the module's text)."""
    return _ENCODER.encode(plain(value))


def encode_plain(value: object) -> bytes:
    """The canonical bytes of a value that ``plain`` gave, or of lists of such values."""
    return _ENCODER.encode(value)


def decanonical(data: bytes) -> Any:
    """The value that ``canonical`` encoded; ``ValueError`` for damaged bytes."""
    return _tuples(_DECODER.decode(data))


def plain(value: object) -> object:
    """``value`` in terms that the msgpack encoder keeps apart."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is bytes:
        return value
    if kind is int:
        return _integer(value)  # type: ignore[arg-type]
    if kind is float:
        return _NAN if isnan(value) else value  # type: ignore[arg-type]
    if isinstance(value, tuple) and kind is tuple:
        return [plain(item) for item in value]
    if isinstance(value, frozenset) and kind is frozenset:
        return Ext(EXT_SET, _ENCODER.encode(sorted(canonical(item) for item in value)))
    if isinstance(value, Mapping) and kind in (dict, MappingProxyType):
        for name in value:
            if type(name) is not str:
                raise TypeError(f"a mapping with a key of type {type(name).__qualname__} has no canonical encoding")
        return {name: plain(item) for name, item in value.items()}
    return encode_number(value)


def _integer(value: int) -> object:
    if _INT_MIN <= value < _INT_END:
        return value
    return Ext(EXT_BIG, _digits(value))


def _digits(value: int) -> bytes:
    """The two's complement of an integer, the most significant byte first, in as few bytes as hold it."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _number(data: bytes | memoryview) -> int:
    """The inverse of ``_digits``; ``ValueError`` for bytes that it never makes."""
    value = int.from_bytes(data, "big", signed=True)
    if _digits(value) != data:
        raise ValueError("an integer with more bytes than it needs")
    return value


def _extension(code: int, data: memoryview) -> object:
    if code == EXT_BIG:
        return _number(data)
    if code == EXT_SET:
        return frozenset(decanonical(item) for item in _SET_DECODER.decode(data))
    return decode_number(code, data)


def _tuples(value: object) -> object:
    """Arrays come back as lists; plain values have tuples."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return value


_ENCODER: Final = Encoder(order="deterministic")
_DECODER: Final = Decoder(ext_hook=_extension)
_SET_DECODER: Final = Decoder(list[bytes])
_PAIR_DECODER: Final = Decoder(tuple[bytes, bytes])
