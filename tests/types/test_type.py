"""Types print as the language writes them; mapping and instantiation reach every dimension."""

import pytest
from gmpy2 import mpq

from presk.types.dim import ONE, ZERO, constant, symbol
from presk.types.type import (
    PREFIX,
    SCALAR,
    Axis,
    Composed,
    Function,
    Hyper,
    HyperKind,
    Index,
    Key,
    Mask,
    ModuleRef,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    TypeVar,
    instance_dims,
    instantiate,
    map_instance,
    map_type,
    type_dims,
)

B, D, T = symbol("B"), symbol("D"), symbol("T")
MLP, BLOCK = ModuleRef("ff.psk", "MLP"), ModuleRef("main.psk", "Block")
NET = Named(MLP, (D, D.scaled(mpq(4))))
HIDDEN = Named(BLOCK, (), (("T", T),))
# One type with a dimension in every place that can hold one.
EVERYWHERE = Function(
    (
        Real(Shape((Axis(B, "batch"), Axis(D)), PREFIX)),
        Index(T, Shape((Axis(D + ONE),))),
        Mask(Shape((Axis(T, "row"), Axis(T, "col")))),
        Tuple((Hyper(HyperKind.NAT), Key(), Real())),
        Params(Composed(Stacked(B, HIDDEN), NET)),
    ),
    ModuleType(NET),
)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Real(), "ℝ[]"),
        (Real(Shape((Axis(B, "batch"), Axis(D.scaled(mpq(4)))))), "ℝ[batch: B, 4*D]"),
        (Real(Shape((Axis(D),), PREFIX)), "ℝ[..., D]"),
        (Index(constant(92)), "idx[92]"),
        (Index(constant(92), Shape((Axis(T, "seq"),))), "idx[92][seq: T]"),
        (Index(constant(92), Shape((), PREFIX)), "idx[92][...]"),
        (Mask(Shape((Axis(T, "row"), Axis(T, "col")))), "bool[row: T, col: T]"),
        (Mask(SCALAR), "bool[]"),
        (Hyper(HyperKind.BOOL), "bool"),
        (Key(), "key"),
        (Tuple((Real(), Key())), "(ℝ[], key)"),
        (Params(NET), "params MLP{D, 4*D}"),
        (Params(Stacked(constant(12), HIDDEN)), "params stack{12}(Block)"),
        (ModuleType(NET), "MLP{D, 4*D}"),
        (Function((Real(), Key()), Real()), "(ℝ[], key) -> ℝ[]"),
        (TypeVar("?1"), "_"),
    ],
)
def test_text(type_, text):
    assert str(type_) == text


def test_composition_to_the_right_is_grouped():
    left = Composed(Composed(NET, HIDDEN), HIDDEN)
    right = Composed(NET, Composed(HIDDEN, HIDDEN))
    assert str(left) == "MLP{D, 4*D} ∘ Block ∘ Block"
    assert str(right) == "MLP{D, 4*D} ∘ (Block ∘ Block)"
    assert left != right


def test_type_dims_are_all_in_order():
    four = D.scaled(mpq(4))
    assert type_dims(EVERYWHERE) == (B, D, T, D + ONE, T, T, B, T, D, four, D, four)
    assert instance_dims(HIDDEN) == (T,)


def test_instantiate_reaches_every_dimension():
    values = {"B": constant(2), "D": constant(3), "T": ZERO}
    assert type_dims(instantiate(EVERYWHERE, values)) == tuple(map(constant, (2, 3, 0, 4, 0, 0, 2, 0, 3, 12, 3, 12)))


def test_instantiate_without_values_changes_nothing():
    assert instantiate(EVERYWHERE, {}) == EVERYWHERE


def test_instantiate_puts_the_prefix_in_front():
    type_ = Tuple((Real(Shape((Axis(D),), PREFIX)), Mask(Shape((Axis(T),)))))
    closed = instantiate(type_, {}, Shape((Axis(B, "batch"),)))
    assert closed == Tuple((Real(Shape((Axis(B, "batch"), Axis(D)))), Mask(Shape((Axis(T),)))))
    open_ = instantiate(type_, {"D": T}, Shape((Axis(B),), "?n"))
    assert open_ == Tuple((Real(Shape((Axis(B), Axis(T)), "?n")), Mask(Shape((Axis(T),)))))


def test_instantiate_does_not_rewrite_the_prefix():
    # The prefix's own dimensions are the caller's: a `D` in it is not the callee's `D`.
    type_ = Real(Shape((Axis(D),), PREFIX))
    assert instantiate(type_, {"D": T}, Shape((Axis(D),))) == Real(Shape((Axis(D), Axis(T))))


def test_map_type_keeps_names():
    type_ = Real(Shape((Axis(B, "batch"), Axis(D))))
    assert map_type(type_, dim=lambda dim: dim + ONE) == Real(Shape((Axis(B + ONE, "batch"), Axis(D + ONE))))


def test_map_instance_reaches_hidden_dimensions():
    instance = Stacked(B, Composed(NET, HIDDEN))
    mapped = map_instance(instance, lambda dim: dim.substitute({"T": D, "B": ZERO}))
    assert mapped == Stacked(ZERO, Composed(NET, Named(BLOCK, (), (("T", D),))))
