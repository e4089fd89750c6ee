"""The dumps of tokens and trees."""

import json

from presk.syntax.api import parse_file, tokenize
from presk.syntax.dump import ast_json, ast_text, tokens_json, tokens_text
from tests.conftest import Golden

PROGRAM = """\
-- a comment
import "lib/mlp.psk" as ff
const Ŵ : nat = 4D_ -- see below
dim T <= 1024
module Linear{In Out : dim} {
  param w : Real[In, Out] init = normal(std = 0.02)
  fn apply(x : ℝ[..., In], axis i, k : f64 = -1) -> ℝ[..., Out] uses Rand =
    let (a, b) = x @ w
    mean(axis i, a[seq: 0..2] + ein[i](b * w), k : ℝ)
}
training run {
  data : (f64, f64) = stream "x\\ty"
  checkpoint every 10 steps to "ckpt"
}
""".replace("4D_", "4 * D")


def test_tokens_as_text(golden: Golden) -> None:
    golden("syntax/tokens.txt", tokens_text(tokenize(PROGRAM.encode())))


def test_trees_as_text(golden: Golden) -> None:
    golden("syntax/ast.txt", ast_text(parse_file(PROGRAM.encode()).file))


def test_tokens_as_json() -> None:
    """L010: texts are whole; spans are those of diagnostics."""
    chunks = json.loads(tokens_json(tokenize("const y\u0302 =\t0123456789 · 1".encode())))
    assert [chunk["key"] for chunk in chunks] == ["const \u0177"]
    tokens = chunks[0]["tokens"]
    assert [token["text"] for token in tokens] == ["const", "\u0177", "=", "0123456789", "·", "1"]
    assert tokens[3]["span"] == {
        "start": {"line": 1, "column": 12, "offset": 12},
        "end": {"line": 1, "column": 22, "offset": 22},
    }
    assert tokens[5]["span"]["start"] == {"line": 1, "column": 25, "offset": 26}


def test_trees_as_json() -> None:
    """Every field is there; places apart from the rest."""
    (chunk,) = json.loads(ast_json(parse_file(b"const A = -b.c").file))
    assert chunk == {
        "key": "const A",
        "node": {
            "form": "Const",
            "span": [0, 6],
            "spans": {"name": 1},
            "name": "A",
            "type": None,
            "value": {
                "form": "Negate",
                "span": [3, 6],
                "operand": {
                    "form": "Field",
                    "span": [4, 6],
                    "spans": {"name": 6},
                    "base": {"form": "Name", "span": [4, 4], "name": "b"},
                    "name": "c",
                },
            },
        },
    }


def test_every_form_is_in_both_dumps() -> None:
    parsed = parse_file(PROGRAM.encode())
    assert parsed.diagnostics == ()
    names = {
        "Import",
        "Const",
        "DimDecl",
        "Module",
        "ParamMember",
        "Fn",
        "Parameter",
        "Let",
        "Slice",
        "Ein",
        "Checkpoint",
    }
    text, data = ast_text(parsed.file), ast_json(parsed.file)
    assert all(name in text and f'"{name}"' in data for name in names)


def test_an_empty_file() -> None:
    assert tokens_text(tokenize(b"")) == ast_text(parse_file(b"").file) == ""
    assert json.loads(tokens_json(tokenize(b""))) == json.loads(ast_json(parse_file(b"").file)) == []
