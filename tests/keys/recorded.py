"""What the compiler asks its stages, recorded while programs of the corpus are checked, lowered and differentiated."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from presk.ad.pipeline import Remat
from presk.ad.stage import differentiated
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.handles import Answer, Group, Handle
from presk.cache.scope import Scope
from presk.cache.stage import Result, Stage
from presk.check import Checked, check, check_program
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.files import FolderReader, GivenFiles
from presk.exact.given import Given
from presk.kernels.layout import Layout, Split
from presk.native.run import Asked as NativeAsked
from presk.native.run import Executor, run_native
from presk.realize.record import uniform
from presk.run import run
from presk.train.step import with_step

CORPUS: Final = Path(__file__).parents[2] / "corpus"

# Together they ask every stage; the warnings about data files make somebody ask for places.
PROGRAMS: Final = (
    "nlp/train_minigpt.psk",
    "nlp/05_gpt.psk",
    "constructs/generic.psk",
    "constructs/config_full.psk",
    "constructs/constants.psk",
    "constructs/compose.psk",
)


class Asked(NamedTuple):
    """A question to a stage."""

    stage: Stage[Any]
    inputs: tuple[Handle[Any], ...]
    options: Mapping[str, object]

    @property
    def richness(self) -> int:
        """How many ingredients it has."""
        return len(self.options) + sum(len(held.entries) + 1 if isinstance(held, Group) else 1 for held in self.inputs)


class RecordingEngine(Engine):
    """An engine that notes every question."""

    def __init__(self, fingerprints: Fingerprints) -> None:
        super().__init__(None, fingerprints=fingerprints)
        self.asked: Final[list[Asked]] = []

    def _get(
        self,
        stage: Stage[Any],
        inputs: tuple[Result[Any], ...],
        subject: str,
        options: Mapping[str, object],
        scope: Scope | None,
    ) -> Answer[Any]:
        self.asked.append(Asked(stage, tuple(held for held in inputs if isinstance(held, Handle)), dict(options)))
        return super()._get(stage, inputs, subject, options, scope)


@cache
def fingerprints() -> Fingerprints:
    """Of the compiler; its sources are read once."""
    return Fingerprints()


def ask_for_a_run(engine: Engine) -> None:
    """An entry is evaluated, with a word of the command line and a file."""
    reader = GivenFiles({"main.psk": b"fn f(x : Real[2], y : nat) -> Real[2] = y * x\n"})
    both = check_program(engine, reader, "main.psk", "main.psk")
    assert not isinstance(both, str)
    core = lower_program(engine, both[1], Mode.INFERENCE, ["f"])
    inputs = {"x": Given("x.json", b"[1, 2]")}
    settings = {"unroll": False, "bounds": False}
    found = run(
        engine,
        both[1],
        core,
        "f",
        remat=Remat.STORE,
        dims={},
        words={"y": "3"},
        inputs=inputs,
        seed=1,
        bits=64,
        **settings,
    )
    assert found.diagnostics == ()


def ask_for_a_native_run(engine: Engine) -> None:
    """An entry runs natively."""
    reader = GivenFiles({"main.psk": b"fn f(x : Real[2], y : nat) -> Real[2] = y * x\n"})
    both = check_program(engine, reader, "main.psk", "main.psk")
    assert not isinstance(both, str)
    core = lower_program(engine, both[1], Mode.INFERENCE, ["f"])
    asked = NativeAsked(
        {},
        {"y": "3"},
        {},
        1,
        Remat.STORE,
        False,
        uniform("f64"),
        Executor.NATIVE,
        "x86-64",
        layouts={"f/%3": Layout(split=Split(0, 1))},
    )
    with engine.request() as log:
        assert run_native(engine, log, both[1], core, "f", asked).ran is not None


@cache
def questions() -> Mapping[str, tuple[Asked, ...]]:
    """All questions by the name of the stage."""
    engine = RecordingEngine(fingerprints())
    for name in PROGRAMS:
        reader = FolderReader(CORPUS / name)
        found = check(engine, reader, reader.main, name)
        assert isinstance(found, Checked)
        assert not found.failed, name
        both = check_program(engine, reader, reader.main, name)
        assert not isinstance(both, str)
        for mode in Mode:
            core = lower_program(engine, both[1], mode)
            differentiated(engine, core.parts, Remat.STORE, hold=True)
        if both[1].training is not None:
            with_step(engine, both[1], Mode.TRAINING)
    ask_for_a_run(engine)
    ask_for_a_native_run(engine)
    grouped: dict[str, list[Asked]] = {}
    for asked in engine.asked:
        grouped.setdefault(asked.stage.name, []).append(asked)
    return {name: tuple(found) for name, found in grouped.items()}


def richest(stage: Stage[Any]) -> Asked:
    """The question to a stage with the most ingredients."""
    return max(questions()[stage.name], key=lambda asked: asked.richness)
