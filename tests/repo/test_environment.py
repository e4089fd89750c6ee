"""The set-up of `.venv`: when it is current, why it is not, and what is said where no interpreter fits.

That a set-up works is shown by these tests being run at all: `make test` makes the environment that they run in.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.repo.tree import ROOT
from tests.tools import environment

SCRIPTS: Final = ("tests/tools/environment.py", "tests/tools/environment.sh")
COPIED: Final = ("pyproject.toml", "setup.py", "requirements/dev.lock", *SCRIPTS)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a set-up reads, with an environment that counts as current."""
    for name in COPIED:
        target = tmp_path / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    root = tmp_path / "tree"
    (root / ".venv").mkdir()
    stamp(root)
    return root


def stamp(root: Path) -> None:
    lines = [f"{name}\t{value}\n" for name, value in environment.ingredients(root).items()]
    (root / ".venv" / "stamp").write_text("".join(lines), "utf-8")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_a_current_environment_is_left_alone(tree: Path) -> None:
    assert environment.changed(tree) == []


def test_without_a_stamp_everything_is_new(tree: Path) -> None:
    (tree / ".venv" / "stamp").unlink()
    assert environment.changed(tree) == list(environment.ingredients(tree))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pyproject.toml", "msgspec>=", "msgspec>"),
        ("pyproject.toml", '"presk.cache" = "cache"', '"presk.cache" = "store"'),
        ("pyproject.toml", "presk.cli.client:main", "presk.cli.client:run"),
        ("setup.py", "import tomllib", "import  tomllib"),
        ("requirements/dev.lock", "--hash=sha256:", "--hash=sha256:0"),
        ("tests/tools/environment.py", "import json", "import  json"),
    ],
)
def test_each_ingredient_counts(tree: Path, name: str, old: str, new: str) -> None:
    edit(tree / name, old, new)
    assert environment.changed(tree) == [name]


def test_settings_of_tools_do_not_count(tree: Path) -> None:
    edit(tree / "pyproject.toml", "line-length = 120", "line-length = 100")
    assert environment.changed(tree) == []


def test_a_tree_that_moved_is_not_current(tree: Path) -> None:
    moved = tree.rename(tree.with_name("elsewhere"))
    assert environment.changed(moved) == ["tree"]


def test_another_interpreter_is_not_current(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "interpreter", lambda: "cpython 3.99")
    assert environment.changed(tree) == ["interpreter"]


def test_locked_names_are_the_pinned_ones() -> None:
    text = "# a note\nTyping_Extensions==4.1 ; os_name == 'x' \\\n    --hash=sha256:00\n    # via lark\nlark==1\n"
    assert environment.locked_names(text) == {"typing-extensions", "lark"}


def test_this_environment_can_be_kept_and_a_copy_cannot(tmp_path: Path) -> None:
    here = Path(sys.prefix)
    assert environment.reusable(here)
    copy = tmp_path / ".venv"
    (copy / "bin").mkdir(parents=True)
    (copy / "bin" / "python").symlink_to(here / "bin" / "python")
    shutil.copy(here / "pyvenv.cfg", copy / "pyvenv.cfg")
    assert not environment.reusable(copy)
    shutil.copy(here / "bin" / "pip", copy / "bin" / "pip")
    assert not environment.reusable(copy)
    assert not environment.reusable(tmp_path / "none")


def run(tree: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    shell = shutil.which("sh")
    assert shell
    environ = {key: value for key, value in os.environ.items() if key != "PYTHON"} | settings
    script = str(tree / "tests/tools/environment.sh")
    return subprocess.run([shell, script], env=environ, capture_output=True, text=True, check=False)


def fake(path: Path, version: str) -> None:
    """An interpreter of an old version: it fails whatever it is asked, but knows its version."""
    path.write_text(f'#!/bin/sh\ncase "$*" in *platform*) echo {version};; *) exit 1;; esac\n')
    path.chmod(0o755)


def test_nothing_is_said_when_all_is_well(tree: Path) -> None:
    done = run(tree, PYTHON=sys.executable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_interpreter_that_is_too_old_is_named(tree: Path, tmp_path: Path) -> None:
    fake(tmp_path / "python3.9", "3.9.18")
    done = run(tree, PYTHON=str(tmp_path / "python3.9"))
    assert done.returncode == 1
    assert done.stderr.startswith("Presk needs Python 3.11 or newer")
    assert f"{tmp_path}/python3.9: 3.9.18" in done.stderr


def test_where_only_old_ones_are_they_are_listed(tree: Path, tmp_path: Path) -> None:
    shutil.rmtree(tree / ".venv")
    tools = tmp_path / "bin"
    tools.mkdir()
    dirname = shutil.which("dirname")
    assert dirname
    (tools / "dirname").symlink_to(dirname)
    fake(tools / "python3", "3.8.10")
    done = run(tree, PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr.startswith("Presk needs Python 3.11 or newer, with venv and ensurepip")
    assert f"{tools}/python3: 3.8.10" in done.stderr
    assert "make PYTHON=" in done.stderr
