"""Traces of small programs of the core: loops of every kind, structures, slices, types that differ from site to site."""

import numpy as np
import pytest

from presk.core.ir import Program
from presk.core.parse import parse
from presk.kernels.entry import InterpretedEntry
from presk.kernels.nest import BF16, F32, F64, Arith
from presk.kernels.targets import X86_64_V3
from presk.kernels.trace.coalesce import coalesce
from presk.kernels.trace.memory import Driver, launches, plan
from presk.kernels.trace.rows import Launch, Loop, Row, Trace
from presk.kernels.trace.tracer import Question, trace
from tests.ad.support import lowered
from tests.native.flow import check_same, check_written, flow
from tests.native.support import Tensors, exactly, given_to, interpreted, native, same

KINDS = ("", "reverse", "scan", "reverse, scan")


def ran(
    program: Program, entry: str, dims: dict[str, int], arith: dict[str, Arith] | None = None
) -> tuple[Trace, Driver, Tensors]:
    """An entry in f64, but for the sites (`f/%2`) and functions that are named: natively, on the interpreter, without what takes
    copies out of it, and without fusion, and all of them alike; its trace, driver and result."""
    stated = arith or {}

    def of(function: str, var: int) -> Arith:
        return stated.get(f"{function}/%{var}", stated.get(function, F64))

    function = next(one for one in program.functions if one.name == entry)
    args = given_to(function, {}, dims, "bf16")
    results = []
    for fused in (True, False):
        made = trace(Question(program, entry, dims, (), {}, of, X86_64_V3.target, {}, fused))
        driver = plan(coalesce(made))
        before = flow(made)
        check_written(before)
        check_same(before, flow(driver))
        found = native(driver, function, args)
        assert same(found, interpreted(driver, function, args))
        assert same(found, native(plan(made), function, args))
        results.append((made, driver, found))
    (first, driver, found), (_, _, apart) = results
    if not stated:
        assert same(found, apart)
        expected = exactly(program, {}, entry, args, dims)
        assert found.keys() == expected.keys()
        for path, array in found.items():
            np.testing.assert_allclose(array, expected[path], rtol=1e-13, atol=1e-13, err_msg=path)
    return first, driver, found


def flat(rows: tuple[Row, ...]) -> list[Launch]:
    """The launches of rows, each once."""
    return [one for row in rows for one in (flat(row.rows) if isinstance(row, Loop) else [row])]


def moves(driver: Driver) -> int:
    """The copies of a driver, each once."""
    return sum(row.move for row in flat(driver.rows))


# --- loops -------------------------------------------------------------------------------------------------------------

BODY = """\
fn body{N}(h : ℝ[n: N], c : ℝ[]) -> ℝ[n: N] {
  %2 : ℝ[n: N] = sin h
  %3 : ℝ[n: N] = mul %2, c
  %4 : ℝ[n: N] = add %3, h
  return %4
}
"""


def loop(kind: str) -> str:
    """A loop of a kind over BODY."""
    result = "(ℝ[n: N], ℝ[L, n: N])" if "scan" in kind else "ℝ[n: N]"
    flags = f"; {kind}" if kind else ""
    return (
        BODY
        + f"fn f{{N L}}(x : ℝ[n: N], c : ℝ[]) -> {result} {{\n"
        + f"  %2 : {result} = fold L body(stacked; acc x; c{flags})\n  return %2\n}}\n"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_loop(kind: str, count: int, n: int) -> None:
    _, driver, _ = ran(parse(loop(kind)), "f", {"N": n, "L": count})
    assert launches(driver.rows) == count
    # What comes in is a parameter's, and is copied once; nothing is copied in the loop.
    assert moves(driver) == 1 or (count == 0 and moves(driver) == 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("second", ["", "reverse"])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_loop_over_what_a_loop_left(kind: str, second: str, count: int) -> None:
    if "scan" not in kind:
        kind = f"{kind}, scan".removeprefix(", ")
    flags = ", ".join(filter(None, (second, "scan", "indexed")))
    text = (
        BODY
        + f"""\
fn again{{N L}}(s : ℝ[n: N], acc : (ℝ[n: N], ℝ[L, n: N]), i : nat) -> (ℝ[n: N], ℝ[L, n: N]) {{
  %3 : ℝ[n: N] = acc.0
  %4 : ℝ[L, n: N] = acc.1
  %5 : ℝ[n: N] = mul s, %3
  %6 : ℝ[n: N] = get_slice %4, i
  %7 : ℝ[n: N] = sub %6, %5
  %8 : ℝ[L, n: N] = set_slice %4, %7, i
  %9 : (ℝ[n: N], ℝ[L, n: N]) = (%5, %8)
  return %9
}}
fn f{{N L}}(x : ℝ[n: N], c : ℝ[]) -> ((ℝ[n: N], ℝ[L, n: N]), (ℝ[L, n: N], ℝ[L, L, n: N])) {{
  %2 : (ℝ[n: N], ℝ[L, n: N]) = fold L body(stacked; acc x; c; {kind})
  %3 : ℝ[L, n: N] = %2.1
  %4 : ((ℝ[n: N], ℝ[L, n: N]), (ℝ[L, n: N], ℝ[L, L, n: N])) = fold L again{{N = N, L = L}}(stacked %3; acc %2;; {flags})
  return %4
}}
"""
    )
    ran(parse(text), "f", {"N": 3, "L": count})


def test_a_loop_in_a_loop() -> None:
    text = (
        BODY
        + """\
fn outer{N L}(s : ℝ[n: N], h : ℝ[n: N], c : ℝ[]) -> ℝ[n: N] {
  %3 : (ℝ[n: N], ℝ[L, n: N]) = fold L body(stacked; acc s; c; scan)
  %4 : ℝ[L, n: N] = %3.1
  %5 : ℝ[n: N] = fold L inner(stacked %4; acc h;; reverse)
  return %5
}
fn inner{N}(s : ℝ[n: N], h : ℝ[n: N]) -> ℝ[n: N] {
  %2 : ℝ[n: N] = mul s, h
  %3 : ℝ[n: N] = add %2, h
  return %3
}
fn f{N L}(x : ℝ[n: N], c : ℝ[]) -> (ℝ[n: N], ℝ[L, n: N]) {
  %2 : (ℝ[n: N], ℝ[L, n: N]) = fold L body(stacked; acc x; c; reverse, scan)
  %3 : ℝ[L, n: N] = %2.1
  %4 : (ℝ[n: N], ℝ[L, n: N]) = fold L outer{N = N, L = L}(stacked %3; acc x; c; scan)
  return %4
}
"""
    )
    for count in (1, 3):
        _, driver, _ = ran(parse(text), "f", {"N": 5, "L": count})
        assert launches(driver.rows) == count + count * 2 * count


def test_accumulators_that_change_places() -> None:
    text = """\
fn swap{N}(s : (ℝ[n: N], (ℝ[n: N], ℝ[n: N]))) -> (ℝ[n: N], (ℝ[n: N], ℝ[n: N])) {
  %1 : ℝ[n: N] = s.0
  %2 : (ℝ[n: N], ℝ[n: N]) = s.1
  %3 : ℝ[n: N] = %2.0
  %4 : ℝ[n: N] = %2.1
  %5 : ℝ[n: N] = sin %4
  %6 : (ℝ[n: N], ℝ[n: N]) = (%5, %1)
  %7 : (ℝ[n: N], (ℝ[n: N], ℝ[n: N])) = (%3, %6)
  return %7
}
fn f{N L}(a : ℝ[n: N], b : ℝ[n: N], c : ℝ[n: N]) -> (ℝ[n: N], (ℝ[n: N], ℝ[n: N])) {
  %3 : (ℝ[n: N], ℝ[n: N]) = (b, c)
  %4 : (ℝ[n: N], (ℝ[n: N], ℝ[n: N])) = (a, %3)
  %5 : (ℝ[n: N], (ℝ[n: N], ℝ[n: N])) = fold L swap(stacked; acc %4)
  return %5
}
"""
    for count in (1, 2, 3, 4):
        for scan in ("", "; scan"):
            result = "(ℝ[n: N], (ℝ[n: N], ℝ[n: N]))"
            stacks = "(ℝ[L, n: N], (ℝ[L, n: N], ℝ[L, n: N]))"
            changed = text
            if scan:
                whole = f"({result}, {stacks})"
                changed = text.replace(f"%5 : {result} = fold", f"%5 : {whole} = fold").replace(
                    f"c : ℝ[n: N]) -> {result}", f"c : ℝ[n: N]) -> {whole}"
                )
                changed = changed.replace("acc %4)", "acc %4;; scan)")
            ran(parse(changed), "f", {"N": 4, "L": count})


def test_an_accumulator_that_is_left_as_it_is_and_one_that_is_thrown_away() -> None:
    text = """\
fn body{N}(s : (ℝ[n: N], ℝ[n: N]), x : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) {
  %2 : ℝ[n: N] = s.0
  %3 : (ℝ[n: N], ℝ[n: N]) = (%2, x)
  return %3
}
fn f{N}(x : ℝ[n: N], y : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) {
  %2 : (ℝ[n: N], ℝ[n: N]) = (x, x)
  %3 : (ℝ[n: N], ℝ[n: N]) = fold 3 body(stacked; acc %2; y)
  return %3
}
"""
    _, driver, _ = ran(parse(text), "f", {"N": 4})
    assert launches(driver.rows) == 0


def test_a_number_that_is_carried_unrolls_the_loop() -> None:
    text = """\
fn body{N}(s : (ℝ[n: N], nat), i : nat) -> (ℝ[n: N], nat) {
  %2 : ℝ[n: N] = s.0
  %3 : nat = s.1
  %4 : nat = hyper_add %3, i
  %5 : nat = hyper_mul %4, %3
  %6 : ℝ[] = real %5
  %7 : ℝ[n: N] = mul %2, %6
  %8 : (ℝ[n: N], nat) = (%7, %5)
  return %8
}
fn f{N}(x : ℝ[n: N], k : nat, y : ℝ[n: N]) -> ((ℝ[n: N], nat), ℝ[n: N]) {
  %3 : (ℝ[n: N], nat) = (x, k)
  %4 : (ℝ[n: N], nat) = fold 3 body(stacked; acc %3;; FLAGSindexed)
  %5 : ((ℝ[n: N], nat), ℝ[n: N]) = (%4, y)
  return %5
}
"""
    for flags in ("", "reverse, "):
        program = parse(text.replace("FLAGS", flags))
        made, driver, found = ran(program, "f", {"N": 2})
        assert launches(driver.rows) == 3 and not any(isinstance(row, Loop) for row in driver.rows)
        assert [path for path, _ in made.numbers] == [".0.1"] and set(found) == {".0.0", ".1"}


def test_a_tuple_a_mask_an_index_and_a_key_are_carried() -> None:
    text = """\
fn body{N}(s : (ℝ[n: N], bool[n: N], idx[7][n: N], key), y : ℝ[n: N]) -> (ℝ[n: N], bool[n: N], idx[7][n: N], key) {
  %2 : ℝ[n: N] = s.0
  %3 : key = s.3
  %4 : (key, key) = split_key 2 %3
  %5 : key = %4.1
  %6 : ℝ[n: N] = mul %2, y
  %7 : bool[n: N] = s.1
  %8 : idx[7][n: N] = s.2
  %9 : (ℝ[n: N], bool[n: N], idx[7][n: N], key) = (%6, %7, %8, %5)
  return %9
}
fn f{N L}(x : ℝ[n: N], m : bool[n: N], i : idx[7][n: N], k : key, y : ℝ[n: N]) -> (ℝ[n: N], bool[n: N], idx[7][n: N], key) {
  %5 : (ℝ[n: N], bool[n: N], idx[7][n: N], key) = (x, m, i, k)
  %6 : (ℝ[n: N], bool[n: N], idx[7][n: N], key) = fold L body(stacked; acc %5; y)
  return %6
}
"""
    program = parse(text)
    once, twice = (ran(program, "f", {"N": 4, "L": count})[2] for count in (1, 2))
    assert not np.array_equal(once[".3"], twice[".3"])
    # A key that is made is no launch in reports.
    assert launches(ran(program, "f", {"N": 4, "L": 3})[1].rows) == 3


# --- types -------------------------------------------------------------------------------------------------------------

WIDENING = (
    BODY
    + """fn f{N L}(x : ℝ[n: N], c : ℝ[]) -> ℝ[n: N] {
  %2 : ℝ[n: N] = fold L body(stacked; acc x; c)
  return %2
}
"""
)


def test_a_loop_whose_body_gives_a_wider_type_carries_that() -> None:
    program = parse(WIDENING)
    dims = {"N": 6, "L": 4}
    _, driver, found = ran(program, "f", dims, {"f": BF16, "body": F32})
    (result,) = driver.results
    assert result.operand.elem == "f32"
    # The parameters are given in bf16, exactly: so it is the loop in f32 throughout.
    assert same(found, ran(program, "f", dims, {"f": F32, "body": F32})[2])
    assert not same(found, ran(program, "f", dims, {"f": BF16, "body": BF16})[2])
    # The first attempt, in bf16, has left nothing behind.
    assert {kernel.buffers[-1].elem for kernel in driver.kernels} == {"f32"}


def test_a_loop_whose_body_gives_a_narrower_type_carries_what_it_was_given() -> None:
    program = parse(WIDENING)
    dims = {"N": 6, "L": 4}
    _, driver, found = ran(program, "f", dims, {"f": F64, "body": BF16})
    (result,) = driver.results
    assert result.operand.elem == "f64"
    assert same(found, ran(program, "f", dims, {"f": BF16, "body": BF16})[2])


def test_a_site_has_its_own_type() -> None:
    program = parse(
        """\
fn f{N}(x : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[] = sum %1
  %3 : ℝ[n: N] = mul x, %2
  %4 : (ℝ[n: N], ℝ[n: N]) = (%1, %3)
  return %4
}
"""
    )
    _, driver, found = ran(program, "f", {"N": 5}, {"f": F32, "f/%1": BF16})
    assert [part.operand.elem for part in driver.results] == ["bf16", "f32"]
    _, _, wide = ran(program, "f", {"N": 5}, {"f": F32})
    assert np.abs(found[".0"] / wide[".0"] - 1).max() <= 2**-8 and not np.array_equal(found[".0"], wide[".0"])


def test_a_sum_over_a_tree_is_stored_when_it_is_whole() -> None:
    """Of 1 and many small numbers bf16 would lose each of them."""
    fields = 40
    names = [f"p{number}" for number in range(fields)]
    tree = lowered("module M {" + "".join(f"\n  param {name} : ℝ[2]" for name in names) + "\n}\n")
    program = parse('module M in "main.psk"\nfn f(θ : params M) -> ℝ[] {\n  %1 : ℝ[] = sum_squares θ\n  return %1\n}\n')
    made = trace(Question(program, "f", {}, (), tree.headers, lambda *_: BF16, X86_64_V3.target))
    entry = InterpretedEntry(plan(coalesce(made)))
    for number, part in enumerate(entry.driver.inputs):
        entry.arena.put(part, np.full(2, 1.0 if number == 0 else 2.0**-5))
    entry.run()
    (part,) = entry.driver.results
    exact = 2 + (fields - 1) * 2 * 2.0**-10
    assert part.operand.elem == "bf16" and exact > 2 + 2.0**-4
    assert abs(float(entry.arena.get(part)) - exact) <= 2.0**-7
