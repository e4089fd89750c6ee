"""The keys of every stage of the compiler: each ingredient counts, none is missing, and nothing else is read."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import presk
from presk.cache.canonical import decanonical
from presk.cache.codec import BYTES, TEXT, Codec
from presk.cache.digest import value_digest
from presk.cache.fingerprint import ENCODING_PACKAGES, Fingerprints
from presk.cache.handles import Group, Handle, Leaf
from presk.cache.keys import Prepared
from presk.cache.packages import Packages
from presk.cache.project import Modules, discover_project
from presk.cache.stage import Stage, signature
from presk.stages import CODECS, STAGES
from presk.typing.stage import TYPING
from tests.cache.keys import MakeKey, Sources, flips, undeclared_packages
from tests.keys.recorded import Asked, fingerprints, questions, richest
from tests.tools.imports import DISTRIBUTIONS

NAMES: Final = [stage.name for stage in STAGES]


def stages_of_the_package() -> Iterator[tuple[str, Stage[Any]]]:
    """Every stage that a module of the package holds, with the module's name."""
    for found in pkgutil.walk_packages(presk.__path__, "presk."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, Stage):
                yield found.name, value


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_table_holds_every_stage_of_the_package() -> None:
    listed = set(map(id, STAGES))
    missing = {f"{module}: {stage.name}" for module, stage in stages_of_the_package() if id(stage) not in listed}
    assert missing == set()
    assert len(NAMES) == len(set(NAMES)) == len(listed)


def test_a_stage_says_where_it_lives() -> None:
    for stage in STAGES:
        module = importlib.import_module(stage.module)
        assert any(value is stage for value in vars(module).values()), stage.name
        assert stage.run.__module__ == stage.module, stage.name


def test_names_of_encodings_are_not_shared() -> None:
    every: list[Codec[Any]] = [BYTES, TEXT, *CODECS, *(stage.codec for stage in STAGES)]
    assert len({id(codec) for codec in every}) == len({codec.name for codec in every})


def test_every_input_can_be_decoded() -> None:
    """What `presk cache verify` needs to compute an answer again."""
    given: list[Codec[Any]] = [BYTES, TEXT, *CODECS]
    known = {codec.name for codec in (*given, *(stage.codec for stage in STAGES))}

    def leaves(held: Handle[Any]) -> Iterator[Handle[Any]]:
        if isinstance(held, Group):
            for entry in held.entries.values():
                yield from leaves(entry)
        else:
            yield held

    for asked in (asked for name in NAMES for asked in questions()[name]):
        for leaf in (leaf for held in asked.inputs for leaf in leaves(held)):
            assert leaf.codec_name in known, f"an input of {asked.stage.name} is encoded as {leaf.codec_name}"
            if isinstance(leaf, Leaf):
                codec: Codec[Any] = next(codec for codec in given if codec.name == leaf.codec_name)
                assert codec.encode(codec.decode(leaf.data)) == leaf.data


# --- ingredients ------------------------------------------------------------------------------------------------------


def own_file(stage: Stage[Any]) -> str:
    """The end of the path of the module that a stage lives in."""
    return "/".join(stage.module.split(".")[1:]) + ".py"


class SharedSources(Sources):
    """Fingerprints for many stages: each edit of a source is imagined once, and of some sources only.

    That a fingerprint holds every source that it reaches is another test, which costs nothing.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._made: dict[str, Fingerprints] = {}

    def files(self, stage: Stage[Any]) -> tuple[str, ...]:
        every = super().files(stage)
        return tuple(path for path in every if path.endswith(("elab/scope.py", "cache/codec.py", own_file(stage))))

    def _make(self, edited: str, packages: Packages | None) -> Fingerprints:
        if packages is not None or self._imports is None:
            return super()._make(edited, packages)
        made = self._made.get(edited)
        if made is None:
            made = self._made[edited] = super()._make(edited, None)
        return made


SOURCES: Final = SharedSources()


def idle(asked: Asked, make_key: MakeKey = Prepared.key) -> tuple[list[str], int]:
    """What can be changed of a question without another key coming of it, and how many changes were tried."""
    prepared = Prepared(asked.stage, SOURCES.of(asked.stage))
    seen = {make_key(prepared, prepared.names(asked.inputs), asked.inputs, prepared.complete(asked.options))}
    found: list[str] = []
    for change, key in flips(asked.stage, asked.inputs, asked.options, SOURCES, make_key):
        if key in seen:
            found.append(change)
        else:
            seen.add(key)
    return found, len(found) + len(seen) - 1


@pytest.mark.parametrize("stage", STAGES, ids=NAMES)
def test_every_ingredient_of_a_stages_key_counts(stage: Stage[Any]) -> None:
    asked = richest(stage)
    found, tried = idle(asked)
    assert found == []
    # Name, encoding, two packages of every stage and one that is new; each input's digest and encoding; two sources.
    assert tried >= 5 + 2 * len(asked.inputs) + 2
    assert len(asked.inputs) == len(signature(stage).inputs)


@pytest.mark.parametrize("stage", STAGES, ids=NAMES)
def test_a_fingerprint_holds_every_source_that_the_stage_reaches(stage: Stage[Any]) -> None:
    made = fingerprints().of(stage.module, stage.packages)
    parts = dict(decanonical(made.parts))
    assert made.digest == value_digest(made.parts)
    modules = Modules(discover_project())
    for name in made.reach:
        path = modules.path(name)
        held = parts.pop(f"module {name}")
        assert held == (value_digest(Path(path).read_bytes()) if path is not None else "folder"), name
    assert stage.module in made.reach
    assert len(made.reach) > 10
    packages = {label for label in parts if label.startswith("package ")}
    assert packages == {f"package {name}" for name in (*ENCODING_PACKAGES, *stage.packages)}
    assert len(packages) == len(ENCODING_PACKAGES) + len(stage.packages), "a package is declared twice"
    for label in parts.keys() - packages - {"python"}:
        assert label.startswith("file ")


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage.options], ids=lambda stage: stage.name)
def test_a_declared_option_is_given_whenever_a_stage_is_asked(stage: Stage[Any]) -> None:
    for asked in questions()[stage.name]:
        assert asked.options.keys() == set(stage.options)


@pytest.mark.parametrize("at", range(3))
def test_a_stage_that_forgets_an_input_is_noticed(at: int) -> None:
    def forgetful(prepared: Prepared[Any], names: Any, inputs: Any, options: Any) -> Any:
        return prepared.key((*names[:at], *names[at + 1 :]), (*inputs[:at], *inputs[at + 1 :]), options)

    found, _ = idle(richest(TYPING), forgetful)
    assert {f"input {at}: its digest", f"input {at}: its encoding"} <= set(found)
    assert all(change.startswith((f"input {at}: ", f"inputs {at} ")) for change in found), found


def test_a_stage_that_forgets_an_option_is_noticed() -> None:
    found, _ = idle(richest(TYPING), lambda prepared, names, inputs, _: prepared.key(names, inputs, {}))
    assert found
    assert all(change.startswith("option axes: ") for change in found), found


def test_a_stage_that_forgets_an_entry_of_its_environment_is_noticed() -> None:
    asked = richest(TYPING)
    lost = next(name for held in asked.inputs if isinstance(held, Group) for name in held.entries)

    def forgetful(prepared: Prepared[Any], names: Any, inputs: Any, options: Any) -> Any:
        seen = tuple(
            Group(held.engine, held.name, {name: entry for name, entry in held.entries.items() if name != lost})
            if isinstance(held, Group)
            else held
            for held in inputs
        )
        return prepared.key(names, seen, options)

    found, _ = idle(asked, forgetful)
    assert any(change.endswith(f"without entry {lost}") for change in found), found


def test_a_stage_that_forgets_its_code_is_noticed() -> None:
    def forgetful(prepared: Prepared[Any], names: Any, inputs: Any, options: Any) -> Any:
        return Prepared(prepared.stage, SOURCES.of(prepared.stage)).key(names, inputs, options)

    found, _ = idle(richest(TYPING), forgetful)
    assert {f"the file {path}" for path in SOURCES.files(TYPING)} <= set(found)


# --- code -------------------------------------------------------------------------------------------------------------

# Modules that say something about the machine, the time or the user: what they say is in no key.
IMPURE: Final = frozenset(
    "os time datetime random secrets locale pathlib socket getpass platform tempfile subprocess uuid threading".split()
)
# The engine and the readers of files are reached by composite stages, which are handed them and read nothing through them.
# What compiles kernels starts processes, which are handed a kernel and a level, and give the same bytes on every machine.
HANDED: Final = ("presk.cache.", "presk.elab.files", "presk.kernels.compiling", "presk.kernels.llvm.server")


@cache
def imported(path: str) -> frozenset[str]:
    """The top-level names that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(Path(path).read_bytes())):
        match node:
            case ast.Import(names=names):
                found.update(alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module="pathlib", names=names) if all(one.name.startswith("Pure") for one in names):
                pass  # names of files, and no file
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
            case _:
                pass
    return frozenset(found)


def test_no_stage_reaches_code_that_reads_the_machine_or_the_clock() -> None:
    modules = Modules(discover_project())
    for stage in STAGES:
        for name in fingerprints().of(stage.module, stage.packages).reach:
            path = modules.path(name)
            if path is not None and not name.startswith(HANDED):
                assert IMPURE.isdisjoint(imported(path)), f"{stage.name} reaches {name}"


@pytest.mark.parametrize("stage", STAGES, ids=NAMES)
def test_the_packages_that_a_stage_reaches_are_in_its_key(stage: Stage[Any]) -> None:
    missing = {name for name in undeclared_packages(stage) if DISTRIBUTIONS.get(name, name) not in stage.packages}
    assert missing <= NOT_OF_RESULTS


# Digests and the store: they make keys and keep answers, and no answer depends on them.
NOT_OF_RESULTS: Final = frozenset(("blake3", "diskcache"))


def test_parsing_does_not_depend_on_typing() -> None:
    """Editing the compiler throws away the answers of what was edited, not of what comes before it."""
    by_name = {stage.name: fingerprints().of(stage.module, stage.packages).reach for stage in STAGES}
    for name in ("tokens", "places", "parse", "parse file", "references"):
        assert not any(module.startswith(("presk.types", "presk.typing", "presk.prims")) for module in by_name[name])
    for stage in STAGES:
        reach = by_name[stage.name]
        assert not any(module.startswith(("presk.cli", "presk.daemon")) for module in reach), stage.name
        if stage.module.startswith("presk.elab."):
            assert not any(module.startswith(("presk.typing", "presk.core")) for module in reach), stage.name
