"""Arguments that nobody gives are functions of the seed, the parameter's position and the type."""

import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from presk.core.ir import Call, MakeParams, Program, Project
from presk.exact import draws, synthesize
from presk.exact.faults import Fault
from presk.exact.given import Given
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.values import Key, Number, Record, Truth
from presk.prims.attrs import Length, Word
from presk.types.dim import constant, symbol
from presk.types.trees import Init, ParamField, UseField
from presk.types.type import Composed, Function, Hyper, HyperKind, ModuleRef, Named, Params, Stacked, Tuple
from presk.types.type import Key as KeyType
from tests.exact.support import Body, dim, fractions, idx, mask, real

M = Reals(64)
MASTER = draws.master_key(5)
LAYER, NET, ALIAS = (ModuleRef("m.psk", name) for name in ("Layer", "Net", "Alias"))


class Header:
    """A module's header."""

    def __init__(self, dims, fields, model=None):
        self.dims = dims
        self.fields = fields
        self.model = model


HEADERS = {
    LAYER: Header(
        ("N",),
        (
            ParamField("w", real("N", 3), Init("xavier_uniform")),
            ParamField("g", real("N"), Init("ones")),
            ParamField("b", real("N"), Init("zeros")),
        ),
    ),
    NET: Header(
        ("D",),
        (
            ParamField("t", real(2, "D"), Init("normal", "0.02")),
            UseField("layers", Stacked(constant(2), Named(LAYER, (symbol("D"),)))),
            UseField("last", Named(LAYER, (symbol("D") + constant(1),))),
        ),
    ),
    ALIAS: Header(("D",), (), Composed(Named(LAYER, (symbol("D"),)), Named(LAYER, (constant(1),)))),
}


def arguments(function, seed=5, dims=None, inputs=None, words=None, defaults=None, m=M):
    found = synthesize.sources(inputs or {}, words or {}, defaults or {}, seed)
    known, prefix = synthesize.determine(function, found, Scope({}, (), HEADERS), dims or {})
    with m.active():
        return synthesize.arguments(m, Scope(known, prefix, HEADERS), function, found)


def entry(*types, dims=()):
    names = [f"p{at}" for at in range(len(types))]
    return Body("f", *zip(names, types), dims=dims).done(0)


def doubles(value):
    return [float(x) for x in value.data.ravel()]


def given_json(text):
    return Given("x.json", text.encode())


# --- what is drawn ------------------------------------------------------------------------------------------------------


def test_recipes_of_types():
    function = entry(real(2, 3), idx(7, 40), mask(40), KeyType())
    x, index, truth, key = arguments(function)
    keys = draws.split_key(MASTER, 4)
    assert doubles(x) == draws.normals(keys[0], 6).tolist()
    assert index.data.tolist() == [int(u * 7) for u in draws.units(keys[1], 40).tolist()]
    assert truth.data.tolist() == [u < 0.5 for u in draws.units(keys[2], 40).tolist()]
    assert key == Key(keys[3])


def test_items_of_a_tuple_draw_from_children():
    (value,) = arguments(entry(Tuple((real(2), Tuple((real(2), KeyType()))))))
    key = draws.child(MASTER, 0)
    inner = draws.child(key, 1)
    assert doubles(value.items[0]) == draws.normals(draws.child(key, 0), 2).tolist()
    assert doubles(value.items[1].items[0]) == draws.normals(draws.child(inner, 0), 2).tolist()
    assert value.items[1].items[1] == Key(draws.child(inner, 1))


def test_giving_one_parameter_changes_no_other():
    function = entry(real(2), real(2), real(2))
    drawn = arguments(function)
    mixed = arguments(function, inputs={"p1": given_json("[1, 2]")})
    assert fractions(mixed[1]) == [1, 2]
    assert doubles(mixed[0]) == doubles(drawn[0])
    assert doubles(mixed[2]) == doubles(drawn[2])
    assert doubles(arguments(function, seed=6)[0]) != doubles(drawn[0])


def test_parts_of_a_tuple_and_of_a_tree():
    function = entry(Tuple((real(2), real(2))), Params(Named(LAYER, (dim(2),))))
    drawn = arguments(function)
    mixed = arguments(function, inputs={"p0.1": given_json("[7, 8]"), "p1.b": given_json("[1, 2]")})
    assert fractions(mixed[0].items[1]) == [7, 8]
    assert doubles(mixed[0].items[0]) == doubles(drawn[0].items[0])
    assert fractions(mixed[1].fields["b"]) == [1, 2]
    assert doubles(mixed[1].fields["w"]) == doubles(drawn[1].fields["w"])


def test_a_leaf_deep_in_a_tree():
    function = entry(Params(Named(NET, (dim(2),))))
    (tree,) = arguments(function, inputs={"p0.last.g": given_json("[4, 5, 6]")})
    assert fractions(tree.fields["last"].fields["g"]) == [4, 5, 6]


def test_the_same_numbers_in_any_arithmetic():
    for m in (Reals(2), Reals(300)):
        assert doubles(arguments(entry(real(4)), m=m)[0]) == draws.normals(draws.child(MASTER, 0), 4).tolist()


# --- trees --------------------------------------------------------------------------------------------------------------


def initializer(name, ref, fields, stacks=None):
    """`M.init` as lowering makes it: one child key for each field, in order of declaration."""
    body = Body(name, ("key", KeyType()), dims=HEADERS[ref].dims)
    keys = body.prim(Tuple((KeyType(),) * len(fields)), "split_key", 0, n=Length(constant(len(fields))))
    made = [field(body, body.bind(KeyType(), Project(keys, at))) for at, field in enumerate(fields)]
    body.bind(Params(Named(ref, tuple(symbol(one) for one in HEADERS[ref].dims))), MakeParams(tuple(made)))
    return body.done()


def test_a_tree_is_what_its_initializer_makes():
    layer_type = Params(Named(LAYER, (symbol("D"),)))

    def layers(body, key):
        keys = body.prim(Tuple((KeyType(),) * 2), "split_key", key, n=Length(constant(2)))
        trees = [
            body.bind(
                layer_type, Call("Layer.init", (("N", symbol("D")),), None, (body.bind(KeyType(), Project(keys, at)),))
            )
            for at in range(2)
        ]
        return body.prim(
            Params(Stacked(constant(2), layer_type.instance)), "stack_params", *trees, n=Length(constant(2))
        )

    wider = symbol("D") + constant(1)
    functions = (
        initializer(
            "Net.init",
            NET,
            [
                lambda body, key: body.prim(real(2, "D"), "normal", key, std=Word("0.02")),
                layers,
                lambda body, key: body.bind(
                    Params(Named(LAYER, (wider,))), Call("Layer.init", (("N", wider),), None, (key,))
                ),
            ],
        ),
        initializer(
            "Layer.init",
            LAYER,
            [
                lambda body, key: body.prim(real("N", 3), "xavier_uniform", key),
                lambda body, key: body.prim(real("N"), "ones"),
                lambda body, key: body.prim(real("N"), "zeros"),
            ],
        ),
    )
    made = Interpreter(Program(functions), M, HEADERS).run("Net.init", [Key(draws.child(MASTER, 0))], {"D": 4})
    (tree,) = arguments(entry(Params(Named(NET, (symbol("D"),))), dims=("D",)), dims={"D": 4})

    def flat(value):
        if isinstance(value, Record):
            return {name: flat(item) for name, item in value.fields.items()}
        return value.data.tolist()

    assert flat(tree) == flat(made)
    assert np.array(flat(tree)["layers"]["w"]).shape == (2, 4, 3)
    assert np.array(flat(tree)["last"]["w"]).shape == (5, 3)


def test_compositions_and_models():
    for type_ in (Params(HEADERS[ALIAS].model), Params(Named(ALIAS, (symbol("D"),)))):
        (tree,) = arguments(entry(type_, dims=("D",)), dims={"D": 2})
        assert list(tree.fields) == ["outer", "inner"]
        outer, inner = draws.split_key(draws.child(MASTER, 0), 2)
        expected = draws.xavier_uniform(draws.child(outer, 0), 6, 2, 3).tolist()
        assert doubles(tree.fields["outer"].fields["w"]) == expected
        assert (
            doubles(tree.fields["inner"].fields["w"]) == draws.xavier_uniform(draws.child(inner, 0), 3, 1, 3).tolist()
        )


@pytest.mark.parametrize("count", [0, 1])
def test_short_stacks(count):
    type_ = Params(Stacked(symbol("L"), Named(LAYER, (dim(2),))))
    (tree,) = arguments(entry(type_, dims=("L",)), dims={"L": count})
    assert {name: leaf.data.shape for name, leaf in tree.fields.items()} == {
        "w": (count, 2, 3),
        "g": (count, 2),
        "b": (count, 2),
    }


# --- hyperparameters ----------------------------------------------------------------------------------------------------


def test_defaults_and_words():
    function = entry(Hyper(HyperKind.F64), Hyper(HyperKind.BOOL), Hyper(HyperKind.NAT))
    defaults = {"p0": "0.8", "p1": "true"}
    assert arguments(function, words={"p2": "3"}, defaults=defaults) == [Number(mpq(4, 5)), Truth(True), Number(mpq(3))]
    assert arguments(function, words={"p2": "3", "p0": "0.1"}, defaults=defaults)[0] == Number(mpq(1, 10))
    with pytest.raises(Fault) as caught:
        arguments(function, defaults=defaults)
    assert caught.value.code == "E9003"
    assert "`p2 : nat`" in caught.value.message
    assert "--arg p2" in (caught.value.mend or "")


def test_a_key_may_be_given():
    assert arguments(entry(KeyType()), words={"p0": "9"}) == [Key(draws.master_key(9))]
    assert arguments(entry(KeyType()), words={"p0": "0f" * 32}) == [Key(b"\x0f" * 32)]


def test_functions_are_no_parameters_of_an_entry():
    with pytest.raises(Fault) as caught:
        arguments(entry(Function((), real())))
    assert caught.value.code == "E9003"


# --- dimensions ---------------------------------------------------------------------------------------------------------


def determine(function, dims=None, **inputs):
    found = synthesize.sources({name: given_json(text) for name, text in inputs.items()}, {}, {}, 0)
    return synthesize.determine(function, found, Scope({}, (), HEADERS), dims or {})


def test_inputs_determine_dimensions():
    function = entry(real("B", "N"), idx(3, "B"), dims=("B", "N"))
    assert determine(function, {"N": 1, "B": 2}) == ({"N": 1, "B": 2}, ())
    assert determine(function, p0="[[1, 2, 3]]") == ({"B": 1, "N": 3}, ())
    assert determine(function, {"N": 3}, p1="[0, 1]") == ({"N": 3, "B": 2}, ())


def test_dimensions_that_nothing_determines():
    function = entry(real("B", "N"), dims=("B", "N", "Z"))
    with pytest.raises(Fault) as caught:
        determine(function, {"B": 1})
    assert (caught.value.code, caught.value.mend) == ("E9003", "--dim N=…")


def test_a_dimension_of_the_result_only_is_asked_for():
    body = Body("f", dims=("T",))
    body.prim(real("T"), "zeros")
    with pytest.raises(Fault):
        determine(body.done())
    assert determine(body.done(), {"T": 3}) == ({"T": 3}, ())


def test_leading_axes_come_from_inputs():
    function = entry(real(2, prefix=True), real(prefix=True))
    assert determine(function, p0="[[[1, 2]]]") == ({}, (1, 1))
    with pytest.raises(Fault) as caught:
        determine(function)
    assert caught.value.code == "E9003"
    with pytest.raises(Fault) as caught:
        determine(function, p0="[[1, 2]]", p1="[1, 2]")
    assert caught.value.code == "E8002"


def test_names_that_do_not_exist():
    for name in ("q", "p0.0", "p1.x", "p1.5"):
        with pytest.raises(Fault) as caught:
            determine(entry(real(2), Tuple((real(2), real(2)))), **{name: "[1, 2]"})
        assert caught.value.code == "E9003"
        assert f"`{name}`" in caught.value.message


def test_nothing_is_given_twice():
    for inputs, words in (
        ({"p0": given_json("[1]")}, {"p0": "1"}),
        ({"p0": given_json("[1]"), "p0.1": given_json("[1]")}, {}),
    ):
        with pytest.raises(Fault) as caught:
            synthesize.sources(inputs, words, {}, 0)
        assert caught.value.code == "E9003"


def test_numbers_of_decimals_keep_the_bits_of_the_run():
    (x,) = arguments(entry(real(1)), inputs={"p0": given_json('["0.1"]')}, m=Reals(300))
    assert x.data[0] == mpfr("0.1", 300)
