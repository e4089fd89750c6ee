"""`parse(print_program(p)) == p`, for any program whatsoever, and printing it again gives the same text."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from presk.core.ir import Binding, Function, Param, Prim, Program
from presk.core.parse import parse
from presk.core.text import print_program
from presk.prims.core_rows import CORE
from presk.types.type import Real, Shape
from tests.core.strategies import attrs, axes, names, programs

REALS: Final = st.builds(Real, st.builds(Shape, st.lists(axes, max_size=3).map(tuple), st.none() | st.just("...")))


def same(program: Program) -> None:
    text = print_program(program)
    again = parse(text)
    assert again == program, text
    assert print_program(again) == text


@given(programs())
def test_every_program(program: Program) -> None:
    same(program)


@given(programs(), st.booleans(), st.data())
def test_notes_and_numbers_are_no_part_of_it(program: Program, numbers: bool, data: st.DataObject) -> None:
    notes = {
        (function.name, binding.var): data.draw(st.sampled_from(("adjoint of %5 (add)", "%5", "of it -- %7", "θ")))
        for function in program.functions
        for binding in function.bindings
    }
    assert parse(print_program(program, notes, numbers=numbers)) == program


@st.composite
def uses(draw: st.DrawFn) -> Program:
    """One primitive with attributes that its row writes, right or wrong, on tensors."""
    row = draw(st.sampled_from([CORE[name] for name in sorted(CORE)]))
    count = draw(st.integers(row.fewest, min(row.most, 3)))
    params = tuple(Param(name, draw(REALS)) for name in "xyz"[:count])
    keys = [*row.spelling.implied, *(getattr(piece, "key", "s0") for piece in row.spelling.pieces), "in0", "out"]
    given_attrs = tuple((key, draw(attrs)) for key in draw(st.lists(st.sampled_from(keys), max_size=3)))
    op = Prim(row.name, tuple(range(count)), given_attrs)
    binding = Binding(count, draw(st.none() | names), draw(REALS), op)
    return Program((Function("f", (), params, draw(REALS), (binding,), count),))


@given(uses())
def test_every_use_of_a_primitive(program: Program) -> None:
    same(program)
