"""Control flow, dimensions, memory: programs built by hand."""

import gc
import weakref
from fractions import Fraction as F

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from presk.core.ir import Apply, Call, Closure, Field, Fold, Grad, Literal, MakeParams, MakeTuple, Program, Project
from presk.exact.interpreter import Interpreter, Stopped, literal
from presk.exact.plan import plan
from presk.exact.reals import Reals
from presk.exact.values import Index, Items, Key, Number, Real, Record, Truth, filled
from presk.prims.attrs import Align, Length, Word
from presk.types.dim import constant, symbol
from presk.types.type import PREFIX, Axis, Function, Hyper, HyperKind, Params, Shape, Stacked, Tuple
from presk.types.type import Key as KeyType
from presk.types.type import Stack as StackType
from tests.exact.support import Body, evaluate, fractions, grid, idx, real, tensor, whole
from tests.exact.test_primitives import HEADERS, TREE, tree, tree_fractions

NAT = Hyper(HyperKind.NAT)
SAME = {"left": whole(1), "right": whole(1)}


# --- operations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value",
    [
        ("0", Number(mpq(0))),
        ("768", Number(mpq(768))),
        ("0.02", Number(mpq(1, 50))),
        ("3e-4", Number(mpq(3, 10000))),
        ("1E3", Number(mpq(1000))),
        ("0.1234567890123456789012345678901234567890", Number(mpq(1234567890123456789012345678901234567890, 10**40))),
        ("true", Truth(True)),
        ("false", Truth(False)),
    ],
)
def test_literals_are_exact(text, value):
    body = Body("f")
    body.bind(NAT, Literal(text))
    assert evaluate(body.done()) == value


def test_a_literal_that_no_memory_holds():
    body = Body("f")
    body.bind(NAT, Literal("1e999999999"))
    with pytest.raises(Stopped) as caught:
        evaluate(body.done())
    assert caught.value.fault.code == "E7006"
    assert caught.value.trail == (("f", 0),)
    assert literal("1e1000") == Number(mpq(10) ** 1000)


def test_trees_and_tuples():
    body = Body("f", ("w", real(2, 2)), ("b", real(2)))
    made = body.bind(TREE, MakeParams((0, 1)))
    field = body.bind(real(2), Field(made, "b"))
    pair = body.bind(Tuple((TREE, real(2))), MakeTuple((made, field)))
    body.bind(real(2), Project(pair, 1))
    w, b = grid(2, 2), tensor([5, 6])
    assert evaluate(body.done(), w, b, headers=HEADERS) is b
    assert tree_fractions(evaluate(body.done(made), w, b, headers=HEADERS))["w"] == [[1, 2], [3, 4]]


def test_a_function_may_return_its_parameter():
    body = Body("f", ("x", real(2)))
    x = grid(2)
    assert evaluate(body.done(0), x) is x


def test_operations_that_are_left_by_mistake():
    body = Body("f", ("x", real(2)))
    body.bind(real(2), Grad(0))
    with pytest.raises(TypeError):
        evaluate(body.done(), grid(2))


# --- calls --------------------------------------------------------------------------------------------------------------


def test_dimensions_of_a_call_are_the_callers():
    """`zeros` of the callee's type shows what the callee's dimensions are."""
    callee = Body("g", dims=("In", "Out"))
    callee.prim(real("In", "Out"), "zeros")
    body = Body("f", dims=("D",))
    twice = symbol("D").scaled(mpq(2)) + constant(1)
    body.bind(real("D", 5), Call("g", (("In", symbol("D")), ("Out", twice)), None, ()))
    found = evaluate([body.done(), callee.done()], dims={"D": 3})
    assert found.data.shape == (3, 7)


def test_an_open_dimension_fails_at_its_use_only():
    callee = Body("g", ("x", real(2)), dims=("T",))
    callee.prim(real(2), "neg", 0)
    body = Body("f", ("x", real(2)))
    body.bind(real(2), Call("g", (("T", symbol("T")),), None, (0,)))
    assert fractions(evaluate([body.done(), callee.done()], grid(2))) == [-1, -2]
    callee.prim(real("T"), "zeros")
    with pytest.raises(Stopped) as caught:
        evaluate([body.done(), callee.done()], grid(2))
    assert caught.value.fault.code == "E7008"
    assert caught.value.trail == (("f", 1), ("g", 2))


@pytest.mark.parametrize("lengths", [(), (3,), (2, 1, 2), (0, 2)])
def test_the_prefix_is_whatever_leads(lengths):
    callee = Body("g", ("x", real("N", prefix=True)), dims=("N",))
    callee.prim(real("N", prefix=True), "add", 0, 0, left=whole(1, True), right=whole(1, True))
    axes = tuple(Axis(constant(length)) for length in lengths)
    body = Body("f", ("x", real(*lengths, 2)))
    body.bind(real(*lengths, 2), Call("g", (("N", constant(2)),), Shape(axes), (0,)))
    x = grid(*lengths, 2)
    assert fractions(evaluate([body.done(), callee.done()], x)) == (2 * np.array(fractions(x))).tolist()


def test_a_prefix_inside_a_tuple():
    pair = Tuple((NAT, real(2, prefix=True)))
    body = Body("f", ("p", pair), ("b", real(2)))
    x = body.bind(real(2, prefix=True), Project(0, 1))
    body.prim(real(2, prefix=True), "add", x, 1, left=whole(1, True), right=Align(False, (-1,)))
    value = Items((Number(mpq(1)), grid(3, 2)))
    assert fractions(evaluate(body.done(), value, tensor([10, 20]))) == [[11, 22], [13, 24], [15, 26]]


def test_a_prefix_that_no_argument_shows():
    """A callee without such a parameter gets the lengths that the call states, the caller's own in front."""
    callee = Body("g")
    callee.prim(real(2, prefix=True), "zeros")
    body = Body("f", ("x", real(5, prefix=True)))
    body.bind(real(3, 2, prefix=True), Call("g", (), Shape((Axis(constant(3)),), PREFIX), ()))
    found = evaluate([body.done(), callee.done()], grid(4, 5))
    assert found.data.shape == (4, 3, 2)


def test_deep_calls_do_not_need_pythons_stack():
    functions = []
    for depth in range(3000):
        body = Body(f"f{depth}", ("x", real(1)))
        if depth < 2999:
            body.bind(real(1), Call(f"f{depth + 1}", (), None, (0,)))
        body.prim(real(1), "neg", len(body.params) + len(body.bindings) - 1)
        functions.append(body.done())
    assert fractions(evaluate(functions, tensor([1]))) == [1]


def test_closures_capture_values_dimensions_and_functions():
    inner = Body("inner", ("a", real(2)), ("b", real(2)), dims=("N",))
    inner.prim(real(2), "sub", 0, 1, **SAME)
    ones = inner.prim(real("N"), "ones")
    inner.bind(Tuple((real(2), real("N"))), MakeTuple((2, ones)))
    type_ = Function((real(2),), Tuple((real(2), real(3))))
    outer = Body("outer", ("g", type_), ("x", real(2)))
    outer.bind(type_.result, Apply(0, (1,)))
    body = Body("f", ("x", real(2)), ("y", real(2)), dims=("M",))
    function = body.bind(type_, Closure("inner", (("N", symbol("M") + constant(1)),), None, (0,)))
    body.bind(type_.result, Call("outer", (), None, (function, 1)))
    found = evaluate([body.done(), inner.done(), outer.done()], tensor([5, 7]), tensor([1, 2]), dims={"M": 2})
    assert [fractions(item) for item in found.items] == [[4, 5], [1, 1, 1]]


# --- folds --------------------------------------------------------------------------------------------------------------


def affine():
    """acc·w + b + i, of slices w, an extra b and the number of the iteration."""
    body = Body("body", ("w", real()), ("acc", real()), ("b", real()), ("i", NAT))
    scaled = body.prim(real(), "mul", 1, 0, left=whole(0), right=whole(0))
    moved = body.prim(real(), "add", scaled, 2, left=whole(0), right=whole(0))
    number = body.prim(real(), "real", 3)
    body.prim(real(), "add", moved, number, left=whole(0), right=whole(0))
    return body.done()


def fold(count, *, reverse=False, scan=False):
    body = Body("f", ("ws", real("L")), ("x", real()), ("b", real()), dims=("L",))
    result = Tuple((real(), real("L"))) if scan else real()
    body.bind(result, Fold(symbol("L"), "body", (), None, (0,), 1, (2,), reverse, scan, indexed=True))
    ws = tensor(np.arange(2, 2 + count))
    return evaluate([body.done(), affine()], ws, tensor(1), tensor(10), dims={"L": count})


@given(st.integers(0, 5), st.booleans(), st.booleans())
def test_folds(count, reverse, scan):
    acc, saved = F(1), {}
    for i in range(count - 1, -1, -1) if reverse else range(count):
        saved[i] = acc
        acc = acc * (2 + i) + 10 + i
    found = fold(count, reverse=reverse, scan=scan)
    if scan:
        assert fractions(found.items[0]) == acc
        assert fractions(found.items[1]) == [saved[i] for i in range(count)]
    else:
        assert fractions(found) == acc


def test_a_fold_of_none_gives_its_initial_value_itself():
    x = tensor(4)
    body = Body("f", ("x", real()))
    body.bind(real(), Fold(constant(0), "body", (), None, (), 0, ()))
    assert evaluate([body.done(), affine()], x) is x


def test_scans_stack_keys_numbers_and_prefixed_tensors():
    """The accumulator (x, key, n): keys and numbers are stacked as sequences, a tensor behind `...` gets an axis in front."""
    acc = Tuple((real(2, prefix=True), KeyType(), NAT))
    step = Body("step", ("acc", acc))
    x = step.bind(real(2, prefix=True), Project(0, 0))
    key = step.bind(KeyType(), Project(0, 1))
    n = step.bind(NAT, Project(0, 2))
    keys = step.prim(Tuple((KeyType(),)), "split_key", key, n=Length(constant(1)))
    child = step.bind(KeyType(), Project(keys, 0))
    more = step.prim(NAT, "hyper_add", n, n)
    twice = step.prim(real(2, prefix=True), "add", x, x, left=whole(1, True), right=whole(1, True))
    step.bind(acc, MakeTuple((twice, child, more)))
    stack = Tuple(
        (StackType(constant(3), acc.items[0]), StackType(constant(3), KeyType()), StackType(constant(3), NAT))
    )
    body = Body("f", ("acc", acc))
    pair = body.bind(Tuple((acc, stack)), Fold(constant(3), "step", (), Shape((), PREFIX), (), 0, (), scan=True))
    saved = body.bind(stack, Project(pair, 1))
    body.prim(acc, "get_slice", saved, body.bind(NAT, Literal("2")))
    start = Items((grid(3, 2), Key(bytes(32)), Number(mpq(1))))
    found = evaluate([body.done(), step.done()], start)
    assert fractions(found.items[0]) == (4 * np.array(fractions(start.items[0]))).tolist()
    assert found.items[2] == Number(mpq(4))
    everything = evaluate([body.done(saved), step.done()], start)
    assert everything.items[0].data.shape == (3, 3, 2)
    assert len({key.data for key in everything.items[1].items}) == 3


def test_a_scan_of_none_has_the_accumulators_form():
    acc = Tuple((real(2), KeyType(), idx(4, 3)))
    body = Body("f", ("acc", acc))
    stack = Tuple((real(0, 2), StackType(constant(0), KeyType()), idx(4, 0, 3)))
    body.bind(Tuple((acc, stack)), Fold(constant(0), "step", (), None, (), 0, (), scan=True))
    start = Items((grid(2), Key(bytes(32)), Index(np.zeros(3, np.int64), 4)))
    found = evaluate([body.done(), affine()], start)
    form = found.items[1]
    assert form.items[0].data.shape == (0, 2)
    assert form.items[1].items == ()
    assert form.items[2].data.shape == (0, 3)


def test_stacked_trees_are_sliced():
    step = Body("step", ("θ", TREE), ("acc", real(2)))
    b = step.bind(real(2), Field(0, "b"))
    step.prim(real(2), "add", 1, b, **SAME)
    stacked = Params(Stacked(symbol("L"), TREE.instance))
    body = Body("f", ("θ", stacked), ("x", real(2)), dims=("L",))
    body.bind(real(2), Fold(symbol("L"), "step", (), None, (0,), 1, ()))
    value = Record({"w": grid(3, 2, 2), "b": grid(3, 2)})
    found = evaluate([body.done(), step.done()], value, tensor([0, 0]), dims={"L": 3}, headers=HEADERS)
    assert fractions(found) == [1 + 3 + 5, 2 + 4 + 6]
    assert tree_fractions(tree([[1, 2], [3, 4]], [5, 6]))["b"] == [5, 6]


# --- faults -------------------------------------------------------------------------------------------------------------


def test_a_fault_names_the_bindings_that_led_to_it():
    deep = Body("deep", ("x", real(2)), ("y", real(2)))
    deep.prim(real(2), "neg", 0)
    deep.prim(real(2), "div", 0, 1, **SAME)
    step = Body("step", ("acc", real(2)), ("y", real(2)))
    step.bind(real(2), Call("deep", (), None, (0, 1)))
    body = Body("f", ("x", real(2)), ("y", real(2)))
    body.bind(real(2), Fold(constant(2), "step", (), None, (), 0, (1,)))
    with pytest.raises(Stopped) as caught:
        evaluate([body.done(), step.done(), deep.done()], tensor([1, 1]), tensor([1, 0]))
    assert caught.value.trail == (("f", 2), ("step", 2), ("deep", 3))
    assert (caught.value.fault.code, caught.value.fault.index) == ("E7001", (1,))


def test_overflow_is_a_fault_of_its_binding():
    body = Body("f", ("x", real()))
    body.prim(real(), "exp", 0)
    with pytest.raises(Stopped) as caught:
        evaluate(body.done(), tensor(1e12))
    assert caught.value.fault.code == "E7006"
    assert "`exp`" in caught.value.fault.message


class Cancelled(Exception):
    """What a caller raises to stop a run."""


def test_a_run_can_be_stopped_before_any_binding():
    left = [5]

    def tick():
        left[0] -= 1
        if left[0] == 0:
            raise Cancelled

    body = Body("f", ("x", real(1)))
    for var in range(20):
        body.prim(real(1), "neg", var)
    interpreter = Interpreter(Program((body.done(),)), Reals(64), {}, tick)
    with pytest.raises(Cancelled):
        interpreter.run("f", [tensor([1])], {})
    assert left == [0]
    assert gmpy2.get_context().precision == 53


# --- memory -------------------------------------------------------------------------------------------------------------


def test_liveness():
    body = Body("f", ("x", real(1)), ("unread", real(1)), ("y", real(1)))
    one = body.prim(real(1), "neg", 0)
    dead = body.prim(real(1), "neg", one)
    two = body.prim(real(1), "add", one, 2, **SAME)
    body.prim(real(1), "add", two, two, **SAME)
    found = plan(body.done())
    assert found.unread == {1}
    assert found.last == (frozenset({0}), frozenset({dead}), frozenset({one, 2}), frozenset({two}))


class Watch:
    """Which arrays are alive when bindings are about to be evaluated."""

    def __init__(self):
        self.arrays = {}
        self.alive = []

    def add(self, name, value):
        # A view keeps the array whose elements it shows, not the view that it was made of.
        self.arrays[name] = weakref.ref(value.data if value.data.base is None else value.data.base)
        return value

    def __call__(self):
        gc.collect()
        self.alive.append({name for name, array in self.arrays.items() if array() is not None})


def test_nothing_outlives_its_last_reader():
    body = Body("f", ("x", real(2)), ("y", real(2)))
    body.prim(real(2), "neg", 0)
    body.prim(real(2), "neg", 2)
    body.prim(real(2), "add", 3, 1, **SAME)
    body.prim(real(2), "neg", 4)
    watch = Watch()
    interpreter = Interpreter(Program((body.done(),)), Reals(64), {}, watch)
    interpreter.run("f", [watch.add("x", grid(2)), watch.add("y", grid(2))], {})
    assert watch.alive == [{"x", "y"}, {"y"}, {"y"}, set()]


def test_a_call_is_handed_what_its_caller_reads_for_the_last_time():
    callee = Body("g", ("x", real(2)), ("y", real(2)))
    callee.prim(real(2), "neg", 0)
    callee.prim(real(2), "neg", 2)
    callee.prim(real(2), "add", 3, 1, **SAME)
    callee.prim(real(2), "neg", 4)
    body = Body("f", ("x", real(2)), ("y", real(2)))
    body.bind(real(2), Call("g", (), None, (0, 1)))
    body.prim(real(2), "add", 2, 1, **SAME)
    watch = Watch()
    interpreter = Interpreter(Program((body.done(), callee.done())), Reals(64), {}, watch)
    interpreter.run("f", [watch.add("x", grid(2)), watch.add("y", grid(2))], {})
    # before the call; before each binding of g; before the last binding of f, which reads y again
    assert watch.alive == [{"x", "y"}, {"x", "y"}, {"y"}, {"y"}, {"y"}, {"y"}]


def test_the_result_of_a_call_does_not_outlive_its_last_reader(monkeypatch):
    callee = Body("g", ("x", real(2)))
    callee.prim(real(2), "neg", 0)
    body = Body("f", ("x", real(2)))
    body.bind(real(2), Call("g", (), None, (0,)))
    body.prim(real(2), "neg", 1)
    body.prim(real(2), "neg", 2)
    body.prim(real(2), "neg", 3)
    watch = Watch()
    interpreter = Interpreter(Program((body.done(), callee.done())), Reals(64), {}, watch)
    original = interpreter._body

    def watched(frame, args):
        value = yield from original(frame, args)
        return watch.add(frame.plan.function.name, value)

    monkeypatch.setattr(interpreter, "_body", watched)
    interpreter.run("f", [watch.add("x", grid(2))], {})
    assert [("g" in alive, "x" in alive) for alive in watch.alive] == [
        (False, True),
        (False, True),
        (True, False),
        (False, False),
        (False, False),
    ]


def test_a_fold_hands_its_operands_over_in_its_last_iteration():
    step = Body("step", ("w", real(2)), ("acc", real(2)), ("b", real(2)))
    step.prim(real(2), "add", 1, 0, **SAME)
    step.prim(real(2), "add", 3, 2, **SAME)
    step.prim(real(2), "neg", 4)
    body = Body("f", ("ws", real(2, 2)), ("x", real(2)), ("b", real(2)))
    body.bind(real(2), Fold(constant(2), "step", (), None, (0,), 1, (2,)))
    body.prim(real(2), "neg", 3)
    watch = Watch()
    interpreter = Interpreter(Program((body.done(), step.done())), Reals(64), {}, watch)
    interpreter.run("f", [watch.add("ws", grid(2, 2)), watch.add("x", grid(2)), watch.add("b", grid(2))], {})
    everything = {"ws", "x", "b"}
    assert watch.alive[:4] == [everything, everything, {"ws", "b"}, {"ws", "b"}]
    # the second iteration: the stack lives as long as its slice, b until it was added
    assert watch.alive[4:] == [{"ws", "b"}, {"b"}, set(), set()]


def test_parameters_are_held_once():
    """A field, an argument and a slice of a stack copy nothing."""
    step = Body("step", ("θ", TREE), ("acc", TREE))
    step.bind(real(2, 2), Field(0, "w"))
    stacked = Params(Stacked(constant(1), TREE.instance))
    body = Body("f", ("θ", stacked))
    first = body.prim(TREE, "get_slice", 0, body.bind(NAT, Literal("0")))
    body.bind(TREE, Fold(constant(1), "step", (), None, (0,), first, ()))
    body.bind(real(2, 2), Field(first, "w"))
    w = grid(1, 2, 2)
    found = evaluate([body.done(), step.done(1)], Record({"w": w, "b": grid(1, 2)}), headers=HEADERS)
    assert np.shares_memory(found.data, w.data)


def test_zeros_stay_one_element_through_a_sum_of_cotangents():
    body = Body("f", ("θ", TREE), ("db", real(2)))
    first = body.prim(TREE, "zeros_like", 0)
    second = body.prim(TREE, "set_field", body.prim(TREE, "zeros_like", 0), 1, name=Word("b"))
    body.prim(TREE, "add", first, second)
    found = evaluate(body.done(), tree([[1, 2], [3, 4]], [5, 6]), tensor([7, 8]), headers=HEADERS)
    assert found.fields["w"].data.strides == (0, 0)
    assert fractions(found.fields["b"]) == [7, 8]


def test_a_result_does_not_depend_on_what_else_was_asked():
    """Every row of a batch by itself gives the bits it has in the batch, in any order."""
    body = Body("f", ("x", real(3, prefix=True)), ("w", real(3, 4)))
    product = body.prim(real(4, prefix=True), "dot", 0, 1)
    body.prim(real(4, prefix=True), "gelu", product)
    rng = np.random.default_rng(1)
    x, w = tensor(rng.normal(size=(5, 3))), tensor(rng.normal(size=(3, 4)))
    whole_batch = evaluate(body.done(), x, w)
    for order in ([4, 2, 0, 1, 3], [3]):
        part = evaluate(body.done(), Real(x.data[order]), w)
        assert part.data.tolist() == whole_batch.data[order].tolist()
    assert evaluate(body.done(), Real(x.data[0]), w).data.tolist() == whole_batch.data[0].tolist()


def test_shared_arrays_are_never_written():
    """What comes in is as it was, also where a stack's slice is replaced."""
    body = Body("f", ("s", real(2, 2)), ("x", real(2)))
    zero = body.bind(NAT, Literal("0"))
    body.prim(real(2, 2), "set_slice", 0, 1, zero)
    stack, x = grid(2, 2), tensor([9, 9])
    found = evaluate(body.done(), stack, x)
    assert fractions(found) == [[9, 9], [3, 4]]
    assert fractions(stack) == [[1, 2], [3, 4]]
    constant_stack = Real(filled((2, 2), stack.data[0, 0]))
    assert fractions(evaluate(body.done(), constant_stack, x)) == [[9, 9], [1, 1]]
    assert fractions(constant_stack) == [[1, 1], [1, 1]]
