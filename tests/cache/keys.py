"""Checks that every ingredient of a stage's key counts: each is flipped, dropped and moved, and each time the key must differ.

`assert_every_ingredient_counts(stage, inputs, options)` works for any stage: inputs are results of an engine, options the values
that the stage is asked with. Nothing is computed; stand-ins take the place of inputs, since a key knows an input by its
parameter, its encoding and its digest. `undeclared_packages(stage)` tells which packages its key should hold besides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from presk.cache.canonical import canonical
from presk.cache.digest import Digest
from presk.cache.file_digests import FileDigests
from presk.cache.fingerprint import ENCODING_PACKAGES, Fingerprint, Fingerprints
from presk.cache.handles import Group, Handle
from presk.cache.keys import Prepared
from presk.cache.packages import Packages
from presk.cache.stage import Result, Stage

MakeKey = Callable[[Prepared[Any], tuple[str, ...], tuple[Handle[Any], ...], Mapping[str, object]], Digest]
"""How a key is made; `Prepared.key`, or a wrong one that a test of this module tries."""

OTHER_VALUES: Final = (None, False, True, 0, 1, 0.0, -0.0, 1.0, "", "1", b"", b"1", (), (1,))


class StandIn(Handle[Any]):
    """An input of which there is only what a key sees."""

    @property
    def value(self) -> object:
        raise AssertionError("a key was made from a value")


class Renamed:
    """A codec under another name."""

    def __init__(self, codec: Any) -> None:
        self.name: Final = codec.name + "x"
        self.weight: Final = codec.weight
        self.encode: Final = codec.encode
        self.decode: Final = codec.decode


class KnownFiles(FileDigests):
    """Reads every file once, and one of them as if it had been edited."""

    def __init__(self, known: dict[str, tuple[bytes, Digest]], edited: str = "") -> None:
        super().__init__()
        self._contents = known
        self._edited = edited

    def read(self, path: str) -> tuple[bytes, Digest]:
        if path not in self._contents:
            self._contents[path] = super().read(path)
        data, digest = self._contents[path]
        return data, flipped(digest) if path == self._edited else digest


class Sources:
    """Makes fingerprints of one project as it is, or with a change, reading and parsing each source once."""

    def __init__(self, project: Mapping[str, Path] | None) -> None:
        self._project = project
        self._known: dict[str, tuple[bytes, Digest]] = {}
        self._imports: bytes | None = None

    def of(self, stage: Stage[Any], edited: str = "", packages: Packages | None = None) -> Fingerprint:
        fingerprints = self._make(edited, packages)
        made = fingerprints.of(stage.module, stage.packages)
        if not edited and packages is None:
            self._imports = fingerprints.remembered() or self._imports
        return made

    def files(self, stage: Stage[Any]) -> tuple[str, ...]:
        """The files that the stage reaches."""
        return self._make("", None).files(self.of(stage).reach)

    def _make(self, edited: str, packages: Packages | None) -> Fingerprints:
        fingerprints = Fingerprints(self._project, packages, KnownFiles(self._known, edited))
        if self._imports is not None:
            fingerprints.remember(self._imports)
        return fingerprints


def flipped(digest: Digest) -> Digest:
    """A digest that differs in its last bit."""
    return Digest(digest[:-1] + bytes([digest[-1] ^ 1]))


def assert_every_ingredient_counts(
    stage: Stage[Any],
    inputs: Sequence[Result[Any]],
    options: Mapping[str, object] = MappingProxyType({}),
    *,
    project: Mapping[str, Path] | None = None,
    make_key: MakeKey = Prepared.key,
) -> int:
    """Raises AssertionError naming the first ingredient that does not count; returns how many changes were tried."""
    handles = tuple(held for held in inputs if isinstance(held, Handle))
    assert len(handles) == len(inputs), "an input is a result of an engine"
    sources = Sources(project)
    seen = {_key(stage, handles, options, sources.of(stage), make_key): "nothing"}
    assert _key(stage, handles, options, Sources(project).of(stage), make_key) in seen, "the key is not the same twice"
    for name, key in flips(stage, handles, options, sources, make_key):
        assert key not in seen, f"stage {stage.name}: {name} gives the same key as {seen[key]}"
        seen[key] = name
    return len(seen) - 1


def flips(
    stage: Stage[Any],
    handles: tuple[Handle[Any], ...],
    options: Mapping[str, object],
    sources: Sources,
    make_key: MakeKey,
) -> Iterator[tuple[str, Digest]]:
    """What was changed, and the key then."""
    fingerprint = sources.of(stage)

    def key(stage=stage, handles=handles, options=options, fingerprint=fingerprint):
        return _key(stage, handles, options, fingerprint, make_key)

    yield "the stage's name", key(stage=replace(stage, name=stage.name + "x"))
    yield "the encoding of the value", key(stage=replace(stage, codec=Renamed(stage.codec)))
    for path in sources.files(stage):
        yield f"the file {path}", key(fingerprint=sources.of(stage, path))
    for package in (*ENCODING_PACKAGES, *stage.packages):
        other = Packages({package: lambda: "another version"})
        yield f"the package {package}", key(fingerprint=sources.of(stage, "", other))
    more = replace(stage, packages=(*stage.packages, "no-such-package"))
    yield "a package that is declared", key(fingerprint=sources.of(more))
    for at, held in enumerate(handles):
        for what, flip in _input_flips(held):
            yield f"input {at}: {what}", key(handles=(*handles[:at], flip, *handles[at + 1 :]))
    for at in range(len(handles) - 1):
        a, b = handles[at], handles[at + 1]
        if (a.digest, a.codec_name) != (b.digest, b.codec_name):
            yield f"inputs {at} and {at + 1} exchanged", key(handles=(*handles[:at], b, a, *handles[at + 2 :]))
    for name in stage.options:
        value = options.get(name)
        for another in OTHER_VALUES:
            if canonical(another) != canonical(value):
                yield f"option {name}: {another!r}", key(options={**options, name: another})


def _input_flips(held: Handle[Any]) -> Iterator[tuple[str, Handle[Any]]]:
    yield "its digest", StandIn(held.engine, flipped(held.digest), held.codec_name)
    yield "its encoding", StandIn(held.engine, held.digest, held.codec_name + "x")
    if isinstance(held, Group):
        for name, entry in held.entries.items():
            rest = {other: kept for other, kept in held.entries.items() if other != name}
            yield f"without entry {name}", Group(held.engine, held.name, rest)
            yield f"entry {name} renamed", Group(held.engine, held.name, {**rest, name + "x": entry})
            for what, other in _input_flips(entry):
                yield f"entry {name}: {what}", Group(held.engine, held.name, {**rest, name: other})


def _key(
    stage: Stage[Any],
    handles: tuple[Handle[Any], ...],
    options: Mapping[str, object],
    fingerprint: Fingerprint,
    make_key: MakeKey,
) -> Digest:
    prepared = Prepared(stage, fingerprint)
    return make_key(prepared, prepared.names(handles), handles, prepared.complete(options))


def undeclared_packages(stage: Stage[Any], project: Mapping[str, Path] | None = None) -> set[str]:
    """The third-party packages that the stage's code imports and that its key does not hold, by import name."""
    outside = Fingerprints(project).of(stage.module, stage.packages).outside
    return {name for name in outside if name not in (*ENCODING_PACKAGES, *stage.packages)}
