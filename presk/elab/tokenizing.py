"""The tokens of a file, as a stage: from its bytes, and from nothing else."""

from typing import Final

from presk.cache.codec import struct_codec
from presk.cache.stage import Stage
from presk.syntax.layout import cut
from presk.syntax.lexer import lex
from presk.syntax.tokens import Tokens


def _tokens(source: bytes) -> Tokens:
    return cut(lex(source))


TOKENS: Final = Stage("tokens", __name__, (), _tokens, struct_codec(Tokens))
