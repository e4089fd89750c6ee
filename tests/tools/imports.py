"""Holds the direction of imports: each part of the project may import what its row of the table says, and what that may.

A part's name is the longest row that a module's name
begins with; a module that no row covers is an error, so a new part cannot be added without saying where it stands. Rows
name only rows above them, which makes the graph of parts free of cycles whatever the modules do.

Checked besides, since the syntax trees are at hand: third-party packages are declared in pyproject.toml, nobody imports
`cache`, `daemon` or `kernels` without `presk.`, and an import inside a function has a comment that says why.

Run from anywhere: `python tests/tools/imports.py` prints a line for each violation and exits with 1 if there is one.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Part:
    """One row: a package or a module, what it imports, and what it imports only inside functions (a heavy edge)."""

    name: str
    imports: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()


PARTS: Final = (
    Part("presk"),  # the top package itself: empty, since the client imports it
    Part("presk.cache"),
    Part("presk.diagnostics"),
    Part("presk.syntax", ("presk.diagnostics",)),
    Part("presk.types"),
    Part("presk.prims", ("presk.types", "presk.diagnostics")),
    Part("presk.elab", ("presk.syntax", "presk.types", "presk.cache")),
    Part("presk.typing", ("presk.elab", "presk.prims")),
    Part("presk.core", ("presk.typing", "presk.prims")),
    Part("presk.ad", ("presk.core",)),
    Part("presk.analysis", ("presk.ad",)),
    Part("presk.check", ("presk.analysis",)),
    Part("presk.exact", ("presk.core",)),
    Part("presk.run", ("presk.ad", "presk.exact")),
    Part("presk.realize", ("presk.core",)),
    Part("presk.kernels", ("presk.realize",)),
    Part("presk.native", ("presk.run", "presk.kernels")),
    Part("presk.data", ("presk.exact",)),
    Part("presk.stages", ("presk.check", "presk.run", "presk.native")),
    Part("presk.train", ("presk.native", "presk.data")),
    Part("presk.serve", ("presk.ad", "presk.exact", "presk.kernels")),
    Part("presk.export", ("presk.ad", "presk.exact", "presk.kernels")),
    Part("presk.experiment", ("presk.train", "presk.serve", "presk.export")),
    # What a client knows of the daemon: the wire, where it lies, how to come to it, and what it says of itself.
    Part("presk.daemon.protocol"),
    Part("presk.daemon.places"),
    Part("presk.daemon.connect", ("presk.daemon.protocol", "presk.daemon.places")),
    Part("presk.daemon.messages"),
    Part(
        "presk.cli",
        (
            "presk.check",
            "presk.stages",
            "presk.run",
            "presk.native",
            "presk.data",
            "presk.experiment",
            "presk.daemon.connect",
            "presk.daemon.messages",
        ),
    ),
    Part("presk.daemon", ("presk.cli",)),
    # The thin client: sockets and the protocol. With --no-daemon it runs the application, which is heavy, in its process.
    Part("presk.cli.client", ("presk.daemon.connect",), deferred=("presk.cli", "presk.daemon")),
)

# Where the name that is imported is not the name of the package that brings it.
DISTRIBUTIONS: Final[Mapping[str, str]] = {"flint": "python-flint"}


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong at a line of a file; `path` is relative to the root."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module (or name in a module: `names` are both), where, and whether inside a function."""

    names: tuple[str, ...]
    line: int
    inside: bool


def part_of(module: str, parts: tuple[Part, ...]) -> Part | None:
    """The row that covers `module`: the longest whose name is the module's or a package above it."""
    # The top package's own row is for itself: a package below it needs a row of its own.
    covering = [p for p in parts if module == p.name or (p.name != "presk" and module.startswith(f"{p.name}."))]
    return max(covering, key=lambda part: len(part.name), default=None)


def reach(parts: tuple[Part, ...]) -> dict[str, frozenset[str]]:
    """For each part the parts that its modules may import: itself, its row's, and what those may."""
    result: dict[str, frozenset[str]] = {}
    for part in parts:
        # The top package is imported with anything inside it.
        result[part.name] = frozenset({"presk", part.name}).union(*(result[name] for name in part.imports))
    return result


def imports_of(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of a module, in order, with relative names made absolute."""

    def visit(node: ast.AST, inside: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import((alias.name,), node.lineno, inside)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                yield Import((f"{base}.{alias.name}", base), node.lineno, inside)
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, deeper)

    return visit(tree, inside=False)


@dataclass(frozen=True, slots=True)
class Project:
    """What a file is checked against: the project's modules, the distributions that it depends on, the table."""

    modules: frozenset[str]
    declared: frozenset[str]
    parts: tuple[Part, ...]


def check_module(path: str, module: str, source: str, project: Project) -> Iterator[Violation]:
    """The violations of one file; `path` is where it is reported."""
    part = part_of(module, project.parts)
    if part is None:
        yield Violation(path, 1, f"{module} is in no part: add a row to PARTS in tests/tools/imports.py")
        return
    try:
        syntax = ast.parse(source)
    except SyntaxError as error:
        yield Violation(
            path, error.lineno or 1, f"no Python {sys.version_info.major}.{sys.version_info.minor}: {error.msg}"
        )
        return
    lines = source.splitlines()
    allowed = reach(project.parts)[part.name]
    unexplained: set[int] = set()
    for imported in imports_of(syntax, module, path.endswith("__init__.py")):
        if imported.inside and imported.line not in unexplained and not commented(lines, imported.line):
            unexplained.add(imported.line)
            yield Violation(path, imported.line, "an import inside a function needs a comment that says why")
        top = imported.names[-1].split(".")[0]
        if top in {"cache", "daemon", "kernels"}:
            yield Violation(path, imported.line, f"`{top}` is imported as `presk.{top}`")
        elif top == "presk":
            target = next((name for name in imported.names if name in project.modules), imported.names[-1])
            other = part_of(target, project.parts)
            if other is None:
                yield Violation(path, imported.line, f"{target} is in no part")
            elif other.name not in allowed and not (imported.inside and other.name in part.deferred):
                yield Violation(path, imported.line, f"{part.name} must not import {other.name} ({target})")
        elif top not in sys.stdlib_module_names and normal_name(DISTRIBUTIONS.get(top, top)) not in project.declared:
            yield Violation(path, imported.line, f"`{top}` is not among the dependencies in pyproject.toml")


def commented(lines: list[str], line: int) -> bool:
    """Whether the statement at `line` (from 1) has a comment of words beside it or right above it."""
    beside = re.search(r"#(?!\s*(?:noqa|type:))\s*\S", lines[line - 1])
    return bool(beside) or (line >= 2 and lines[line - 2].lstrip().startswith("#"))


def normal_name(name: str) -> str:
    """A package's name as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def modules_of(root: Path) -> dict[str, Path]:
    """Every module of the project by its import name, as the `package-dir` table has it."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    table: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
    result = {}
    for package, folder in table.items():
        for path in sorted((root / folder).rglob("*.py")):
            inner = path.relative_to(root / folder).with_suffix("").parts
            result[".".join([package, *(inner[:-1] if inner[-1] == "__init__" else inner)])] = path
    return result


def declared_of(root: Path) -> frozenset[str]:
    """The distributions that the package depends on, extras among them."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    requirements = [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
    return frozenset(normal_name(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in requirements)


def violations(root: Path = ROOT) -> list[Violation]:
    """All violations in the tree at `root`."""
    modules = modules_of(root)
    project = Project(frozenset(modules), declared_of(root), PARTS)
    result: list[Violation] = []
    for module, path in modules.items():
        result += check_module(path.relative_to(root).as_posix(), module, path.read_text("utf-8"), project)
    return result


def main() -> int:
    """Prints the violations; 1 if there is one."""
    found = violations()
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
