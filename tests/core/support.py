"""Whole programs of the corpus in the core, for tests of what works on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.check import Checked, check_program
from presk.core.effects import Effects
from presk.core.effects import summarize as effects_of
from presk.core.ir import Call, Closure, Fold, Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, function_ref, lower_program
from presk.core.regularity import Summary, summarize
from presk.elab.files import FolderReader
from presk.elab.program import Program as TypedProgram
from presk.typing.typed import FunctionRef

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus"

FILES: Final = tuple(sorted(str(path.relative_to(CORPUS)) for path in CORPUS.rglob("*.psk")))
"""Every program of the corpus."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A checked program, typed and in the core."""

    checked: Checked
    typed: TypedProgram
    core: CoreProgram

    @property
    def program(self) -> Program:
        """All functions."""
        return self.core.program

    @property
    def functions(self) -> Mapping[str, Function]:
        """All functions by name."""
        return self.core.functions()


@cache
def fingerprints() -> Fingerprints:
    """Of the compiler; its sources are read once."""
    return Fingerprints()


def engine() -> Engine:
    """An engine that knows nothing yet."""
    return Engine(None, fingerprints=fingerprints())


def typed_source(folder: Path, files: Mapping[str, str]) -> TypedProgram:
    """A program of files that are written here, typed; it may have errors that are found later."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return _checked(engine(), folder / next(iter(files)), errors=True)[1]


def from_source(
    folder: Path, files: Mapping[str, str], mode: Mode = Mode.INFERENCE, *, errors: bool = False
) -> Lowered:
    """The core of a program of files that are written here; the first is the main one. With `errors`, one that is well typed
    and has errors all the same: of effects, of gradients."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    own = engine()
    return _lowered(own, *_checked(own, folder / next(iter(files)), errors=errors), mode)


def from_file(path: Path, mode: Mode = Mode.INFERENCE) -> Lowered:
    """The core of a program without errors."""
    own = engine()
    return _lowered(own, *_checked(own, path), mode)


def _checked(engine: Engine, path: Path, *, errors: bool = False) -> tuple[Checked, TypedProgram]:
    reader = FolderReader(path)
    found = check_program(engine, reader, reader.main, path.name)
    assert not isinstance(found, str), found
    assert errors or not found[0].failed, found[0].diagnostics
    assert not found[1].failed
    return found


def _lowered(engine: Engine, checked: Checked, typed: TypedProgram, mode: Mode) -> Lowered:
    return Lowered(checked, typed, lower_program(engine, typed, mode))


@lru_cache
def _corpus(file: str) -> tuple[Engine, Checked, TypedProgram]:
    own = engine()
    return (own, *_checked(own, CORPUS / file))


@lru_cache
def corpus(file: str, mode: Mode = Mode.INFERENCE) -> Lowered:
    """A program of the corpus in the core."""
    return _lowered(*_corpus(file), mode)


def summaries(program: Lowered) -> dict[str, Summary]:
    """The regularity of every declaration and initializer of a program, callees first."""
    parts = {name: part.value.functions for name, part in program.core.parts.items()}
    found: dict[str, Summary] = {}
    waiting = list(parts)
    while waiting:
        name = waiting[-1]
        own = {function.name for function in parts[name]}
        called = {one for function in parts[name] for one in called_by(function)} - own
        missing = [one for one in called if one not in found]
        if missing:
            waiting += missing
            continue
        found[name] = summarize(parts[name], found)
        waiting.pop()
    return found


def called_by(function: Function) -> list[str]:
    """The functions that a function names."""
    return [binding.op.function for binding in function.bindings if isinstance(binding.op, Call | Fold | Closure)]


def effects(program: Lowered) -> dict[str, Effects]:
    """The effects of every declared function, by its core name, callees first."""
    typed = {function_ref(entry): entry.typed.value for entry in program.typed.functions}
    found: dict[FunctionRef, Effects] = {}
    waiting = list(typed)
    while waiting:
        ref = waiting[-1]
        missing = [call.function for call in typed[ref].calls if call.function not in found]
        if missing:
            waiting += missing
            continue
        found[ref] = effects_of(typed[ref], found, program.typed.headers)
        waiting.pop()
    return {name: found[ref] for ref, name in program.core.names.items()}
