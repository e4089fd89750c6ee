"""Fingerprints: what code an answer was made by.

The fingerprint of a stage is the digest of

* the source of its module and of every module of the project that this reaches by import, wherever the import stands,
* the data files that those modules declare (``FINGERPRINT_FILES``),
* the identities (versions) of the packages that the stage declares, and of those that encode values,
* the version of Python.

So editing the compiler can never give a stale answer, and editing a module leaves the answers of the stages that do
not reach it. A package's ``__init__`` runs when a module in it is imported, so it is reached too.

All sources are read and hashed when this object is made: 60 modules of 30 kB take 2 ms, so no shortcut by file times
is taken here. Parsing them takes 400 ms; the imports found are therefore remembered by the digest of the source
(``remembered``), which the engine keeps in the store.
"""

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from presk.cache.canonical import encode_plain
from presk.cache.digest import Digest, value_digest
from presk.cache.file_digests import FileDigests
from presk.cache.imports import Imports, scan_imports
from presk.cache.packages import Packages
from presk.cache.project import Modules, discover_project
from presk.cache.stage import FingerprintError

ENCODING_PACKAGES: Final = ("gmpy2", "msgspec")
"""What values are encoded with; part of every fingerprint."""

ABSENT: Final = "absent"


class Fingerprint(Struct, frozen=True):
    """The fingerprint of one stage.

    ``parts`` is the canonical encoding of its (label, identity) pairs, by which an explanation names the module that
    differs; ``reach`` holds the project's modules that were followed, ``outside`` the imported top-level names that
    are neither the project's nor the standard library's.
    """

    digest: Digest
    parts: bytes
    reach: frozenset[str]
    outside: frozenset[str]


class _Surveyed(NamedTuple):
    """One module: its (label, identity) parts, the project's modules that it imports, other top-level names."""

    parts: Mapping[str, str | Digest]
    imports: frozenset[str]
    outside: frozenset[str]


class Fingerprints:
    """Fingerprints of the stages of one project, as its sources are when this is made.

    ``project`` maps import names to folders; without it the project's own packages are found through the import
    system. An instance may be given to several engines; it holds nothing but what it read.
    """

    def __init__(
        self,
        project: Mapping[str, Path] | None = None,
        packages: Packages | None = None,
        files: FileDigests | None = None,
    ) -> None:
        self._modules: Final = Modules(discover_project() if project is None else project)
        self._packages: Final = Packages() if packages is None else packages
        self._files: Final = FileDigests() if files is None else files
        self._lock: Final = threading.RLock()
        self._read: dict[str, Digest] = {}
        self._unparsed: dict[str, bytes] = {}
        self._sources: dict[str, tuple[Digest, Imports]] = {}
        self._imports: dict[Digest, Imports] = {}
        self._unsaved = False
        self._surveyed: dict[str, _Surveyed] = {}
        self._made: dict[tuple[str, tuple[str, ...]], Fingerprint] = {}
        self._read_project()

    def of(self, module: str, packages: tuple[str, ...]) -> Fingerprint:
        """The fingerprint of a stage in ``module``; ``FingerprintError`` where its code cannot be determined."""
        with self._lock:
            made = self._made.get((module, packages))
            if made is None:
                made = self._made[module, packages] = self._make(module, packages)
            return made

    def files(self, reach: frozenset[str]) -> tuple[str, ...]:
        """The source and data files of these modules; they were reached by a fingerprint made before."""
        paths = {name: path for name in reach if (path := self._modules.path(name)) is not None}
        declared = (
            os.path.join(os.path.dirname(path), file)
            for name, path in paths.items()
            for file in self._source(name, path)[1].files
        )
        return tuple(sorted({*paths.values(), *declared}))

    def changed(self) -> tuple[str, ...]:
        """The files that differ from what was read: a process that sees any runs old code, and should be replaced."""
        with self._lock:
            return tuple(path for path, digest in sorted(self._read.items()) if self._files.digest(path) != digest)

    def remember(self, data: bytes) -> None:
        """Takes over the imports that ``remembered`` gave, in an earlier process; ``ValueError`` for damaged bytes."""
        known = _DECODER.decode(data)
        with self._lock:
            self._imports.update(known)

    def remembered(self) -> bytes | None:
        """The imports by digest of source that were used here, if any was parsed that ``remember`` did not bring."""
        with self._lock:
            if not self._unsaved:
                return None
            self._unsaved = False
            return _ENCODER.encode(tuple(self._sources.values()))

    def _make(self, module: str, packages: tuple[str, ...]) -> Fingerprint:
        if module not in self._modules:
            raise FingerprintError(f"the module {module} is not in the project ({', '.join(self._modules.roots)})")
        parts: dict[str, object] = {"python": f"{sys.implementation.name} {sys.version}"}
        for package in (*ENCODING_PACKAGES, *packages):
            parts[f"package {package}"] = self._packages.identity(package)
        outside: set[str] = set()
        reach: set[str] = set()
        # The packages around the module run before it does.
        pending = set(self._modules.resolve(module, 0, module, ()))
        while pending:
            name = pending.pop()
            reach.add(name)
            surveyed = self._survey(name)
            parts.update(surveyed.parts)
            outside |= surveyed.outside
            pending |= surveyed.imports - reach
        data = encode_plain(sorted(parts.items()))
        return Fingerprint(value_digest(data), data, frozenset(reach), frozenset(outside - sys.stdlib_module_names))

    def _survey(self, name: str) -> "_Surveyed":
        """What one module of the project adds to a fingerprint."""
        surveyed = self._surveyed.get(name)
        if surveyed is None:
            surveyed = self._surveyed[name] = self._make_survey(name)
        return surveyed

    def _make_survey(self, name: str) -> "_Surveyed":
        path = self._modules.path(name)
        if path is None:
            what = "folder" if name in self._modules else ABSENT
            return _Surveyed({f"module {name}": what}, frozenset(), frozenset())
        digest, imports = self._source(name, path)
        parts: dict[str, str | Digest] = {f"module {name}": digest}
        folder = os.path.dirname(path)
        for file in imports.files:
            parts[f"file {name}:{file}"] = self._file_digest(name, os.path.join(folder, file))
        imported = {
            found
            for level, module, names in imports.statements
            for found in self._modules.resolve(name, level, module, names)
        }
        own = frozenset(found for found in imported if self._modules.owns(found))
        return _Surveyed(parts, own, frozenset(found.partition(".")[0] for found in imported - own))

    def _source(self, name: str, path: str) -> tuple[Digest, Imports]:
        known = self._sources.get(name)
        if known is None:
            if path not in self._read:
                self._read_source(name, path)
            digest, data = self._read[path], self._unparsed.pop(path, None)
            imports = self._imports.get(digest)
            if imports is None:
                if data is None:
                    raise FingerprintError(f"{path} was read and not kept")
                imports = self._imports[digest] = scan_imports(data)
                self._unsaved = True
            known = self._sources[name] = digest, imports
        if known[1].problem:
            raise FingerprintError(f"{path}: {known[1].problem}")
        return known

    def _read_project(self) -> None:
        """Reads all modules at once, as early as possible: what is edited later is not what this process runs."""
        for path in self._modules.paths():
            with suppress(FingerprintError):  # unreadable or gone: an error only if a stage reaches it
                self._read_source("", path)

    def _read_source(self, name: str, path: str) -> None:
        try:
            self._unparsed[path], self._read[path] = self._files.read(path)
        except OSError as error:
            raise FingerprintError(f"the module {name} needs {path}: {error.strerror}") from error

    def _file_digest(self, name: str, path: str) -> Digest:
        """The digest of a data file, as it was when it was first needed."""
        if path not in self._read:
            self._read_source(name, path)
            del self._unparsed[path]
        return self._read[path]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[tuple[Digest, Imports], ...])
