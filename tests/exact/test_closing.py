"""Dimensions that a body uses and no signature mentions."""

import pytest

from presk.core.ir import Apply, Call, Closure, Fold, Program
from presk.exact.closing import closed
from presk.exact.given import Given
from presk.exact.run import Job, run_entry
from presk.prims.attrs import Align, AxisName, Length, Select
from presk.types.dim import constant, symbol
from presk.types.type import Axis, Function, Shape
from tests.exact.support import Body, fractions, idx, real
from tests.exact.test_primitives import HEADERS

EMPTY = Align(False, ())


def ramp():
    """0 + 1 + … + (T − 1) + x."""
    body = Body("ramp", ("x", real()))
    places = body.prim(idx("T", "T"), "positions", axis=Length(symbol("T")))
    total = body.prim(real(), "sum", body.prim(real("T"), "real", places), axis=AxisName(None))
    body.prim(real(), "add", total, 0, left=EMPTY, right=EMPTY)
    return body.done()


def calling(name, op, *params, dims=(), after=()):
    """A function that does one thing with `ramp`."""
    body = Body(name, *params, dims=dims)
    body.bind(*op)
    for more in after:
        body.bind(*more)
    return body.done()


def dims_of(*functions):
    return {function.name: function.dims for function in closed(Program(functions)).functions}


def value(*functions, dims=None, **options):
    outcome = run_entry(Job(Program(functions), functions[0].name, HEADERS, dims=dims or {}, **options))
    assert outcome.result is not None, outcome.diagnostics
    return fractions(outcome.result.value)


CALL = calling("f", (real(), Call("ramp", (), None, (0,))), ("x", real()))
LOOP = calling("f", (real(), Fold(constant(2), "ramp", (), None, (), 0, ())), ("x", real()))
CLOSURE = calling(
    "f",
    (Function((real(),), real()), Closure("ramp", (), None, ())),
    ("x", real()),
    after=[(real(), Apply(1, (0,)))],
)


@pytest.mark.parametrize("caller, times", [(CALL, 1), (LOOP, 2), (CLOSURE, 1)])
def test_a_value_reaches_every_use(caller, times):
    assert dims_of(caller, ramp()) == {"f": ("T",), "ramp": ("T",)}
    outer = calling("g", (real(), Call("f", (), None, (0,))), ("x", real()))
    for functions in ((caller, ramp()), (outer, caller, ramp())):
        assert value(*functions, dims={"T": 5}, words={"x": "0.5"}) == times * 10 + 0.5
        assert value(*functions, dims={"T": 0}, words={"x": "0.5"}) == 0.5


def test_a_caller_hands_on_its_own():
    """An argument of the entry determines the dimension."""
    outer = Body("g", ("y", real(("t", "T"))), dims=("T",))
    total = outer.prim(real(), "sum", 0, axis=AxisName("t"))
    outer.bind(real(), Call("f", (), None, (total,)))
    assert dims_of(outer.done(), CALL, ramp())["g"] == ("T",)
    assert value(outer.done(), CALL, ramp(), inputs={"y": Given("y.json", b"[10, 20, 30]")}) == 60 + 0 + 1 + 2


def test_without_a_value_only_the_use_fails():
    (found,) = run_entry(Job(Program((CALL, ramp())), "f", HEADERS)).diagnostics
    assert found.code == "E7008"
    idle = calling("g", (real(), Fold(constant(0), "ramp", (), None, (), 0, ())), ("x", real()))
    assert value(idle, ramp(), words={"x": "2"}) == 2


def test_what_no_one_mentions_is_refused():
    (found,) = run_entry(Job(Program((CALL, ramp())), "f", HEADERS, dims={"S": 2})).diagnostics
    assert (found.code, "`S`" in found.message, found.notes) == ("E9003", True, ("it has `T`",))


def test_programs_without_such_dimensions_stay_as_they_are():
    body = Body("f", ("x", real("N")), dims=("N",))
    body.prim(real("N"), "neg", 0)
    program = Program((body.done(),))
    assert closed(program) is program


def test_every_place_of_a_dimension():
    """In types, attributes, dimensions and leading axes of calls, counts of loops."""
    body = Body("f", ("x", real(9)))
    body.prim(real(("a", symbol("A") - constant(1))), "ones")
    body.prim(real(2), "slice", 0, s0=Select(None, -1, symbol("B"), symbol("C")))
    body.bind(real(9), Call("g", (("N", symbol("D")),), Shape((Axis(symbol("E")),)), (0,)))
    body.bind(real(9), Fold(symbol("F"), "g", (("N", symbol("G")),), None, (), 0, ()))
    body.bind(Function((), real(9)), Closure("g", (("N", symbol("H")),), None, (0,)))
    callee = Body("g", ("x", real(9)), dims=("N",))
    callee.prim(real(9), "neg", 0)
    assert dims_of(body.done(), callee.done()) == {"f": tuple("ABCDEFGH"), "g": ("N",)}
