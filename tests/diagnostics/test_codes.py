"""The table of codes: complete, without gaps, and the only source of codes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from presk.diagnostics.code import Code, Example
from presk.diagnostics.codes import CODES, FAMILIES
from presk.diagnostics.value import Diagnostic, Label, Place, Severity

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("presk", "cache", "daemon", "kernels")

# The families without gaps, and the codes that stand alone.
RUNS: Final = {"E0": 14, "E1": 24, "E2": 27, "E9": 6, "W0": 5}
SINGLE: Final = (
    {
        "E3001",
        "E4001",
        "E4002",
        "E5002",
        "E6001",
        "E6002",
        "E7001",
        "E8001",
        "E8002",
        "E8003",
        "E8004",
        "E7010",
    }
    | {f"E700{number}" for number in range(2, 10)}
    | {f"E800{number}" for number in range(5, 10)}
)


def test_the_codes() -> None:
    runs = {f"{family}{number:03}" for family, count in RUNS.items() for number in range(1, count + 1)}
    assert set(CODES) == runs | SINGLE
    assert all(key == row.code for key, row in CODES.items())
    assert [row for _, family in FAMILIES for row in family] == list(CODES.values())
    for _, family in FAMILIES:
        assert [row.code for row in family] == sorted(row.code for row in family)


def test_severity_is_that_of_the_letter() -> None:
    for code in CODES:
        severity = Diagnostic(code, "", Label(Place(0, -1))).severity
        assert severity is (Severity.WARNING if code.startswith("W") else Severity.ERROR)


def literals() -> Mapping[str, set[str]]:
    """The codes that stand as literals in the sources, with the files in which they do."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.parent == ROOT / "presk" / "diagnostics":
                continue
            for code in re.findall(r"""["'](?:error\[|warning\[)?([EW]\d{4})["'\]]""", path.read_text("utf-8")):
                found.setdefault(code, set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_sources_report_only_codes_of_the_table() -> None:
    assert {code: files for code, files in literals().items() if code not in CODES} == {}


def test_every_code_is_reported_by_something() -> None:
    assert set(CODES) - set(literals()) == set()


def text_of(example: Example) -> str:
    return "".join(str(content) for content in example.files.values())


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_a_row_is_complete(row: Code) -> None:
    assert row.title
    assert not row.title.endswith(".")
    assert row.title[0] == "`" or row.title[0].islower() or row.title.startswith("UTF")
    for prose in (row.explanation, row.mend):
        assert prose == prose.strip()
        assert "\n" not in prose.replace("\n\n", "")
        assert all(paragraph.endswith((".", ".)")) for paragraph in prose.split("\n\n"))
        assert prose.count("`") % 2 == 0
    if row.example is None:
        assert "no example" in row.explanation
        assert row.mended is None
        return
    for example in (row.example, row.mended):
        if example is not None:
            assert example.args[0].endswith(".psk")
            assert all(not name.startswith("/") and ".." not in name for name in example.files)
    if row.mended is not None:
        assert (text_of(row.example), row.example.args) != (text_of(row.mended), row.mended.args)
