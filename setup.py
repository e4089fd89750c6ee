"""The list of packages, computed: each folder of the `package-dir` table in pyproject.toml with all its sub-packages.

setuptools can find packages by itself only where a folder bears its package's name; here `cache/` is `presk.cache`.
Everything else about the package is said in pyproject.toml.
"""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def packages() -> list[str]:
    """Every package of the project by its import name, sorted."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    result = []
    for package, folder in settings["tool"]["setuptools"]["package-dir"].items():
        result += [package, *(f"{package}.{inner}" for inner in find_packages(str(ROOT / folder)))]
    return sorted(result)


setup(packages=packages())
