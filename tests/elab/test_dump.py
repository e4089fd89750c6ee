"""The text of the elaborated program, and of the resolved blocks."""

import json
from typing import Any

import pytest

from presk.elab.dump import MAX_LEAVES, dump_json, dump_program, parameter_count, summary
from presk.types.type import ModuleRef, Named
from tests.elab.support import MAIN, program

FILES = {
    "parts.psk": """\
const HEADS = 12
dim T <= 1024
module Linear{In Out : dim} {
  param w : ℝ[In, Out] init = normal(std = 0.02)
  param b : ℝ[Out]
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x
}
module Positions{D : dim} {
  param table : ℝ[T, D]
  fn apply(x : ℝ[seq: T, model: D]) -> ℝ[seq: T, model: D] = x
}
""",
    MAIN: """\
import "parts.psk" as p
const D = 64 * p.HEADS
dim B
dim S <= 2*B + 1
type Acts = ℝ[batch: B, seq: p.T, model: D]
module Attention {
  use wq, wo : p.Linear{D, D}
  fn apply(x : Acts) -> Acts = x
}
module Block {
  use attn : Attention
  param γ : ℝ[D] init = ones
  fn apply(x : Acts, key : key) -> Acts uses Rand = x
}
module GPT {
  use pos : p.Positions{D}
  use blocks : stack{12}(Block)
}
model Pair = p.Linear{2, 3} ∘ p.Linear{4, 2}
fn scaled{K : dim}(θ : params p.Linear{K, 4*K}, x : ℝ[..., K], rate : f64 = 0.5, n : nat = D) -> ℝ[..., 4*K] = x
fn pick(axis a, x, i : idx[S][batch: B]) = x
optimizer adamw {
  lr       = 3e-4
  schedule = cosine(warmup = 100)
}
training run {
  model     = GPT
  objective = loss
  optimizer = adamw
  data      = stream "tokens.psk.d" |> shuffle(seed = 1) |> batch(B = 32)
  checkpoint every 1000 steps to "ckpt/"
}
fn loss(θ : params GPT, key : key, batch : idx[65][batch: B, seq: p.T]) -> ℝ[] = x
fn next(θ : params GPT, ctx : idx[65][batch: B, seq: p.T]) -> idx[65][batch: B] = x
inference serve {
  model   = GPT
  weights = "ckpt/final"
  target  = gpu(sm_90) | cpu(avx512)
}
""",
}


def test_a_program(golden: Any) -> None:
    golden("elab/program.txt", dump_program(program(FILES)))


def test_the_blocks_of_a_program(golden: Any) -> None:
    golden("elab/blocks.txt", summary(program(FILES)))


def test_a_program_as_json() -> None:
    found = json.loads(dump_json(program(FILES)))
    parts, main = found["files"]
    assert (parts["file"], main["file"]) == ("parts.psk", MAIN)
    assert main["constants"] == {"D": "768"}
    assert main["dimensions"] == {"B": [], "S": ["S <= 2*B + 1"]}
    assert main["types"] == {"Acts": "ℝ[batch: B, seq: T, model: 768]"}
    names = [module["name"] for module in main["modules"]]
    assert names == ["Attention", "Block", "GPT", "Pair"]
    gpt, pair = main["modules"][2], main["modules"][3]
    assert gpt["fields"] == [
        {"use": "pos", "module": "Positions{768}"},
        {"use": "blocks", "module": "stack{12}(Block)"},
    ]
    assert (gpt["file_dims"], pair["model"]) == (["T"], "Linear{2, 3} ∘ Linear{4, 2}")
    assert main["functions"][0]["params"][0] == {"name": "θ", "type": "params Linear{K, 4*K}", "axis": False}
    tree = next(one for one in main["trees"] if one["module"] == "GPT")
    assert {"path": "blocks.attn.wq.w", "type": "ℝ[12, 768, 768]"} in tree["leaves"]


def test_paths_and_stacks() -> None:
    text = dump_program(program(FILES))
    for line in (
        "  blocks.attn.wq.w : ℝ[12, 768, 768]",
        "  blocks.γ : ℝ[12, 768]",
        "  pos.table : ℝ[T, 768]",
        "  outer.w : ℝ[2, 3]",
        "  inner.b : ℝ[2]",
        "  w : ℝ[K, 4*K]",
    ):
        assert f"{line}\n" in text, line


def test_a_program_with_errors_is_shown_as_far_as_it_goes() -> None:
    text = dump_program(
        program(
            "const A = 1 / 0\nconst B = 3\ntype T = ℝ[A]\nmodule M {\n  param w : ℝ[Q]\n  param v : ℝ[B]\n}\nmodel G = Gone\n"
        )
    )
    assert "const B : nat = 3" in text
    assert "  param v : ℝ[3] init = zeros" in text
    assert "Gone" not in text


@pytest.mark.parametrize(
    "text, count",
    [
        ("module M { param w : ℝ[D, 1000]\n param b : ℝ }", "768,001"),
        ("module M { param w : ℝ[B, 3]\n param v : ℝ[7] }", "3*B + 7"),
        ("module M { param w : ℝ[B, B] }", None),
        ("module M { }", "0"),
        ("module M { param w : ℝ[999] }", "999"),
        ("module M { param w : ℝ[1000] }", "1,000"),
        ("module M { use n : stack{0}(N) }\nmodule N { param w : ℝ[5] }", "0"),
    ],
)
def test_numbers_of_parameters(text: str, count: str | None) -> None:
    found = program(f"const D = 768\ndim B\n{text}\n")
    assert parameter_count(Named(ModuleRef(MAIN, "M")), found.headers) == count


def test_a_tree_of_astronomic_size_is_counted() -> None:
    doubling = "\n".join(f"module M{i} {{ use a, b : M{i + 1} }}" for i in range(60))
    text = dump_program(program(f"{doubling}\nmodule M60 {{ param w : ℝ[3] }}\n"))
    assert f"params M0:\n  {2**60} tensors\n" in text
    assert "params M59: 6 parameters\n  a.w : ℝ[3]\n  b.w : ℝ[3]\n" in text
    assert text.count("\n") < 3 * MAX_LEAVES * 2
