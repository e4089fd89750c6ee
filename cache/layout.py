"""The rows of the store: which prefix means what, and how a value's row is written.

=======  ==========================================  =======================================================
prefix   followed by                                 holds
=======  ==========================================  =======================================================
``k``    a key                                       the answer's record, sealed
``v``    a value's digest                            a mark, the key that made it, and its bytes or their size
``s``    the digest of a stage and a subject         the latest answers about the subject, sealed
``m``    the digest of a name                        bytes kept under the name, sealed
=======  ==========================================  =======================================================

A value's row is ``i`` and the value itself, or ``b`` and the size of the blob that holds it; so no row is empty, not
even that of an empty value.
"""

from typing import Final

from presk.cache.canonical import canonical
from presk.cache.digest import DIGEST_SIZE, Digest, context, digest_in

RECORDS: Final = b"k"
VALUES: Final = b"v"
SUBJECTS: Final = b"s"
MEMOS: Final = b"m"

INLINE_MARK: Final = b"i"
BLOB_MARK: Final = b"b"
HEAD_SIZE: Final = 1 + DIGEST_SIZE

BLOCK: Final = 4096
"""What a file takes on the disk is rounded up to this many bytes."""

QUARANTINE: Final = "quarantine"
"""The folder of answers that were computed otherwise when they were verified."""

COUNTS: Final = "counts"
"""The memo that holds a store's counters over all processes."""

_NO_KEY: Final = bytes(DIGEST_SIZE)
_SUBJECT: Final = context("subject")
_MEMO: Final = context("memo")


def subject_row(stage: str, subject: str) -> bytes:
    """The key of a subject's row."""
    return SUBJECTS + digest_in(_SUBJECT, canonical((stage, subject)))


def memo_row(name: str) -> bytes:
    """The key of a memo's row."""
    return MEMOS + digest_in(_MEMO, name.encode())


def inline_value(data: bytes, producer: Digest | None) -> bytes:
    """The row of a value that lies in the index."""
    return INLINE_MARK + (producer or _NO_KEY) + data


def blob_value(size: int, producer: Digest | None) -> bytes:
    """The row of a value that lies in a file."""
    return BLOB_MARK + (producer or _NO_KEY) + size.to_bytes(8, "big")


def producer_of(row: bytes) -> Digest | None:
    """The key that a value's row says it was made by."""
    key = row[1:HEAD_SIZE]
    return Digest(key) if len(key) == DIGEST_SIZE and key != _NO_KEY else None


def on_disk(size: int) -> int:
    """The bytes that a file of this size takes."""
    return -(-size // BLOCK) * BLOCK
