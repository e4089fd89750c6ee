"""What the store keeps about an answer beside its value: what it was made from.

Records are msgpack with a checksum that binds them to their key; a damaged record, or one that lies under a foreign
key, does not decode.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from presk.cache.digest import Digest, context, digest_in

Kind = Literal["code", "input", "group", "option"]

GROUP_CODEC: Final = "group"

EARLIER_KEPT: Final = 4
"""How many earlier keys of one stage and subject are remembered, the newest first."""


class Ingredient(Struct, frozen=True, array_like=True):
    """One named ingredient of a key.

    ``code``: the digest is the fingerprint; its parts are a value of the store. ``input``: the digest is the value's,
    ``codec`` says how it is encoded. ``group``: the digest is that of its entries (``encode_entries``). ``option``:
    ``data`` is the canonical encoding of the option's value, the digest is that of ``data``.
    """

    name: str
    kind: Kind
    codec: str
    digest: Digest
    data: bytes = b""


class Earlier(Struct, frozen=True, array_like=True):
    """An answer that was given before: its key and the digest of its value."""

    key: Digest
    value: Digest


class Record(Struct, frozen=True, array_like=True):
    """How one answer was made. ``size`` is the value's length in bytes, ``seconds`` what computing it took.

    ``earlier`` holds the answers of the same stage and subject that were known then, the newest first; ``key`` itself
    is among them where the answer had been computed before and was lost.
    """

    value: Digest
    size: int
    stage: str
    subject: str
    codec: str
    ingredients: tuple[Ingredient, ...]
    earlier: tuple[Earlier, ...]
    seconds: float


class Head(Struct, frozen=True, array_like=True):
    """The first fields of a ``Record``, which are all that an answer needs."""

    value: Digest
    size: int


def latest(answer: Earlier, earlier: tuple[Earlier, ...]) -> tuple[Earlier, ...]:
    """The latest answers after one more, the newest first."""
    return (answer, *(old for old in earlier if old.key != answer.key))[:EARLIER_KEPT]


Entries = tuple[tuple[str, str, Digest], ...]
"""The entries of a group: name, codec, digest of the value; sorted by name."""


def encode_entries(entries: Entries) -> bytes:
    """The bytes whose digest is a group's digest."""
    return _RECORDS.encode(entries)


def decode_entries(data: bytes) -> Entries:
    """The inverse of ``encode_entries``; ``ValueError`` for other bytes."""
    return _ENTRIES.decode(data)


def encode_record(key: bytes, record: Record) -> bytes:
    """The bytes of a record under its key."""
    return sealed(key, _RECORDS.encode(record))


def decode_record(key: bytes, data: bytes) -> Record:
    """The record that was stored under a key; ``ValueError`` where the bytes are damaged or another key's."""
    return _RECORD.decode(opened(key, data))


def decode_head(key: bytes, data: bytes) -> Head:
    """The beginning of the record that was stored under a key; ``ValueError`` as for ``decode_record``."""
    return _HEAD.decode(opened(key, data))


def encode_earlier(row: bytes, earlier: tuple[Earlier, ...]) -> bytes:
    """The bytes of a subject's latest answers under their row."""
    return sealed(row, _RECORDS.encode(earlier))


def decode_earlier(row: bytes, data: bytes) -> tuple[Earlier, ...]:
    """The inverse of ``encode_earlier``; ``ValueError`` for damaged bytes."""
    return _EARLIER.decode(opened(row, data))


def sealed(row: bytes, payload: bytes) -> bytes:
    """``payload`` with a checksum over it and the row that it belongs to."""
    return digest_in(_SEAL, row + payload)[:_SEAL_SIZE] + payload


def opened(row: bytes, data: bytes) -> bytes:
    """The payload that ``sealed`` wrapped for this row; ``ValueError`` for anything else."""
    payload = data[_SEAL_SIZE:]
    if digest_in(_SEAL, row + payload)[:_SEAL_SIZE] != data[:_SEAL_SIZE]:
        raise ValueError("the checksum does not match")
    return payload


_SEAL: Final = context("row")
_SEAL_SIZE: Final = 16
_RECORDS: Final = Encoder()
_HEAD: Final = Decoder(Head)
_RECORD: Final = Decoder(Record)
_ENTRIES: Final = Decoder(Entries)
_EARLIER: Final = Decoder(tuple[Earlier, ...])
