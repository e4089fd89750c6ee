"""The package that is installed holds exactly the four folders, under the one name `presk`."""

import configparser
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from tests.repo.tree import ROOT, files

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS: Final[dict[str, str]] = PROJECT["tool"]["setuptools"]["package-dir"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of a copy of the tree, since setuptools leaves things behind where it builds."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for folder in FOLDERS.values():
        for path in files(ROOT / folder):
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(out)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for folder in FOLDERS.values() for path in files(ROOT / folder) if path.suffix == ".py"}
    missing = [folder.relative_to(ROOT).as_posix() for folder in folders if not (folder / "__init__.py").is_file()]
    assert sorted(missing) == [], "these folders need an `__init__.py`, or an installation leaves them out"


def test_the_wheel_holds_every_file_of_the_four_folders_and_no_other(wheel: zipfile.ZipFile) -> None:
    """Modules, sub-packages and data: a new kind of data file has to be named in `package-data`."""
    expected = {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in FOLDERS.items()
        for path in files(ROOT / folder)
    }
    actual = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert sorted(expected - actual) == [], "these are left out"
    assert sorted(actual - expected) == [], "these do not belong there"


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    (folder,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = message_from_bytes(wheel.read(f"{folder}/METADATA"))
    scripts = configparser.ConfigParser()
    scripts.read_string(wheel.read(f"{folder}/entry_points.txt").decode())
    assert dict(scripts["console_scripts"]) == {"presk": "presk.cli.client:main"}
    assert metadata["License-Expression"] == "Apache-2.0"
    assert wheel.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    required = {Requirement(line).name for line in metadata.get_all("Requires-Dist") or []}
    assert required >= {Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    assert b"presk" == wheel.read(f"{folder}/top_level.txt").strip()


def test_the_installation_is_this_tree() -> None:
    """The tests import the modules that are beside them, and not a copy that was installed before."""
    import presk.cache
    import presk.daemon
    import presk.kernels

    for module, folder in (
        (presk, "presk"),
        (presk.cache, "cache"),
        (presk.daemon, "daemon"),
        (presk.kernels, "kernels"),
    ):
        assert Path(str(module.__file__)).resolve().parent == ROOT / folder
