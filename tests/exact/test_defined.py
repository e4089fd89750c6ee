"""What is refused before anything is computed: by types, as far as a run reaches."""

import pytest
from gmpy2 import mpq

from presk.core.ir import Apply, Call, Closure, Fold, MakeTuple, Program, Project
from presk.exact.defined import check_entry
from presk.exact.interpreter import Stopped
from presk.prims.attrs import AxisName, Length, Select
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from presk.types.type import PREFIX, Axis, Function, Hyper, HyperKind, Shape, Tuple
from presk.types.type import Key as KeyType
from tests.exact.support import Body, idx, real

NAT = Hyper(HyperKind.NAT)


def check(functions, dims=None, prefix=(), facts=None):
    many = functions if isinstance(functions, list) else [functions]
    check_entry(Program(tuple(many)), many[0].name, dims or {}, prefix, {}, facts or {})


def refused(functions, dims=None, prefix=(), facts=None):
    with pytest.raises(Stopped) as caught:
        check(functions, dims, prefix, facts)
    assert caught.value.fault.code == "E7003"
    return caught.value


def mean(name="f", axis="n", *params):
    body = Body(name, ("x", real(("b", "B"), ("n", "N"))), *params, dims=("B", "N"))
    kept = real(("b", "B")) if axis == "n" else real()
    body.prim(kept, "mean", 0, axis=AxisName(axis))
    return body.done()


# --- primitives ---------------------------------------------------------------------------------------------------------


def test_a_mean_over_no_element():
    assert "axis `n`" in refused(mean(), {"B": 2, "N": 0}).fault.message
    assert refused(mean(), {"B": 0, "N": 0}).trail == (("f", 1),)
    check(mean(), {"B": 0, "N": 3})
    check(mean(), {"B": 2, "N": 1})
    assert "the tensor" in refused(mean("f", None), {"B": 0, "N": 3}).fault.message
    check(mean("f", None), {"B": 1, "N": 1})


def test_its_derivative_too():
    body = Body("f", ("ct", real(("b", "B"))), ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
    body.prim(real(("b", "B"), ("n", "N")), "mean_vjp", 0, 1, axis=AxisName("n"))
    refused(body.done(), {"B": 2, "N": 0})
    check(body.done(), {"B": 2, "N": 2})


TABLE = real("V", 3)


@pytest.mark.parametrize(
    "name, result, params",
    [
        ("embed", real("B", 3), [TABLE, idx("V", "B")]),
        ("embed_vjp", TABLE, [idx("V", "B"), real("B", 3), TABLE]),
        ("cross_entropy", real("B"), [real("B", "V"), idx("V", "B")]),
        ("cross_entropy_vjp", real("B", "V"), [real("B", "V"), idx("V", "B"), real("B")]),
        ("argmax", idx("V", "B"), [real("B", "V")]),
        ("sample", idx("V", "B"), [KeyType(), real("B", "V")]),
    ],
)
def test_no_index_below_zero(name, result, params):
    body = Body("f", *((f"x{at}", type_) for at, type_ in enumerate(params)), dims=("V", "B"))
    body.prim(result, name, *range(len(params)))
    refused(body.done(), {"V": 0, "B": 0})
    check(body.done(), {"V": 1, "B": 0})
    check(body.done(), {"V": 1, "B": 2})


def selection(name, low, high, result):
    body = Body("f", ("x", real(("t", "T"), 2)), dims=("T",))
    if name in ("slice", "index"):
        body.prim(result, name, 0, s0=Select("t", -2, low, high))
    else:
        body = Body("f", ("ct", result), ("x", real(("t", "T"), 2)), dims=("T",))
        body.prim(real(("t", "T"), 2), name, 0, 1, s0=Select("t", -2, low, high))
    return body.done()


@pytest.mark.parametrize("name", ["index", "scatter_index"])
@pytest.mark.parametrize(
    "low, allowed",
    [
        (constant(0), [1, 2, 5]),
        (constant(3), [4, 5]),
        (constant(-1), [1, 2, 5]),
        (constant(-3), [3, 4, 5]),
        (symbol("T") - constant(2), [2, 3, 5]),
    ],
)
def test_indices_outside_their_axis(name, low, allowed):
    for length in range(6):
        function = selection(name, low, None, real(2))
        if length in allowed or (low == symbol("T") - constant(2) and length >= 2):
            check(function, {"T": length})
        elif length < 6:
            if length in allowed:
                continue
            accepted = -length <= int(low.evaluate({"T": length})) < length and low.is_constant()
            if accepted:
                check(function, {"T": length})
            else:
                refused(function, {"T": length})


def test_a_computed_index_never_counts_from_the_end():
    """T − 2 at T = 1 is −1: outside, although −1 written as such is the last."""
    assert "index -1" in refused(selection("index", symbol("T") - constant(2), None, real(2)), {"T": 1}).fault.message
    check(selection("index", constant(-1), None, real(2)), {"T": 1})


@pytest.mark.parametrize("name", ["slice", "slice_vjp"])
def test_slices_outside_their_axis(name):
    def function(low, high):
        return selection(name, low, high, real(("t", high - low), 2))

    for low, high, length, fits in (
        (constant(0), constant(2), 2, True),
        (constant(0), constant(2), 1, False),
        (constant(2), constant(2), 2, True),
        (constant(1), symbol("T"), 1, True),
        (constant(1), symbol("T"), 0, False),
        (symbol("T") - constant(3), symbol("T"), 3, True),
        (symbol("T") - constant(3), symbol("T"), 2, False),
    ):
        if fits:
            check(function(low, high), {"T": length})
        else:
            refused(function(low, high), {"T": length})


# --- lengths, facts, parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form, length", [(symbol("T") - constant(1), 0), (symbol("T").scaled(mpq(1, 2)), 3)])
def test_lengths_are_natural_numbers(form, length):
    body = Body("f", ("x", real("T")), dims=("T",))
    body.prim(real(form), "zeros")
    assert "no natural number" in refused(body.done(), {"T": length}).fault.message
    check(body.done(), {"T": 2})
    entry = Body("g", ("x", real(form)), dims=("T",)).done(0)
    refused(entry, {"T": length})


def test_bounds_of_dimensions_hold():
    at_most = Claim(Relation.LE, symbol("T"), constant(4))
    body = Body("f", ("x", real("T")), dims=("T",)).done(0)
    check(body, {"T": 4}, facts={"f": (at_most,)})
    assert "T = 5" in refused(body, {"T": 5}, facts={"f": (at_most,)}).fault.message
    caller = Body("g", ("x", real("N")), dims=("N",))
    caller.bind(real("N"), Call("f", (("T", symbol("N").scaled(mpq(2))),), None, (0,)))
    check([caller.done(), body], {"N": 2}, facts={"f": (at_most,)})
    assert refused([caller.done(), body], {"N": 3}, facts={"f": (at_most,)}).trail[0] == ("g", 1)


@pytest.mark.parametrize(
    "relation, left, right, holds",
    [
        (Relation.EQ, 3, 3, True),
        (Relation.EQ, 3, 4, False),
        (Relation.LT, 3, 3, False),
        (Relation.GE, 3, 3, True),
        (Relation.GT, 3, 3, False),
        (Relation.DIVIDES, 6, 3, True),
        (Relation.DIVIDES, 7, 3, False),
    ],
)
def test_claims(relation, left, right, holds):
    body = Body("f", ("x", real("T")), dims=("T",)).done(0)
    facts = {"f": (Claim(relation, symbol("T"), constant(right)),)}
    if holds:
        check(body, {"T": left}, facts=facts)
    else:
        refused(body, {"T": left}, facts=facts)


def test_a_parameter_without_a_value():
    body = Body("f", ("p", Tuple((real(), idx("V", "B")))), dims=("V", "B")).done(0)
    assert "p.1" in refused(body, {"V": 0, "B": 2}).fault.message
    check(body, {"V": 0, "B": 0})
    check(body, {"V": 1, "B": 2})


# --- what a run reaches -------------------------------------------------------------------------------------------------


def test_called_functions():
    caller = Body("g", ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
    caller.bind(real(("b", "B")), Call("f", (("B", symbol("B")), ("N", symbol("N"))), None, (0,)))
    functions = [caller.done(), mean()]
    assert refused(functions, {"B": 2, "N": 0}).trail == (("g", 1), ("f", 1))
    check(functions, {"B": 2, "N": 1})
    # a function that nothing calls is not looked at
    check([Body("h", ("x", real(1))).done(0), mean()])


def loop(count):
    step = Body("step", ("acc", real(("n", "N"))), dims=("N",))
    step.prim(real(), "mean", 0, axis=AxisName("n"))
    body = Body("f", ("x", real(("n", "N"))), dims=("N", "L"))
    body.bind(real(("n", "N")), Fold(count, "step", (("N", symbol("N")),), None, (), 0, ()))
    return [body.done(), step.done(0)]


def test_bodies_of_loops_that_run():
    refused(loop(symbol("L")), {"N": 0, "L": 1})
    check(loop(symbol("L")), {"N": 0, "L": 0})
    check(loop(symbol("L")), {"N": 1, "L": 3})
    refused(loop(symbol("L") - constant(2)), {"N": 1, "L": 1})


def closure(applied, through="apply"):
    """A lambda whose body is a mean: applied here, in a function it is passed to, out of a tuple, or not at all."""
    type_ = Function((real(("b", "B"), ("n", "N")),), real(("b", "B")))
    body = Body("f", ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
    made = body.bind(type_, Closure("lam", (("B", symbol("B")), ("N", symbol("N"))), None, ()))
    functions = [mean("lam")]
    if through == "tuple":
        pair = body.bind(Tuple((NAT, type_)), MakeTuple((0, made)))
        made = body.bind(type_, Project(pair, 1))
    if through == "call":
        other = Body("other", ("g", type_), ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
        other.bind(real(("b", "B")), Apply(0, (1,)))
        functions.append(other.done() if applied else other.done(1))
        body.bind(real(("b", "B")), Call("other", (("B", symbol("B")), ("N", symbol("N"))), None, (made, 0)))
        if not applied:
            functions[-1] = Body("other", *((p.name, p.type) for p in other.params), dims=other.dims).done(1)
    elif applied:
        body.bind(real(("b", "B")), Apply(made, (0,)))
    return [body.done(), *functions]


@pytest.mark.parametrize("through", ["apply", "tuple", "call"])
def test_closures_that_are_applied(through):
    refused(closure(True, through), {"B": 2, "N": 0})
    check(closure(True, through), {"B": 2, "N": 1})
    check(closure(False, through), {"B": 2, "N": 0})


def test_a_closure_that_a_loop_carries():
    type_ = Function((real(("b", "B"), ("n", "N")),), real(("b", "B")))
    dims = (("B", symbol("B")), ("N", symbol("N")))
    step = Body("step", ("g", type_), ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
    step.bind(real(("b", "B")), Apply(0, (1,)))
    body = Body("f", ("x", real(("b", "B"), ("n", "N"))), dims=("B", "N"))
    made = body.bind(type_, Closure("lam", dims, None, ()))
    body.bind(type_, Fold(constant(2), "step", dims, None, (), made, (0,)))
    functions = [body.done(), step.done(0), mean("lam")]
    refused(functions, {"B": 2, "N": 0})
    check(functions, {"B": 2, "N": 4})


def test_leading_axes():
    inner = Body("inner", ("x", real(("n", "N"), prefix=True)), dims=("N",))
    inner.prim(real(), "mean", 0, axis=AxisName(None))
    outer = Body("outer", ("x", real(("n", 2), prefix=True)))
    outer.bind(real(), Call("inner", (("N", constant(2)),), Shape((Axis(constant(3)),), PREFIX), (0,)))
    functions = [outer.done(), inner.done()]
    check(functions, prefix=(4,))
    check(functions, prefix=())
    refused(functions, prefix=(4, 0))


def test_open_dimensions_refuse_nothing():
    check(mean(), {"B": 2})
    check(selection("index", symbol("T") - constant(2), None, real(2)), {})
    caller = Body("g", ("x", real(1)))
    caller.bind(real(("b", "B")), Call("f", (("B", symbol("Z")),), None, (0,)))
    check([caller.done(), mean()])


def test_each_function_is_looked_at_once_for_its_dimensions():
    """Two calls a level make 2⁶⁰ calls; each level is walked once."""
    functions = []
    for level in range(60):
        body = Body(f"f{level}", ("x", real(("n", "N"))), dims=("N",))
        if level < 59:
            for _ in range(2):
                body.bind(real(("n", "N")), Call(f"f{level + 1}", (("N", symbol("N")),), None, (0,)))
        else:
            body.prim(real(), "mean", 0, axis=AxisName("n"))
        functions.append(body.done(0))
    check(functions, {"N": 1})
    assert len(refused(functions, {"N": 0}).trail) == 60


def test_deep_calls_do_not_need_pythons_stack():
    functions = []
    for depth in range(3000):
        body = Body(f"f{depth}", ("x", real(("n", "N"))), dims=("N",))
        if depth < 2999:
            body.bind(real(("n", "N")), Call(f"f{depth + 1}", (("N", symbol("N")),), None, (0,)))
        else:
            body.prim(real(), "mean", 0, axis=AxisName("n"))
        functions.append(body.done(0))
    check(functions, {"N": 1})
    assert len(refused(functions, {"N": 0}).trail) == 3000


def test_an_index_may_have_any_length_that_a_split_gives():
    body = Body("f", ("x", real(("a", "N"))), dims=("N",))
    half = symbol("N").scaled(mpq(1, 2))
    body.prim(
        real(("p", half), ("q", 2)),
        "split",
        0,
        axis=AxisName("a"),
        outer=Length(half, "p"),
        inner=Length(constant(2), "q"),
    )
    check(body.done(), {"N": 0})
    check(body.done(), {"N": 4})
    refused(body.done(), {"N": 3})
