"""Plan records: what they say, and every way in which one is malformed; the kinds of nests."""

import json
from typing import Any, Final

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.core.ir import Binding, Prim
from presk.core.lower import Mode
from presk.native.layouts import decisions, layout
from presk.realize.plan import (
    BLOCKED_ORDERS,
    DECISIONS,
    Decisions,
    Kind,
    Plan,
    Split,
    decisions_text,
    kinds,
    parse_plan,
    unfit,
    unfit_workers,
)
from presk.realize.record import UNIFORM, Malformed, uniform
from presk.types.type import Real
from tests.ad.support import corpus, lowered

FILES: Final = {"types/mixed.json": '{"default": "f32", "functions": {"f": "f64"}}', "name.json": '"bf16"'}


def read(name: str) -> tuple[str, str]:
    return name.rpartition("/")[2].removesuffix(".json"), FILES[name]


def plan(text: str) -> Plan:
    return parse_plan(text, "called", read)


def of(record: Any) -> Decisions:
    """The decisions of a nest, as a plan states them."""
    ((name, found),) = plan(json.dumps({"realization": "f32", "layout": {"f/%2": record}})).layout
    assert name == "f/%2"
    return found


def test_a_realization_by_name_by_record_and_from_a_file() -> None:
    assert plan('{"realization": "f32"}') == Plan(uniform("f32"))
    assert plan('{"realization": {"default": "bf16"}}').realization.name == "called"
    mixed = plan('{"realization": "@types/mixed.json", "profile": "p.json"}')
    assert (mixed.realization.name, mixed.profile) == ("mixed", "p.json")
    assert mixed.realization.functions == (("f", UNIFORM["f64"]),)
    assert plan('{"realization": "@name.json"}').realization == uniform("bf16")


WHOLE: Final = {
    "form": "tiled",
    "tile": [4, 16],
    "kblock": 32,
    "order": "JIK",
    "lanes": 4,
    "split": {"depth": 1, "workers": 10},
    "pack": True,
    "passes": 2,
    "epilogue": False,
}


def test_every_decision_is_read_and_shown_as_it_was_written() -> None:
    assert of(WHOLE) == Decisions("tiled", (4, 16), 32, "JIK", 4, Split(1, 10), True, 2, False)
    for record in (WHOLE, {}, {"kblock": "none", "order": "JI", "split": "none"}, {"form": "row-wise"}):
        assert json.loads(decisions_text(of(record))) == record
        made = layout(of({**record, "epilogue": False} if "epilogue" in record else record))
        assert decisions(made) == of({name: value for name, value in record.items() if name != "epilogue"})
    assert set(WHOLE) == set(Decisions.__struct_fields__) == {*DECISIONS[Kind.CONTRACTION], *DECISIONS[Kind.SOFTMAX]}
    for order in BLOCKED_ORDERS:
        assert of({"kblock": 128, "order": order}).order == order
    assert [of({"lanes": lanes}).lanes for lanes in (1, 2, 4, 8, 16)] == [1, 2, 4, 8, 16]
    assert of({"tile": [14, 64]}).tile == (14, 64) and of({"tile": [1, 1]}).tile == (1, 1)


MALFORMED: Final = (
    ({"form": "flat"}, "`form` of `f/%2`", '"row-wise"'),
    ({"form": None}, "`form` of `f/%2` is null", "tiled"),
    ({"tile": [4]}, "`tile` of `f/%2`", "rows from 1 to 14"),
    ({"tile": [0, 4]}, "`tile` of `f/%2` is [0, 4]", "rows"),
    ({"tile": [15, 4]}, "`tile` of `f/%2`", "rows"),
    ({"tile": [2, 1]}, "`tile` of `f/%2`", "rows"),
    ({"tile": [2, 68]}, "`tile` of `f/%2`", "rows"),
    ({"tile": [2, 6]}, "`tile` of `f/%2`", "rows"),
    ({"tile": [2.0, 4]}, "`tile` of `f/%2`", "rows"),
    ({"tile": [True, 4]}, "`tile` of `f/%2`", "rows"),
    ({"kblock": 64}, "`kblock` of `f/%2` is 64", '"none", 32, 128, 512'),
    ({"kblock": None}, "`kblock` of `f/%2`", "none"),
    ({"order": "JJ"}, "`order` of `f/%2`", "IJ"),
    ({"order": "ijk"}, "`order` of `f/%2`", "IJ"),
    ({"order": "IJK"}, "`order` of `f/%2`", "IJ or JI"),
    ({"order": "IJK", "kblock": "none"}, "`order` of `f/%2`", "IJ or JI"),
    ({"order": "IJ", "kblock": 32}, "does not say where the blocks of K go", "KJI"),
    ({"lanes": 3}, "`lanes` of `f/%2` is 3", "1, 2, 4, 8, 16"),
    ({"lanes": True}, "`lanes` of `f/%2`", "1, 2"),
    ({"lanes": 8, "tile": [1, 4]}, "do not divide the 4 columns", "leave one"),
    ({"split": 2}, "`split` of `f/%2` is 2", "depth"),
    ({"split": {"depth": 1}}, "`split` of `f/%2` has no `workers`", "depth"),
    ({"split": {"depth": 3, "workers": 2}}, "the `depth` of `split` of `f/%2` is 3", "0 to 2"),
    ({"split": {"depth": 0, "workers": 0}}, "the `workers` of `split`", "1 to 1024"),
    ({"split": {"depth": 0, "workers": 2, "chunk": 1}}, "`split` of `f/%2` has no `chunk`", "depth"),
    ({"pack": 1}, "`pack` of `f/%2` is 1", "true or false"),
    ({"passes": 1}, "`passes` of `f/%2` is 1", "2, 3"),
    ({"epilogue": "yes"}, "`epilogue` of `f/%2`", "true or false"),
    ({"tiling": [1, 4]}, "the layout of `f/%2` has no `tiling`", "tile"),
    *(
        ({"form": "row-wise", name: WHOLE[name], **({"kblock": 32} if name == "order" else {})}, "is row-wise", "leave")
        for name in ("tile", "kblock", "order", "lanes", "pack")
    ),
    (3, "the layout of `f/%2` is no object", "lanes"),
)


@pytest.mark.parametrize(("record", "message", "mend"), MALFORMED, ids=str)
def test_what_says_nothing_is_refused_with_its_place_and_a_mend(record: Any, message: str, mend: str) -> None:
    with pytest.raises(Malformed) as raised:
        of(record)
    assert message in raised.value.message and mend in (raised.value.mend or ""), (
        raised.value.message,
        raised.value.mend,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a plan is a JSON object"),
        ("{}", "has no `realization`"),
        ('{"realization": "f33"}', "`f33` is no realization"),
        ('{"realization": 3}', "a realization is a JSON object"),
        ('{"realization": "f32", "realization": "f64"}', "stated twice"),
        ('{"realization": "f32", "layout": {"f/%2": {}, "f/%2": {}}}', "`f/%2` is stated twice"),
        ('{"realization": "f32", "layouts": {}}', "a plan has no `layouts`"),
        ('{"realization": "f32", "profile": []}', "`profile`"),
        ('{"realization": "f32", "layout": null}', "`layout`"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_a_text_that_is_no_plan(text: str, message: str) -> None:
    with pytest.raises(Malformed) as raised:
        plan(text)
    assert message in raised.value.message


# --- nests -------------------------------------------------------------------------------------------------------------------------

PROGRAM: Final = """\
dim B
dim K
fn f(x : ℝ[batch: B, k: K], w : ℝ[k: K, n: 3], u : ℝ[k: K, p: 2, n: 3], y : ℝ[k: K]) -> ℝ[] =
  let a = x · w
  let b = x · u
  let c = y · w
  let d = ein[batch, n](x * w)
  let e = ein[n, batch](x * w)
  let g = ein[k, batch](x * x)
  let h = softmax(axis n, a)
  sum(exp(a) + h * 2) + sum(b) + sum(c) + sum(d) + sum(e) + sum(g)

fn df(x : ℝ[batch: B, k: K], w : ℝ[k: K, n: 3], u : ℝ[k: K, p: 2, n: 3], y : ℝ[k: K]) -> ℝ[k: K, n: 3] =
  grad(λ w. f(x, w, u, y))(w)
"""


def test_the_kinds_of_nests() -> None:
    (function,) = (one for one in lowered(PROGRAM).program.functions if one.name == "f")
    found = kinds(lowered(PROGRAM).program)
    named = {binding.name: found.get(f"f/%{binding.var}") for binding in function.bindings if binding.name}
    assert named == {
        "a": Kind.CONTRACTION,
        "b": Kind.OTHER,  # its right operand has rank three
        "c": Kind.CONTRACTION,
        "d": Kind.CONTRACTION,
        "e": Kind.CONTRACTION,
        "g": Kind.OTHER,  # nothing is summed
        "h": Kind.SOFTMAX,
    }


def test_the_kinds_of_derivatives() -> None:
    """Those of a product with a matrix whose other operand has rank two or more."""
    program = after_ad(lowered(PROGRAM).program, Remat.STORE, hold_groups=False).program
    found = kinds(program)
    ranks: dict[tuple[str, int, int], set[Kind]] = {}
    for function in program.functions:
        types = {**{at: param.type for at, param in enumerate(function.params)}}
        types |= {binding.var: binding.type for binding in function.bindings}
        for binding in function.bindings:
            match binding:
                case Binding(op=Prim(name="dot_vjp_r", args=(x, _)), type=Real(w)):
                    left = types[x]
                    assert isinstance(left, Real)
                    key = "dot_vjp_r", len(left.shape.axes), len(w.axes)
                    ranks.setdefault(key, set()).add(found[f"{function.name}/%{binding.var}"])
                case _:
                    pass
    assert ranks == {("dot_vjp_r", 2, 2): {Kind.CONTRACTION}, ("dot_vjp_r", 1, 2): {Kind.OTHER}}


def test_every_nest_of_a_program_is_of_a_kind() -> None:
    program = corpus("nlp/05_gpt.psk", Mode.INFERENCE, V=5, D=4, H=2, L=2, C=4).program
    found = kinds(program)
    assert {Kind.CONTRACTION, Kind.SOFTMAX, Kind.OTHER} <= set(found.values())
    assert all(name.partition("/%")[2].isdigit() for name in found)


def layouts(**stated: Any) -> Plan:
    record = {"realization": "f32", "layout": {name.replace("__", "/%"): one for name, one in stated.items()}}
    return plan(json.dumps(record))


def test_a_plan_must_fit_the_program() -> None:
    program = lowered(PROGRAM).program
    (function,) = (one for one in program.functions if one.name == "f")
    var = {binding.name: binding.var for binding in function.bindings if binding.name}
    product, normed, plain = var["a"], var["h"], var["b"]
    assert unfit(layouts(**{f"f__{product}": {"tile": [1, 4]}, f"f__{normed}": {"passes": 3}}), program) is None
    for name, record, message in (
        (f"f__{product}", {"passes": 3}, "is a contraction and has no `passes`"),
        (f"f__{product}", {"epilogue": True}, "`epilogue`"),
        (f"f__{normed}", {"pack": True}, "is a softmax and has no `pack`"),
        (f"f__{plain}", {"tile": [1, 4]}, "neither a contraction nor a softmax and has no `tile`"),
        ("f__999", {}, "has no nest `f/%999`"),
        ("g__1", {}, "has no nest `g/%1`"),
        ("f", {}, "has no nest `f`"),
    ):
        found = unfit(layouts(**{name: record}), program)
        assert found is not None and message in found.message, (name, found)
    # What a sum reads is a group; its members but the last have no nest of their own.
    inside = [
        name
        for name in (f"f/%{binding.var}" for binding in function.bindings)
        if (found := unfit(layouts(**{name: {}}), program)) is not None and "no nest by itself" in found.message
    ]
    assert inside


def test_workers_are_those_of_the_run_or_half_of_them() -> None:
    def fits(workers: int, threads: int) -> bool:
        return unfit_workers(layouts(f__2={"split": {"depth": 0, "workers": workers}}), threads) is None

    assert [workers for workers in range(1, 9) if fits(workers, 8)] == [4, 8]
    assert [workers for workers in range(1, 9) if fits(workers, 7)] == [3, 7]
    assert [workers for workers in range(1, 9) if fits(workers, 1)] == [1]
    assert unfit_workers(layouts(f__2={"split": "none"}), 8) is None
