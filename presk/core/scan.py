"""Reading a line of the text form: names, numbers, dimensions, at one position that moves to the right."""

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from gmpy2 import mpq

from presk.core.spelling import FUNCTION, NAME, NUMBER
from presk.types.dim import Dim, constant, symbol

_BLANK: Final = re.compile(r"\s*")
_QUOTED: Final = re.compile(r"`([^`]*)`")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
INTEGER: Final = re.compile(r"[0-9]+")
SIGNED: Final = re.compile(r"-?[0-9]+")

T = TypeVar("T")


class TextError(Exception):
    """A text that is no core program: the line, counted from 1, and what is wrong with it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Scanner:
    """A line of text and a position in it."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        self.at = 0
        self.blanks()

    def fail(self, message: str) -> NoReturn:
        """TextError for this line."""
        raise TextError(self.number, f"{message} at {self.text[self.at : self.at + 20]!r}")

    def blanks(self) -> None:
        """Skips blanks."""
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def ended(self) -> bool:
        """Whether nothing but a comment follows."""
        return self.at == len(self.text) or self.text.startswith("--", self.at)

    def sees(self, word: str) -> bool:
        """Whether the word follows."""
        return self.text.startswith(word, self.at)

    def touches(self, word: str) -> bool:
        """Whether the word follows without a blank before it."""
        return self.sees(word) and self.at > 0 and not self.text[self.at - 1].isspace()

    def take(self, word: str) -> bool:
        """Skips the word if it follows."""
        if not self.sees(word):
            return False
        self.at += len(word)
        self.blanks()
        return True

    def need(self, word: str) -> None:
        """Skips the word, which must follow."""
        if not self.take(word):
            self.fail(f"`{word}` is expected")

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Skips and gives what matches."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        self.blanks()
        return found[0]

    def keyword(self, word: str) -> bool:
        """Skips a word that stands by itself."""
        found = NAME.match(self.text, self.at)
        return found is not None and found[0] == word and self.take(word)

    def name(self, pattern: re.Pattern[str] = NAME) -> str:
        """A name."""
        quoted = self.match(_QUOTED)
        if quoted is not None:
            return str(json.loads(f'"{quoted[1:-1]}"'))
        found = self.match(pattern)
        if found is None:
            self.fail("a name is expected")
        return found

    def function(self) -> str:
        """A function's name."""
        return self.name(FUNCTION)

    def symbol(self) -> str:
        """A dimension's symbol."""
        parts = [self.name()]
        while self.touches(".") and not self.sees(".."):
            self.take(".")
            parts.append(self.name())
        return ".".join(parts)

    def integer(self, pattern: re.Pattern[str] = INTEGER) -> int:
        """An integer."""
        found = self.match(pattern)
        if found is None:
            self.fail("a number is expected")
        return int(found)

    def string(self) -> str:
        """A string in quotation marks."""
        found = self.match(_STRING)
        if found is None:
            self.fail("a string is expected")
        return str(json.loads(found))

    def word(self) -> str:
        """A name, a number or a string."""
        if self.sees('"'):
            return self.string()
        found = self.match(NUMBER)
        return found if found is not None else self.name()

    def list(self, item: Callable[[], T], end: str) -> list[T]:
        """Items between commas, up to `end`, which is skipped."""
        found: list[T] = []
        while not self.take(end):
            if found:
                self.need(",")
            found.append(item())
        return found

    # --- dimensions -----------------------------------------------------------------------------------------------------

    def dim(self) -> Dim:
        """A linear form."""
        total = -self.term() if self.take("-") else self.term()
        while not self.ended() and not self.sees("->"):
            if self.take("+"):
                total = total + self.term()
            elif self.take("-"):
                total = total - self.term()
            else:
                break
        return total

    def term(self) -> Dim:
        """A rational, a symbol, or one times the other."""
        found = self.match(INTEGER)
        if found is None:
            value = symbol(self.symbol())
        elif self.take("*"):
            value = symbol(self.symbol()).scaled(mpq(found))
        else:
            value = constant(mpq(found))
        if self.take("/"):
            below = self.integer()
            if below == 0:
                self.fail("a division by zero stands before")
            value = value.scaled(mpq(1, below))
        return value
