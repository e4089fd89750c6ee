"""The tokens of a file, as stages: from its bytes, and from nothing else.

What the tokens are and where they stand are two answers. Everything that a program means depends on the first, so an edit of
layout or comments ends there; the second is asked for when a place has to be shown to somebody.
"""

from typing import Final

from presk.cache.codec import struct_codec
from presk.cache.stage import Stage
from presk.syntax.layout import cut
from presk.syntax.lexer import lex
from presk.syntax.tokens import FileTokens, TokenTable


def _tokens(source: bytes) -> FileTokens:
    return cut(lex(source)).file


def _places(source: bytes) -> TokenTable:
    return cut(lex(source)).table


TOKENS: Final = Stage("tokens", __name__, (), _tokens, struct_codec(FileTokens))
PLACES: Final = Stage("places", __name__, (), _places, struct_codec(TokenTable))
