"""A small project whose stages the tests of the engine ask: sheets of definitions, each a sum of numbers and other names.

The stages are said to live in modules of an invented project, `fake`, which `write_project` writes to a folder: what matters of
it is only which module imports which.

    fake.tree   nothing                      DECLARATION, VALUE (the types)
    fake.split  fake.tree, fake/words.txt    SPLIT: bytes of a sheet -> declarations
    fake.value  fake.tree                    VALUE_OF: declaration, values of the names it uses -> value
    fake.check  fake.split, fake.value       CHECK: sheet -> values (composite)
    fake.other  nothing
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from gmpy2 import mpq

from presk.cache.codec import TEXT, struct_codec
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.log import RequestLog
from presk.cache.stage import Queries, Result, Stage, Transient
from presk.cache.store import Store


class Declaration(msgspec.Struct, frozen=True, array_like=True):
    """`name = term + term`; a term is a name or a rational number."""

    name: str
    terms: tuple[str, ...]


class Value(msgspec.Struct, frozen=True, array_like=True):
    """What a name stands for, or what is wrong with it."""

    name: str
    number: mpq | None
    error: str = ""


DECLARATION: Final = struct_codec(Declaration)
VALUE: Final = struct_codec(Value)
DECLARATIONS: Final = struct_codec(tuple[Declaration, ...], "declarations")
VALUES: Final = struct_codec(tuple[Value, ...], "values")


def _split(source: bytes) -> tuple[Declaration, ...]:
    """Lines without comments (`#`) and blanks."""
    lines = (line.partition("#")[0] for line in source.decode().splitlines())
    parts = (line.partition("=") for line in lines if line.strip())
    return tuple(
        Declaration(name.strip(), tuple(term.strip() for term in right.split("+"))) for name, _, right in parts
    )


def _value_of(declaration: Declaration, names: Mapping[str, Value], *, scale: int | None) -> Value:
    total = mpq(0)
    for term in declaration.terms:
        if term in names:
            found = names[term]
            if found.number is None:
                return Value(declaration.name, None, f"{term} has no value")
            total += found.number
        elif term[:1].isdigit():
            total += mpq(term)
        else:
            return Value(declaration.name, None, f"unknown name {term}")
    return Value(declaration.name, total * (1 if scale is None else scale))


def _check(queries: Queries, source: Result[bytes], *, scale: int | None) -> tuple[Value, ...]:
    known: dict[str, Result[Value]] = {}
    split = queries.get(SPLIT, source, subject="sheet")
    for declaration in split.value:
        leaf = queries.leaf(f"declaration {declaration.name}", declaration, DECLARATION)
        used = queries.group("names", {term: known[term] for term in declaration.terms if term in known})
        known[declaration.name] = queries.get(VALUE_OF, leaf, used, subject=declaration.name, scale=scale)
    return tuple(known[declaration.name].value for declaration in split.value)


SPLIT: Final = Stage("split", "fake.split", (), _split, DECLARATIONS)
VALUE_OF: Final = Stage("value", "fake.value", ("scale",), _value_of, VALUE)
CHECK: Final = Stage("check", "fake.check", ("scale",), _check, VALUES, composite=True)


def _shout(text: str, *, times: int | None, mark: str | None) -> str:
    return text.upper() * (1 if times is None else times) + ("" if mark is None else mark)


SHOUT: Final = Stage("shout", "fake.other", ("times", "mark"), _shout, TEXT)


def _longest(*texts: str) -> str:
    return max(texts, key=len, default="")


LONGEST: Final = Stage("longest", "fake.other", (), _longest, TEXT)


def _fail(text: str) -> str:
    raise RuntimeError(f"a bug in the stage: {text}")


FAIL: Final = Stage("fail", "fake.other", (), _fail, TEXT)


def _hurry(text: str) -> str | Transient[str]:
    return Transient("out of time") if text == "slow" else text


HURRY: Final = Stage("hurry", "fake.other", (), _hurry, TEXT)


def _hurry_twice(queries: Queries, text: Result[str]) -> str:
    return queries.get(HURRY, text).value * 2


HURRY_TWICE: Final = Stage("hurry twice", "fake.other", (), _hurry_twice, TEXT, composite=True)

STAGES: Final[tuple[Stage[Any], ...]] = (SPLIT, VALUE_OF, CHECK, SHOUT, LONGEST, HURRY, HURRY_TWICE)

SOURCES: Final = {
    "__init__.py": "",
    "tree.py": "DECLARATION = 1\n",
    "split.py": "from typing import Final\nfrom fake.tree import DECLARATION\nFINGERPRINT_FILES: Final = ('words.txt',)\n",
    "value.py": "from . import tree\nimport lark\n",
    "check.py": "def later():\n    import fake.split, fake.value as value\n",
    "other.py": "import os.path\n",
    "words.txt": "one\ntwo\n",
}


def write_project(folder: Path) -> dict[str, Path]:
    """The invented project, as import roots."""
    root = folder / "fake"
    root.mkdir(parents=True)
    for name, text in SOURCES.items():
        (root / name).write_text(text)
    return {"fake": root}


class Workshop:
    """Makes engines and stores over one folder, and closes the stores at the end."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.project = write_project(folder / "project")
        self._fingerprints: Fingerprints | None = None
        self._stores: list[Store] = []

    def fingerprints(self) -> Fingerprints:
        """Those of the sources as they were when they were first asked for."""
        if self._fingerprints is None:
            self._fingerprints = Fingerprints(self.project)
        return self._fingerprints

    def store(self, **settings: Any) -> Store:
        """A store in the folder, like that of another process."""
        store = Store(self.cache, **settings)
        self._stores.append(store)
        return store

    def engine(self, store: Store | None = None, **settings: Any) -> Engine:
        return Engine(store, fingerprints=self.fingerprints(), **settings)

    def close(self) -> None:
        for store in self._stores:
            store.close()


def check(engine: Engine, source: str, scale: int | None = None) -> tuple[tuple[Value, ...], RequestLog]:
    """What a sheet's names stand for, and the log of asking."""
    with engine.request() as log:
        result = engine.get(CHECK, engine.bytes("source", source.encode()), subject="sheet", scale=scale)
        return result.value, log


SHEET: Final = """\
one = 1
half = 1/2
# a comment
sum = one + half + 3
lone = 7
twice = sum + sum
"""
NAMES: Final = frozenset(("one", "half", "sum", "lone", "twice"))
VALUES_OF_SHEET: Final = (
    Value("one", mpq(1)),
    Value("half", mpq(1, 2)),
    Value("sum", mpq(9, 2)),
    Value("lone", mpq(7)),
    Value("twice", mpq(9)),
)
