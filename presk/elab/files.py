"""Loading a program: the main file and everything it imports, each file once.

A file is known by its *identity*, its path relative to the folder of the main file, links resolved, with slashes. So a program
means the same wherever its folder lies, and one file under two spellings is one file.

Files are read through a `SourceReader`, once each. What was looked for and is not there is remembered too.
"""

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from presk.cache.stage import Queries, Result
from presk.diagnostics.value import Diagnostic, Label, Place, located
from presk.elab.cycles import MAX_LABELS, shown_cycle
from presk.elab.data import LENGTH_BYTES, header_size
from presk.elab.parsing import PARSE_FILE, ParsedFile
from presk.elab.references import REFERENCES, ImportMention
from presk.elab.tokenizing import PLACES, TOKENS
from presk.syntax.tokens import FileTokens, TokenTable


class DataReader(Protocol):
    """Where the heads of data files come from."""

    def resolve(self, importer: str, written: str) -> str:
        """The identity of the file that a path, written in the file `importer`, means; whether or not it exists."""

    def head(self, file: str) -> bytes | str | None:
        """A data file's first bytes with its whole header; why it cannot be read; None if there is no such file."""


class SourceReader(DataReader, Protocol):
    """Where the bytes of files come from."""

    def read(self, file: str) -> bytes | str:
        """The file's bytes, or a few words on why there are none. Equal answers for equal questions."""


class FolderReader:
    """Files of the disk. A reader serves one request: it reads every file once.

    A name that is not UTF-8 has an identity in which its bytes are escaped.
    """

    def __init__(self, main: Path) -> None:
        self._folder, name = os.path.split(os.path.realpath(main))
        self._paths: dict[str, str] = {}
        self._read: dict[str, bytes | str] = {}
        self._heads: dict[str, bytes | str | None] = {}
        self.main = self._identity(name)

    def path(self, file: str) -> str:
        """Where on the disk the file of an identity lies."""
        return os.path.normpath(os.path.join(self._folder, self._paths.get(file, file)))

    def resolve(self, importer: str, written: str) -> str:
        """See `SourceReader`. Links are followed as far as they lead."""
        path = os.path.join(self._folder, os.path.dirname(self._paths.get(importer, importer)), written)
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):  # a NUL in the path; no such file can exist
            return posixpath.normpath(posixpath.join(posixpath.dirname(importer), written))
        return self._identity(os.path.relpath(real, self._folder).replace(os.sep, "/"))

    def _identity(self, path: str) -> str:
        try:
            path.encode()
        except UnicodeEncodeError:
            identity = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            self._paths[identity] = path
            return identity
        return path

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


class ImportEdge(msgspec.Struct, frozen=True, array_like=True):
    """An import of a file. `target` is None where the file cannot be read or the import closes a cycle."""

    alias: str
    file: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Text:
    """A file's bytes and tokens; its table of positions is made when somebody asks for it."""

    name: str
    queries: Queries
    source: Result[bytes]
    tokens: Result[FileTokens]

    @property
    def table(self) -> TokenTable:
        """Where the file's tokens stand."""
        return self.queries.get(PLACES, self.source, subject=self.name).value


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file of the program: what parsed of it, and whom it imports. `text` is None where positions play no part."""

    name: str
    parsed: ParsedFile
    imports: tuple[ImportEdge, ...]
    text: Text | None = None

    @property
    def table(self) -> TokenTable:
        """Where the file's tokens stand."""
        assert self.text is not None
        return self.text.table


class Files(Protocol):
    """The files of a program as elaboration takes them, and what is wrong with them already."""

    @property
    def main(self) -> str: ...
    @property
    def files(self) -> Mapping[str, LoadedFile]: ...
    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files of a program, imported ones before those that import them, the main file last.

    Nothing is decoded here but the imports: trees and positions are read when they are asked for. `data` are the paths of
    the data that the main file's training blocks name, `problems` E1002 and E1003.
    """

    main: str
    syntax: Mapping[str, Result[ParsedFile]]
    imports: Mapping[str, tuple[ImportEdge, ...]]
    texts: Mapping[str, Text]
    data: tuple[str, ...]
    problems: tuple[Diagnostic, ...]

    @property
    def files(self) -> Mapping[str, LoadedFile]:
        """The files with their trees."""
        return {
            name: LoadedFile(name, found.value, self.imports[name], self.texts[name])
            for name, found in self.syntax.items()
        }

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong with the imports, and the syntax errors of all files."""
        return (*self.problems, *syntax_errors((name, found.value) for name, found in self.syntax.items()))


def syntax_errors(files: Iterable[tuple[str, ParsedFile]]) -> Iterator[Diagnostic]:
    """The syntax errors of files by name, with the names filled in."""
    for name, parsed in files:
        for diagnostic in parsed.diagnostics:
            yield located(diagnostic, file=name, chunk="")  # the chunk is filled in already


def load(queries: Queries, reader: SourceReader, main: str) -> Loaded | str:
    """The program whose main file has this identity; a few words where the main file cannot be read."""
    source = reader.read(main)
    if isinstance(source, str):
        return source
    walk = _Walk(queries, reader)
    walk.run(main, source)
    return Loaded(main, walk.syntax, walk.imports, walk.texts, walk.data, tuple(walk.problems))


@dataclass(slots=True)
class _Visit:
    """A file on the way from the main file to the one that is looked at. `last` is the import that is followed."""

    name: str
    syntax: Result[ParsedFile]
    pending: list[ImportMention]
    last: ImportMention | None
    edges: list[ImportEdge]


class _Walk:
    """The depth-first walk over the imports, without recursion; a file is finished behind all that it imports."""

    def __init__(self, queries: Queries, reader: SourceReader) -> None:
        self._queries = queries
        self._reader = reader
        self._path: list[_Visit] = []
        self.syntax: dict[str, Result[ParsedFile]] = {}
        self.imports: dict[str, tuple[ImportEdge, ...]] = {}
        self.texts: dict[str, Text] = {}
        self.data: tuple[str, ...] = ()
        self.problems: list[Diagnostic] = []

    def run(self, main: str, source: bytes) -> None:
        self.data = self._enter(main, source)
        while self._path:
            visit = self._path[-1]
            if visit.pending:
                self._follow(visit, visit.pending.pop())
            else:
                self._path.pop()
                self.syntax[visit.name] = visit.syntax
                self.imports[visit.name] = tuple(visit.edges)

    def _enter(self, name: str, source: bytes) -> tuple[str, ...]:
        """Begins with a file; gives the paths of its data."""
        queries = self._queries
        given = queries.bytes("source", source)
        tokens = queries.get(TOKENS, given, subject=name)
        syntax = queries.get(PARSE_FILE, tokens, subject=name)
        references = queries.get(REFERENCES, syntax, subject=name).value
        self.texts[name] = Text(name, queries, given, tokens)
        self._path.append(_Visit(name, syntax, list(references.imports[::-1]), None, []))
        return references.data

    def _follow(self, visit: _Visit, mention: ImportMention) -> None:
        node = mention.node
        file = self._reader.resolve(visit.name, node.path)
        target: str | None = file
        position = next((i for i, earlier in enumerate(self._path) if earlier.name == file), None)
        source: bytes | str = b""
        visit.last = mention
        if position is not None:
            self._report_cycle(position, mention)
            target = None
        elif file not in self.syntax:
            source = self._reader.read(file)
            if isinstance(source, str):
                self._report_missing(visit.name, mention, source)
                target = None
        visit.edges.append(ImportEdge(node.alias, file, target))
        if target is not None and file not in self.syntax and isinstance(source, bytes):
            self._enter(file, source)

    def _report_missing(self, name: str, mention: ImportMention, why: str) -> None:
        node = mention.node
        self.problems.append(
            Diagnostic(
                "E1002",
                f"the file `{node.path}` cannot be imported: {why}",
                Label(_path_place(name, mention), "imported here"),
                notes=("the path of an import is relative to the file that it stands in",),
            )
        )

    def _report_cycle(self, position: int, mention: ImportMention) -> None:
        ring = self._path[position:]
        labels = []
        for visit, following in zip(ring[:-1][:MAX_LABELS], ring[1:], strict=False):
            assert visit.last is not None  # it was followed to get here
            place = _path_place(visit.name, visit.last)
            labels.append(Label(place, f"`{visit.name}` imports `{following.name}`"))
        self.problems.append(
            Diagnostic(
                "E1003",
                f"imports form a cycle: {shown_cycle([visit.name for visit in ring])}",
                Label(_path_place(ring[-1].name, mention), "this import closes the cycle"),
                tuple(labels),
                mend="move what both files need to a third one",
            )
        )


def _path_place(file: str, mention: ImportMention) -> Place:
    at = mention.node.path_at
    return Place(at, at, mention.key, file)
