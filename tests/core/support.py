"""Whole programs of the corpus in the core, for tests of what works on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.check import Checked, check
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.elab.files import FolderReader

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus"

FILES: Final = tuple(sorted(str(path.relative_to(CORPUS)) for path in CORPUS.rglob("*.psk")))
"""Every program of the corpus."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A checked program and its core."""

    checked: Checked
    core: CoreProgram

    @property
    def program(self) -> Program:
        """All functions."""
        return self.core.program

    @property
    def functions(self) -> Mapping[str, Function]:
        """All functions by name."""
        return self.core.functions()


def checked_source(folder: Path, files: Mapping[str, str]) -> Checked:
    """A checked program of files that are written here; the first is the main one."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return check_file(folder / next(iter(files)))


def check_file(path: Path) -> Checked:
    """A checked program."""
    reader = FolderReader(path)
    found = check(Engine(None), reader, reader.main, path.name)
    assert not isinstance(found, str), found
    return found


def lowered(checked: Checked, mode: Mode = Mode.INFERENCE) -> Lowered:
    """The core of a checked program without errors."""
    assert not checked.failed, checked.diagnostics
    return Lowered(checked, lower_program(Engine(None), checked.program, mode))


@lru_cache
def corpus(file: str, mode: Mode = Mode.INFERENCE) -> Lowered:
    """A program of the corpus in the core."""
    return lowered(check_file(CORPUS / file), mode)
