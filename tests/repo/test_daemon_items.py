"""The table of requirements in `docs/daemon.md`: each has tests that are there and say its number."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ITEMS: Final = range(1, 36)
WAITING: Final = {32: "sweeps", 33: "comparing measurements", 34: "`presk golden`"}
"""The requirements on what does not exist yet."""

_ROW: Final = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
_TEST: Final = re.compile(r"`([\w/]+\.py)::(test_\w+\*?)`")


def rows() -> list[tuple[int, str, str]]:
    """Number, words, tests."""
    text = (ROOT / "docs" / "daemon.md").read_text("utf-8")
    return [(int(number), words, tests) for number, words, tests in _ROW.findall(text)]


def functions(file: str) -> Iterator[tuple[str, str]]:
    """The tests of a file: names, and what they say of themselves."""
    path = ROOT / file if "/" in file else ROOT / "tests" / "daemon" / file
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def test_the_table_holds_every_item_once() -> None:
    assert [number for number, _, _ in rows()] == list(ITEMS)
    assert len({words for _, words, _ in rows()}) == len(ITEMS)


def test_each_item_has_tests_that_say_so() -> None:
    for number, _, tests in rows():
        if number in WAITING:
            assert tests == f"waits for {WAITING[number]}"
            continue
        named = _TEST.findall(tests)
        assert named, number
        assert re.sub(r"[\s,]", "", _TEST.sub("", tests)) == "", f"item {number}: {tests}"
        for file, pattern in named:
            found = [(name, said) for name, said in functions(file) if fnmatchcase(name, pattern)]
            assert found, f"item {number}: {file}::{pattern} is not there"
            for name, said in found:
                assert name.startswith(f"test_item_{number:02}_") or f"Item {number} " in said, f"{file}::{name}"


def test_each_test_of_an_item_is_in_the_table() -> None:
    listed = {(number, file) for number, _, tests in rows() for file, _ in _TEST.findall(tests)}
    for path in sorted((ROOT / "tests" / "daemon").glob("test_*.py")):
        for name, _ in functions(path.name):
            if name.startswith("test_item_"):
                assert (int(name.split("_")[2]), path.name) in listed, f"{path.name}::{name}"
