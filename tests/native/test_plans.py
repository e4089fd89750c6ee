"""Plans on the command line: what they change, what they refuse, and that no bit depends on them.

`make plan-check` does more of it.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from presk.kernels.ir import For
from presk.kernels.layout import Form, Layout
from presk.kernels.nests.contraction import Contract
from tests.cli.console import Console
from tests.conftest import Golden
from tests.native.conftest import PROGRAM as NET
from tests.native.planned import contractions, differs, nests_of
from tests.native.support import driver_of, given_to, interpreted, native, same, traced
from tests.native.test_corpus import FILES, PREFIX, TYPES, defined, differentiated, entries, lengths, loaded

LEVEL: Final = ("--level", "x86-64-v3")
PROGRAM: Final = """\
dim B
dim T

module Attention {
  param w : ℝ[D: 16, out: 24]  init = normal(std = 0.5)

  fn apply(x : ℝ[batch: B, seq: T, D: 16]) -> ℝ[batch: B, seq: T, out: 24] = x · w
}

fn attend(q : ℝ[batch: B, heads: 2, seq: T, hd: 8], k : ℝ[batch: B, heads: 2, seq2: T, hd: 8],
          v : ℝ[batch: B, heads: 2, seq2: T, hd: 8]) -> ℝ[batch: B, heads: 2, seq: T, hd: 8] =
  let s = ein[batch, heads, seq, seq2](q * k)
  let a = softmax(axis seq2, s * 0.35, where = causal_mask(seq: T))
  ein[batch, heads, seq, hd](a * v)

fn loss(θ : params Attention, x : ℝ[batch: B, seq: T, D: 16]) -> ℝ[] =
  mean(tanh(Attention.apply(θ, x) * 2 + 1)^2)

fn loss_grad(θ : params Attention, x : ℝ[batch: B, seq: T, D: 16]) -> params Attention =
  grad(λ θ. loss(θ, x))(θ)
"""
ATTENTION: Final[dict[str, Any]] = {
    "realization": "f32",
    "profile": "out/profile.json",
    "layout": {
        "attend/%3": {
            "tile": [4, 16],
            "kblock": 32,
            "order": "JIK",
            "lanes": 4,
            "pack": True,
            "split": {"depth": 1, "workers": 10},
        },
        "attend/%8": {"passes": 2},
        "attend/%9": {"form": "row-wise"},
    },
}
RUN: Final = ("run", "plan.psk", "--backend", "native", "--threads", "2", "--entry")
ATTEND: Final = (*RUN, "attend", "--dim", "B=2", "--dim", "T=12")
LOSS: Final = (*RUN, "loss", "--dim", "B=2", "--dim", "T=12")


@pytest.fixture
def console(tmp_path: Path) -> Console:
    made = Console(tmp_path)
    made.write("plan.psk", PROGRAM)
    return made


def plan(layout: dict[str, Any], realization: Any = "f32", **more: Any) -> str:
    return json.dumps({"realization": realization, **more, "layout": layout})


SCORES, WEIGHTS, VALUES = ATTENTION["layout"]
"""Nests of `attend`, by their numbers in its core."""


def test_the_plan_of_an_attention(console: Console) -> None:
    """A tile, blocks, lanes, a panel and ten workers for the scores, two passes, rows for the values: the default's output."""
    console.write("plans/attention.json", json.dumps(ATTENTION))
    line = ("run", "plan.psk", "--entry", "attend", "--dim", "B=2", "--dim", "T=40", "--json")
    wanted = console.presk(*line, "--backend", "native", "--realize", "f32").out
    assert json.loads(wanted)
    for backend in ("native", "kernel"):
        ran = console.presk(*line, "--backend", backend, "--threads", "10", "--plan", "@plans/attention.json")
        assert (ran.code, ran.out, ran.err) == (0, wanted, ""), ran.err
    dump = ("dump", "plan.psk", "--stage", "kernel", "--entry", "attend", "--dim", "B=2", "--dim", "T=40", *LEVEL)
    plain = console.presk(*dump, "--realize", "f32").out
    assert console.presk(*dump, "--plan", "@plans/attention.json").out != plain
    assert console.presk(*dump, "--plan", plan({})).out == plain


def test_every_decision_is_seen_in_the_kernels_and_in_no_number(console: Console) -> None:
    line = ("run", "plan.psk", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", "--threads", "2", "--json")
    dump = ("dump", "plan.psk", "--stage", "kernel", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", *LEVEL)
    wanted = console.presk(*line, "--backend", "native", "--realize", "f32").out
    base = {"tile": [2, 4], "lanes": 4, "pack": True}
    seen = {console.presk(*dump, "--realize", "f32").out}
    for layout in (
        {SCORES: base},
        {SCORES: {**base, "tile": [1, 4]}},
        {SCORES: {**base, "lanes": 1}},
        {SCORES: {**base, "lanes": 1, "pack": False}},
        {SCORES: {**base, "order": "JI"}},
        {SCORES: {**base, "split": {"depth": 1, "workers": 2}}},
        {SCORES: {"form": "row-wise"}},
        {WEIGHTS: {"passes": 3}},
        {WEIGHTS: {"split": {"depth": 0, "workers": 2}}},
    ):
        text = console.presk(*dump, "--plan", plan(layout)).out
        assert text and text not in seen, layout
        seen.add(text)
        ran = console.presk(*line, "--backend", "native", "--plan", plan(layout))
        assert (ran.code, ran.out) == (0, wanted), ran.err


def test_half_of_the_threads_take_a_division(console: Console) -> None:
    """The workers that a plan states, not all that there are."""
    dump = ("dump", "plan.psk", "--stage", "driver", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", *LEVEL)
    one, two = (
        console.presk(*dump, "--plan", plan({SCORES: {"split": {"depth": 0, "workers": workers}}})).out
        for workers in (2, 4)
    )
    assert f"{SCORES}, on 2 workers: kernel" in one and f"{SCORES}, on 4 workers: kernel" in two
    for workers in (2, 4):
        split = plan({SCORES: {"split": {"depth": 0, "workers": workers}}})
        line = ("run", "plan.psk", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", "--backend", "native")
        assert console.presk(*line, "--threads", "4", "--plan", split).code == 0


def test_what_is_refused(console: Console, golden: Golden) -> None:
    console.write("broken.json", '{"realization": "f32",}')
    console.write("nowhere.json", '{"realization": "@missing.json"}')
    for text in (
        "f32",
        "[]",
        "@missing.json",
        "@broken.json",
        "@nowhere.json",
        "{}",
        plan({}, "f16"),
        plan({}, {"default": "f32", "functions": {"attnd": "f64"}}),
        plan({}, profile=3),
        plan({}, layouts={}),
        plan([]),  # type: ignore[arg-type]
        plan({"attend/%77": {}}),
        plan({"attnd/%3": {}}),
        plan({"attend/%5": {}}),
        plan({SCORES: {"passes": 2}}),
        plan({WEIGHTS: {"tile": [1, 4]}}),
        plan({WEIGHTS: {"lanes": 4}}),
        plan({SCORES: {"tiles": [1, 4]}}),
        plan({SCORES: {"tile": [3, 6]}}),
        plan({SCORES: {"order": "JIK"}}),
        plan({SCORES: {"form": "row-wise", "pack": True}}),
        plan({SCORES: {"epilogue": True}}),
        plan({SCORES: {"split": {"depth": 0, "workers": 7}}}),
        plan({SCORES: {"lanes": 4, "pack": False}}),
        plan({VALUES: {"lanes": 16}}),
        plan({VALUES: {"form": "row-wise"}}, "bf16"),
        plan({VALUES: {"kblock": 32, "order": "KIJ"}}, "bf16"),
        plan({WEIGHTS: {"passes": 2}}, "bf16"),
        plan({VALUES: {"split": {"depth": 2, "workers": 2}}}),
    ):
        ran = console.presk(*ATTEND, *LEVEL, "--plan", text)
        assert ran.code == (2 if "E9002" in ran.err else 4) and ran.out == ""
    inside = console.presk(*LOSS, "--plan", plan({"loss/%8": {"split": "none"}}))
    assert inside.code == 4
    bench = ("bench", "plan.psk", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", "--runs", "1")
    assert console.presk(*bench, "--plan", plan({SCORES: {"split": {"depth": 0, "workers": 2}}})).code == 4
    golden("cli/native_plans.txt", console.transcript)


def test_two_products_with_lanes_of_their_own_and_one_with_its_sum(console: Console) -> None:
    """What is shown of a plan, its kernels, and the run, which launches a kernel less where an `add` joins a product."""
    console.write(
        "two_dots.psk",
        "fn twice(x : ℝ[batch: 4, k: 8], w : ℝ[k: 8, k2: 8], u : ℝ[k2: 8, n: 8], b : ℝ[n: 8]) -> ℝ[batch: 4, n: 8] =\n"
        "  x · w · u + b\n",
    )
    nests = {"twice/%4": {"lanes": 4}, "twice/%5": {"lanes": 1}}
    console.write("two_dots.json", plan(nests))
    console.write("joined.json", plan({**nests, "twice/%5": {"lanes": 4, "epilogue": True}}))
    shown = console.presk("dump", "two_dots.psk", "--stage", "realize", "--plan", "@two_dots.json").out
    assert all(f"    {name} {json.dumps(record)}\n" in shown for name, record in nests.items())
    dump = ("dump", "two_dots.psk", "--stage", "kernel", "--entry", "twice", *LEVEL, "--plan")
    first, second, _ = console.presk(*dump, "@two_dots.json").out.split("-- kernel ")[1:]
    assert first.startswith("0: twice/%4\n") and "f32x4 = fma" in first
    assert second.startswith("1: twice/%5\n") and " : f32 = fma" in second and "f32x" not in second
    run = ("run", "two_dots.psk", "--entry", "twice", "--backend", "native", "--json", "--stats")
    wanted = console.presk(*run, "--realize", "f32")
    assert "launches: 3" in wanted.err
    for name, launched in (("two_dots", 3), ("joined", 2)):
        ran = console.presk(*run, "--plan", f"@{name}.json")
        assert ran.out == wanted.out and f"launches: {launched}," in ran.err, ran.err


def test_every_shape_of_a_nest_is_checked(console: Console) -> None:
    """A product that is launched with two rows and with one: what the first can have, the second cannot."""
    console.write(
        "two.psk",
        "dim K\nfn f{B : dim}(x : ℝ[batch: B, k: K], w : ℝ[k: K, n: 4]) -> ℝ[batch: B, n: 4] = x · w\n"
        "fn g(x : ℝ[batch: 2, k: K], y : ℝ[batch: 1, k: K], w : ℝ[k: K, n: 4]) -> ℝ[] = sum(f(x, w)) + sum(f(y, w))\n",
    )
    line = ("run", "two.psk", "--backend", "native", "--threads", "2", "--dim", "K=3", "--entry")
    ran = {
        tile: console.presk(*line, "g", "--plan", plan({"f/%2": {"tile": tile, "split": {"depth": 0, "workers": 2}}}))
        for tile in ((1, 4), (4, 4))
    }
    assert [one.code for one in ran.values()] == [4, 4]
    for one in ran.values():
        assert "error[E7002]: `split` of `f/%2`: " in one.err and "two.psk:2:" in one.err, one.err
    first = plan({"f/%2": {"tile": [1, 4], "split": {"depth": 0, "workers": 2}}})
    assert console.presk(*line, "f", "--dim", "B=2", "--plan", first).code == 0
    assert console.presk(*line, "f", "--dim", "B=1", "--plan", first).code == 4


def test_options_that_do_not_go_together(console: Console) -> None:
    for command in (ATTEND, ("dump", "plan.psk", "--stage", "realize"), ("bench", *ATTEND[1:2], *ATTEND[4:])):
        ran = console.presk(*command, "--realize", "f32", "--plan", plan({}))
        assert (ran.code, "E9003" in ran.err and "`--realize` and `--plan`" in ran.err) == (2, True), ran.err
    exact = ("run", "plan.psk", "--entry", "loss", "--dim", "B=2", "--dim", "T=3", "--plan", plan({}))
    assert console.presk(*exact).code == 2
    assert console.presk("dump", "plan.psk", "--stage", "elab", "--plan", plan({})).code == 2


def test_what_is_shown_of_a_plan(console: Console, golden: Golden) -> None:
    console.write("mixed.json", '{"default": "f32", "functions": {"loss": "f64"}}')
    console.write("plans/attention.json", json.dumps({**ATTENTION, "realization": "@../mixed.json"}))
    console.presk("dump", "plan.psk", "--stage", "realize", "--plan", "@plans/attention.json")
    console.presk("dump", "plan.psk", "--stage", "realize", "--plan", '{"realization": "bf16"}')
    golden("cli/plan_shown.txt", console.transcript)


def test_a_measurement_under_a_plan(console: Console) -> None:
    """It is named after the realization alone."""
    bench = ("bench", "plan.psk", "--entry", "attend", "--dim", "B=2", "--dim", "T=12", "--runs", "1", "--json")
    layout = {SCORES: {"tile": [1, 1]}}
    found = [
        json.loads(console.presk(*bench, *option).out) for option in (("--realize", "f32"), ("--plan", plan(layout)))
    ]
    assert [one["realization"] for one in found] == ["f32", "f32"]


def test_a_realization_in_a_plan_is_the_one_beside_it(console: Console) -> None:
    console.write("plans/types.json", '{"default": "f32", "functions": {"Attention.apply": "f64"}}')
    console.write("plans/plan.json", '{"realization": "@types.json"}')
    line = ("run", "plan.psk", "--entry", "loss", "--dim", "B=2", "--dim", "T=3", "--backend", "native", "--json")
    wanted = console.presk(*line, "--realize", "@plans/types.json")
    assert wanted.code == 0
    for written in ("@plans/plan.json", '{"realization": "@plans/types.json"}'):
        assert console.presk(*line, "--plan", written).out == wanted.out


# --- the corpus --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["basics/mlp.psk", "nlp/05_gpt.psk", "tutorial/03_attention.psk"])
def test_a_plan_of_defaults_changes_no_byte(file: str) -> None:
    """`make plan-check` does it for the whole corpus, in every type."""
    assert file in FILES
    for number, function in enumerate(entries(file, "f32")):
        type_ = TYPES[number % len(TYPES)]
        dims = lengths(function)
        if defined(file, type_, function, dims, PREFIX):
            program, headers = differentiated(file, type_), loaded(file).headers
            assert not differs(program, headers, function.name, dims, type_, prefix=PREFIX), function.name


GRADIENTS: Final = (("basics/mlp.psk", "mse_grad"), ("nlp/05_gpt.psk", "loss_grad"))
LONGER: Final = (("nlp/minigpt.psk", "loss_grad"),)
"""Those that `make plan-check` takes besides."""


@pytest.mark.parametrize(("file", "entry"), GRADIENTS)
def test_a_gradient_with_all_contractions_laid_out(file: str, entry: str) -> None:
    """Every derivative nest at once, with panels: the default's gradient, natively and on the interpreter."""
    for type_, layout in (
        ("f32", Layout(tile=(2, 4), lanes=4, pack=True, kblock=32, order="JIK")),
        ("bf16", Layout(tile=(1, 8), lanes=8, pack=True, order="JI")),
        ("f64", Layout(form=Form.ROW_WISE)),
    ):
        (function,) = (one for one in entries(file, type_) if one.name == entry)
        program, headers, dims = differentiated(file, type_), loaded(file).headers, lengths(function)
        nests = nests_of(program, headers, entry, dims, type_)
        laid_out = contractions(program, nests)
        assert any(name.partition("/")[0].endswith((".bwd", ".vjp")) for name in laid_out), laid_out
        assert all(isinstance(nest, Contract) for name in laid_out for nest in nests[name])
        plain = driver_of(traced(program, headers, entry, dims, type_))
        planned = driver_of(traced(program, headers, entry, dims, type_, layouts=dict.fromkeys(laid_out, layout)))
        assert plain.kernels != planned.kernels
        args = given_to(function, headers, dims, type_)
        wanted = native(plain, function, args)
        assert same(native(planned, function, args), wanted)
        assert same(interpreted(planned, function, args), wanted)
        assert any(isinstance(one, For) for kernel in planned.kernels for one in kernel.body)


def test_what_is_stated_for_a_function_holds_for_its_forward_pass(console: Console) -> None:
    console.write("net.psk", NET)
    shown = console.presk("dump", "net.psk", "--stage", "core", "--entry", "Net.apply").out
    found = re.search(r"^  %(\d+) : .* = dot ", shown, re.MULTILINE)
    assert found is not None, shown
    dump = ("dump", "net.psk", "--stage", "kernel", "--entry", "loss_grad", "--dim", "B=4", "--level", "x86-64-v3")
    plain = console.presk(*dump, "--realize", "f32").out
    texts = []
    for name in ("Net.apply", "Net.apply.fwd"):
        plan = json.dumps({"realization": "f32", "layout": {f"{name}/%{found[1]}": {"tile": [1, 1], "lanes": 1}}})
        ran = console.presk(*dump, "--plan", plan)
        assert ran.code == 0, ran.err
        texts.append(ran.out)
    assert texts[0] == texts[1] != plain


def test_an_epilogue_is_of_the_function_that_it_is_stated_for(console: Console) -> None:
    """In its forward pass a product may be read once more, as a residual: there the `add` is launched, under the same tile."""
    console.write("net.psk", NET.replace("tanh(x · w + b)", "softmax(axis out, x · w + b)"))
    dump = ("dump", "net.psk", "--stage", "driver", "--dim", "B=4", "--level", "x86-64-v3")
    plans = [
        json.dumps({"realization": "f32", "layout": {"Net.apply/%3": {"tile": [1, 1], "lanes": 1, **more}}})
        for more in ({}, {"epilogue": True})
    ]
    for entry, same_ in (("Net.apply", False), ("loss_grad", True)):
        plain, joined = (console.presk(*dump, "--entry", entry, "--plan", plan) for plan in plans)
        assert plain.code == joined.code == 0, joined.err
        assert (plain.out == joined.out) is same_, entry
