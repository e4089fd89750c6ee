"""The name that was probably meant.

Three comparisons, the first that finds something wins:

1. *Alike*: equal but for case, underscores, accents, the form of a letter (`µ` the sign for micro and `μ` the Greek letter)
   and Greek letters spelled out (`theta` and `θ`).
2. *Near*: the fewest insertions, deletions, replacements and swaps of neighbours (the Damerau-Levenshtein distance in which
   no letter is touched twice), at most a third of the letters or one, and fewer than either name has letters.
3. *Same words* in another order: `heads_split` and `split_heads`.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_LONGEST: Final = 255  # no identifier is longer; what is, is no slip of the pen


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, None if none is; the answer does not depend on the candidates' order.

    Of candidates that are equally near the first in order of code points is taken.
    """
    if not 0 < len(name) <= _LONGEST:
        return None
    others = sorted({other for other in candidates if other and other != name and len(other) <= _LONGEST})
    folded = _folded(name)
    alike = [other for other in others if _folded(other) == folded]
    if alike:
        return min(alike, key=lambda other: (_distance(name, other, len(name) + len(other)), other))
    return _near(name, others) or _same_words(name, others)


def _near(name: str, others: list[str]) -> str | None:
    best: str | None = None
    limit = min(max(len(name) // 3, 1), len(name) - 1)
    letters = sorted(name)
    for other in others:
        if abs(len(other) - len(name)) > limit or _letters_apart(letters, sorted(other)) > limit:
            continue
        distance = _distance(name, other, limit)
        if distance <= limit and distance < len(other):
            best = other
            limit = distance - 1
            if limit < 1:
                break
    return best


def _same_words(name: str, others: list[str]) -> str | None:
    words = sorted(name.casefold().split("_"))
    if len(words) < 2:
        return None
    return next((other for other in others if sorted(other.casefold().split("_")) == words), None)


def _letters_apart(one: list[str], other: list[str]) -> int:
    """A lower bound of the distance: how many letters the longer side has, as a bag, that the other lacks."""
    i = j = extra = missing = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            i += 1
            j += 1
        elif one[i] < other[j]:
            i += 1
            extra += 1
        else:
            j += 1
            missing += 1
    return max(extra + len(one) - i, missing + len(other) - j)


def _distance(one: str, other: str, limit: int) -> int:
    """The distance, or some number above `limit` if it is above `limit`."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before = before, row
        row = [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        # A swap reaches back two rows, so two rows must be above the limit before nothing can come below it again.
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return row[-1]


def _folded(name: str) -> str:
    plain = "".join(_plain(character) for character in unicodedata.normalize("NFKD", name))
    return plain.casefold() or name


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """A letter without what people leave out or spell out: nothing for `_` and accents, `theta` for `θ`."""
    if character == "_" or unicodedata.combining(character):
        return ""
    described = unicodedata.name(character, "").split()
    if len(described) >= 4 and described[0] == "GREEK" and described[2] == "LETTER":
        return "lambda" if described[-1] == "LAMDA" else described[-1].lower()
    return character
