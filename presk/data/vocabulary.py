"""Vocabularies: what a token of a text is, and texts as tokens and back.

A vocabulary is the 256 bytes, or a list of distinct texts; token i is text number i. A text is read from left to right, at each
place the longest token that stands there. In a data file's metadata it is `bytes`, or the list as JSON.
"""

import codecs
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from presk.data.codes import TEXT
from presk.exact.faults import Fault

BYTES: Final = "bytes"
BYTE_TOKENS: Final = 256

Tokens = NDArray[Any]
"""One axis, unsigned or signed integers."""


class Malformed(ValueError):
    """A text that describes no vocabulary; the message says why."""


class Vocabulary(msgspec.Struct, frozen=True, dict=True):
    """The texts of the tokens; None for the bytes."""

    tokens: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """The bound of its tokens."""
        return BYTE_TOKENS if self.tokens is None else len(self.tokens)

    def description(self) -> str:
        """What it is, in a few words."""
        if self.tokens is None:
            return "256 bytes"
        return f"{self.size} characters" if self._single else f"{self.size} texts"

    def spelled(self) -> str:
        """As metadata of a data file; `vocabulary_of` reads it."""
        return BYTES if self.tokens is None else msgspec.json.encode(self.tokens).decode()

    def encode(self, text: str, called: str) -> Tokens:
        """A text as tokens; E8004 with line and column where no token stands. `called` is what the message calls the text."""
        if self.tokens is None:
            return np.frombuffer(text.encode(errors="surrogateescape"), dtype=np.uint8)
        if self._single:
            return self._characters(text, called)
        return self._longest(text, called)

    def decode(self, tokens: Sequence[int] | Tokens) -> str:
        """The text of tokens; bytes that are not UTF-8 become U+FFFD. The tokens are below `size`."""
        if self.tokens is None:
            return bytes(np.asarray(tokens, dtype=np.uint8)).decode(errors="replace")
        texts = self.tokens
        return "".join(texts[int(token)] for token in tokens)

    def decoder(self) -> "Decoder":
        """For tokens that arrive one by one: characters come out whole."""
        return Decoder(self)

    @cached_property
    def _single(self) -> bool:
        return self.tokens is not None and all(len(token) == 1 for token in self.tokens)

    @cached_property
    def _points(self) -> tuple[Tokens, Tokens]:
        """The code points of single characters, ascending, and the token of each."""
        points = _code_points("".join(self.tokens or ()))
        order = np.argsort(points)
        return points[order], order

    @cached_property
    def _by_length(self) -> tuple[tuple[int, dict[str, int]], ...]:
        found: dict[int, dict[str, int]] = {}
        for number, token in enumerate(self.tokens or ()):
            found.setdefault(len(token), {})[token] = number
        return tuple(sorted(found.items(), reverse=True))

    def _characters(self, text: str, called: str) -> Tokens:
        points, tokens = self._points
        wanted = _code_points(text)
        places = np.minimum(np.searchsorted(points, wanted), len(points) - 1)
        strange = points[places] != wanted
        if strange.any():
            raise _strange(text, int(strange.argmax()), called)
        return np.asarray(tokens[places])

    def _longest(self, text: str, called: str) -> Tokens:
        found: list[int] = []
        at = 0
        while at < len(text):
            for length, numbers in self._by_length:
                number = numbers.get(text[at : at + length])
                if number is not None:
                    found.append(number)
                    at += length
                    break
            else:
                raise _strange(text, at, called)
        return np.array(found, dtype=np.int64)


class Decoder:
    """Turns tokens into text as they come. Bytes wait until their character is whole."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that more tokens complete."""
        if self._vocabulary.tokens is None:
            return self._bytes.decode(bytes(tokens))
        return self._vocabulary.decode(list(tokens))

    def close(self) -> str:
        """What is left of a character that was not completed."""
        return self._bytes.decode(b"", final=True)


def _code_points(text: str) -> Tokens:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _strange(text: str, at: int, called: str) -> Fault:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    character = text[at]
    shown = f"`{character}` (U+{ord(character):04X})" if character.isprintable() else f"U+{ord(character):04X}"
    return Fault(
        TEXT,
        f"no token of the vocabulary stands at line {line}, column {column} of {called}: {shown}",
        mend="use a vocabulary of all its characters, or `--vocab bytes`",
    )


def characters_of(text: str) -> Vocabulary:
    """The characters of a text, in the order of their code points."""
    return Vocabulary(tuple(sorted(set(text))))


def vocabulary_of(spelled: str | bytes) -> Vocabulary:
    """A vocabulary as it is spelled in metadata or in a file; Malformed if it is none."""
    if spelled == BYTES:
        return Vocabulary()
    try:
        tokens = msgspec.json.decode(spelled, type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Malformed("it is no JSON list of texts") from None
    if not tokens:
        raise Malformed("it has no token")
    if "" in tokens:
        raise Malformed("one of its tokens is the empty text")
    if len(set(tokens)) != len(tokens):
        twice = Counter(tokens).most_common(1)[0][0]
        raise Malformed(f"it has the token `{twice}` twice")
    return Vocabulary(tokens)
