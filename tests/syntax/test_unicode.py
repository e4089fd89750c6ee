"""The pinned Unicode version: identifiers and their normalization are the same on every Python."""

import hashlib
import unicodedata

from presk.syntax.generate import UNICODE, bounds
from presk.syntax.lexer import is_continue, is_start
from presk.syntax.xid_table import UNICODE as TABLE
from presk.syntax.xid_table import XID_CONTINUE, XID_START

# SHA-256 over code point, combining class, NFC and NFD of every identifier character, from Unicode 14.0's data.
NORMALIZATION = "3da5a5e3d1f9b545efca0d04f008218c9c666481be7b5f310039341a191b261e"


def members(table: tuple[int, ...]) -> list[int]:
    return [code for i in range(0, len(table), 2) for code in range(table[i], table[i + 1])]


def test_the_table_is_that_of_the_running_python_or_part_of_it() -> None:
    """L002: a Python with the pinned version agrees in full; a later one knows more characters and takes none away."""
    assert TABLE == UNICODE
    if unicodedata.unidata_version == UNICODE:
        assert bounds(lambda c: c != "_" and c.isidentifier()) == list(XID_START)
        assert bounds(lambda c: f"a{c}".isidentifier()) == list(XID_CONTINUE)
    else:
        assert all(chr(code).isidentifier() for code in members(XID_START))
        assert all(f"a{chr(code)}".isidentifier() for code in members(XID_CONTINUE))


def test_normalization_is_that_of_the_pinned_version() -> None:
    """L003: what the running Python's `unicodedata` says of identifier characters is what the pinned version says."""
    digest = hashlib.sha256()
    for code in members(XID_CONTINUE):
        c = chr(code)
        entry = (code, unicodedata.combining(c), unicodedata.normalize("NFC", c), unicodedata.normalize("NFD", c))
        digest.update("{} {} {} {}\n".format(*entry).encode())
    assert digest.hexdigest() == NORMALIZATION


def test_names_stay_names_when_normalized() -> None:
    """L003: NFC of a name is a name, so it may be stored and written in that form."""
    for code in members(XID_START):
        name = unicodedata.normalize("NFC", chr(code))
        assert is_start(name[0])
        assert all(is_continue(c) for c in name)


def test_characters_of_later_versions_are_no_letters() -> None:
    """A character assigned in Unicode 15.0 (U+11F02, KAWI SIGN REPHA), and one of 15.1 (an ideograph)."""
    assert not is_start("\U00011f02")
    assert not is_continue("\U00011f02")
    assert not is_start("\U0002ebf0")
    # Made identifier characters in 15.1, though assigned before.
    assert not is_continue("\u30fb")
