"""Digests: blake3 over bytes, in one context per purpose.

A digest names content. Every purpose (a value, a record, the keys of one stage) has its own derivation context, so
that equal bytes that mean different things never have equal digests (BLAKE3 paper, section 2.3: ``derive_key``).
"""

from typing import Final, NewType

from blake3 import blake3

Digest = NewType("Digest", bytes)
"""32 bytes; ``digest.hex()`` is its text form."""

DIGEST_SIZE: Final = 32
HEX_SHOWN: Final = 12

# The number is raised when the meaning of stored bytes changes; every digest made before then names nothing any more.
_CONTEXT: Final = "presk cache 1: "
_VALUE: Final = _CONTEXT + "value"


def context(purpose: str) -> str:
    """The derivation context of a purpose such as ``"key typing"``."""
    return _CONTEXT + purpose


def digest_in(derivation: str, data: bytes) -> Digest:
    """The digest of ``data`` in a context made by ``context``."""
    return Digest(blake3(data, derive_key_context=derivation).digest())


def value_digest(data: bytes) -> Digest:
    """The name of a value in the store. One context for all stages, so that equal values are stored once."""
    return Digest(blake3(data, derive_key_context=_VALUE).digest())


def parse_digest(text: str) -> Digest:
    """A digest from its 64 hexadecimal digits; ``ValueError`` for anything else."""
    data = bytes.fromhex(text)
    if len(data) != DIGEST_SIZE or len(text) != 2 * DIGEST_SIZE:
        raise ValueError(f"a digest has {2 * DIGEST_SIZE} hexadecimal digits, not {text!r}")
    return Digest(data)


def shown(digest: bytes) -> str:
    """The first digits of a digest, enough for people to tell digests apart."""
    return digest.hex()[:HEX_SHOWN]
