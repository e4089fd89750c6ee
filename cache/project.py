"""Where the project's modules lie, and which modules a module reaches by import.

A project is given as import roots: import name → folder. The longest root that is a prefix of a module's name
decides, so that ``presk.cache`` may lie beside ``presk``. Folders are listed once; then names are resolved in memory.
"""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("presk", "presk.cache", "presk.daemon", "presk.kernels")
"""The import roots of this project (the package table of ``pyproject.toml``)."""

_INIT: Final = "__init__.py"


def discover_project(names: tuple[str, ...] = PACKAGES) -> dict[str, Path]:
    """The folders of the project's import packages, as the import system finds them; what is not there is left out."""
    roots: dict[str, Path] = {}
    for name in names:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            roots[name] = Path(next(iter(spec.submodule_search_locations)))
    return roots


class Modules:
    """The modules of a project by name."""

    def __init__(self, project: Mapping[str, Path]) -> None:
        self.roots: Final = {name: Path(folder) for name, folder in sorted(project.items())}
        self._paths: dict[str, str] = {}
        self._packages: set[str] = set()
        # A root inside another root's folder (an installed package) is listed under the same names twice; the inner
        # wins.
        for root in sorted(self.roots, key=len):
            self._list(root, str(self.roots[root]))

    def _list(self, name: str, folder: str) -> None:
        self._packages.add(name)
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            return
        for entry in entries:
            if entry.name == _INIT:
                self._paths[name] = entry.path
            elif entry.name.endswith(".py"):
                self._paths[f"{name}.{entry.name[:-3]}"] = entry.path
            elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
                self._list(f"{name}.{entry.name}", entry.path)

    def path(self, name: str) -> str | None:
        """The source file of a module of the project; nothing for a folder without ``__init__.py``."""
        return self._paths.get(name)

    def paths(self) -> tuple[str, ...]:
        """The source files of all modules."""
        return tuple(self._paths.values())

    def __contains__(self, name: str) -> bool:
        return name in self._paths or name in self._packages

    def owns(self, name: str) -> bool:
        """Whether a dotted name belongs to the project, be there such a module or not."""
        return any(name == root or name.startswith(root + ".") for root in self.roots)

    def resolve(self, importer: str, level: int, module: str, names: tuple[str, ...]) -> Iterator[str]:
        """The absolute names of the modules that an import statement runs, as far as they can be modules.

        ``import a.b`` runs a and a.b. ``from a import b`` runs a, and a.b if that is a module. A module of the
        project that is named and does not exist is given too: its absence is an ingredient.
        """
        if level:
            package = importer if importer in self._packages else importer.rpartition(".")[0]
            for _ in range(level - 1):
                package = package.rpartition(".")[0]
            module = f"{package}.{module}" if module else package
        yield from _prefixes(module)
        for name in names:
            inner = f"{module}.{name}"
            if inner in self:
                yield inner


def _prefixes(name: str) -> Iterator[str]:
    at = name.find(".")
    while at >= 0:
        yield name[:at]
        at = name.find(".", at + 1)
    if name:
        yield name
