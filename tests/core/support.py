"""Whole programs of the corpus in the core, for tests of what works on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.check import Checked, check_program
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.elab.files import FolderReader
from presk.elab.program import Program as TypedProgram

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


def from_source(folder: Path, files: Mapping[str, str], mode: Mode = Mode.INFERENCE) -> Lowered:
    """The core of a program of files that are written here; the first is the main one."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return from_file(folder / next(iter(files)), mode)


def from_file(path: Path, mode: Mode = Mode.INFERENCE) -> Lowered:
    """The core of a program without errors."""
    reader = FolderReader(path)
    engine = Engine(None)
    found = check_program(engine, reader, reader.main, path.name)
    assert not isinstance(found, str), found
    checked, typed = found
    assert not checked.failed, checked.diagnostics
    return Lowered(checked, typed, lower_program(engine, typed, mode))


@lru_cache
def corpus(file: str, mode: Mode = Mode.INFERENCE) -> Lowered:
    """A program of the corpus in the core."""
    return from_file(CORPUS / file, mode)
