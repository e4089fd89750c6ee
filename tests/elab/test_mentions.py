"""What a tree mentions."""

import pytest

from presk.elab.mentions import Mentions, mentions
from presk.syntax import tree
from tests.elab.support import declaration, declarations, expr


def all_of(text: str) -> Mentions:
    return mentions(declaration(text))


def test_everything_that_a_function_mentions() -> None:
    found = all_of("""
fn f{K : dim}(net : a.MLP{D}, θ : params net, x : Acts = d, axis i) -> ℝ[n: m.V, ..., K] uses Rand =
  let (p, q) = g(x, s = t, axis u, v: w)
  let h = λ (z : Zed). z[j: 1..k, l] · r
  ein[aa, bb](p * -q) + (y : idx[cc][dd]) + net.apply(θ).first + o.P.init(key) + E{F}
""")
    assert found.names == tuple(sorted("a D net Acts d m K g x t w Zed z k l r p q y cc dd θ o key E F".split()))
    assert found.paths == ("a.MLP", "m.V", "net.apply", "o.P")
    assert found.fields == ("MLP", "P", "V", "apply", "first", "init")


def test_declared_names_effects_and_axes_are_no_mentions() -> None:
    found = all_of(
        "module M{A : dim} { param w, v : ℝ[ax: A]\n use l : N\n fn f(x : ℝ) -> ℝ uses Rand = mean(axis model, x) }"
    )
    assert found.names == ("A", "N", "mean", "x")


@pytest.mark.parametrize(
    "text, names",
    [
        ("const A = B + C", ("B", "C")),
        ("dim T <= N", ("N",)),
        ("dim T", ()),
        ("static assert A % B == 0", ("A", "B")),
        ("type A = (B, params C, bool[d: D])", ("B", "C", "D")),
        ("model A = stack{L}(B) ∘ C", ("B", "C", "L", "stack")),
        ('import "x.psk" as y', ()),
        ("effect Rand", ()),
        ("optimizer adamw { lr = A }", ("A",)),
        ('training run { checkpoint every N steps to "x" }', ("N",)),
    ],
)
def test_declarations(text: str, names: tuple[str, ...]) -> None:
    assert all_of(text).names == names


def test_names_bring_others_along() -> None:
    implied = {"split_heads": ("H", "HD")}
    assert mentions(expr("split_heads(x)"), implied).names == ("H", "HD", "split_heads", "x")
    assert mentions(expr("merge(x)"), implied).names == ("merge", "x")


def test_a_type_path_of_three_names_mentions_its_beginning() -> None:
    assert all_of("type A = a.b.C").paths == ("a.b",)


def test_every_class_of_nodes_is_walked() -> None:
    """A name hidden in each form is found; so a new form cannot be forgotten."""
    text = "\n".join(
        ["const N = hidden", "dim N2 <= hidden", "static assert hidden == 1", "type N3 = ℝ[hidden]", "model N4 = hidden"]
        + [
            f"fn g{number}(x : ℝ) -> ℝ = {form}"
            for number, form in enumerate(
                [
                    "-hidden", "hidden + x", "x(hidden)", "x(n = hidden)", "x(n: hidden)", "x[hidden]", "x[hidden..2]",
                    "x[1..hidden]", "x{hidden}", "hidden.y", "λ a. hidden", "λ (a : hidden). a", "ein[i](hidden)",
                    "(hidden : ℝ)", "(x : hidden)", "(x, hidden)", "x[a: hidden]", "(x : idx[hidden])",
                    "(x : bool[hidden])", "(x : params hidden)", "(x : params y{hidden})", "(x : param hidden)",
                    "(x : (ℝ, hidden))",
                ]
            )
        ]
    )  # fmt: skip
    for chunk in declarations(text + "\n"):
        assert "hidden" in mentions(chunk.declaration).names, chunk.key
    let = tree.Let((0, 0), tree.Pattern((0, 0), (), False), tree.Name((0, 0), "a"), tree.Name((0, 0), "b"))
    assert mentions(let).names == ("a", "b")
