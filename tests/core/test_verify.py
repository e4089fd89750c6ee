"""The verifier: it says nothing of what lowering and differentiation make, and finds every kind of damage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from presk.ad.vjp import differentiate
from presk.core.ir import Function, Operation, Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.core.verify import Broken, Finding, verified, verify
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from tests.core.support import FILES, corpus, from_source


@pytest.mark.parametrize("file", FILES)
def test_the_corpus_is_well_typed_in_the_core(file: str) -> None:
    for mode in Mode:
        lowered = corpus(file, mode)
        assert verify(lowered.program, lowered.core.headers, after="lowering") == ()
        after = differentiate(lowered.program).program
        assert verify(after, lowered.core.headers, after="differentiation", differentiated=True) == ()


SOURCE: Final = """
dim B
const L : nat = 2

module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = normal(std = 0.5)
  param b : ℝ[Out]
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w + b
}

module Block {
  use l : Linear{4, 4}
  fn apply(x : ℝ[batch: B, f: 4], m : bool[f: 4]) -> ℝ[batch: B, f: 4] =
    x + softmax(axis f, (l.apply(x) : ℝ[batch: B, f: 4]), where = m)
}

module Tower {
  use blocks : stack{L}(Block)
  fn apply(x : ℝ[batch: B, f: 4], m : bool[f: 4]) -> ℝ[batch: B, f: 4] = blocks.apply(x, m)
}

fn loss(θ : params Tower, x : ℝ[batch: B, f: 4], m : bool[f: 4]) -> ℝ = mean(Tower.apply(θ, x, m)[f: 0]^2) + 1

fn pair(x : ℝ[f: 4], t : idx[4][batch: B]) -> (ℝ[f: 4], ℝ[batch: B, 4]) =
  let (a, b) = (x, x[f: 0..2])
  (concat(axis f, b, b), one_hot(t))

fn slope(θ : params Tower, x : ℝ[batch: B, f: 4], m : bool[f: 4]) -> params Tower =
  grad(λ θ. loss(θ, x, m))(θ)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return from_source(tmp_path_factory.mktemp("verify"), {"main.psk": SOURCE})


Damage = Callable[[Function], Function]


def at(var: int, /, **changes: Any) -> Damage:
    """Changes of the binding of a variable."""

    def damage(function: Function) -> Function:
        return msgspec.structs.replace(
            function,
            bindings=tuple(
                msgspec.structs.replace(binding, **changes) if binding.var == var else binding
                for binding in function.bindings
            ),
        )

    return damage


def op(var: int, /, **changes: Any) -> Damage:
    """Changes of the operation of a variable."""

    def damage(function: Function) -> Function:
        binding = next(one for one in function.bindings if one.var == var)
        return at(var, op=msgspec.structs.replace(binding.op, **changes))(function)

    return damage


def without(var: int) -> Damage:
    """A binding taken out."""
    return lambda function: msgspec.structs.replace(
        function, bindings=tuple(one for one in function.bindings if one.var != var)
    )


def function(**changes: Any) -> Damage:
    """Changes of the function itself."""
    return lambda one: msgspec.structs.replace(one, **changes)


def retyped(var: int, text: str) -> Damage:
    """Another type for a binding, as the text form writes it."""
    table = "".join(f'module {name} in "main.psk"\n' for name in ("Tower", "Block", "Linear"))
    source = f"{table}fn f(x : {text}) -> nat {{\n  return x\n}}"
    return at(var, type=parse(source).functions[0].params[0].type)


DAMAGES: Final[tuple[tuple[str, str, Damage, str], ...]] = (
    # Definitions.
    ("twice", "Linear.apply", at(5, var=3), "Linear.apply/%3: is defined twice"),
    ("a parameter again", "Linear.apply", at(3, var=1), "Linear.apply/%1: is defined twice"),
    ("not at all", "Linear.apply", without(4), "Linear.apply/%5: reads %4, not defined before"),
    (
        "too late",
        "Linear.apply",
        lambda one: msgspec.structs.replace(one, bindings=(*one.bindings[1:2], one.bindings[0], *one.bindings[2:])),
        "Linear.apply/%3: reads %2, not defined before",
    ),
    ("nothing to return", "Linear.apply", function(returns=9), "Linear.apply: %9 is returned and not defined"),
    ("another result", "Linear.apply", function(returns=4), "Linear.apply: the result: `ℝ[Out]` against `ℝ[..., Out]`"),
    # Dimensions.
    ("a dimension twice", "Linear.apply", function(dims=("In", "Out", "In")), "a dimension stands twice"),
    ("a dimension less", "Linear.apply", function(dims=("In",)), "`params Linear{In, Out}` mentions Out, no dimension"),
    # Calls.
    ("no function", "Block.apply", op(4, function="Linear.aply"), "Block.apply/%4: there is no function `Linear.aply`"),
    ("an operand less", "Block.apply", op(4, args=(3,)), "`Linear.apply` takes 2 operands, not 1"),
    ("another operand", "Block.apply", op(4, args=(3, 2)), "`x` of `Linear.apply`: `bool[f: 4]` against"),
    ("no dimensions", "Block.apply", op(4, dims=()), "there are no value for In, Out"),
    ("a dimension's value missing", "Block.apply", op(4, dims=(("In", constant(4)),)), "there are no value for Out"),
    (
        "dimensions in another order",
        "Block.apply",
        op(4, dims=(("Out", constant(4)), ("In", constant(4)))),
        "there are values for Out, In",
    ),
    ("a wrong value", "Block.apply", op(4, dims=(("In", constant(5)), ("Out", constant(4)))), "`θ` of `Linear.apply`"),
    ("no prefix", "Block.apply", op(4, prefix=None), "`Linear.apply` has a `...`, and there is no value"),
    ("a wrong result", "Block.apply", retyped(4, "ℝ[batch: B, 5]"), "the declared type is not the one derived"),
    ("a wrong name", "Block.apply", retyped(4, "ℝ[batch: B, f: 4]"), "has not the names of the derived"),
    # Folds.
    (
        "a longer loop",
        "Tower.apply",
        op(4, count=constant(3)),
        "`θ` of `Block.apply`: `params stack{2}(Block)` against",
    ),
    ("a loop over nothing", "Tower.apply", op(4, stacked=()), "`Block.apply` takes 3 operands, not 2"),
    ("another accumulator", "Tower.apply", op(4, acc=2, extras=(1,)), "`x` of `Block.apply`: `bool[f: 4]` against"),
    ("a loop that counts", "Tower.apply", op(4, indexed=True), "`Block.apply` takes 3 operands, not 4"),
    ("a loop that scans", "Tower.apply", op(4, scan=True), "a fold that scans gives a pair"),
    ("a loop of another type", "Tower.apply", retyped(4, "ℝ[batch: B, f: 3]"), "the last accumulator"),
    # Function values.
    ("nothing captured", "slope", op(3, captured=()), "the type of a closure"),
    ("too much captured", "slope", op(3, captured=(1, 2, 0, 0)), "takes 3 operands, and 4 are captured"),
    ("something else captured", "slope", op(3, captured=(2, 1)), "`x` of `slope.lambda0`: `bool[f: 4]` against"),
    ("the gradient of a tensor", "slope", op(4, function=1), "has no gradient"),
    ("a tensor applied", "slope", op(5, function=1), "is not applied to 1 operands"),
    ("applied to something else", "slope", op(5, args=(1,)), "the argument of a function value"),
    # Fields, trees, tuples, numbers.
    ("no field", "Linear.apply", op(2, name="v"), "`params Linear{In, Out}` has no field `v`"),
    ("a field of a tensor", "Linear.apply", op(2, base=1), "`ℝ[..., In]` has no fields"),
    ("another field", "Linear.apply", op(2, name="b"), "the declared type is not the one derived"),
    ("a field less", "Linear.init", op(6, fields=(3,)), "`params Linear{In, Out}` has 2 fields, not 1"),
    ("fields exchanged", "Linear.init", op(6, fields=(5, 3)), "the field `w`: `ℝ[Out]` against `ℝ[In, Out]`"),
    ("no item", "pair", op(4, place=2), "has no item 2"),
    ("another item", "pair", op(4, place=1), "the declared type is not the one derived"),
    ("a tuple of others", "pair", op(3, items=(0, 0)), "the declared type is not the one derived"),
    ("no natural number", "loss", op(7, text="1.5"), "1.5 is no `nat`"),
    # Primitives.
    ("no primitive", "Linear.apply", op(3, name="dott"), "there is no primitive `dott`"),
    ("an operand too many", "Linear.apply", op(3, args=(1, 2, 2)), "`dot` does not take 3 operands"),
    ("a wrong operand", "Linear.apply", op(3, args=(2, 1)), "`·` contracts"),
    ("a wrong type", "Linear.apply", retyped(3, "ℝ[..., Out, Out]"), "the declared type is not the one derived"),
    ("no attributes", "Linear.apply", op(5, attrs=()), "the attributes of `add` are ()"),
    ("an unknown", "Linear.apply", retyped(3, "ℝ[`?1`]"), "is no type of the core"),
)


@pytest.mark.parametrize(("name", "damage", "text"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
def test_each_kind_of_damage_is_found(program: Any, name: str, damage: Damage, text: str) -> None:
    functions = program.functions
    broken = damage(functions[name])
    assert broken != functions[name]
    changed = Program(tuple(broken if one.name == name else one for one in program.program.functions))
    found = verify(changed, program.core.headers, after="a pass")
    assert any(text in f"{one.function}{'' if one.var is None else f'/%{one.var}'}: {one.text}" for one in found), found
    assert {one.after for one in found} == {"a pass"}
    with pytest.raises(Broken, match="after a pass"):
        verified(changed, program.core.headers, after="a pass")


def test_the_sound_program_passes(program: Any) -> None:
    sound = program.program
    assert verified(sound, program.core.headers, after="lowering") is sound


def test_every_form_of_operation_is_damaged(program: Any) -> None:
    damaged = set()
    for _, name, damage, _ in DAMAGES:
        before = program.functions[name]
        after = {one.var: one for one in damage(before).bindings}
        damaged |= {type(one.op) for one in before.bindings if after.get(one.var) != one}
    assert damaged == set(get_args(Operation))


def test_one_name_for_two_functions(program: Any) -> None:
    twice = Program((*program.program.functions, program.program.functions[0]))
    (found,) = verify(twice, program.core.headers, after="joining")
    assert found == Finding("joining", twice.functions[0].name, None, "the name stands for two functions")
    assert str(found) == f"after joining: {twice.functions[0].name}: the name stands for two functions"


def test_no_grad_is_left_after_differentiation(program: Any) -> None:
    found = verify(program.program, program.core.headers, after="differentiation", differentiated=True)
    assert [(one.function, one.var, one.text) for one in found] == [("slope", 4, "a `grad` is left")]


def test_lengths_that_facts_make_equal() -> None:
    """`N <= 4` and `4 <= N` leave one length; without them the types differ."""
    program = parse(
        "fn f{N}(x : ℝ[N], y : ℝ[4]) -> ℝ[N] {\n  %2 : ℝ[N] = call g{N = N}(y)\n  return %2\n}\n"
        "fn g{N}(x : ℝ[N]) -> ℝ[N] {\n  return x\n}\n"
    )
    facts = {"f": (Claim(Relation.LE, symbol("N"), constant(4)), Claim(Relation.LE, constant(4), symbol("N")))}
    assert verify(program, {}, after="parsing", facts=facts) == ()
    assert len(verify(program, {}, after="parsing")) == 1


def test_a_scanning_loop_and_its_stack(tmp_path: Path) -> None:
    text = """\
module Block in "main.psk"
fn body{B}(θ : params Block, s : (ℝ[B], key), i : nat) -> (ℝ[B], key) {
  return s
}
fn f{B}(θ : params stack{3}(Block), x : ℝ[B], k : key) -> ((ℝ[B], key), (ℝ[3, B], stack{3}(key))) {
  %3 : (ℝ[B], key) = (x, k)
  %4 : ((ℝ[B], key), (ℝ[3, B], stack{3}(key))) = fold 3 body(stacked θ; acc %3;; scan, indexed)
  return %4
}
"""
    assert verify(parse(text), {}, after="parsing") == ()
    wrong = text.replace("stack{3}(key)", "stack{2}(key)")
    assert [one.text.partition(":")[0] for one in verify(parse(wrong), {}, after="parsing")] == [
        "the stack of accumulators"
    ]
