"""Why an answer was computed, or reused: the first ingredient that differs from the nearest earlier answer.

The nearest earlier answer is the one of the same stage and subject, among the last few, with the fewest differing
ingredients. Ingredients are compared in the order of the record: the code (by module, data file and package), the
inputs (groups by entry), the options. Where the differing input is itself the answer of a stage, the explanation goes
on with that one.
"""

from typing import Final, Literal, Protocol

from msgspec import Struct

from presk.cache.canonical import decanonical
from presk.cache.digest import Digest, shown
from presk.cache.log import Outcome
from presk.cache.record import GROUP_CODEC, Ingredient, Record, decode_entries

Reason = Literal["first", "changed", "lost", "forgotten"]

_DEPTH_MAX: Final = 8
_TEXT_MAX: Final = 48
_CONTEXT: Final = 12
_ABSENT: Final = "absent"


class Source(Protocol):
    """What an explanation is made from."""

    def record(self, key: Digest) -> Record | None:
        """How the answer under a key was made."""

    def value(self, digest: Digest) -> bytes | None:
        """The bytes of an ingredient, if they are kept."""

    def producer(self, digest: Digest) -> Digest | None:
        """The key of the answer that gave a value."""

    def outcome(self, key: Digest) -> Outcome | None:
        """How the answer was had the last time."""


class Difference(Struct, frozen=True):
    """An ingredient that differs: its earlier and its present value, shortened, and the digest of the present one."""

    ingredient: str
    old: str
    new: str
    digest: Digest | None = None


class Explanation(Struct, frozen=True):
    """Why an answer was computed, and how it was had the last time (``outcome``; nothing if it was not asked for).

    ``reason``: ``first`` (nothing was known of the subject), ``changed`` (``differences`` holds what differs, the
    first first), ``lost`` (it had been computed before and was evicted or damaged), ``forgotten`` (there was an
    earlier answer of which nothing is known any more). ``unchanged`` says that the value is that of the nearest
    earlier answer. ``because`` explains the first differing input.
    """

    stage: str
    subject: str
    key: Digest
    outcome: Outcome | None
    reason: Reason
    seconds: float
    differences: tuple[Difference, ...] = ()
    unchanged: bool = False
    because: "Explanation | None" = None

    def text(self) -> str:
        """The explanation for people: one line, and one per input that explains it."""
        lines = [self._line()]
        inner = self.because
        while inner is not None:
            lines.append(f"  since {inner._line()}")
            inner = inner.because
        return "\n".join(lines)

    def _line(self) -> str:
        about = f"{self.stage} ({self.subject})" if self.subject else self.stage
        match self.outcome:
            case "memory" | "disk":
                had = f"was reused from {'memory' if self.outcome == 'memory' else 'the disk'}; it had been computed"
            case "computed" | "transient":
                had = "was computed"
            case None:
                had = "is kept; it was computed"
        match self.reason:
            case "first":
                why = "for the first time"
            case "lost":
                why = "again because the earlier answer was evicted or damaged"
            case "forgotten":
                why = "anew; what the earlier answer was made from is not known any more"
            case "changed":
                first = self.differences[0]
                why = f"because {first.ingredient} differs: {first.old} → {first.new}"
        same = ", with the same value as before" if self.unchanged else ""
        return f"{about} {had} {why}{same}"


def explain(key: Digest, source: Source) -> Explanation | None:
    """The explanation of the answer under a key; nothing where no record of it is kept."""
    return _explain(key, source, _DEPTH_MAX)


def _explain(key: Digest, source: Source, depth: int) -> Explanation | None:
    record = source.record(key)
    if record is None:
        return None
    outcome = source.outcome(key)
    found = [(value, old) for other, value in _others(key, record) if (old := source.record(other)) is not None]
    if not record.earlier:
        return Explanation(record.stage, record.subject, key, outcome, "first", record.seconds)
    if any(earlier.key == key for earlier in record.earlier):
        return Explanation(record.stage, record.subject, key, outcome, "lost", record.seconds)
    compared = [(_differences(old, record, source), value) for value, old in found]
    compared = [pair for pair in compared if pair[0]]
    if not compared:
        return Explanation(record.stage, record.subject, key, outcome, "forgotten", record.seconds)
    differences, value = min(compared, key=lambda pair: len(pair[0]))
    return Explanation(
        record.stage,
        record.subject,
        key,
        outcome,
        "changed",
        record.seconds,
        differences,
        value == record.value,
        _because(differences, key, source, depth),
    )


def _others(key: Digest, record: Record) -> list[tuple[Digest, Digest]]:
    return [(earlier.key, earlier.value) for earlier in record.earlier if earlier.key != key]


def _because(differences: tuple[Difference, ...], key: Digest, source: Source, depth: int) -> Explanation | None:
    digest = differences[0].digest
    producer = source.producer(digest) if digest is not None and depth > 1 else None
    return None if producer is None or producer == key else _explain(producer, source, depth - 1)


def _differences(old: Record, new: Record, source: Source) -> tuple[Difference, ...]:
    """The differing ingredients in the order of the new record, then those that only the old one has."""
    before = {(ingredient.kind == "option", ingredient.name): ingredient for ingredient in old.ingredients}
    differences: list[Difference] = []
    for ingredient in new.ingredients:
        was = before.pop((ingredient.kind == "option", ingredient.name), None)
        differences.extend(_compare(was, ingredient, source))
    differences.extend(Difference(_named(was), _show(was, source), _ABSENT) for was in before.values())
    if old.codec != new.codec:
        differences.append(Difference("the encoding of the value", old.codec, new.codec))
    return tuple(differences)


def _compare(was: Ingredient | None, now: Ingredient, source: Source) -> list[Difference]:
    if was is None:
        return [Difference(_named(now), _ABSENT, _show(now, source), now.digest)]
    if (was.kind, was.codec, was.digest) == (now.kind, now.codec, now.digest):
        return []
    if was.kind == now.kind == "code":
        return _compare_code(was.digest, now.digest, source)
    if was.kind == now.kind == "group":
        return _compare_groups(was, now, source)
    old, new = _apart(_show(was, source), _show(now, source))
    return [Difference(_named(now), old, new, None if now.kind == "option" else now.digest)]


def _compare_code(was: Digest, now: Digest, source: Source) -> list[Difference]:
    old, new = _parts(was, source), _parts(now, source)
    if old is None or new is None:
        return [Difference("the code", shown(was), shown(now))]
    return [
        Difference(f"the code, {label},", old.get(label, _ABSENT), new.get(label, _ABSENT))
        for label in sorted(old.keys() | new.keys())
        if old.get(label) != new.get(label)
    ]


def _parts(fingerprint: Digest, source: Source) -> dict[str, str] | None:
    data = source.value(fingerprint)
    if data is None:
        return None
    return {
        label: shown(identity) if isinstance(identity, bytes) else str(identity)
        for label, identity in decanonical(data)
    }


def _compare_groups(was: Ingredient, now: Ingredient, source: Source) -> list[Difference]:
    before, after = source.value(was.digest), source.value(now.digest)
    if before is None or after is None:
        return [Difference(_named(now), shown(was.digest), shown(now.digest), now.digest)]
    old, new = _entries(now.name, before), _entries(now.name, after)
    differences: list[Difference] = []
    for entry in sorted(old.keys() | new.keys()):
        if entry in new:
            differences.extend(_compare(old.get(entry), new[entry], source))
        else:
            differences.append(Difference(_named(old[entry]), _show(old[entry], source), _ABSENT))
    return differences


def _entries(name: str, data: bytes) -> dict[str, Ingredient]:
    return {
        entry: Ingredient(f"{name}[{entry}]", "group" if codec == GROUP_CODEC else "input", codec, digest)
        for entry, codec, digest in decode_entries(data)
    }


def _named(ingredient: Ingredient) -> str:
    match ingredient.kind:
        case "code":
            return "the code"
        case "option":
            return f"the option {ingredient.name}"
        case "input" | "group":
            return f"the input {ingredient.name}"


def _show(ingredient: Ingredient, source: Source) -> str:
    if ingredient.kind == "option":
        return repr(decanonical(ingredient.data))
    if ingredient.kind == "input" and ingredient.codec in ("text", "bytes"):
        data = source.value(ingredient.digest)
        if data is not None:
            return repr(data.decode() if ingredient.codec == "text" else data)
    return shown(ingredient.digest)


def _apart(old: str, new: str) -> tuple[str, str]:
    """Both texts shortened to where they first differ."""
    common = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        common += 1
    start = max(0, common - _CONTEXT)
    return _short(old, start), _short(new, start)


def _short(text: str, start: int) -> str:
    cut = text[start : start + _TEXT_MAX]
    return f"{'…' if start else ''}{cut}{'…' if start + _TEXT_MAX < len(text) else ''}"
