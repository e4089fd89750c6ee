"""Entries from the command line's side: results, bounds, diagnostics with their places."""

import json
from collections.abc import Mapping
from fractions import Fraction as F
from typing import Any

import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest
from gmpy2 import mpq

from presk.core.ir import Call, Literal, MakeTuple, Origin, Program, Project
from presk.diagnostics.value import Place
from presk.exact.given import Given
from presk.exact.run import Job, run_entry
from presk.exact.values import Real
from presk.prims.attrs import Align, AxisName, Length
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from presk.types.type import Hyper, HyperKind, Tuple
from presk.types.type import Key as KeyType
from tests.exact.support import Body, fractions, idx, mask, real, whole
from tests.exact.test_primitives import HEADERS, TREE

PAIR = {"left": whole(1), "right": whole(1)}


def run(functions, **options):
    many = functions if isinstance(functions, list) else [functions]
    return run_entry(Job(Program(tuple(many)), many[0].name, HEADERS, **options))


def result(functions, **options) -> Any:
    outcome = run(functions, **options)
    assert outcome.result is not None, outcome.diagnostics
    return outcome.result


def refused(functions, **options):
    outcome = run(functions, **options)
    assert outcome.result is None
    (found,) = outcome.diagnostics
    return found


def inputs(**texts: str) -> Mapping[str, Given]:
    return {name: Given(f"{name}.json", text.encode()) for name, text in texts.items()}


def quotient():
    body = Body("f", ("x", real(("b", "B"))), ("y", real(("b", "B"))), dims=("B",))
    body.prim(real(("b", "B")), "div", 0, 1, **PAIR)
    return body.done()


# --- results ------------------------------------------------------------------------------------------------------------


def test_an_entry():
    found = result(quotient(), inputs=inputs(x="[1, 2]", y="[3, 4]"), bits=100)
    assert found.to_text() == "f : ℝ[b: 2] =\n  [0.3333333333,          0.5]\n"
    content = json.loads(found.to_json())
    assert content["entry"] == "f"
    assert content["result"]["data"] == ["0.33333333333333333333333333333346", "0.5"]
    assert run(quotient(), dims={"B": 3}).result is not None


def test_a_result_is_the_next_input():
    first = result(quotient(), dims={"B": 4}, bits=77)
    again = result(
        quotient(), inputs={"x": Given("r.json", first.to_json().encode()), **inputs(y="[1, 1, 1, 1]")}, bits=77
    )
    assert fractions(again.value) == fractions(first.value)


def test_two_runs_are_equal():
    assert result(quotient(), dims={"B": 5}).to_json() == result(quotient(), dims={"B": 5}).to_json()
    assert result(quotient(), dims={"B": 5}, seed=1).to_json() != result(quotient(), dims={"B": 5}).to_json()


def test_more_bits_agree_in_the_bits_of_fewer():
    few = result(quotient(), dims={"B": 3}, bits=60)
    many = result(quotient(), dims={"B": 3}, bits=600)
    for one, other in zip(fractions(few.value), fractions(many.value)):
        assert abs(one / other - 1) < F(1, 2**59)


def test_calls_before_each_binding():
    count = []
    result(quotient(), dims={"B": 1}, on_binding=lambda: count.append(1))
    assert len(count) == 1


# --- bounds -------------------------------------------------------------------------------------------------------------


def network():
    """softmax(gelu(x·w) − mean) and the like: every kind of rounding."""
    body = Body("f", ("x", real(("b", "B"), 3)), ("w", real(3, ("n", 4))), ("t", idx(4, ("b", "B"))), dims=("B",))
    rows = real(("b", "B"), ("n", 4))
    product = body.prim(rows, "dot", 0, 1)
    active = body.prim(rows, "gelu", product)
    mean = body.prim(real(("b", "B")), "mean", active, axis=AxisName("n"))
    centred = body.prim(rows, "sub", active, mean, left=whole(2), right=Align(False, (-2,)))
    square = body.prim(rows, "pow", centred, n=Length(constant(2)))
    variance = body.prim(real(("b", "B")), "mean", square, axis=AxisName("n"))
    root = body.prim(real(("b", "B")), "sqrt", variance)
    normal = body.prim(rows, "div", centred, root, left=whole(2), right=Align(False, (-2,)))
    soft = body.prim(rows, "softmax", normal, axis=AxisName("n"))
    loss = body.prim(real(("b", "B")), "cross_entropy", normal, 2)
    slope = body.prim(rows, "cross_entropy_vjp", normal, 2, loss)
    kinked = body.prim(rows, "relu", slope)

    body.bind(Tuple((rows, real(("b", "B")), rows, rows)), MakeTuple((soft, loss, slope, kinked)))
    return body.done()


@pytest.mark.parametrize("bits", [24, 53, 128])
@pytest.mark.parametrize("seed", [0, 1])
def test_bounds_hold_against_many_more_bits(bits, seed):
    few = result(network(), dims={"B": 3}, bits=bits, seed=seed, bounds=True)
    many = result(network(), dims={"B": 3}, bits=1000, seed=seed)
    for item, exact, bounds in zip(few.value.items, many.value.items, few.bounds, strict=True):
        for value, truth, bound in zip(item.data.ravel(), exact.data.ravel(), bounds.ravel(), strict=True):
            assert abs(mpq(value) - mpq(truth)) <= mpq(bound)
            assert mpq(bound) <= mpq(1, 2 ** (bits - 14))


def test_bounds_of_an_exact_result_are_zero():
    body = Body("f", ("x", real(2)))
    body.prim(real(2), "add", 0, 0, **PAIR)
    found = result(body.done(), bounds=True)
    assert [bound == 0 for bound in found.bounds] == [True, True]
    assert found.to_text().endswith("  within 0 of the exact values, proved\n")
    assert json.loads(found.to_json())["result"]["bounds"] == ["0", "0"]


def test_a_decimal_is_the_decimal():
    """0.1 is carried rounded; the bound is its distance to a tenth."""
    body = Body("f", ("x", real(1)))
    body.prim(real(1), "neg", 0)
    found = result(body.done(), inputs=inputs(x='["0.1"]'), bits=53, bounds=True)
    distance = abs(mpq(found.value.data[0]) + mpq(1, 10))
    assert 0 < distance <= mpq(found.bounds[0]) <= 16 * distance


def test_a_discrete_result_that_rounding_decides():
    """(x + tiny) − x is 0 at few bits: the greater of the two is another."""
    body = Body("f", ("x", real(2)), ("y", real(2)))
    total = body.prim(real(2), "add", 0, 1, **PAIR)
    body.prim(idx(2), "argmax", total)
    given: dict[str, Any] = {"inputs": inputs(x="[1, 1]", y='["0", "1e-30"]'), "bits": 64}
    assert result(body.done(), **given).value.data == 0
    found = refused(body.done(), bounds=True, **given)
    assert found.code == "E7007"
    assert result(body.done(), bounds=True, inputs=given["inputs"], bits=128).value.data == 1


# --- the command line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dims": {"Z": 1}}, ["`Z`"]),
        ({"dims": {"B": -1}}, ["-1"]),
        ({}, ["`B`"]),
        ({"dims": {"B": 2}, "bits": 1}, ["bits"]),
        ({"dims": {"B": 2}, "bits": 10**7}, ["bits"]),
        ({"dims": {"B": 2}, "seed": -1}, ["seed"]),
        ({"dims": {"B": 2}, "seed": 2**256}, ["seed"]),
        ({"dims": {"B": 2}, "inputs": inputs(z="[1]")}, ["`z`"]),
        ({"dims": {"B": 2}, "words": {"z": "1"}}, ["`z`"]),
    ],
)
def test_a_wrong_command_line(options, words):
    found = refused(quotient(), **options)
    assert found.code == "E9003"
    assert all(word in found.message for word in words)


def test_an_unknown_entry():
    outcome = run_entry(Job(Program((quotient(),)), "g", {}))
    assert outcome.diagnostics[0].code == "E9003"


def test_data_that_does_not_fit():
    assert refused(quotient(), inputs=inputs(x="[1, 2]", y="[1]")).code == "E8002"
    body = Body("f", ("t", idx(4, 3)))
    body.prim(real(3), "real", 0)
    found = refused(body.done(), inputs=inputs(t="[0, 1, 7]"))
    assert (found.code, "t[2]" in found.message, "7" in found.message) == ("E8002", True, True)


# --- errors of a run ----------------------------------------------------------------------------------------------------

ORIGINS = {
    ("g", 1): Origin("main.psk", "fn g", (7, 9)),
    ("f", 2): Origin("main.psk", "fn f", (3, 8)),
}


def dividing():
    callee = Body("f", ("x", real(("row", 2), 2)), ("y", real(2)))
    callee.prim(real(("row", 2), 2), "div", 0, 1, left=whole(2), right=Align(False, (-1,)))
    caller = Body("g", ("x", real(("row", 2), 2)))
    caller.bind(real(("row", 2), 2), Call("f", (), None, (0, 0)))
    return caller, callee


def test_an_error_has_its_place_its_element_and_the_calls():
    _, callee = dividing()
    caller = Body("g", ("p", Tuple((real(("row", 2), 2), real(2)))))
    x = caller.bind(real(("row", 2), 2), Project(0, 0))
    y = caller.bind(real(2), Project(0, 1))
    caller.bind(real(("row", 2), 2), Call("f", (), None, (x, y)))
    origins = {**ORIGINS, ("g", 3): Origin("main.psk", "fn g", (7, 9))}
    found = refused(
        [caller.done(), callee.done()], origins=origins, inputs={"p": Given("p.json", b"[[[1, 2], [3, 4]], [1, 0]]")}
    )
    assert found.code == "E7001"
    assert found.message == "division by zero at [row: 0, 1]"
    assert found.primary.place == Place(3, 8, "fn f", "main.psk")
    assert found.primary.text == "in `f`"
    assert [(label.place, label.text) for label in found.labels] == [(Place(7, 9, "fn g", "main.psk"), "called here")]


def test_a_generated_function_is_shown_by_its_caller():
    """Where a binding has no place of its own, the nearest call that has one is shown."""
    _, callee = dividing()
    caller = Body("g", ("x", real(("row", 2), 2)), ("y", real(2)))
    caller.bind(real(("row", 2), 2), Call("f", (), None, (0, 1)))
    origins = {("g", 2): Origin("main.psk", "fn g", (7, 9))}
    given = {"x": Given("x.json", b"[[1, 2], [3, 4]]"), "y": Given("y.json", b"[0, 1]")}
    found = refused([caller.done(), callee.done()], origins=origins, inputs=given)
    assert found.primary.place == Place(7, 9, "fn g", "main.psk")
    bare = refused([caller.done(), callee.done()], inputs=given)
    assert bare.primary.place == Place(0, -1)
    assert "in `f`" in bare.notes


def test_an_undefined_entry_points_at_its_declaration():
    body = Body("f", ("x", real(("n", "N"))), dims=("N",))
    body.prim(real(), "mean", 0, axis=AxisName("n"))
    found = refused(body.done(), dims={"N": 0}, origins={("f", 1): Origin("main.psk", "fn f", (5, 6))})
    assert (found.code, found.primary.place) == ("E7003", Place(5, 6, "fn f", "main.psk"))
    facts = {"f": (Claim(Relation.LE, symbol("N"), constant(4)),)}
    found = refused(body.done(), dims={"N": 5}, facts=facts, origins={("f", 1): Origin("main.psk", "fn f", (5, 6))})
    assert (found.code, found.primary.place) == ("E7003", Place(0, -1, "fn f", "main.psk"))


def test_nothing_is_computed_before_the_check():
    body = Body("f", ("x", real(("n", "N"))), dims=("N",))
    body.prim(real(("n", "N")), "exp", 0)
    body.prim(real(), "mean", 0, axis=AxisName("n"))
    touched = []
    assert refused(body.done(), dims={"N": 0}, on_binding=lambda: touched.append(1)).code == "E7003"
    assert touched == []


def test_the_row_that_a_mask_empties():
    body = Body("f", ("x", real(("q", 2), ("k", 2))), ("m", mask(("q", 2), ("k", 2))))
    body.prim(real(("q", 2), ("k", 2)), "softmax", 0, 1, axis=AxisName("k"), mask=whole(2))
    found = refused(body.done(), inputs=inputs(m="[[true, false], [false, false]]"))
    assert (found.code, found.message.endswith("at [q: 1]")) == ("E7004", True)


def test_other_errors_of_the_run():
    root = Body("f", ("x", real(("n", 2))))
    root.prim(real(("n", 2)), "sqrt", 0)
    found = refused(root.done(), inputs=inputs(x="[4, -1]"))
    assert (found.code, found.message) == ("E7005", "`sqrt` of -1.0 at [n: 1]")
    large = Body("f", ("x", real()))
    large.prim(real(), "exp", large.prim(real(), "exp", 0))
    assert refused(large.done(), inputs=inputs(x="100")).code == "E7006"
    rate = Body("f", ("r", Hyper(HyperKind.F64)), ("k", KeyType()), ("x", real(1)))
    rate.prim(real(1), "dropout_mask", 0, 1, 2)
    assert refused(rate.done(), words={"r": "1"}).code == "E7009"
    open_ = Body("f", ("x", real(1)), dims=("T",))
    open_.prim(real("T"), "zeros")
    open_.prim(real(1), "neg", 0)
    assert refused(open_.done()).code == "E7008"


def test_a_whole_number_is_divided_by_zero():
    body = Body("f", ("n", Hyper(HyperKind.NAT)))
    zero = body.bind(Hyper(HyperKind.NAT), Literal("0"))
    body.prim(Hyper(HyperKind.INT), "hyper_div", 0, zero)
    found = refused(body.done(), words={"n": "7"})
    assert (found.code, found.message) == ("E7001", "division by zero")


# --- meaning ------------------------------------------------------------------------------------------------------------


def test_uniform_logits_have_the_entropy_of_the_alphabet():
    """−log softmax of equal logits is log 64, at any precision."""
    body = Body("f", ("x", real(("b", 3), 64)), ("t", idx(64, ("b", 3))))
    zero = body.prim(real(("b", 3), 64), "zeros_like", 0)
    loss = body.prim(real(("b", 3)), "cross_entropy", zero, 1)
    body.prim(real(), "mean", loss, axis=AxisName(None))
    found = result(body.done(), bits=256)
    assert isinstance(found.value, Real)
    with mpmath.workprec(400):
        assert abs(mpmath.mpf(str(found.value.data.item())) / mpmath.log(64) - 1) < mpmath.mpf(2) ** -250


def test_a_constant_row_has_no_variance():
    """x − mean(x) is exactly 0 for equal x, and so are its square's mean and the quotient by √ε."""
    body = Body("f", ("x", real(7)))
    mean = body.prim(real(), "mean", 0, axis=AxisName(None))
    body.prim(real(7), "sub", 0, mean, left=whole(1), right=Align(False, ()))
    found = result(body.done(), inputs={"x": Given("x.json", json.dumps(["0.1"] * 7).encode())})
    assert fractions(found.value) == [0] * 7


def test_the_course_of_a_key_is_its_own():
    """dropout's mask is the same whenever it is asked for, and differs between keys."""
    body = Body("f", ("k", KeyType()), ("x", real(40)))
    rate = body.bind(Hyper(HyperKind.F64), Literal("0.5"))
    first = body.prim(real(40), "dropout_mask", rate, 0, 1)
    second = body.prim(real(40), "dropout_mask", rate, 0, 1)
    body.prim(real(40), "sub", first, second, **PAIR)
    assert fractions(result(body.done()).value) == [0] * 40
    other = Body("f", ("k", KeyType()), ("x", real(40)))
    rate = other.bind(Hyper(HyperKind.F64), Literal("0.5"))
    other.prim(real(40), "dropout_mask", rate, 0, 1)
    masks = {tuple(fractions(result(other.done(), words={"k": str(seed)}).value)) for seed in range(5)}
    assert len(masks) == 5
    assert np.array(sorted(masks)).max() == 2


def test_trees_print_as_objects():
    body = Body("f", ("θ", TREE))
    found = json.loads(result(body.done(0)).to_json())["result"]
    assert list(found) == ["w", "b"]
    assert found["b"]["data"] == ["1", "1"]
