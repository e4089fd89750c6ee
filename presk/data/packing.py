"""Making a data file of a text: its tokens are stored once, its samples are windows of them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from presk.data.codes import TEXT
from presk.data.leaves import Windows
from presk.data.vocabulary import Malformed, Vocabulary, characters_of, vocabulary_of
from presk.data.writing import write_windows
from presk.exact.faults import Fault


@dataclass(frozen=True, slots=True)
class Cut:
    """How a text is cut: a sample's length in tokens, from where to where windows move, whether a sample is a pair."""

    length: int
    stride: int = 1
    pairs: bool = True

    @property
    def parts(self) -> int:
        """How many leaves a sample has: a pair is a text and, for each of its tokens, the next one."""
        return 2 if self.pairs else 1

    @property
    def windows(self) -> Windows:
        """The windows that hold such samples."""
        return Windows(self.length + self.parts - 1, self.stride)


def pack(text: bytes, called: str, vocabulary: Vocabulary | None, cut: Cut, out: Path) -> None:
    """Writes a text as a data file; without a vocabulary with the characters that it has.

    E8004 for a text that is no UTF-8 (unless the vocabulary is the bytes), has what the vocabulary does not, or is shorter than a
    window; OSError where the file cannot be written.
    """
    tokens: NDArray[np.generic]
    if vocabulary == Vocabulary():
        tokens = np.frombuffer(text, dtype=np.uint8)
    else:
        characters = _decoded(text, called)
        vocabulary = vocabulary or characters_of(characters)
        tokens = vocabulary.encode(characters, called) if characters else np.zeros(0, dtype=np.uint8)
    windows = cut.windows
    if len(tokens) < windows.length:
        raise Fault(
            TEXT,
            f"{called} has {_counted(len(tokens), 'token')}, fewer than the {windows.length} of a window",
            mend="name a smaller `--window`",
        )
    write_windows(out, tokens, vocabulary.size, windows, cut.parts, vocabulary)


def listed_vocabulary(content: bytes, called: str) -> Vocabulary:
    """The vocabulary of a file with a JSON list of texts; E8004 if it is none."""
    try:
        return vocabulary_of(content)
    except Malformed as error:
        raise Fault(TEXT, f"{called} is no vocabulary: {error}") from None


def _decoded(text: bytes, called: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Fault(
            TEXT,
            f"{called} is not UTF-8: the byte {text[error.start]:#04x} at {error.start}",
            mend="pack its bytes: `--vocab bytes`",
        ) from None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
