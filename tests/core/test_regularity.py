"""Regularity: classes through calls, folds, tuples and function values; the laws of the lattice; what E3001 names."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.core.ir import Binding, Call, Fold, Function, MakeTuple, Param, Prim, Project
from presk.core.lower import Mode
from presk.core.regularity import Gradient, Reach, Site, Summary, gradient_diagnostics, summarize
from presk.prims.attrs import AxisName
from presk.prims.regularity import Class
from presk.types.dim import constant
from presk.types.type import SCALAR, Real, Tuple
from tests.core.support import FILES, Lowered, corpus, from_source, summaries

SMOOTH, KINK, DISC = Class

HEAD: Final = """
dim B
const V : nat = 5
const L : nat = 2
"""


def classes(folder: Path, source: str, name: str, mode: Mode = Mode.TRAINING) -> dict[str, Class]:
    """The classes of a function, by parameter."""
    return by_name(summaries(from_source(folder, {"main.psk": HEAD + source}, mode))[name])


def by_name(summary: Summary) -> dict[str, Class]:
    """Classes by parameter."""
    return dict(zip(summary.parameters, summary.classes()))


BODIES: Final = (
    ("x + y * z", (SMOOTH, SMOOTH, SMOOTH)),
    ("relu(x) - relu(-x) + y", (KINK, SMOOTH, SMOOTH)),
    ("max(x, y) + tanh(z)", (KINK, KINK, SMOOTH)),
    ("clamp(x, y, z)", (KINK, KINK, KINK)),
    ("gelu(x) * sqrt(y) / exp(z)", (SMOOTH, SMOOTH, SMOOTH)),
    ("sum(x) + real(argmax(y)) + z", (SMOOTH, DISC, SMOOTH)),
    ("one_hot(argmax(x)) * relu(y)", (DISC, KINK, SMOOTH)),
    ("x", (SMOOTH, SMOOTH, SMOOTH)),
    ("relu(x) * sum(y) + abs(x) * real(argmax(x))", (DISC, SMOOTH, SMOOTH)),
)
"""Bodies of functions of three tensors, and their classes."""


def test_the_worst_class_on_any_path(tmp_path: Path) -> None:
    source = "".join(
        f"fn f{place}(x : ℝ[4], y : ℝ[4], z : ℝ[4]) -> ℝ[4] = {body}\n" for place, (body, _) in enumerate(BODIES)
    )
    found = summaries(from_source(tmp_path, {"main.psk": HEAD + source}))
    for place, (body, expected) in enumerate(BODIES):
        assert found[f"f{place}"].classes() == expected, body


def test_calls_use_the_callees_summary(tmp_path: Path) -> None:
    source = """
fn pick(l : ℝ[4], x : ℝ[4]) -> ℝ = real(argmax(l)) * sum(relu(x))
fn f(x : ℝ[4], y : ℝ[4]) -> ℝ = pick(tanh(x), abs(y))
fn g(x : ℝ[4], y : ℝ[4]) -> ℝ = pick(y, y)
"""
    lowered = from_source(tmp_path, {"main.psk": HEAD + source})
    found = summaries(lowered)
    assert by_name(found["f"]) == {"x": DISC, "y": KINK}
    assert by_name(found["g"]) == {"x": SMOOTH, "y": DISC}
    # The primitive is found inside the callee; of the kinks on y's way the first one met is kept.
    assert found["f"].reach(0) == Reach(DISC, Site("pick", 2, "argmax"))
    assert found["f"].reach(1).site == Site("f", 3, "abs")


def test_tuples_are_followed_item_by_item(tmp_path: Path) -> None:
    source = """
fn swap(p : (ℝ[4], ℝ[4])) -> (ℝ[4], ℝ[4]) =
  let (a, b) = p
  (relu(b), a)
fn f(x : ℝ[4], y : ℝ[4]) -> ℝ[4] =
  let (a, b) = swap((x, y))
  b
fn g(x : ℝ[4], y : ℝ[4]) -> ℝ[4] =
  let (a, b) = swap((x, y))
  a + 0 * b
"""
    found = summaries(from_source(tmp_path, {"main.psk": HEAD + source}))
    assert by_name(found["f"]) == {"x": SMOOTH, "y": SMOOTH}
    assert by_name(found["g"]) == {"x": SMOOTH, "y": KINK}
    assert by_name(found["swap"]) == {"p": KINK}


STACK: Final = """
type Acc = (ℝ[4], ℝ[4], key)
module Block {
  param w : ℝ[4]  init = ones
  fn apply(s : Acc, t : ℝ[4]) -> Acc uses Rand =
    let (a, b, k) = s
    let (k1, k2) = split_key(k)
    (b * w, relu(t) + b, k2)
}
fn run(θ : params M, x : ℝ[4], y : ℝ[4], t : ℝ[4], k : key) -> ℝ[4] uses Rand =
  M.apply(θ, x, y, t, k)
module M {
  use blocks : stack{L}(Block)
  fn apply(x : ℝ[4], y : ℝ[4], t : ℝ[4], k : key) -> ℝ[4] uses Rand =
    let (a, _, _) = blocks.apply((x, y, k), t)
    a
}
"""


def test_a_fold_is_followed_until_nothing_changes(tmp_path: Path) -> None:
    """t reaches a's item only in the second iteration, through b; the key stays in its own item."""
    found = classes(tmp_path, STACK, "run")
    assert found == {"θ": SMOOTH, "x": SMOOTH, "y": SMOOTH, "t": KINK, "k": SMOOTH}


def test_draws_are_read_in_the_reading_that_has_them(tmp_path: Path) -> None:
    source = "fn f(key : key, r : f64, x : ℝ[4]) -> ℝ[4] uses Rand = dropout(r, key, x)\n"
    assert classes(tmp_path, source, "f") == {"key": DISC, "r": DISC, "x": SMOOTH}
    assert classes(tmp_path, source, "f", Mode.INFERENCE) == {"key": SMOOTH, "r": SMOOTH, "x": SMOOTH}


def test_function_values(tmp_path: Path) -> None:
    source = """
fn f(x : ℝ[4], y : ℝ[4], z : ℝ[4]) -> ℝ =
  let g = λ a. sum(relu(a) * y)
  let h = λ b. g(b) + real(argmax(z))
  h(x)
fn slope(x : ℝ[4], y : ℝ[4]) -> ℝ[4] = grad(λ a. sum(a^2 * y))(x)
fn kinked(x : ℝ[4], y : ℝ[4]) -> ℝ[4] = grad(λ a. sum(relu(a) * y))(x)
"""
    lowered = from_source(tmp_path, {"main.psk": HEAD + source})
    found = summaries(lowered)
    assert by_name(found["f"]) == {"x": KINK, "y": SMOOTH, "z": DISC}
    assert by_name(found["slope"]) == {"x": SMOOTH, "y": SMOOTH}
    # The gradient jumps at the kinks of what it is taken of, and only there.
    assert by_name(found["kinked"]) == {"x": DISC, "y": SMOOTH}
    assert found["kinked"].reach(0).unsupported


@pytest.mark.parametrize("file", FILES)
def test_no_gradient_of_the_corpus_is_refused(file: str) -> None:
    for summary in summaries(corpus(file, Mode.TRAINING)).values():
        assert summary.refused == ()


REFUSED: Final = """
fn pick(logits : ℝ[4]) -> ℝ =
  mean(real(argmax(logits)))
fn through(logits : ℝ[4]) -> ℝ[4] =
  grad(λ l. pick(l))(logits)
fn pattern(x : ℝ[4], y : ℝ[4]) -> (ℝ[4], ℝ[4]) =
  grad(λ (a, b). sum(a) + pick(b))((x, y))
fn inner(x : ℝ[4]) -> ℝ[4] =
  let f = λ v. grad(λ w. pick(w))(v)
  x
fn drawn(key : key, x : ℝ[4]) -> key uses Rand = key
"""


@pytest.fixture
def refused(tmp_path: Path) -> tuple[Lowered, list[Gradient]]:
    """A program whose gradients are refused."""
    lowered = from_source(tmp_path, {"main.psk": HEAD + REFUSED}, Mode.TRAINING, errors=True)
    return lowered, [one for summary in summaries(lowered).values() for one in summary.refused]


def test_refused_gradients(refused: tuple[Lowered, list[Gradient]]) -> None:
    found = {(one.function, one.parameter): one.reach.site for one in refused[1]}
    site = Site("pick", 1, "argmax")
    assert found == {("through", "l"): site, ("pattern", "b"): site, ("inner.lambda0", "w"): site}


def test_the_diagnostic_labels_both_places(refused: tuple[Lowered, list[Gradient]]) -> None:
    lowered, gradients = refused
    through = [one for one in gradients if one.function == "through"]
    (diagnostic,) = gradient_diagnostics(through, lowered.core.origins())
    assert diagnostic.code == "E3001"
    assert diagnostic.message == "cannot differentiate through `argmax`: the function is discontinuous (Disc) in `l`"
    assert diagnostic.primary.text == "`grad` here, with respect to `l`"
    (label,) = diagnostic.labels
    assert label.text == "`argmax` makes the result discontinuous in `l`"
    assert diagnostic.mend == "use `softmax` for a smooth surrogate, or an explicit straight-through relaxation"
    shown = {place.chunk: lowered.checked.sources.resolve(place) for place in (diagnostic.primary.place, label.place)}
    lines = {chunk: (span.start.line, span.start.column) for chunk, span in shown.items() if span is not None}
    first = HEAD.count("\n") + 1
    assert lines == {"fn through": (first + 4, 3), "fn pick": (first + 2, 13)}


def test_without_origins_there_is_no_place(refused: tuple[Lowered, list[Gradient]]) -> None:
    for diagnostic in gradient_diagnostics(refused[1], {}):
        assert diagnostic.primary.place.first > diagnostic.primary.place.last


# --- laws ---------------------------------------------------------------------------------------------------------------

UNARY: Final = {"neg": SMOOTH, "exp": SMOOTH, "relu": KINK, "abs": KINK, "heaviside": DISC, "sign": DISC}
REAL: Final = Real(SCALAR)


@given(st.lists(st.sampled_from(sorted(UNARY)), max_size=6))
def test_a_composition_is_as_bad_as_its_worst_part(names: list[str]) -> None:
    bindings = tuple(Binding(place + 1, None, REAL, Prim(name, (place,))) for place, name in enumerate(names))
    found = summarize((Function("f", (), (Param("x", REAL),), REAL, bindings, len(names)),), {})
    assert found.classes() == (max((UNARY[name] for name in names), default=SMOOTH),)
    worst = next((place for place, name in enumerate(names) if UNARY[name] == found.classes()[0]), None)
    site = found.reach(0).site
    assert site == (None if found.classes()[0] is SMOOTH or worst is None else Site("f", worst + 1, names[worst]))


@st.composite
def straight_lines(draw: st.DrawFn) -> Function:
    """A body of unary and binary primitives on three scalars."""
    bindings = []
    for var in range(3, 3 + draw(st.integers(1, 8))):
        reads = st.integers(0, var - 1)
        if draw(st.booleans()):
            op = Prim(draw(st.sampled_from(sorted(UNARY))), (draw(reads),))
        else:
            op = Prim(draw(st.sampled_from(("add", "mul", "max"))), (draw(reads), draw(reads)))
        bindings.append(Binding(var, None, REAL, op))
    params = tuple(Param(name, REAL) for name in "abc")
    return Function("f", (), params, REAL, tuple(bindings), draw(st.integers(0, var)))


def worst_path(function: Function, parameter: int) -> Class:
    """The worst class of a primitive on a path to the value, by looking at every path."""
    ops = {binding.var: binding.op for binding in function.bindings}

    def paths(var: int) -> list[Class]:
        if var == parameter:
            return [SMOOTH]
        op = ops.get(var)
        if not isinstance(op, Prim):
            return []
        own = UNARY.get(op.name, KINK if op.name == "max" else SMOOTH)
        return [max(own, one) for arg in op.args for one in paths(arg)]

    return max(paths(function.returns), default=SMOOTH)


@given(straight_lines())
def test_classes_are_those_of_all_paths(function: Function) -> None:
    assert summarize((function,), {}).classes() == tuple(worst_path(function, place) for place in range(3))


@given(straight_lines(), st.integers(0, 3))
def test_a_fold_is_as_bad_as_its_unrolled_forms(body: Function, count: int) -> None:
    """A fold stands for any number of iterations; of two items and one extra argument, five iterations show everything."""
    carried = _carrying(body)
    params = tuple(Param(name, REAL) for name in "abc")
    start = Binding(3, None, PAIR, MakeTuple((0, 1)))
    loop = Binding(4, None, PAIR, Fold(constant(count), "g", (), None, (), 3, (2,)))
    found = summarize((Function("f", (), params, PAIR, (start, loop), 4), carried), {}).classes()
    unrolled = [summarize((_unrolled(carried, times, params), carried), {}).classes() for times in range(6)]
    assert found == tuple(max(one) for one in zip(*unrolled))


PAIR: Final = Tuple((REAL, REAL))


def _carrying(body: Function) -> Function:
    """`g((a, b), c)`, whose value is (the body's, a)."""

    def moved(var: int) -> int:
        return (2, 3, 1)[var] if var < 3 else var + 2

    bindings = [Binding(2, None, REAL, Project(0, 0)), Binding(3, None, REAL, Project(0, 1))]
    for one in body.bindings:
        assert isinstance(one.op, Prim)
        bindings.append(Binding(moved(one.var), None, REAL, Prim(one.op.name, tuple(map(moved, one.op.args)))))
    last = bindings[-1].var + 1
    bindings.append(Binding(last, None, PAIR, MakeTuple((moved(body.returns), 2))))
    return Function("g", (), (Param("s", PAIR), Param("c", REAL)), PAIR, tuple(bindings), last)


def _unrolled(body: Function, times: int, params: tuple[Param, ...]) -> Function:
    """The body called a number of times, one after the other."""
    bindings = [Binding(3, None, PAIR, MakeTuple((0, 1)))]
    for place in range(times):
        bindings.append(Binding(4 + place, None, PAIR, Call(body.name, (), None, (3 + place, 2))))
    return Function("f", (), params, PAIR, tuple(bindings), 3 + times)


def test_an_axis_attribute_changes_nothing() -> None:
    mean = Prim("mean", (0,), (("axis", AxisName(None)),))
    function = Function("f", (), (Param("x", REAL),), REAL, (Binding(1, None, REAL, mean),), 1)
    assert summarize((function,), {}).classes() == (SMOOTH,)
