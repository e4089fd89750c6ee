"""Checking a program: files are loaded, elaborated and typed through the engine; the result speaks for rendering too.

This is the one place that joins elaboration with typing; every command that works on programs begins here.

What a check says is the answer of one composite stage, so that a program of which nothing changed is read and looked up, and
nothing of it is decoded. Who wants more than the diagnostics (types, records, the reasons of stages) asks for the program
itself, which is put together from the answers of the single declarations.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from presk.analysis import Look, analyse
from presk.cache.codec import TEXT, struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.diagnostics.order import ordered
from presk.diagnostics.sources import Span
from presk.diagnostics.value import Diagnostic, Place, Severity
from presk.elab import codecs
from presk.elab.data import DataFile, data_file
from presk.elab.files import DataReader, Files, ImportEdge, Loaded, LoadedFile, SourceReader, load, syntax_errors
from presk.elab.parsing import ParsedFile
from presk.elab.program import Options, Program, elaborate_program
from presk.prims.table import BUILTINS
from presk.syntax.tokens import TokenTable
from presk.types.dim import Dim
from presk.typing.stage import TYPING

_IMPLIED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: row.form.constants for name, row in BUILTINS.items() if row.form.constants}
)
_NAMES: Final = (*BUILTINS, "grad")

FileImports = tuple[tuple[str, tuple[ImportEdge, ...]], ...]
"""Where the imports of each file lead, imported files before those that import them."""

IMPORTS: Final = struct_codec(FileImports, "imports of files")
OVERRIDES: Final = struct_codec(tuple[tuple[str, Dim], ...], "overrides")


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """What is said of a program whose files could be loaded, in no order, and the overrides of names that the main file does not
    declare as constants."""

    diagnostics: tuple[Diagnostic, ...]
    unknown_overrides: tuple[str, ...]


class _GivenHeads:
    """The heads of data files that are inputs, by the path as written."""

    def __init__(self, files: Mapping[str, DataFile]) -> None:
        self._files = files

    def resolve(self, importer: str, written: str) -> str:
        """See `DataReader`: only the main file has training blocks that count."""
        return written

    def head(self, file: str) -> bytes | str | None:
        """See `DataReader`."""
        found = self._files[file]
        return found.head if found.problem is None else found.problem


@dataclass(frozen=True, slots=True)
class _GivenFiles:
    """The files of a program that are inputs (`presk.elab.files.Files`)."""

    main: str
    files: Mapping[str, LoadedFile]
    diagnostics: tuple[Diagnostic, ...]


def _check(
    queries: Queries,
    main: Result[str],
    files: Result[Mapping[str, ParsedFile]],
    imports: Result[FileImports],
    overrides: Result[tuple[tuple[str, Dim], ...]],
    data: Result[Mapping[str, DataFile]],
) -> Verdict:
    parsed = [(name, files.value[name], edges) for name, edges in imports.value]
    given = _GivenFiles(
        main.value,
        {name: LoadedFile(name, tree, edges) for name, tree, edges in parsed},
        tuple(syntax_errors((name, tree) for name, tree, _ in parsed)),
    )
    program = _elaborated(queries, given, _GivenHeads(data.value), dict(overrides.value))
    # An import without a file is reported outside, and leaves no less of a hole in the program than other errors.
    whole = all(edge.target is not None for _, _, edges in parsed for edge in edges)
    found = _analysed(queries, program) if whole else ()
    return Verdict(tuple(dict.fromkeys((*program.diagnostics, *found))), program.unknown_overrides)


def _analysed(queries: Queries, program: Program, look: Look | None = None) -> tuple[Diagnostic, ...]:
    """What effects, regularity and gradients add, once there is no error."""
    if program.failed:
        return ()
    return analyse(queries, program) if look is None else analyse(queries, program, look)


def _elaborated(queries: Queries, files: Files, reader: DataReader, overrides: Mapping[str, Dim]) -> Program:
    return elaborate_program(queries, files, reader, TYPING, Options(overrides, _IMPLIED, _NAMES))


CHECK: Final = Stage("check", __name__, (), _check, struct_codec(Verdict), codecs.PACKAGES, composite=True)


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked program: its files, and everything there is to say about it, in the order of the text.

    `unknown_overrides` are the overridden names that the main file does not declare as constants (E9003).
    """

    loaded: Loaded
    sources: "LoadedSources"
    diagnostics: tuple[Diagnostic, ...]
    unknown_overrides: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether there is an error (warnings are none)."""
        return any(one.severity is Severity.ERROR for one in self.diagnostics)


class LoadedSources:
    """The files of a program as renderers see them. `shown` is the main file as the user spelled it."""

    def __init__(self, loaded: Loaded, shown: str) -> None:
        self._loaded = loaded
        self._shown = shown
        self._folder = posixpath.dirname(shown)
        self._tables: dict[str, TokenTable] = {}

    def name(self, file: str) -> str:
        """The main file as spelled, others relative to that."""
        if file in ("", self._loaded.main):
            return self._shown
        return posixpath.normpath(posixpath.join(self._folder, file))

    def text(self, file: str) -> str | None:
        """The text of a file of the program."""
        known = self._loaded.texts.get(file or self._loaded.main)
        if known is None:
            return None
        return known.source.value.decode("utf-8", "replace").removeprefix("\ufeff")

    def resolve(self, place: Place) -> Span | None:
        """Where a place is."""
        file = place.file or self._loaded.main
        known = self._loaded.texts.get(file)
        if known is None:
            return None
        table = self._tables.get(file)
        if table is None:
            table = self._tables[file] = known.table
        return table.span(place)


def check(
    queries: Queries, reader: SourceReader, main: str, shown: str, overrides: Mapping[str, Dim] | None = None
) -> Checked | str:
    """Checks the program whose main file has the identity `main`; a few words where that file cannot be read."""
    loaded = load(queries, reader, main)
    if isinstance(loaded, str):
        return loaded
    data = {path: data_file(reader.head(reader.resolve(main, path))) for path in loaded.data}
    verdict = queries.get(
        CHECK,
        queries.leaf("main", main, TEXT),
        queries.group("files", loaded.syntax),
        queries.leaf("imports", tuple(loaded.imports.items()), IMPORTS),
        queries.leaf("overrides", tuple(sorted((overrides or {}).items())), OVERRIDES),
        queries.group("data", {path: queries.leaf("data file", file, codecs.DATA_FILE) for path, file in data.items()}),
        subject=main,
    ).value
    return _checked(loaded, shown, (*loaded.problems, *verdict.diagnostics), verdict.unknown_overrides)


def check_program(
    queries: Queries,
    reader: SourceReader,
    main: str,
    shown: str,
    overrides: Mapping[str, Dim] | None = None,
    look: Look | None = None,
) -> tuple[Checked, Program] | str:
    """As `check`, and what the program means: it is put together from the answers of its declarations. `look` is shown the core of a
    program without errors.
    """
    loaded = load(queries, reader, main)
    if isinstance(loaded, str):
        return loaded
    program = _elaborated(queries, loaded, reader, overrides or {})
    said = (*program.diagnostics, *_analysed(queries, program, look))
    return _checked(loaded, shown, said, program.unknown_overrides), program


def _checked(loaded: Loaded, shown: str, said: Iterable[Diagnostic], unknown_overrides: tuple[str, ...]) -> Checked:
    sources = LoadedSources(loaded, shown)
    return Checked(loaded, sources, ordered(said, sources, files=(loaded.main,)), unknown_overrides)
