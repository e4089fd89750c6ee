"""Fusion groups: the three conditions, the limit, and what is said of a let that is in no group with its readers."""

import pytest

from presk.core.fusion import ELEMENTWISE, LIMIT, Apart, Group, Partition, Why, nests, operations, partition
from presk.core.ir import Function, Prim, operands
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.prims.core_rows import CORE
from tests.ad.support import corpus, named
from tests.core.support import FILES


def one(text: str) -> Function:
    """The last function of a core text."""
    return parse(text).functions[-1]


def why(parts: Partition) -> dict[int, Why]:
    return {apart.var: apart.why for apart in parts.apart}


def test_a_chain_is_one_group():
    function = one("""
fn f{N}(x : ℝ[n: N], s : ℝ[]) -> ℝ[n: N] {
  %2 : ℝ[n: N] = mul x, s
  %3 : ℝ[n: N] = exp %2
  %4 : ℝ[n: N] = pow 2 %3
  %5 : ℝ[n: N] = add %4, x
  return %5
}
""")
    assert partition(function) == Partition((Group(5, (2, 3, 4, 5), 4),), (Apart(5, Why.RETURNED),))
    assert partition(function).interior() == {2, 3, 4}
    assert nests(function, partition(function)) == ("f/%5",)


def test_a_reduction_ends_a_group_and_is_none():
    function = one("""
fn f{N}(x : ℝ[n: N]) -> ℝ[] {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = neg %1
  %3 : ℝ[] = sum axis n %2
  %4 : ℝ[] = sqrt %3
  return %4
}
""")
    parts = partition(function)
    assert parts.groups == (Group(2, (1, 2), 2), Group(4, (4,), 1))
    assert parts.apart == (
        Apart(2, Why.READ_OUTSIDE, 3),
        Apart(3, Why.NOT_ELEMENTWISE),
        Apart(4, Why.RETURNED),
    )
    assert nests(function, parts) == ("f/%2", "f/%3", "f/%4")


def test_a_layer_normalization_is_cut_at_each_mean():
    function = named(corpus("nlp/05_gpt.psk").program, "LayerNorm.apply")
    parts = partition(function)
    centred = next(binding.var for binding in function.bindings if binding.name == "c")
    # x − μ is read by the variance and by the division: a root, in a group of its own.
    assert Group(centred, (centred,), 1) in parts.groups
    assert why(parts)[centred] in (Why.READ_OUTSIDE, Why.SEVERAL)
    assert sum(len(group.members) > 1 for group in parts.groups) == 2


def test_readers_in_two_groups_make_a_root():
    function = one("""
fn f{N}(x : ℝ[n: N]) -> (ℝ[n: N], ℝ[n: N]) {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = neg %1
  %3 : ℝ[n: N] = tanh %1
  %4 : (ℝ[n: N], ℝ[n: N]) = (%2, %3)
  return %4
}
""")
    parts = partition(function)
    assert [group.root for group in parts.groups] == [1, 2, 3]
    assert parts.apart[0] == Apart(1, Why.SEVERAL, 3)


def test_two_readers_in_one_group_are_no_obstacle_and_repeat_the_member():
    function = one("""
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = tanh %1
  %3 : ℝ[n: N] = mul %1, %2
  return %3
}
""")
    assert partition(function).groups == (Group(3, (1, 2, 3), 4),)


@pytest.mark.parametrize("narrow", ["ℝ[N]", "ℝ[]"])
def test_another_type_is_no_member(narrow):
    # Names are part of a type: ℝ[N] is not ℝ[n: N].
    function = one(f"""
fn f{{N}}(x : ℝ[n: N], b : {narrow}) -> ℝ[n: N] {{
  %2 : {narrow} = exp b
  %3 : ℝ[n: N] = add x, %2
  return %3
}}
""")
    parts = partition(function)
    assert parts.groups == (Group(2, (2,), 1), Group(3, (3,), 1))
    assert parts.apart[0] == Apart(2, Why.OTHER_TYPE, 3)


@pytest.mark.parametrize(("n", "inside"), [(0, True), (1, True), (2, True), (3, False), (7, False)])
def test_a_power_above_two_joins_no_group(n, inside):
    function = one(f"""
fn f{{N}}(x : ℝ[n: N]) -> ℝ[n: N] {{
  %1 : ℝ[n: N] = pow {n} x
  %2 : ℝ[n: N] = exp %1
  return %2
}}
""")
    parts = partition(function)
    assert (1 in parts.interior()) is inside
    assert inside or why(parts)[1] is Why.REPEATS


def test_a_dead_let_is_a_reader():
    function = one("""
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : ℝ[n: N] = exp x
  %2 : ℝ[n: N] = neg %1
  %3 : ℝ[n: N] = tanh %1
  return %3
}
""")
    parts = partition(function)
    assert not parts.interior()
    assert why(parts) == {1: Why.SEVERAL, 2: Why.UNREAD, 3: Why.RETURNED}


def doubling(times: int, before: int) -> Function:
    """x, then `before` exponentials, then `times` sums of a value with itself: 2^k − 1 additions, 2^k repetitions of the rest."""
    lines = [f"  %{1 + k} : ℝ[n: N] = exp {'x' if k == 0 else f'%{k}'}" for k in range(before)]
    for k in range(times):
        of = before + k
        read = f"%{of}" if of else "x"
        lines.append(f"  %{of + 1} : ℝ[n: N] = add {read}, {read}")
    body = "\n".join(lines)
    return one(f"fn f{{N}}(x : ℝ[n: N]) -> ℝ[n: N] {{\n{body}\n  return %{before + times}\n}}\n")


def test_a_group_stops_at_sixty_four_operations_with_repetitions():
    # 63 additions, and one more operation is repeated 64 times: too many.
    parts = partition(doubling(6, 1))
    assert parts.groups == (Group(1, (1,), 1), Group(7, (2, 3, 4, 5, 6, 7), 63))
    assert parts.apart[0] == Apart(1, Why.LIMIT, 7)
    # 31 additions and 32 repetitions of one exponential are 63, of two they are 95.
    assert partition(doubling(5, 1)).groups == (Group(6, (1, 2, 3, 4, 5, 6), 63),)
    assert [group.members for group in partition(doubling(5, 2)).groups] == [(1,), (2, 3, 4, 5, 6, 7)]
    # 64 in a row are a group, 65 are not.
    assert len(partition(doubling(0, LIMIT)).groups) == 1
    assert [len(group.members) for group in partition(doubling(0, LIMIT + 1)).groups] == [1, LIMIT]


def test_a_tree_is_a_type_like_any_other():
    function = one("""
module M in "m.psk"
fn f(θ : params M, g : params M, s : ℝ[]) -> params M {
  %3 : params M = mul s, g
  %4 : params M = sub θ, %3
  return %4
}
""")
    assert partition(function).groups == (Group(4, (3, 4), 2),)


def test_tuples_are_not_fused():
    function = one("""
fn f{N}(a : (ℝ[n: N], key), b : (ℝ[n: N], key)) -> (ℝ[n: N], key) {
  %2 : (ℝ[n: N], key) = add a, b
  return %2
}
""")
    assert why(partition(function)) == {2: Why.TYPE}


def test_order_and_gaps_of_numbers_do_not_matter():
    function = one("""
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %9 : ℝ[n: N] = exp x
  %4 : ℝ[n: N] = neg %9
  return %4
}
""")
    assert partition(function).groups == (Group(4, (9, 4), 2),)


def members_of_the_corpus() -> list[Function]:
    return [function for file in FILES for mode in Mode for function in corpus(file, mode).program.functions]


def test_the_three_conditions_hold_for_every_group_of_the_corpus():
    large = 0
    for function in members_of_the_corpus():
        parts = partition(function)
        bindings = {binding.var: binding for binding in function.bindings}
        roots = parts.roots()
        for group in parts.groups:
            large += len(group.members) > 1
            assert group.operations <= LIMIT
            for member in group.members:
                binding = bindings[member]
                assert isinstance(binding.op, Prim) and isinstance(operations(binding.op, binding.type), int)
                assert binding.type == bindings[group.root].type
                if member == group.root:
                    continue
                readers = [other.var for other in function.bindings if member in operands(other.op)]
                assert readers and member != function.returns
                assert {roots.get(reader) for reader in readers} == {group.root}
        # Every let is an interior member, or it is said why it is none.
        assert parts.interior() | {apart.var for apart in parts.apart} == set(bindings)
        assert parts.interior() & {apart.var for apart in parts.apart} == set()
    assert large > 30


def test_elementwise_primitives_are_rows_of_the_table():
    assert set(ELEMENTWISE) <= set(CORE)
