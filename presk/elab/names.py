"""The names that a file declares: one table, in which every name stands once (E1012)."""

from collections.abc import Mapping
from dataclasses import dataclass

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic, Place, located
from presk.elab.files import LoadedFile
from presk.syntax import tree

Named = tree.Import | tree.Const | tree.DimDecl | tree.TypeAlias | tree.Model | tree.Module | tree.Fn


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration by its name; `index` is its position in the file."""

    name: str
    index: int
    key: str
    node: Named

    @property
    def what(self) -> str:
        """What kind of thing it declares, for messages."""
        match self.node:
            case tree.Import():
                return "an imported file"
            case tree.Const():
                return "a constant"
            case tree.DimDecl():
                return "a dimension"
            case tree.TypeAlias():
                return "a type alias"
            case tree.Model() | tree.Module():
                return "a module"
            case tree.Fn():
                return "a function"

    def place(self, file: str) -> Place:
        """The name in its declaration."""
        at = _name_at(self.node)
        return Place(at, at, self.key, file)


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of a file.

    `unparsed` are names whose declaration did not parse: what they are is not known, using one is no further error.
    `members` are, by module, the names of members that did not parse. `repeated` are the keys of declarations whose name
    stands already. `lost_import` says that an import did not parse far enough for its alias to be known: then an unknown
    alias is no further error.
    """

    declared: Mapping[str, Declared]
    unparsed: frozenset[str]
    members: Mapping[str, tuple[str, ...]]
    repeated: frozenset[str]
    lost_import: bool
    diagnostics: tuple[Diagnostic, ...]


def file_names(file: LoadedFile) -> FileNames:
    """The table of a file's names."""
    declared: dict[str, Declared] = {}
    repeated: set[str] = set()
    diagnostics: list[Diagnostic] = []
    for index, chunk in enumerate(file.parsed.file.declarations):
        node = chunk.declaration
        if isinstance(node, tree.StaticAssert | tree.Effect | tree.Block):
            continue
        name = node.alias if isinstance(node, tree.Import) else node.name
        first = declared.get(name)
        if first is None:
            declared[name] = Declared(name, index, chunk.key, node)
            continue
        repeated.add(chunk.key)
        reporter = Reporter()
        at = _name_at(node)
        reporter.report(
            "E1012",
            (at, at),
            f"the name `{name}` is declared twice",
            text="again here",
            labels=[(first.place(file.name), f"first here, as {first.what}")],
        )
        diagnostics.extend(located(one, file=file.name, chunk=chunk.key) for one in reporter.diagnostics())
    unparsed: set[str] = set()
    members: dict[str, list[str]] = {}
    lost_import = False
    for failed in file.parsed.failed:
        module, separator, _ = failed.key.partition("/")
        if separator:
            members.setdefault(module.removeprefix("module "), []).extend(failed.names)
        else:
            unparsed.update(failed.names)
            lost_import = lost_import or (not failed.names and failed.first == "import")
    return FileNames(
        declared,
        frozenset(unparsed.difference(declared)),
        {name: tuple(found) for name, found in members.items()},
        frozenset(repeated),
        lost_import,
        tuple(diagnostics),
    )


def _name_at(node: Named) -> int:
    return node.alias_at if isinstance(node, tree.Import) else node.name_at
