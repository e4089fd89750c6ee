"""Laws of the engine over real programs: whatever became of the store, the same is said and shown."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.cache.engine import Engine
from presk.cache.store import Store
from presk.cache.verify import verify
from presk.check import Checked, check, check_program
from presk.diagnostics.render_json import render_json
from presk.diagnostics.render_text import TextOptions, render_text
from presk.elab.dump import dump_program, summary
from presk.elab.files import FolderReader, GivenFiles, SourceReader
from presk.stages import CODECS, STAGES
from tests.keys.recorded import CORPUS, fingerprints

PROGRAMS: Final = tuple(sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("**/*.psk")))
BROKEN: Final = {
    "lexical": "const D = 8\nfn f(x : ℝ[D]) -> ℝ[D] = x ? 1\n",
    "syntax": "const D = 8\nfn f(x : ℝ[D]) -> ℝ[D] = (x +\nfn g(x : ℝ[D]) -> ℝ[D] = x\n",
    "names": "type A = B\ntype B = A\nfn f(x : A, y : C) -> ℝ[E] = f(x, z)\n",
    "shapes": "dim T\nfn f(x : ℝ[T]) -> ℝ[T + 1] = x + x\nfn g(x : ℝ[T]) -> ℝ[4 * T] = x\n",
    "imports": 'import "gone.psk" as g\nfn f(x : g.A) -> ℝ[g.N] = g.h(x)\n',
    "blocks": "optimizer adamw { lr = 1e-3, speed = 4 }\ntraining run { model = Net }\n",
}


def say(engine: Engine, reader: SourceReader, main: str) -> str:
    """Everything that commands print about a program."""
    with engine.request():
        found = check(engine, reader, main, main)
        both = check_program(engine, reader, main, main)
    assert isinstance(found, Checked)
    assert not isinstance(both, str)
    assert both[0].diagnostics == found.diagnostics
    return "".join(
        (
            render_text(found.diagnostics, found.sources, TextOptions()),
            render_json(found.diagnostics, found.sources),
            dump_program(both[1]),
            summary(both[1]),
        )
    )


def of_corpus(engine: Engine, name: str) -> str:
    """What is said of a program of the corpus."""
    reader = FolderReader(CORPUS / name)
    return say(engine, reader, reader.main)


@cache
def expected(name: str) -> str:
    """What an engine says that has neither store nor past."""
    return of_corpus(Engine(None, fingerprints=fingerprints()), name)


def checked_with(store: Store | None, names: tuple[str, ...]) -> None:
    """Checks programs with one engine over a store, which is closed; each time the same must be said."""
    try:
        engine = Engine(store, fingerprints=fingerprints())
        for name in names:
            assert of_corpus(engine, name) == expected(name), name
    finally:
        if store is not None:
            store.close()


# --- the whole corpus -------------------------------------------------------------------------------------------------


def test_the_corpus_is_found() -> None:
    assert len(PROGRAMS) > 50


def test_the_corpus_with_a_cold_store_a_warm_one_and_none(tmp_path: Path) -> None:
    checked_with(None, PROGRAMS)
    checked_with(Store(tmp_path), PROGRAMS)
    checked_with(Store(tmp_path), PROGRAMS)
    checked_with(Store(tmp_path), PROGRAMS[::-1])


def test_the_corpus_with_values_that_went_through_their_encoding() -> None:
    engine = Engine(None, fingerprints=fingerprints(), roundtrip=True)
    for name in PROGRAMS:
        assert of_corpus(engine, name) == expected(name), name


def test_a_memory_that_holds_next_to_nothing() -> None:
    engine = Engine(None, fingerprints=fingerprints(), memory_entries=3)
    for name in PROGRAMS[::4]:
        assert of_corpus(engine, name) == expected(name), name


def test_computing_everything_again_gives_the_same_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    engine = Engine(store, fingerprints=fingerprints())
    for name in PROGRAMS[::2]:
        of_corpus(engine, name)
    for text in BROKEN.values():
        say(engine, GivenFiles({"main.psk": text.encode()}), "main.psk")
    found = verify(engine, STAGES, CODECS, None)
    assert found.checked > 1000
    assert (found.skipped, found.mismatches) == ({}, ())
    store.close()


ANSWERS: Final = """
import sys
from pathlib import Path
from presk.cache.engine import Engine
from presk.cache.layout import RECORDS
from presk.cache.store import Store
from presk.check import check_program
from presk.elab.files import FolderReader

store = Store(Path(sys.argv[1]))
engine = Engine(store)
for name in sys.argv[2:]:
    reader = FolderReader(Path(name))
    with engine.request():
        check_program(engine, reader, reader.main, name)
for row in sorted(store.rows.keys(RECORDS)):
    record = store.record(row[1:])
    print(row.hex(), record.stage, record.subject, record.value.hex())
store.close()
"""


def test_no_answer_depends_on_the_order_of_hashes(tmp_path: Path) -> None:
    names = [str(CORPUS / name) for name in PROGRAMS[::3]]
    printed = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", ANSWERS, str(tmp_path / seed), *names],
            env={"PYTHONHASHSEED": seed, "PATH": os.environ.get("PATH", "")},
            capture_output=True,
            check=True,
        )
        printed.append(done.stdout.decode())
    assert printed[0] == printed[1]
    assert printed[0].count("\n") > 500


# --- damage -----------------------------------------------------------------------------------------------------------


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, _: random.Random) -> None:
    path.unlink()


def cut_short(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])


def flip_a_bit(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def overwrite_a_stretch(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) + 1)
    data[at : at + 300] = chance.randbytes(300)
    path.write_bytes(data)


def write_foreign_bytes(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(1000))


def make_a_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: Final[tuple[Callable[[Path, random.Random], None], ...]] = (
    empty,
    remove,
    cut_short,
    flip_a_bit,
    overwrite_a_stretch,
    write_foreign_bytes,
    make_a_folder,
)
SOME: Final = ("nlp/train_minigpt.psk", "constructs/diamond.psk", "tutorial/10_training.psk")


def files_of(folder: Path) -> list[Path]:
    """The files of a store in an order that does not depend on the disk."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, bytes], ...]:
    """The files of a store in which some programs have been checked; values above 200 bytes are blobs."""
    folder = tmp_path_factory.mktemp("pristine")
    checked_with(Store(folder, inline_max=200), SOME)
    return tuple((path.relative_to(folder).as_posix(), path.read_bytes()) for path in files_of(folder))


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_damage_costs_time_and_nothing_else(
    tmp_path: Path, pristine: tuple[tuple[str, bytes], ...], harm: Callable[[Path, random.Random], None], share: float
) -> None:
    chance = random.Random(f"{harm.__name__} {share}")
    for name, data in pristine:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(data)
    assert len(pristine) > 50
    for path in files_of(tmp_path):
        if share == 1.0 or chance.random() < share:
            harm(path, chance)
    checked_with(Store(tmp_path, inline_max=200), SOME)
    # What was damaged is whole again, or gone for good; either way the next one says the same.
    checked_with(Store(tmp_path, inline_max=200), SOME)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no folder")
    warnings: list[str] = []
    checked_with(Store(tmp_path / "file" / "cache", on_warning=warnings.append), SOME)
    assert len(warnings) == 1


# --- edits ------------------------------------------------------------------------------------------------------------


@cache
def lines_of(name: str) -> tuple[str, ...]:
    """A program of the corpus without imports, so that it stands by itself."""
    return tuple((CORPUS / name).read_text("utf-8").split("\n"))


EXAMPLES: Final = settings().max_examples // 5  # an example is four programs, each checked three times
ALONE: Final = tuple(name for name in PROGRAMS if not any(line.startswith("import") for line in lines_of(name)))
WORDS: Final = (
    "x",
    "D",
    "0",
    "2",
    "+",
    "·",
    ")",
    "]",
    "}",
    "ℝ[D]",
    "let y = x",
    "θ",
    "-- note",
    "",
    "idx",
    "fn f",
    "%",
)


def edits(lines: list[str], chance: random.Random) -> Iterator[str]:
    """Texts, each an edit of the one before."""
    for _ in range(4):
        at = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at : at + chance.randrange(1, 3)]
            case 1:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 2:
                other = chance.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines.insert(at, chance.choice(WORDS))
            case _:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(WORDS)
                lines[at] = " ".join(words)
        lines = lines or [""]
        yield "\n".join(lines)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(ALONE), st.integers(0, 2**32))
def test_after_random_edits_an_engine_with_a_past_says_what_one_without_says(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    living = Engine(None, fingerprints=fingerprints())
    of_corpus(living, name)
    for text in edits(list(lines_of(name)), random.Random(seed)):
        reader = GivenFiles({"main.psk": text.encode()})
        fresh = say(Engine(None, fingerprints=fingerprints(), roundtrip=True), reader, "main.psk")
        assert say(living, reader, "main.psk") == fresh
        store = Store(folder)
        assert say(Engine(store, fingerprints=fingerprints()), reader, "main.psk") == fresh
        store.close()


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_errors_are_kept_like_everything_else(tmp_path: Path, text: str) -> None:
    reader = GivenFiles({"main.psk": text.encode()})
    fresh = say(Engine(None, fingerprints=fingerprints(), roundtrip=True), reader, "main.psk")
    assert "error[E" in fresh
    for _ in range(2):
        store = Store(tmp_path)
        assert say(Engine(store, fingerprints=fingerprints()), reader, "main.psk") == fresh
        store.close()
