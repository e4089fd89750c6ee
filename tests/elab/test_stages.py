"""What an edit redoes: every stage's key holds what the declaration mentions, and nothing else."""

from pathlib import Path

import pytest

from presk.cache.store import Store
from presk.elab.dump import dump_program
from tests.elab.support import MAIN, Session, codes

LIB = """\
const V = 5
dim T <= 9
type Acts = ℝ[seq: T, model: V]
module Pos {
  param w : ℝ[T, V]
  fn apply(x : Acts) -> Acts = x
}
fn twice(x : Acts) -> Acts = x
"""
PROGRAM = """\
import "lib.psk" as m
const D = 8
const H = 2
const HD = D / H
dim B
type Row = ℝ[batch: B, model: D]
module Linear{In Out : dim} {
  param w : ℝ[In, Out] init = xavier_uniform
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x
  fn other(x : ℝ) -> ℝ = x
}
module Net {
  use l : Linear{D, HD}
  use p : m.Pos
  fn apply(x : Row) -> ℝ[batch: B, HD] = l.apply(x)
}
model Two = stack{2}(Net)
fn loss(θ : params Net, batch : Row) -> ℝ[] = Net.apply(θ, batch)
fn free(x : ℝ) -> ℝ = x
static assert D % H == 0
optimizer adamw { lr = 1e-3 }
training run {
  model     = Net
  objective = loss
  optimizer = adamw
}
"""


WHOLE_FILE = ("tokens", "parse file", "references")
"""Stages of a file as a whole: an edit of the file asks them again."""


def edited(old: str, new: str, *, lib: bool = False) -> dict[str, frozenset[str]]:
    """What is computed after an edit of the main file, or of the import."""
    session = Session()
    before = session.program({MAIN: PROGRAM, "lib.psk": LIB})
    assert codes(before.diagnostics) == []
    source = LIB if lib else PROGRAM
    assert source.count(old) == 1
    after = source.replace(old, new)
    session.program({MAIN: PROGRAM, "lib.psk": after} if lib else {MAIN: after, "lib.psk": LIB})
    return {
        stage: frozenset(subject.removeprefix(f"{MAIN}: ") for subject in subjects)
        for stage, subjects in session.computed().items()
        if stage not in WHOLE_FILE
    }


def test_nothing_changed() -> None:
    session = Session()
    first = session.program({MAIN: PROGRAM, "lib.psk": LIB})
    assert session.computed().keys() >= {"tokens", "parse", "constant", "module", "signature", "typing", "training"}
    second = session.program({MAIN: PROGRAM, "lib.psk": LIB})
    assert session.computed() == {}
    assert second.diagnostics == first.diagnostics
    assert dump_program(second) == dump_program(first)


def test_nothing_changed_in_a_new_process(tmp_path: Path) -> None:
    for computes in (True, False):
        store = Store(tmp_path / "cache")
        session = Session(store)
        session.program({MAIN: PROGRAM, "lib.psk": LIB})
        assert bool(session.computed()) == computes
        store.close()


def test_a_comment_and_layout() -> None:
    session = Session()
    session.program({MAIN: PROGRAM, "lib.psk": LIB})
    spaced = PROGRAM.replace("const D = 8", "const   D = -- why\n  8").replace(
        "module Net {", "\n\n  module Net { -- here"
    )
    session.program({MAIN: f"-- on top\n\n{PROGRAM}", "lib.psk": LIB})
    assert session.computed() == {"tokens": frozenset({MAIN})}
    session.program({MAIN: spaced.replace("= -- why\n ", "="), "lib.psk": LIB})
    assert session.computed() == {"tokens": frozenset({MAIN})}


def test_a_body() -> None:
    assert edited("ℝ[batch: B, HD] = l.apply(x)", "ℝ[batch: B, HD] = l.apply(x + x)") == {
        "parse": {"module Net/fn apply"},
        "typing": {"module Net/fn apply"},
    }


def test_a_body_of_a_function_whose_result_is_inferred() -> None:
    session = Session()
    text = "fn f(x : ℝ) = x\nfn g(x : ℝ) -> ℝ = f(x)\n"
    session.program({MAIN: text})
    session.program({MAIN: text.replace("= x\n", "= x + x\n")})
    # The completed signature did not change, so its caller is not typed again.
    assert session.computed()["typing"] == {f"{MAIN}: fn f"}
    assert "signature" not in session.computed()


def test_a_signature_reaches_its_callers() -> None:
    changed = edited("apply(x : Row) -> ℝ[batch: B, HD]", "apply(x : Row, y : Row) -> ℝ[batch: B, HD]")
    assert changed["typing"] == {"module Net/fn apply", "fn loss"}
    assert "module" not in changed


def test_a_constant_reaches_what_mentions_it() -> None:
    assert edited("const H = 2", "const H = 4") == {
        "parse": {"const H"},
        "constant": {"const H", "const HD"},
        "module": {"module Net"},
        "model": {"model Two"},
        "signature": {"module Net/fn apply", "fn loss"},
        "typing": {"module Net/fn apply", "fn loss"},
        "assertion": {"static assert 1"},
        "training": {"training run"},
    }


def test_a_constant_of_the_same_value_reaches_nothing() -> None:
    assert edited("const H = 2", "const H = 1 + 1") == {"parse": {"const H"}, "constant": {"const H"}}


def test_an_alias_of_the_same_type_reaches_nothing() -> None:
    assert edited("type Row = ℝ[batch: B, model: D]", "type Row = ℝ[batch: B, model: 2 * 4]") == {
        "parse": {"type Row"},
        "alias": {"type Row"},
    }


def test_an_initializer_reaches_the_modules_that_hold_it() -> None:
    changed = edited("init = xavier_uniform", "init = ones")
    assert changed["module"] == {"module Linear", "module Net"}
    assert "model" not in changed
    assert changed["typing"] == {"module Linear/fn apply", "module Linear/fn other", "module Net/fn apply"}


def test_a_new_declaration_reaches_nobody() -> None:
    assert edited("fn free", "fn other(x : ℝ) -> ℝ = x\nfn free") == {
        "parse": {"fn other"},
        "signature": {"fn other"},
        "typing": {"fn other"},
        # The block looks through all functions of the file.
        "training": {"training run"},
    }
    assert edited("dim B", "dim B\ndim C") == {"parse": {"dim C"}, "dimension": {"dim C"}}
    assert edited("fn free", "static assert 1 == 1\nfn free") == {
        # Assertions have numbers, so the other one has a new name, but nothing in it changed.
        "parse": {"static assert 1"},
        "assertion": {"static assert 1"},
    }


def test_a_declaration_that_appears_reaches_those_who_missed_it() -> None:
    session = Session()
    text = "type A = ℝ[Q]\ntype B = ℝ[3]\n"
    assert codes(session.program({MAIN: text}).diagnostics) == ["E1001"]
    assert codes(session.program({MAIN: f"dim Q\n{text}"}).diagnostics) == []
    assert session.computed()["alias"] == {f"{MAIN}: type A"}


def test_a_declaration_that_moves_reaches_nobody() -> None:
    moved = PROGRAM.replace("fn free(x : ℝ) -> ℝ = x\n", "").replace("dim B\n", "dim B\nfn free(x : ℝ) -> ℝ = x\n")
    session = Session()
    session.program({MAIN: PROGRAM, "lib.psk": LIB})
    session.program({MAIN: moved, "lib.psk": LIB})
    assert session.computed().keys() == {*WHOLE_FILE, "training"}


def test_an_import_reaches_what_mentions_it() -> None:
    assert edited("fn twice(x : Acts) -> Acts = x", "fn twice(x : Acts) -> Acts = x + x", lib=True) == {
        "parse": {"lib.psk: fn twice"},
        "typing": {"lib.psk: fn twice"},
    }
    changed = edited("dim T <= 9", "dim T <= 8", lib=True)
    assert changed["module"] == {"lib.psk: module Pos", "module Net"}
    assert changed["dimension"] == {"lib.psk: dim T"}


def test_an_override_is_as_an_edit() -> None:
    session = Session()
    session.program({MAIN: PROGRAM, "lib.psk": LIB})
    session.program({MAIN: PROGRAM, "lib.psk": LIB}, overrides={"H": 4})
    assert session.computed()["constant"] == {f"{MAIN}: const H", f"{MAIN}: const HD"}
    assert "parse" not in session.computed()
    session.program({MAIN: PROGRAM, "lib.psk": LIB})
    assert session.computed() == {}


def test_a_file_that_appears_is_noticed() -> None:
    session = Session()
    text = 'import "a.psk" as a\nconst X = a.V\n'
    assert codes(session.program({MAIN: text}).diagnostics) == ["E1002"]
    assert codes(session.program({MAIN: text, "a.psk": "const V = 3\n"}).diagnostics) == []
    assert codes(session.program({MAIN: text}).diagnostics) == ["E1002"]
    assert session.computed() == {}


@pytest.mark.parametrize(
    "old, new",
    [
        ("const D = 8", "const D = 16"),
        ("type Row = ℝ[batch: B, model: D]", "type Row = ℝ[batch: B, model: 2]"),
        ("In Out : dim", "Out In : dim"),
        ("use l : Linear{D, HD}", "use l : Linear{HD, D}"),
        ("dim B", "dim B <= 3"),
        ("stack{2}(Net)", "stack{3}(Net)"),
        ("-> ℝ[] =", "-> ℝ[3] ="),
        ("lr = 1e-3", "lr = 2e-3"),
        ("D % H == 0", "D % H == 1"),
        ("model     = Net", "model     = Two"),
        ('import "lib.psk" as m', 'import "gone.psk" as m'),
        ("fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x", "fn applied(x : ℝ[..., In]) -> ℝ[..., Out] = x"),
    ],
)
def test_an_edit_gives_what_a_new_start_gives(old: str, new: str) -> None:
    after = PROGRAM.replace(old, new, 1)
    assert after != PROGRAM
    session = Session()
    session.program({MAIN: PROGRAM, "lib.psk": LIB})
    warm = session.program({MAIN: after, "lib.psk": LIB})
    cold = Session().program({MAIN: after, "lib.psk": LIB})
    assert warm.diagnostics == cold.diagnostics
    assert dump_program(warm) == dump_program(cold)
    assert (warm.optimizers, warm.training, warm.serve) == (cold.optimizers, cold.training, cold.serve)
