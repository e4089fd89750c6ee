"""Every code's example reports the code, and its mended version reports nothing."""

import io
import json
from pathlib import Path
from typing import Final

import pytest

from presk.cli.app import run
from presk.diagnostics.code import Code, Example
from presk.diagnostics.codes import CODES

CHECKED: Final = [row for row in CODES.values() if row.example is not None]
MENDED: Final = [row for row in CODES.values() if row.mended is not None]

# Exit codes: a program with errors, a program with warnings at most, a wrong command line, a run that failed.
PROGRAM, FINE, COMMAND, FAILED_RUN = 1, 0, 2, 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for all examples, since making one takes longer than checking an example."""
    return tmp_path_factory.mktemp("store")


def check(example: Example, place: Path, store: Path) -> tuple[int, list[str], str]:
    """The exit code of `presk check` on an example, the codes that it reports in order, and its standard error."""
    for name, content in example.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    out, err = io.BytesIO(), io.BytesIO()
    form = ["--message-format", "json"] if example.command == "check" else []
    status = run(
        [example.command, *example.args, *form],
        cwd=place,
        env={"PRESK_CACHE": str(store)},
        stdout=out,
        stderr=err,
    )
    # A run prints its result there, and what is wrong elsewhere.
    lines = out.getvalue().decode().splitlines() if example.command == "check" else []
    codes = [json.loads(line)["code"] for line in lines]
    return status, codes, err.getvalue().decode()


@pytest.mark.parametrize("row", CHECKED, ids=lambda row: row.code)
def test_the_example_reports_the_code(row: Code, tmp_path: Path, store: Path) -> None:
    assert row.example is not None
    status, codes, complaint = check(row.example, tmp_path, store)
    if row.example.command == "run":
        # The program is well typed; the run ends with the error, on standard error; after a warning it goes on.
        warns = row.code.startswith("W")
        assert status == (FINE if warns else FAILED_RUN)
        assert complaint.startswith(f"{'warning' if warns else 'error'}[{row.code}]: ")
    elif row.code.startswith("E9"):
        # The command line is wrong, so nothing is checked, and it is no diagnostic of a program.
        assert status == COMMAND
        assert codes == []
        assert complaint.startswith(f"error[{row.code}]: ")
    else:
        assert status == (FINE if row.code.startswith("W") else PROGRAM)
        # Nothing but this code, so that a page shows its subject alone.
        assert set(codes) == {row.code}
        assert complaint == ""


@pytest.mark.parametrize("row", MENDED, ids=lambda row: row.code)
def test_the_mended_example_reports_nothing(row: Code, tmp_path: Path, store: Path) -> None:
    assert row.mended is not None
    assert check(row.mended, tmp_path, store) == (FINE, [], "")
