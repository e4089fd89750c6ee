"""Loading a program: the main file and everything it imports, each file once.

A file is known by its *identity*, its path relative to the folder of the main file, links resolved, with slashes. So a program
means the same wherever its folder lies, and one file under two spellings is one file.

Files are read through a `SourceReader`, once each. What was looked for and is not there is remembered too.
"""

import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from presk.cache.stage import Queries
from presk.diagnostics.value import Diagnostic, Label, Place, located
from presk.elab.cycles import MAX_LABELS, shown_cycle
from presk.elab.data import LENGTH_BYTES, header_size
from presk.elab.parsing import FILE_TOKENS, PARSE_FILE, ParsedFile
from presk.elab.tokenizing import TOKENS
from presk.syntax import tree
from presk.syntax.tokens import Chunk, FileTokens, TokenTable


class SourceReader(Protocol):
    """Where the bytes of files come from."""

    def resolve(self, importer: str, written: str) -> str:
        """The identity of the file that a path, written in the file `importer`, means; whether or not it exists."""

    def read(self, file: str) -> bytes | str:
        """The file's bytes, or a few words on why there are none. Equal answers for equal questions."""

    def head(self, file: str) -> bytes | str | None:
        """A data file's first bytes with its whole header; why it cannot be read; None if there is no such file."""


class FolderReader:
    """Files of the disk. A reader serves one request: it reads every file once."""

    def __init__(self, main: Path) -> None:
        real = os.path.realpath(main)
        self._folder, self.main = os.path.split(real)
        self._read: dict[str, bytes | str] = {}
        self._heads: dict[str, bytes | str | None] = {}

    def path(self, file: str) -> str:
        """Where on the disk the file of an identity lies."""
        return os.path.normpath(os.path.join(self._folder, file))

    def resolve(self, importer: str, written: str) -> str:
        """See `SourceReader`. Links are followed as far as they lead."""
        path = os.path.join(self._folder, os.path.dirname(importer), written)
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):  # a NUL or a lone surrogate in the path; no such file can exist
            return posixpath.normpath(posixpath.join(posixpath.dirname(importer), written))
        return os.path.relpath(real, self._folder).replace(os.sep, "/")

    def read(self, file: str) -> bytes | str:
        """See `SourceReader`."""
        if file not in self._read:
            try:
                with open(_regular(self.path(file)), "rb") as source:
                    self._read[file] = source.read()
            except (OSError, ValueError) as error:
                self._read[file] = _reason(error)
        return self._read[file]

    def head(self, file: str) -> bytes | str | None:
        """See `SourceReader`."""
        if file not in self._heads:
            try:
                with open(_regular(self.path(file)), "rb") as source:
                    start = source.read(LENGTH_BYTES)
                    self._heads[file] = start + source.read(header_size(start) or 0)
            except FileNotFoundError:
                self._heads[file] = None
            except (OSError, ValueError) as error:
                self._heads[file] = _reason(error)
        return self._heads[file]


def _regular(path: str) -> str:
    """The path, if a regular file or a folder lies there: opening a pipe or a device could wait for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError("not a regular file")
    return path


def _reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, in words that depend on nothing but the kind of error."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such file"
        case IsADirectoryError():
            return "it is a folder"
        case PermissionError():
            return "it may not be read"
        case ValueError():
            return "its name is not a file name"
        case _:
            return "it cannot be read"


class GivenFiles:
    """Files that are given as values, by identity."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def resolve(self, importer: str, written: str) -> str:
        """See `SourceReader`."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(importer), written))

    def read(self, file: str) -> bytes | str:
        """See `SourceReader`."""
        return self._files.get(file, "there is no such file")

    def head(self, file: str) -> bytes | str | None:
        """See `SourceReader`."""
        return self._files.get(file)


@dataclass(frozen=True, slots=True)
class ImportEdge:
    """An import of a file. `target` is None where the file cannot be read or the import closes a cycle."""

    alias: str
    key: str
    node: tree.Import
    file: str
    target: str | None


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file of the program: what parsed of it, its tokens and their positions."""

    name: str
    source: bytes
    parsed: ParsedFile
    tokens: FileTokens
    table: TokenTable
    imports: tuple[ImportEdge, ...]

    def unparsed(self) -> tuple[Chunk, ...]:
        """The chunks that gave no tree."""
        failed = frozenset(self.parsed.failed)
        return tuple(chunk for chunk in self.tokens.chunks() if chunk.key in failed) if failed else ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files of a program, imported ones before those that import them, the main file last; E0xxx, E1002, E1003."""

    main: str
    files: Mapping[str, LoadedFile]
    diagnostics: tuple[Diagnostic, ...]


def load(queries: Queries, reader: SourceReader, main: str) -> Loaded | str:
    """The program whose main file has this identity; a few words where the main file cannot be read."""
    source = reader.read(main)
    if isinstance(source, str):
        return source
    walk = _Walk(queries, reader)
    walk.run(main, source)
    return Loaded(main, walk.files, tuple(walk.diagnostics))


@dataclass(slots=True)
class _Visit:
    """A file on the way from the main file to the one that is looked at."""

    name: str
    source: bytes
    parsed: ParsedFile
    tokens: FileTokens
    table: TokenTable
    pending: list[tuple[str, tree.Import]]
    edges: list[ImportEdge]


class _Walk:
    """The depth-first walk over the imports, without recursion; a file is finished behind all that it imports."""

    def __init__(self, queries: Queries, reader: SourceReader) -> None:
        self._queries = queries
        self._reader = reader
        self._path: list[_Visit] = []
        self.files: dict[str, LoadedFile] = {}
        self.diagnostics: list[Diagnostic] = []

    def run(self, main: str, source: bytes) -> None:
        self._enter(main, source)
        while self._path:
            visit = self._path[-1]
            if visit.pending:
                self._follow(visit, *visit.pending.pop())
            else:
                self._path.pop()
                self.files[visit.name] = LoadedFile(
                    visit.name, visit.source, visit.parsed, visit.tokens, visit.table, tuple(visit.edges)
                )

    def _enter(self, name: str, source: bytes) -> None:
        queries = self._queries
        tokens = queries.get(TOKENS, queries.bytes("source", source), subject=name).value
        parsed = queries.get(PARSE_FILE, queries.leaf("tokens", tokens.file, FILE_TOKENS), subject=name).value
        self.diagnostics.extend(_in_file(diagnostic, name) for diagnostic in parsed.diagnostics)
        imports = [
            (chunk.key, chunk.declaration)
            for chunk in parsed.file.declarations
            if isinstance(chunk.declaration, tree.Import)
        ]
        self._path.append(_Visit(name, source, parsed, tokens.file, tokens.table, imports[::-1], []))

    def _follow(self, visit: _Visit, key: str, node: tree.Import) -> None:
        file = self._reader.resolve(visit.name, node.path)
        target: str | None = file
        position = next((i for i, earlier in enumerate(self._path) if earlier.name == file), None)
        source: bytes | str = b""
        if position is not None:
            self._report_cycle(position, key, node)
            target = None
        elif file not in self.files:
            source = self._reader.read(file)
            if isinstance(source, str):
                self._report_missing(visit.name, key, node, source)
                target = None
        visit.edges.append(ImportEdge(node.alias, key, node, file, target))
        if target is not None and file not in self.files and isinstance(source, bytes):
            self._enter(file, source)

    def _report_missing(self, name: str, key: str, node: tree.Import, why: str) -> None:
        place = Place(node.path_at, node.path_at, key, name)
        self.diagnostics.append(
            Diagnostic(
                "E1002",
                f"the file `{node.path}` cannot be imported: {why}",
                Label(place, "imported here"),
                notes=("the path of an import is relative to the file that it stands in",),
            )
        )

    def _report_cycle(self, position: int, key: str, node: tree.Import) -> None:
        ring = self._path[position:]
        names = [visit.name for visit in ring]
        labels = []
        for visit in ring[:-1][:MAX_LABELS]:
            edge = visit.edges[-1]
            place = Place(edge.node.path_at, edge.node.path_at, edge.key, visit.name)
            labels.append(Label(place, f"`{visit.name}` imports `{edge.file}`"))
        self.diagnostics.append(
            Diagnostic(
                "E1003",
                f"imports form a cycle: {shown_cycle(names)}",
                Label(Place(node.path_at, node.path_at, key, names[-1]), "this import closes the cycle"),
                tuple(labels),
                mend="move what both files need to a third one",
            )
        )


def _in_file(diagnostic: Diagnostic, file: str) -> Diagnostic:
    """A syntax error with its file's name; the chunk is filled in already."""
    return located(diagnostic, file=file, chunk="")
