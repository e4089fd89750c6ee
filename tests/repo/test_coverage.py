"""`docs/coverage.md`: every statement has a row, every row a test that exists and cites the statement, or a reason."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"
ROW = re.compile(r"^\| ([LR]\d{3}) \| ([^|]+) \| ([^|]+) \|$")

STATEMENTS = [f"L{number:03}" for number in (*range(1, 225), 245, 315, 316, 317)]
"""The statements of the parts that are covered: syntax, elaboration, typing, regularity, effects."""


def rows():
    """The rows: statement, words, what shows it."""
    found = [ROW.match(line) for line in PAGE.read_text("utf-8").splitlines()]
    return [match.groups() for match in found if match is not None]


def test_every_statement_has_one_row():
    ids = [row[0] for row in rows()]
    assert sorted(ids) == sorted(set(ids))
    assert [statement for statement in STATEMENTS if statement not in ids] == []


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_a_row_names_a_test_that_cites_the_statement(row):
    statement, words, shown = row
    assert words.strip()
    if shown.startswith("reason: "):
        assert len(shown) > len("reason: ") + 20
    elif "::" in shown:
        path, name = shown.split("::")
        source = (ROOT / path).read_text("utf-8")
        body = re.search(rf"^def {re.escape(name)}\(.*?(?=^(?:def|class|@|[A-Z])|\Z)", source, re.MULTILINE | re.DOTALL)
        assert body is not None, f"{path} has no {name}"
        assert statement in body.group(0), f"{name} does not cite {statement}"
    else:
        path, title = shown.split(": ", 1)
        headings = [line for line in (ROOT / path).read_text("utf-8").splitlines() if line.startswith("## ")]
        cited = [line for line in headings if line.endswith(f" {title}") and f" {statement} " in line]
        assert cited, f"{path} has no case `{title}` that cites {statement}"
