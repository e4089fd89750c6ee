"""A program that is edited and checked again and again, by three engines at once, whose answers must agree:

* one that lives as long as the desk and has memory alone;
* one that is made new for each check, over a store in one folder, as by a new process;
* one that is made new for each check and has nothing, whose values go through their encoding.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.log import RequestLog
from presk.cache.store import Store
from presk.check import CHECK, Checked, check, check_program
from presk.diagnostics.render_json import render_json
from presk.diagnostics.render_text import TextOptions, render_text
from presk.elab.dump import dump_program, summary
from presk.elab.files import GivenFiles
from presk.stages import STAGES
from presk.types.dim import constant
from tests.incremental.scripts import MAIN, Computed

FRONT_END: Final = frozenset(stage.name for stage in STAGES[: STAGES.index(CHECK) + 1])
"""The stages that read, elaborate and type, and the one that gathers what is said."""


@cache
def fingerprints() -> Fingerprints:
    """Of the compiler; its sources are read once."""
    return Fingerprints()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check computed, and what it said: as (code, file, line, column), and rendered."""

    computed: Computed
    said: tuple[tuple[str, str, int, int], ...]
    text: str


class Desk:
    """The files of a program by name (the main file is `main.psk`), and values for its constants."""

    def __init__(self, folder: Path) -> None:
        self.files: Final[dict[str, bytes]] = {}
        self.overrides: dict[str, int] = {}
        self._folder: Final = folder
        self._living: Final = Engine(None, fingerprints=fingerprints())

    def check(self) -> Seen:
        """Checks the program; AssertionError where the engines differ in what they say, compute or show."""
        living = self._check(self._living)
        store = Store(self._folder)
        try:
            lasting = self._check(Engine(store, fingerprints=fingerprints()))
        finally:
            store.close()
        fresh = self._check(Engine(None, fingerprints=fingerprints(), roundtrip=True))
        assert living.text == fresh.text, "an engine with a past says something else than one without"
        assert lasting.text == fresh.text, "an engine with a store says something else than one without"
        assert living.computed == lasting.computed, "with a store other things are computed than with memory"
        return living

    def _check(self, engine: Engine) -> Seen:
        reader = GivenFiles(self.files)
        overrides = {name: constant(value) for name, value in self.overrides.items()}
        with engine.request() as log:
            found = check(engine, reader, MAIN, MAIN, overrides)
        assert isinstance(found, Checked)
        with engine.request() as later:
            both = check_program(engine, reader, MAIN, MAIN, overrides)
        assert not isinstance(both, str)
        assert computed(later) == {}, "what the program means is computed although it was checked"
        assert both[0].diagnostics == found.diagnostics
        text = "".join(
            (
                render_text(found.diagnostics, found.sources, TextOptions()),
                render_json(found.diagnostics, found.sources),
                dump_program(both[1]),
                summary(both[1]),
            )
        )
        return Seen(computed(log), tuple(_places(found)), text)


def computed(log: RequestLog) -> Computed:
    """The subjects that each stage computed; those of the main file without its name."""
    every = {stage.name: log.computed(stage.name) for stage in STAGES}
    return {
        name: frozenset(subject.removeprefix(f"{MAIN}: ") for subject in subjects)
        for name, subjects in every.items()
        if subjects
    }


def of_front_end(found: Computed) -> Computed:
    """Without the stages that come after typing."""
    return {name: subjects for name, subjects in found.items() if name in FRONT_END}


def _places(found: Checked) -> list[tuple[str, str, int, int]]:
    places = []
    for one in found.diagnostics:
        span = found.sources.resolve(one.primary.place)
        assert span is not None
        places.append((one.code, found.sources.name(one.primary.place.file), span.start.line, span.start.column))
    return places
