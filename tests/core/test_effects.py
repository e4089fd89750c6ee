"""Effects: what draws, through what; the first use; initializers by their whole tree; the reading plays no part."""

from pathlib import Path
from typing import Final

import pytest

from presk.core.effects import check_effects, is_random
from presk.core.initializers import check_initializers, has_initializer, symbolic_stack
from presk.core.program import function_ref
from presk.types.dim import constant, symbol
from presk.types.type import Composed, ModuleRef, Named, Stacked
from presk.typing.typed import FunctionRef, TypedFunction
from tests.core.support import FILES, Lowered, corpus, effects, from_source, typed_source

HEAD: Final = """
dim B
module Still { param w : ℝ[4]  init = ones
  fn apply(x : ℝ[4]) -> ℝ[4] = x * w }
module Noisy { param w : ℝ[4]  init = normal(std = 0.1)
  fn apply(x : ℝ[4]) -> ℝ[4] = x * w
  fn draw(key : key, x : ℝ[4]) -> ℝ[4] uses Rand = dropout(0.5, key, x) }
module Deep { use parts : stack{2}(Noisy ∘ Still) }
module Quiet { use parts : stack{2}(Still ∘ Still) }
model Named = Still ∘ Noisy
fn draws(key : key, x : ℝ[4]) -> ℝ[4] uses Rand = dropout(0.5, key, x)
"""


BODIES: Final = {
    "x": None,
    "dropout(0.5, key, x)": "`dropout` draws from its key",
    "x + sum(real(sample(key, x)))": "`sample` draws from its key",
    "\n  let (a, b) = split_key(key)\n  x": "`split_key` draws from its key",
    "draws(key, x)": "`draws` uses Rand",
    "(λ a. draws(key, a))(x)": "`draws` uses Rand",
    "grad(λ a. sum(draws(key, a)))(x)": "`draws` uses Rand",
    "Noisy.draw(Noisy.init(key), key, x)": "`draw` uses Rand",
    "Still.init(key).w + x": None,
    "Quiet.init(key).parts.outer.w[0] + x": None,
    "Deep.init(key).parts.outer.w[0] + x": "`init` draws the parameters of `Deep`",
    "Named.init(key).outer.w + x": "`init` draws the parameters of `Still ∘ Noisy`",
    "x + dropout(0.5, key, draws(key, x))": "`dropout` draws from its key",
    "draws(key, dropout(0.5, key, x))": "`draws` uses Rand",
}
"""Bodies of functions of a key and a tensor, and what they use first."""


def test_what_a_function_draws_with_first(tmp_path: Path) -> None:
    functions = [f"fn f{place}(key : key, x : ℝ[4]) -> ℝ[4] uses Rand = {body}\n" for place, body in enumerate(BODIES)]
    found = effects(from_source(tmp_path, {"main.psk": HEAD + "".join(functions)}))
    for place, (body, what) in enumerate(BODIES.items()):
        use = found[f"f{place}"].rand
        assert (use.what if use is not None else None) == what, body


UNDECLARED: Final = """\
fn a(key : key, x : ℝ[4]) -> ℝ[4] = dropout(0.5, key, x)
fn b(key : key, x : ℝ[4]) -> ℝ[4] =
  let y = x + x
  a(key, y) + sum(real(sample(key, y)))
fn c(key : key, x : ℝ[4]) -> ℝ[4] uses Rand = a(key, x)
fn d(x : ℝ[4]) -> ℝ[4] uses Rand = x
"""


def typed(lowered: Lowered, name: str) -> TypedFunction:
    """A typed function by its core name."""
    by_ref: dict[FunctionRef, TypedFunction] = {
        function_ref(entry): entry.typed.value for entry in lowered.typed.functions
    }
    return next(by_ref[ref] for ref, known in lowered.core.names.items() if known == name)


def test_the_declaration_and_its_place(tmp_path: Path) -> None:
    lowered = from_source(tmp_path, {"main.psk": UNDECLARED}, errors=True)
    found = effects(lowered)
    said = {name: check_effects(typed(lowered, name), found[name]) for name in "abcd"}
    assert {name: [one.code for one in ones] for name, ones in said.items()} == {
        "a": ["E4001"],
        "b": ["E4001"],
        "c": [],
        "d": [],
    }
    span = lowered.checked.sources.resolve(said["b"][0].primary.place)
    assert span is not None
    assert (span.start.line, span.start.column) == (4, 3)
    assert said["b"][0].message == "`b` draws random numbers and does not say so"


@pytest.mark.parametrize("file", FILES)
def test_the_corpus_declares_what_it_draws(file: str) -> None:
    lowered = corpus(file)
    found = effects(lowered)
    for name in found:
        assert check_effects(typed(lowered, name), found[name]) == ()
        assert check_initializers(typed(lowered, name), lowered.typed.headers) == ()


STACKS: Final = """
dim T
module Scale{N : dim} { param w : ℝ[N] }
module Deep{N L : dim} { use layers : stack{L}(Scale{N}) }
module Outer{N L : dim} { use deep : Deep{N, L + 1}
  use other : Deep{N, 2} }
module Fixed{N : dim} { use deep : Deep{N, 2} }
module Long { use layers : stack{T}(Scale{2}) }
model Three = Deep{2, 3}
fn good(key : key) -> params Outer{2, 3} = Outer{2, 3}.init(key)
"""
BAD: Final = """
fn bad{L : dim}(key : key) -> (params Outer{2, L}, params Deep{3, 1}) =
  (Outer{2, L}.init(key), Deep{3, 1}.init(key))
fn long(key : key) -> params Long = Long.init(key)
"""


def test_stacks_whose_length_is_not_constant(tmp_path: Path) -> None:
    headers = from_source(tmp_path, {"main.psk": STACKS}).typed.headers
    ref = {name: ModuleRef("main.psk", name) for name in ("Scale", "Deep", "Outer", "Fixed", "Long", "Three")}
    two, length = constant(2), symbol("L")
    deep = Named(ref["Deep"], (two, length))
    assert symbolic_stack(Named(ref["Outer"], (two, two)), headers) is None
    assert symbolic_stack(Named(ref["Three"]), headers) is None
    found = symbolic_stack(Stacked(two, Composed(Named(ref["Three"]), Named(ref["Outer"], (two, length)))), headers)
    assert found is not None
    assert (str(found[0]), found[1]) == ("stack{L + 1}(Scale{2})", ("inner", "deep", "layers"))
    assert symbolic_stack(Stacked(length, deep), headers) == (Stacked(length, deep), ())
    assert {name for name, one in ref.items() if has_initializer(headers[one], headers)} == {"Scale", "Fixed", "Three"}


def test_an_initializer_of_unknown_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    good = from_source(tmp_path / "good", {"main.psk": STACKS})
    assert check_initializers(typed(good, "good"), good.typed.headers) == ()
    program = typed_source(tmp_path, {"main.psk": STACKS + BAD})
    functions = {entry.key.name: entry.typed.value for entry in program.functions}
    said = {name: check_initializers(functions[name], program.headers) for name in ("bad", "long")}
    assert [(one.code, one.message) for one in said["bad"]] == [
        (
            "E5002",
            "the initializer of `Outer{2, L}`, at `deep.layers`, has no number of layers to make: `L + 1` is not constant",
        )
    ]
    assert [one.primary.text for one in said["long"]] == ["makes `stack{T}(Scale{2})`"]


def test_random_trees(tmp_path: Path) -> None:
    headers = from_source(tmp_path, {"main.psk": HEAD}).typed.headers
    named = {name: Named(ModuleRef("main.psk", name)) for name in ("Still", "Noisy", "Deep", "Quiet", "Named")}
    assert {name for name, one in named.items() if is_random(one, headers)} == {"Noisy", "Deep", "Named"}
    assert is_random(Stacked(constant(2), Composed(named["Still"], named["Noisy"])), headers)
    assert not is_random(Composed(named["Still"], named["Quiet"]), headers)
