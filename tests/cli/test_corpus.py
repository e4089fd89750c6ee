"""Every program of the corpus against `corpus/expect.toml`: warnings, other constants, values known without running anything.

Through the commands themselves, over one store: programs are checked and lowered once.
"""

import json
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.console import Console, Ran

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus"
PROGRAMS: Final[list[dict[str, Any]]] = tomllib.loads((CORPUS / "expect.toml").read_text("utf-8"), parse_float=Decimal)[
    "program"
]
ENTRIES: Final = [(program["file"], entry) for program in PROGRAMS for entry in program.get("entry", ())]
BITS: Final = 160
NEAR: Final = Fraction(1, 10**30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A console whose store serves all programs."""
    return Console(tmp_path_factory.mktemp("corpus"))


def test_every_program_is_listed() -> None:
    assert sorted(program["file"] for program in PROGRAMS) == sorted(
        path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.psk")
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["file"])
def test_warnings_and_other_constants(shared: Console, program: dict[str, Any]) -> None:
    for constants in ({}, *program["overrides"]):
        given = [f"--const={name}={value}" for name, value in constants.items()]
        ran = shared.presk("check", str(CORPUS / program["file"]), "--message-format", "json", *given)
        assert ran.code == 0
        assert [json.loads(line)["code"] for line in ran.out.splitlines()] == program["warnings"], constants


def name_of(number: int) -> str:
    file, entry = ENTRIES[number]
    return f"{file.removesuffix('.psk')}-{entry['name']}-{number}"


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=name_of)
def test_an_entry(shared: Console, number: int) -> None:
    """It can be run, and where the value is known it is that, to thirty digits."""
    file, entry = ENTRIES[number]
    ran = run(shared, file, entry, number)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["result"]
    if "result" in entry:
        compare(found, entry["result"])


def run(console: Console, file: str, entry: Mapping[str, Any], number: int) -> Ran:
    """`presk run` of an entry at its setting."""
    argv = ["run", str(CORPUS / file), "--entry", entry["name"], "--json", "--bits", str(BITS)]
    for option in ("const", "dim", "arg"):
        argv += [f"--{option}={name}={spelled(value)}" for name, value in entry.get(option, {}).items()]
    for place, (name, value) in enumerate(entry.get("input", {}).items()):
        path = console.write(f"{number}-{place}.json", spelled(value))
        argv.append(f"--input={name}={path}")
    return console.presk(*argv)


def spelled(value: Any) -> str:
    """A value as JSON; decimals digit for digit."""
    if isinstance(value, list):
        return f"[{', '.join(map(spelled, value))}]"
    return json.dumps(value) if isinstance(value, bool | str) else str(value)


def compare(found: Any, expected: Any) -> None:
    """A result of `--json` is a value of `expect.toml`."""
    if isinstance(found, dict) and "data" in found:
        found = found["data"]
    if isinstance(expected, dict):
        assert list(found) == list(expected), (found, expected)
        for name, one in expected.items():
            compare(found[name], one)
    elif isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), (found, expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
    elif isinstance(expected, bool):
        assert found is expected
    else:
        exact = Fraction(expected)
        assert abs(Fraction(found) - exact) <= NEAR * (abs(exact) or 1), (found, expected)
