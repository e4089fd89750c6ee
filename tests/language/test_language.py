"""Runs every case of this folder's Markdown files through the command line, in the process, in a folder of its own.

The store is shared by all cases that one worker runs: it saves the start-up, and it shows that equal file names in
other folders are never confused.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

from presk.cli.app import run

from .cases import Case, compare, occurs, parse_file, read_reported, without_spans

FOLDER: Final = Path(__file__).parent
THEMES: Final = tuple(path for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md")
CASES: Final = tuple(case for path in THEMES for case in parse_file(path))


class Runner:
    """The command, with one store for many folders."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def __call__(self, folder: Path, argv: Sequence[str]) -> tuple[int, bytes, str]:
        """Exit code, standard output, standard error of `presk ARGV` in `folder`."""
        stdout, stderr = BytesIO(), BytesIO()
        code = run(argv, cwd=folder, env={"PRESK_CACHE": str(self._store)}, stdout=stdout, stderr=stderr)
        return code, stdout.getvalue(), stderr.getvalue().decode("utf-8")


@pytest.fixture(scope="session")
def presk(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("store"))


def _write(case: Case, folder: Path) -> None:
    for file in case.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)


def _tree(presk: Runner, folder: Path, name: str, content: bytes) -> object:
    """The syntax tree of one program, without places. The program is always called `name`, so no name can differ."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    code, out, err = presk(folder, ["dump", name, "--stage", "ast", "--format", "json"])
    assert code == 0, f"dump --stage ast left with {code}:\n{err}"
    return without_spans(json.loads(out))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, presk: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    _write(case, folder)
    main = case.files[0]
    if (expected_exit := case.expected_exit()) is not None:
        code, out, err = presk(folder, ["check", main.name, *case.args, "--message-format", "json"])
        if case.diagnostics is not None:
            assert (difference := compare(case.diagnostics, read_reported(out))) is None, difference
        assert code == expected_exit, f"check left with {code}, not {expected_exit}:\n{err}"
    if case.elab or case.elab_not:
        code, out, err = presk(folder, ["dump", main.name, "--stage", "elab", *case.args])
        text = out.decode("utf-8")
        assert code == 0, f"dump --stage elab left with {code}:\n{err}"
        assert [wanted for wanted in case.elab if not occurs(wanted, text)] == [], text
        assert [unwanted for unwanted in case.elab_not if occurs(unwanted, text)] == [], text
    if case.summary:
        _, out, _ = presk(folder, ["check", main.name, "--summary", *case.args])
        text = out.decode("utf-8")
        assert [wanted for wanted in case.summary if not occurs(wanted, text)] == [], text
    if case.ast:
        code, out, err = presk(folder, ["dump", main.name, "--stage", "ast"])
        text = out.decode("utf-8")
        assert code == 0, f"dump --stage ast left with {code}:\n{err}"
        assert [wanted for wanted in case.ast if not occurs(wanted, text)] == [], text
    if case.ast_equal or case.ast_differ:
        contents = {file.name: file.content for file in case.files}
        tree = _tree(presk, tmp_path / "trees", main.name, main.content)
        for other in case.ast_equal:
            assert _tree(presk, tmp_path / other, main.name, contents[other]) == tree, f"{other} has another tree"
        for other in case.ast_differ:
            assert _tree(presk, tmp_path / other, main.name, contents[other]) != tree, f"{other} has the same tree"


def test_spans_count_characters_and_bytes(presk: Runner, tmp_path: Path) -> None:
    """O72: lines and columns from 1, columns in characters, offsets in bytes; the file as the user spelled it."""
    before = "const θŷ = 3\nfn f(ŷ : ℝ[θŷ]) -> ℝ[θŷ] = ŷ · "
    (tmp_path / "main.psk").write_text(before + "wörld\n", encoding="utf-8")
    code, out, _ = presk(tmp_path, ["check", "./main.psk", "--message-format", "json"])
    (line,) = out.decode("utf-8").splitlines()
    value = json.loads(line)
    column, offset = len(before.split("\n")[1]) + 1, len(before.encode("utf-8"))
    assert (code, value["code"], value["severity"], value["file"]) == (1, "E2002", "error", "./main.psk")
    assert value["span"] == {
        "start": {"line": 2, "column": column, "offset": offset},
        "end": {"line": 2, "column": column + 5, "offset": offset + 6},
    }
    assert [label["span"] for label in value["labels"] if label["primary"]] in ([], [value["span"]])
