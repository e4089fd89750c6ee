"""Versions of packages: those that are installed, as the import system sees them."""

from importlib import metadata

import pytest

from presk.cache.packages import Packages, installed_versions, normalized


@pytest.mark.parametrize("name", ["lark", "msgspec", "gmpy2", "typing-extensions", "typing_extensions", "Z3.Solver"])
def test_versions_are_those_of_the_library(name):
    assert Packages().identity(name) == metadata.version(normalized(name))


def test_a_package_that_is_not_installed_is_absent():
    assert Packages().identity("no-such-package-anywhere") == "absent"


def test_the_first_folder_of_the_path_wins(tmp_path):
    for folder, version in (("first", "2.0"), ("second", "1.0")):
        (tmp_path / folder / f"Some_Package-{version}.dist-info").mkdir(parents=True)
    path = [str(tmp_path / folder) for folder in ("missing", "first", "second")]
    assert installed_versions(path)["some-package"] == "2.0"


def test_the_caller_may_say_what_a_package_is():
    asked = []

    def library() -> str:
        asked.append(1)
        return "digest of the library"

    packages = Packages({"llvmlite": library})
    assert asked == []
    assert [packages.identity("llvmlite") for _ in range(2)] == ["digest of the library"] * 2
    assert asked == [1]
