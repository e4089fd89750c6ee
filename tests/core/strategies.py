"""Random programs of the core, well typed or not: whatever the values can hold has a text."""

from typing import Final

from gmpy2 import mpq
from hypothesis import strategies as st

from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Closure,
    Field,
    Fold,
    Function,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Param,
    Prim,
    Program,
    Project,
)
from presk.prims.attrs import Align, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.core_rows import CORE
from presk.types.dim import Dim
from presk.types.type import (
    Axis,
    Composed,
    Hyper,
    HyperKind,
    Index,
    Key,
    Mask,
    ModuleRef,
    Named,
    Params,
    Real,
    Shape,
    Stack,
    Stacked,
    Tuple,
)
from presk.types.type import Function as FunctionType

PLAIN: Final = ("x", "y", "θ", "w", "b", "ŷ", "x̂", "σ2", "batch", "seq", "seq2", "D", "B", "T", "k1", "_")
ODD: Final = (
    "call", "fold", "axis", "same", "no", "lies", "at", "place", "params", "stack", "module", "number", "key", "nat", "real",
    "", "a b", "1x", "%3", "x%3", "`", '"', "a.b", "a--b", "-- %5", "\\", "\n", "\u2028", "ℝ", "∘", "std", "reverse", "12x64",
)  # fmt: skip

names = st.sampled_from(PLAIN) | st.sampled_from(PLAIN) | st.sampled_from(ODD) | st.text(max_size=3)
symbols = st.sampled_from(("B", "D", "T", "In", "m.T")) | names
rationals = st.builds(mpq, st.integers(-12, 12) | st.integers(), st.integers(1, 6))


@st.composite
def _dims(draw: st.DrawFn) -> Dim:
    terms = draw(st.dictionaries(symbols, rationals.filter(bool), max_size=2))
    return Dim(draw(rationals), tuple(sorted(terms.items())))


dims = st.builds(Dim, st.integers(0, 5).map(mpq)) | _dims()
axes = st.builds(Axis, dims, st.none() | names)
shapes = st.builds(Shape, st.lists(axes, max_size=3).map(tuple), st.none() | st.just("..."))
modules = st.builds(ModuleRef, st.sampled_from(("mlp.psk", "../a b.psk", 'q"\\.psk')), names)


@st.composite
def _named(draw: st.DrawFn) -> Named:
    hidden = draw(st.lists(st.tuples(symbols, dims), max_size=2))
    return Named(draw(modules), tuple(draw(st.lists(dims, max_size=2))), tuple(hidden))


instances = st.recursive(
    _named(), lambda inner: st.builds(Stacked, dims, inner) | st.builds(Composed, inner, inner), max_leaves=3
)
types = st.recursive(
    st.builds(Real, shapes)
    | st.builds(Index, dims, shapes)
    | st.builds(Mask, shapes)
    | st.builds(Hyper, st.sampled_from(HyperKind))
    | st.just(Key())
    | st.builds(Params, instances),
    lambda inner: (
        st.builds(Tuple, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Stack, dims, inner)
        | st.builds(FunctionType, st.lists(inner, max_size=2).map(tuple), inner)
    ),
    max_leaves=4,
)
places = st.integers(-3, 3)
axis_names = st.builds(AxisNames, st.lists(names, max_size=3).map(tuple))
selects = st.builds(Select, st.none() | names, places, dims, st.none() | dims)
attrs = (
    st.builds(Align, st.booleans(), st.lists(places, max_size=3).map(tuple))
    | st.builds(AxisName, st.none() | names)
    | axis_names
    | st.builds(Length, dims, st.none() | names)
    | selects
    | st.builds(Word, names | st.sampled_from(("0.02", "1e-5", "w")))
    | st.builds(Place, places)
)
keys = st.sampled_from(
    (
        "axis",
        "n",
        "left",
        "right",
        "align",
        "mask",
        "name",
        "place",
        "i",
        "s0",
        "s1",
        "out",
        "in0",
        "std",
        "heads",
        "hd",
    )
)
variables = st.integers(0, 9)
several = st.lists(variables, max_size=3).map(tuple)
functions = st.sampled_from(("f", "g", "Linear.apply", "f.lambda0", "pick:seq")) | names
values = st.lists(st.tuples(symbols, dims), max_size=2).map(tuple)
prefixes = st.none() | shapes
primitives = st.builds(
    Prim,
    st.sampled_from(sorted(CORE)) | names,
    several,
    st.lists(st.tuples(keys | names, attrs), max_size=3).map(tuple),
)
operations = (
    primitives
    | primitives
    | st.builds(Literal, st.sampled_from(("0", "0.5", "1e-5", "768", "-1", "1/2", "")) | st.text(max_size=3))
    | st.builds(Field, variables, names)
    | st.builds(Project, variables, st.integers(0, 3))
    | st.builds(MakeParams, several)
    | st.builds(MakeTuple, several)
    | st.builds(Call, functions, values, prefixes, several)
    | st.builds(
        Fold,
        dims,
        functions,
        values,
        prefixes,
        several,
        variables,
        several,
        st.booleans(),
        st.booleans(),
        st.booleans(),
    )
    | st.builds(Closure, functions, values, prefixes, several)
    | st.builds(Grad, variables)
    | st.builds(Apply, variables, several)
)
bindings = st.builds(Binding, variables, st.none() | names, types, operations)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of up to three functions with different names."""
    found = draw(st.lists(functions, min_size=1, max_size=3, unique=True))
    return Program(
        tuple(
            Function(
                name,
                tuple(draw(st.lists(symbols, max_size=2))),
                tuple(draw(st.lists(st.builds(Param, names, types), max_size=3))),
                draw(types),
                tuple(draw(st.lists(bindings, max_size=4))),
                draw(variables),
            )
            for name in found
        )
    )
