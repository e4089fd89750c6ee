"""Parameter trees of module instances."""

from dataclasses import dataclass

import pytest
from gmpy2 import mpq

from presk.types.dim import ONE, ZERO, constant, symbol
from presk.types.trees import Init, Leaf, ParamField, UseField, fields, leaf_count, leaves
from presk.types.type import Axis, Composed, Instance, ModuleRef, Named, Real, Shape, Stacked


@dataclass(frozen=True)
class Header:
    """The least that a header needs."""

    dims: tuple[str, ...]
    fields: tuple[ParamField | UseField, ...]
    model: Instance | None = None


In, Out, D, L, T = map(symbol, ("In", "Out", "D", "L", "T"))
ZEROS, NORMAL = Init("zeros"), Init("normal", "0.02")


def real(*lengths):
    return Real(Shape(tuple(Axis(length) for length in lengths)))


def ref(name):
    return ModuleRef("m.psk", name)


def use(name, instance):
    return UseField(name, instance)


LINEAR = Header(("In", "Out"), (ParamField("w", real(In, Out), NORMAL), ParamField("b", real(Out), ZEROS)))
FOUR_D = D.scaled(mpq(4))
MLP = Header(
    ("D",),
    (
        use("l1", Named(ref("Linear"), (D, FOUR_D))),
        ParamField("scale", Real(Shape((Axis(D, "col"),))), ZEROS),
        use("l2", Named(ref("Linear"), (FOUR_D, D))),
    ),
)
# `pos` mentions the file's dimension T, which an instance carries as hidden.
EMBED = Header(("D",), (ParamField("pos", real(T, D), NORMAL),))
EMBED_OF_D = Named(ref("Embed"), (D,), (("T", T),))
GPT = Header(
    ("D", "L"),
    (use("embed", EMBED_OF_D), use("blocks", Stacked(L, Named(ref("MLP"), (D,))))),
)
PAIR = Header((), (use("both", Stacked(constant(2), Composed(Named(ref("MLP"), (T,)), Named(ref("Empty"))))),))
EMPTY = Header((), ())
NICK = Header((), (), Composed(Named(ref("MLP"), (constant(8),)), Named(ref("Embed"), (T,), (("T", T),))))
HEADERS = {
    ref("Linear"): LINEAR,
    ref("MLP"): MLP,
    ref("Embed"): EMBED,
    ref("GPT"): GPT,
    ref("Pair"): PAIR,
    ref("Empty"): EMPTY,
    ref("Nick"): NICK,
}


def shapes(instance):
    return [f"{leaf.path} : {leaf.type}" for leaf in leaves(instance, HEADERS)]


def test_fields_have_the_arguments_put_in():
    assert fields(Named(ref("MLP"), (constant(12),)), HEADERS) == (
        UseField("l1", Named(ref("Linear"), (constant(12), constant(48)))),
        ParamField("scale", Real(Shape((Axis(constant(12), "col"),))), ZEROS),
        UseField("l2", Named(ref("Linear"), (constant(48), constant(12)))),
    )


def test_arguments_are_put_in_all_at_once():
    assert fields(Named(ref("Linear"), (Out, In)), HEADERS) == (
        ParamField("w", real(Out, In), NORMAL),
        ParamField("b", real(In), ZEROS),
    )


def test_leaves_are_in_order_of_declaration_with_their_initializers():
    assert leaves(Named(ref("MLP"), (D,)), HEADERS) == (
        Leaf("l1.w", real(D, FOUR_D), NORMAL),
        Leaf("l1.b", real(FOUR_D), ZEROS),
        Leaf("scale", Real(Shape((Axis(D, "col"),))), ZEROS),
        Leaf("l2.w", real(FOUR_D, D), NORMAL),
        Leaf("l2.b", real(D), ZEROS),
    )


def test_stack_puts_an_unnamed_axis_in_front_at_every_depth():
    assert shapes(Stacked(constant(3), Named(ref("MLP"), (constant(2),)))) == [
        "l1.w : ℝ[3, 2, 8]",
        "l1.b : ℝ[3, 8]",
        "scale : ℝ[3, col: 2]",
        "l2.w : ℝ[3, 8, 2]",
        "l2.b : ℝ[3, 2]",
    ]
    first, _, _ = fields(Stacked(constant(3), Named(ref("MLP"), (D,))), HEADERS)
    assert first == UseField("l1", Stacked(constant(3), Named(ref("Linear"), (D, FOUR_D))))


def test_nested_stacks_put_the_outer_one_first():
    nested = Stacked(constant(2), Stacked(constant(3), Named(ref("Linear"), (ONE, D))))
    assert shapes(nested) == ["w : ℝ[2, 3, 1, D]", "b : ℝ[2, 3, D]"]
    assert fields(nested, HEADERS)[1] == ParamField("b", real(constant(2), constant(3), D), ZEROS)
    (both,) = fields(Stacked(constant(5), Named(ref("Pair"))), HEADERS)
    assert isinstance(both, UseField)
    assert both.instance == Stacked(
        constant(5), Stacked(constant(2), Composed(Named(ref("MLP"), (T,)), Named(ref("Empty"))))
    )
    assert fields(both.instance, HEADERS) == (
        UseField("outer", Stacked(constant(5), Stacked(constant(2), Named(ref("MLP"), (T,))))),
        UseField("inner", Stacked(constant(5), Stacked(constant(2), Named(ref("Empty"))))),
    )
    assert shapes(Stacked(constant(5), Named(ref("Pair"))))[0] == "both.outer.l1.w : ℝ[5, 2, T, 4*T]"


def test_stack_of_none():
    assert shapes(Stacked(ZERO, Named(ref("Linear"), (constant(4), D)))) == ["w : ℝ[0, 4, D]", "b : ℝ[0, D]"]


def test_hidden_dimensions_take_the_instance_s_values():
    instance = Named(ref("GPT"), (constant(768), constant(12)), (("T", constant(1024)),))
    assert shapes(instance)[:2] == ["embed.pos : ℝ[1024, 768]", "blocks.l1.w : ℝ[12, 768, 3072]"]


def test_model_stands_for_its_instance():
    instance = Named(ref("Nick"), (), (("T", constant(6)),))
    assert fields(instance, HEADERS) == (
        UseField("outer", Named(ref("MLP"), (constant(8),))),
        UseField("inner", Named(ref("Embed"), (constant(6),), (("T", constant(6)),))),
    )
    stacked = Stacked(L, instance)
    assert fields(stacked, HEADERS)[0] == UseField("outer", Stacked(L, Named(ref("MLP"), (constant(8),))))
    assert shapes(stacked)[-1] == "inner.pos : ℝ[L, 6, 6]"


def test_module_without_parameters_has_no_leaves():
    assert leaves(Named(ref("Empty")), HEADERS) == ()
    assert fields(Stacked(L, Named(ref("Empty"))), HEADERS) == ()


def test_unknown_module_and_wrong_arguments_are_errors():
    with pytest.raises(KeyError):
        leaves(Named(ref("Linea")), HEADERS)
    with pytest.raises(ValueError, match="argument"):
        leaves(Named(ref("Linear"), (D,)), HEADERS)


@pytest.mark.parametrize("name", ["Linear", "MLP", "Embed", "GPT", "Pair", "Empty", "Nick"])
def test_leaves_follow_fields(name):
    """Walking with `fields` gives the same leaves, and `leaf_count` their number."""
    instance = Stacked(L, Named(ref(name), tuple(map(symbol, HEADERS[ref(name)].dims)), (("T", constant(7)),)))

    def walk(path, instance):
        for field in fields(instance, HEADERS):
            if isinstance(field, UseField):
                yield from walk((*path, field.name), field.instance)
            else:
                yield Leaf(".".join((*path, field.name)), field.type, field.init)

    assert leaves(instance, HEADERS) == tuple(walk((), instance))
    assert leaf_count(instance, HEADERS) == len(leaves(instance, HEADERS))


def chain(depth, uses=1, instance=lambda inner: inner):
    """Modules M0 … M<depth>, each using the one before it."""
    headers = {ref("M0"): Header(("D",), (ParamField("w", real(D), ZEROS),))}
    for index in range(1, depth + 1):
        before = instance(Named(ref(f"M{index - 1}"), (D,)))
        headers[ref(f"M{index}")] = Header(("D",), tuple(use(f"m{k}", before) for k in range(uses)))
    return Named(ref(f"M{depth}"), (T,)), headers


def test_deep_trees_need_no_recursion():
    depth = 3000
    instance, headers = chain(depth, instance=lambda inner: Stacked(constant(2), inner))
    (leaf,) = leaves(instance, headers)
    assert leaf.path == ".".join(["m0"] * depth + ["w"])
    assert leaf.type == real(*[constant(2)] * depth, T)
    assert leaf_count(instance, headers) == 1


def test_counting_does_not_walk_an_exponential_tree():
    instance, headers = chain(200, uses=2, instance=lambda inner: Composed(inner, inner))
    assert leaf_count(instance, headers) == 4**200


def test_fields_are_program_values():
    field = fields(Named(ref("Linear"), (ONE, ONE)), HEADERS)[0]
    with pytest.raises(AttributeError):
        field.name = "v"  # type: ignore[misc]
