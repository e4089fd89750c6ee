"""The view of the package that mypy is given."""

from pathlib import Path

import pytest

from tests.repo.tree import ROOT
from tests.tools import typecheck


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.setuptools.package-dir]\n"presk" = "presk"\n"presk.cache" = "cache"\n', "utf-8"
    )
    for name in ("presk/__init__.py", "presk/syntax/__init__.py", "cache/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def shown(tree: Path) -> set[str]:
    mirror = tree / typecheck.MIRROR
    return {path.relative_to(mirror).as_posix() for path in mirror.glob("presk/*")}


def test_the_package_is_shown_as_it_is_imported(tree: Path) -> None:
    typecheck.lay(tree)
    assert shown(tree) == {"presk/__init__.py", "presk/syntax", "presk/cache"}
    assert (tree / typecheck.MIRROR / "presk/cache/__init__.py").samefile(tree / "cache/__init__.py")


def test_what_is_added_and_taken_away_is_followed(tree: Path) -> None:
    typecheck.lay(tree)
    (tree / "presk/syntax").rename(tree / "presk/grammar")
    typecheck.lay(tree)
    assert shown(tree) == {"presk/__init__.py", "presk/grammar", "presk/cache"}


def test_reports_name_the_files_of_the_tree(tree: Path) -> None:
    report = (
        ".venv/mirror/presk/cache/store.py:3: error: x\n"
        ".venv/mirror/presk/syntax/lexer.py: note: y\n"
        'also at ".venv/mirror/presk/__init__.py"\n'
        "tests/repo/tree.py:1: error: z\n"
    )
    assert typecheck.real_paths(report, tree) == (
        "cache/store.py:3: error: x\n"
        "presk/syntax/lexer.py: note: y\n"
        'also at "presk/__init__.py"\n'
        "tests/repo/tree.py:1: error: z\n"
    )


def test_the_whole_package_is_checked() -> None:
    assert {"presk/cache", "presk/daemon", "presk/kernels"} <= set(typecheck.links(ROOT))
