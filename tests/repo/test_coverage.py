"""`docs/coverage.md`: every statement has a row, every row tests that exist and show the statement, or a reason."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ROW = re.compile(r"^\| ([LR]\d{3}) \| ([^|]+) \| ([^|]+) \|$")
TEST = re.compile(r"(tests/\S+\.py)::(test_\w+)")
CASE = re.compile(r"(tests/\S+\.md): (.+)")
REASON = re.compile(r"reason: (?P<why>.{20,})")

STATEMENTS = (
    [f"L{number:03}" for number in range(1, 419)]
    + [f"L{number}" for number in range(446, 475)]
    + [f"R{number:03}" for number in range(1, 114)]
)
"""The statements of the parts that are covered: from the syntax to the exact reference, arithmetic, kernels, realizations, plans."""


def rows():
    """The rows: statement, words, what shows it."""
    found = [ROW.match(line) for line in PAGE.read_text("utf-8").splitlines()]
    return [match.groups() for match in found if match is not None]


@cache
def text(path):
    """A file of the tree."""
    return (ROOT / path).read_text("utf-8")


def test_every_statement_has_one_row():
    ids = [row[0] for row in rows()]
    assert ids == sorted(set(ids))
    assert [statement for statement in STATEMENTS if statement not in ids] == []


def problem(statement, shown):
    """What is wrong with one thing that a row names; None if it is a test that exists or a reason."""
    if REASON.fullmatch(shown):
        # A test that a reason mentions exists as well.
        return next(
            (f"{name} is in no test" for name in re.findall(r"test_\w+(?!\w|\.py)", shown) if not defined(name)), None
        )
    if match := TEST.fullmatch(shown):
        path, name = match.groups()
        return None if re.search(rf"^def {name}\(", text(path), re.MULTILINE) else f"{path} has no {name}"
    if match := CASE.fullmatch(shown):
        path, title = match.groups()
        headings = [line for line in text(path).splitlines() if line.startswith("## ")]
        cited = [line for line in headings if line.endswith(f" {title}") and f" {statement} " in line]
        return None if cited else f"{path} has no case `{title}` that cites {statement}"
    return f"`{shown}` is neither a test nor a reason"


def defined(name):
    """Whether a test function of a name is anywhere."""
    return any(f"\ndef {name}(" in path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_a_row_names_tests_that_exist(row):
    statement, words, shown = row
    assert words.strip()
    assert [found for one in shown.split("; ") if (found := problem(statement, one)) is not None] == []


@pytest.mark.parametrize(
    "shown",
    [
        "reason: too short",
        "tests/repo/test_coverage.py::test_nothing_of_this_name",
        "tests/language/lexical.md: no such case",
        "tests/language/lexical.md: line comments",
        "somewhere",
        "reason: tests/repo/test_coverage.py has test_of_another_name for it",
    ],
)
def test_what_is_wrong_in_a_row_is_found(shown):
    assert problem("L001", shown) is not None
