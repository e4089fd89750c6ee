"""Codecs: how a stage's value becomes bytes and comes back.

A codec has a name, which is part of every key that an encoded value goes into: the text ``"a"`` and the bytes
``b"a"`` are different inputs though their encodings are equal. ``decode(encode(v)) == v`` must hold, and equal values
must encode to equal bytes: that is what early cutoff rests on.

Program values are frozen msgspec Structs; ``struct_codec`` encodes them as msgpack, with gmpy2 integers and rationals
of any size. Sets and mappings inside them are written sorted, so a mapping comes back in the order of its keys: a
stage must not depend on the order in which a mapping was filled (an engine with ``roundtrip=True`` hands out decoded
values only and so shows it). The bits of a float are kept, those of a NaN too.
"""

from typing import Any, Final, Generic, Protocol, TypeVar, overload

import msgspec
from msgspec.msgpack import Decoder, Encoder

from presk.cache.canonical import decode_number, known_number

T = TypeVar("T")

STRUCT_WEIGHT: Final = 8
"""Bytes of Python objects per encoded byte, about, for a tree of small Structs."""


class Codec(Protocol[T]):
    """How values of one type become bytes."""

    @property
    def name(self) -> str:
        """The name of the encoding and of the type; part of the keys."""

    @property
    def weight(self) -> int:
        """About how many bytes of memory a decoded value takes per encoded byte."""

    def encode(self, value: T, /) -> bytes:
        """The bytes of ``value``; ``TypeError`` for a value of another type."""

    def decode(self, data: bytes, /) -> T:
        """The value; ``ValueError`` (of which msgspec's errors are kinds) for bytes that are no such value."""


class BytesCodec:
    """Bytes as they are."""

    name: Final = "bytes"
    weight: Final = 1

    def encode(self, value: bytes, /) -> bytes:
        if type(value) is not bytes:
            raise TypeError(f"bytes expected, not {type(value).__qualname__}")
        return value

    def decode(self, data: bytes, /) -> bytes:
        return data


class TextCodec:
    """Text as UTF-8. Lone surrogates have no encoding: file names are encoded by whoever reads the file."""

    name: Final = "text"
    weight: Final = 1

    def encode(self, value: str, /) -> bytes:
        if type(value) is not str:
            raise TypeError(f"text expected, not {type(value).__qualname__}")
        return value.encode()

    def decode(self, data: bytes, /) -> str:
        return data.decode()


class StructCodec(Generic[T]):
    """Values of one msgspec type as msgpack; made by ``struct_codec``."""

    __slots__ = ("_decoder", "_encoder", "name", "weight")

    def __init__(self, decoder: Decoder[T], name: str) -> None:
        self.name = name
        self.weight = STRUCT_WEIGHT
        self._encoder = Encoder(enc_hook=known_number, order="deterministic")
        self._decoder = decoder

    def encode(self, value: T, /) -> bytes:
        return self._encoder.encode(value)

    def decode(self, data: bytes, /) -> T:
        return self._decoder.decode(data)


BYTES: Final[Codec[bytes]] = BytesCodec()
TEXT: Final[Codec[str]] = TextCodec()


@overload
def struct_codec(kind: type[T], name: str | None = None) -> StructCodec[T]: ...


@overload
def struct_codec(kind: Any, name: str) -> StructCodec[Any]: ...


def struct_codec(kind: Any, name: str | None = None) -> StructCodec[Any]:
    """The codec of a type that msgspec knows: a frozen Struct, a tagged union, a tuple of them, ``bytes | None``.

    ``name`` is needed where the type has no name of its own (a union), so that two types do not share one.
    """
    if name is None:
        if not isinstance(kind, type) or getattr(kind, "__args__", None):
            raise TypeError(f"the codec of {kind} needs a name")
        name = f"{kind.__module__}.{kind.__qualname__}"
    decoder: Decoder[Any] = Decoder(kind, ext_hook=decode_number, dec_hook=_exact_type)
    return StructCodec(decoder, f"struct {name}")


def _exact_type(kind: type, value: object) -> object:
    if type(value) is not kind:
        raise msgspec.ValidationError(f"expected {kind.__qualname__}, got {type(value).__qualname__}")
    return value
