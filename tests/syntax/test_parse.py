"""The grammar: every form of declarations, types, expressions and items."""

import pytest

from presk.syntax import tree as t
from presk.syntax.printer import print_expr
from presk.syntax.tree import NOWHERE
from tests.syntax.support import codes, declaration, declarations, expression, grouped, parsed, type_of, type_text

A = NOWHERE


def name(text: str) -> t.Name:
    return t.Name(A, text)


def nat(text: str) -> t.Nat:
    return t.Nat(A, text)


def function(text: str) -> t.Fn:
    node = declaration(text)
    assert isinstance(node, t.Fn)
    return node


def module(text: str) -> t.Module:
    node = declaration(text)
    assert isinstance(node, t.Module)
    return node


def block(text: str) -> t.Block:
    node = declaration(text)
    assert isinstance(node, t.Block)
    return node


# --- declarations -----------------------------------------------------------------------------------------------------


def test_imports_and_constants() -> None:
    """L022, L023"""
    assert declaration('import "../mlp/mlp.psk" as ff') == t.Import(A, "../mlp/mlp.psk", 0, "ff", 0)
    assert declaration("const D : nat = 768") == t.Const(A, "D", 0, t.NamedType(A, ("nat",), None), nat("768"))
    assert declaration("const D = 768") == t.Const(A, "D", 0, None, nat("768"))
    assert declaration("const HD : nat = D / H") == t.Const(
        A, "HD", 0, t.NamedType(A, ("nat",), None), t.Binary(A, "/", 0, name("D"), name("H"))
    )


def test_assertions_dimensions_aliases_effects() -> None:
    """L024, L025"""
    remainder = t.Binary(A, "%", 0, name("D"), name("H"))
    assert declaration("static assert D % H == 0") == t.StaticAssert(A, t.Binary(A, "==", 0, remainder, nat("0")))
    assert declaration("dim B") == t.DimDecl(A, "B", 0, None)
    assert declaration("dim T <= 1024") == t.DimDecl(A, "T", 0, nat("1024"))
    assert declaration("dim T <= N + 1") == t.DimDecl(A, "T", 0, t.Binary(A, "+", 0, name("N"), nat("1")))
    axes = tuple(t.Axis(A, axis, name(length)) for axis, length in (("batch", "B"), ("seq", "T"), ("model", "D")))
    assert declaration("type Acts = ℝ[batch: B, seq: T, model: D]") == t.TypeAlias(A, "Acts", 0, t.RealType(A, axes))
    assert declaration("effect Rand") == t.Effect(A, "Rand", 0)


def test_models() -> None:
    """L026, L033"""
    node = declaration("model GPT = stack{12}(Block) ∘ Embedding{V, D}")
    stack = t.Call(A, t.DimArgs(A, name("stack"), (nat("12"),)), (t.Positional(A, name("Block")),))
    embedding = t.DimArgs(A, name("Embedding"), (name("V"), name("D")))
    assert node == t.Model(A, "GPT", 0, t.Binary(A, "∘", 0, stack, embedding))


def test_a_sequence_of_declarations() -> None:
    """L022: in order, and none is as good as many."""
    assert [type(node).__name__ for node in declarations("dim B\nconst A = 1\nfn f(x) = x\n")] == [
        "DimDecl",
        "Const",
        "Fn",
    ]
    assert declarations("") == []


# --- modules ----------------------------------------------------------------------------------------------------------


def test_type_parameters() -> None:
    """L028, L029"""
    inputs, outputs = t.TypeParam(A, "In", "dim"), t.TypeParam(A, "Out", "dim")
    assert module("module L{In Out : dim} {}").type_params == (inputs, outputs)
    assert module("module L{In : dim, Out : dim} {}").type_params == (inputs, outputs)
    assert module("module L{In Out : dim, S : Shape} {}").type_params == (inputs, outputs, t.TypeParam(A, "S", "Shape"))
    assert module("module L {}").type_params == ()
    assert function("fn f{D : dim}(x) = x").type_params == (t.TypeParam(A, "D", "dim"),)
    assert codes("fn f{D : nat}(x) = x") == ["E0001 1"]
    assert codes("fn f{}(x) = x") == ["E0001 1"]


def test_members() -> None:
    """L030, L032, L034"""
    node = module(
        "module M {\n  param w : ℝ[In] init = xavier_uniform\n  param a, b : ℝ\n  use l1 : Linear{D, h}\n"
        "  use wq, wk : ff.Linear{D}\n  fn f(x) = x\n}"
    )
    assert [chunk.member for chunk in node.members] == [
        t.ParamMember(A, (name("w"),), t.RealType(A, (t.Axis(A, None, name("In")),)), name("xavier_uniform")),
        t.ParamMember(A, (name("a"), name("b")), t.RealType(A, ()), None),
        t.UseMember(A, (name("l1"),), t.DimArgs(A, name("Linear"), (name("D"), name("h")))),
        t.UseMember(A, (name("wq"), name("wk")), t.DimArgs(A, t.Field(A, name("ff"), "Linear", 0), (name("D"),))),
        t.Fn(A, "f", 0, (), (t.Parameter(A, "x", 0, False, None, None),), None, (), name("x")),
    ]


def test_a_learnable_type() -> None:
    """L031, L046: the tree keeps the word, which means nothing further."""
    assert type_of("param ℝ[D]") == t.ParamType(A, t.RealType(A, (t.Axis(A, None, name("D")),)))
    assert codes("module M { param w : param ℝ[In, Out] }") == []


@pytest.mark.parametrize("text", ["stack{L}(Block)", "A ∘ B", "A ∘ B ∘ C", "m.A{D}(B{E}, C)", "(A ∘ B) ∘ C"])
def test_module_expressions(text: str) -> None:
    """L033"""
    assert codes(f"module M {{ use x : {text} }}\nmodel G = {text}\n") == []


def test_only_members_stand_in_a_module() -> None:
    """L034"""
    for text in ("const A = 1", "dim B", "module N {}", "x = 1", "training run {}"):
        assert codes(f"module M {{\n  {text}\n}}\n")[0].startswith("E0001 2")


# --- functions --------------------------------------------------------------------------------------------------------


def test_functions() -> None:
    """L035, L036"""
    node = function("fn f{D : dim}(axis i, x, y : f64 = 0.8, z = 1) -> ℝ[] uses Rand, Other = x")
    f64 = t.NamedType(A, ("f64",), None)
    assert node.params == (
        t.Parameter(A, "i", 0, True, None, None),
        t.Parameter(A, "x", 0, False, None, None),
        t.Parameter(A, "y", 0, False, f64, t.Decimal(A, "0.8")),
        t.Parameter(A, "z", 0, False, None, nat("1")),
    )
    assert node.result == t.RealType(A, ())
    assert node.uses == (name("Rand"), name("Other"))
    assert node.body == name("x")
    node = function("fn f() = 1")
    assert (node.type_params, node.params, node.result, node.uses) == ((), (), None, ())


def test_a_key_may_be_called_key() -> None:
    """L047"""
    assert function("fn f(key : key) = key").params == (
        t.Parameter(A, "key", 0, False, t.NamedType(A, ("key",), None), None),
    )


def test_contextual_words_are_names() -> None:
    """L006, L067: of parameters, bindings, axes, functions, modules, constants."""
    for word in "model run serve stream checkpoint every steps to bool auto int8 zeros key nat".split():
        text = (
            f"const {word} = 1\ndim {word}\nfn {word}({word} : ℝ[{word}: 3]) =\n  let {word} = {word}[{word}: 0]\n"
            f"  {word}(axis {word}, {word}, {word} = {word}.{word}, {word}: 1)\nmodule {word} {{ param {word} : ℝ }}\n"
        )
        assert codes(text) == []


# --- configuration blocks ---------------------------------------------------------------------------------------------


def test_items() -> None:
    """L038, L039: after `name :` a type only if `=` follows."""
    node = block("optimizer adamw {\n  lr : f64 = 3e-4\n  eps = 1\n  schedule : cosine(warmup = 2000)\n  n : M{D}\n}")
    assert (node.kind, node.name) == ("optimizer", "adamw")
    cosine = t.Call(A, name("cosine"), (t.Named(A, "warmup", nat("2000")),))
    assert [chunk.item for chunk in node.items] == [
        t.Item(A, "lr", 0, t.NamedType(A, ("f64",), None), t.Decimal(A, "3e-4")),
        t.Item(A, "eps", 0, None, nat("1")),
        t.Item(A, "schedule", 0, None, cosine),
        t.Item(A, "n", 0, None, t.DimArgs(A, name("M"), (name("D"),))),
    ]


def test_checkpoints() -> None:
    """L007, L038"""
    node = block('training run {\n  checkpoint every 1000 steps to "ckpt/"\n  checkpoint every 2 * n epochs to "p"\n}')
    assert [chunk.item for chunk in node.items] == [
        t.Checkpoint(A, nat("1000"), "steps", 0, "ckpt/", 0),
        t.Checkpoint(A, t.Binary(A, "*", 0, nat("2"), name("n")), "epochs", 0, "p", 0),
    ]


def test_reserved_words_as_fields() -> None:
    """L040"""
    node = block("training run {\n  optimizer = adamw\n  type : nat = 1\n  let : x\n  λ = y\n}")
    assert [(chunk.item.name, chunk.key) for chunk in node.items if isinstance(chunk.item, t.Item)] == [
        ("optimizer", "training run/optimizer"),
        ("type", "training run/type"),
        ("let", "training run/let"),
        ("λ", "training run/λ"),
    ]


def test_streams() -> None:
    """L041: both spellings, and as a name of its own."""
    assert expression('stream "data/x"') == expression('stream("data/x")')
    assert expression("stream + 1") == t.Binary(A, "+", 0, name("stream"), nat("1"))
    assert print_expr(expression('stream "a" |> f')) == 'stream "a" |> f'


def test_the_chapters_blocks() -> None:
    """L042, L007, L027: as the language's description writes them."""
    node = parsed(
        """
optimizer adamw {
  lr           : f64 = 3e-4
  betas        : (f64, f64) = (0.9, 0.95)
  schedule     : cosine(warmup = 2000)
}

training run {
  model     = m.MiniGPT
  objective = loss
  optimizer = adamw
  data      = stream "data/tokens.psk.d" |> shuffle(seed = 1234) |> batch(B = 32)
  epochs    : nat = 10
  parallel  = data_parallel(replicas = auto) ⊗ tensor_parallel(axis model)
  precision = budget(rel_error = 1e-3)
  checkpoint every 1000 steps to "ckpt/"
}

inference serve {
  model     = m.MiniGPT
  weights   = "ckpt/final"
  precision = budget(abs_error = 1e-2) | quantize(int8, calibration = "data/calib.psk.d")
  target    = gpu(sm_90) | cpu(avx512)
  batching  = dynamic(max_batch = 64, timeout = 5ms)
  cache     = kv_cache(axis seq)
}
"""
    ).file
    blocks = [chunk.declaration for chunk in node.declarations]
    assert [len(block.items) for block in blocks if isinstance(block, t.Block)] == [3, 8, 6]


def test_the_name_behind_training_and_inference() -> None:
    """L027: `run` and `serve`; an optimizer has any name."""
    assert codes("training run {}\ninference serve {}\noptimizer run {}") == []
    assert codes("training serve {}\ninference run {}") == ["E0001 1", "E0001 2"]


# --- types ------------------------------------------------------------------------------------------------------------


def test_real_types() -> None:
    """L043, L049, L050"""
    assert type_of("ℝ") == type_of("ℝ[]") == type_of("Real") == t.RealType(A, ())
    assert type_of("ℝ[..., model: 4*D]") == t.RealType(
        A, (t.Ellipsis(A), t.Axis(A, "model", t.Binary(A, "*", 0, nat("4"), name("D"))))
    )
    assert type_of("ℝ[D / H, m.V]") == t.RealType(
        A,
        (
            t.Axis(A, None, t.Binary(A, "/", 0, name("D"), name("H"))),
            t.Axis(A, None, t.Field(A, name("m"), "V", 0)),
        ),
    )


def test_index_and_mask_types() -> None:
    """L044, L045"""
    seq = t.Axis(A, "seq", name("T"))
    assert type_of("idx[N][seq: T]") == t.IndexType(A, name("N"), (seq,))
    assert type_of("idx[N]") == t.IndexType(A, name("N"), ())
    assert type_of("bool[seq: T]") == t.MaskType(A, (seq,))
    assert type_of("bool[]") == t.MaskType(A, ())
    assert type_of("bool") == t.NamedType(A, ("bool",), None)
    assert codes("fn f(x) =\n  let bool = x\n  bool[0]") == []
    assert codes("type t = Acts[seq: T]") == ["E0001 1"]


def test_named_types() -> None:
    """L046, L048"""
    assert type_of("Tokens") == t.NamedType(A, ("Tokens",), None)
    assert type_of("ff.Linear{D, 4*D}") == t.NamedType(
        A, ("ff", "Linear"), (name("D"), t.Binary(A, "*", 0, nat("4"), name("D")))
    )
    assert type_of("params m.MiniGPT") == t.ParamsType(A, t.NamedType(A, ("m", "MiniGPT"), None))
    assert type_of("params Linear{D}") == t.ParamsType(A, t.NamedType(A, ("Linear",), (name("D"),)))
    assert type_of("(nat, (key, ()))") == t.TupleType(
        A,
        (
            t.NamedType(A, ("nat",), None),
            t.TupleType(A, (t.NamedType(A, ("key",), None), t.TupleType(A, ()))),
        ),
    )
    assert type_of("(nat)") == t.NamedType(A, ("nat",), None)


@pytest.mark.parametrize("text", ["ℝ[batch: B, 4*D]", "idx[N][seq: T]", "params m.M{D}", "(nat, key)", "bool[]", "ℝ[]"])
def test_types_print_as_they_are_written(text: str) -> None:
    assert type_text(text) == text


# --- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("a | b |> f", "((a | b) |> f)"),
        ("a |> f |> g", "((a |> f) |> g)"),
        ("a | b ⊗ c", "(a | (b ⊗ c))"),
        ("a ⊗ b ∘ c", "((a ⊗ b) ∘ c)"),
        ("a ∘ b ⊗ c", "((a ∘ b) ⊗ c)"),
        ("a ∘ b == c", "(a ∘ (b == c))"),
        ("a == b + c", "(a == (b + c))"),
        ("a < b < c", "((a < b) < c)"),
        ("a <= b == c >= d > e", "((((a <= b) == c) >= d) > e)"),
        ("a - b - c", "((a - b) - c)"),
        ("a + b - c", "((a + b) - c)"),
        ("a + b * c", "(a + (b * c))"),
        ("a * b · c", "((a * b) · c)"),
        ("a / b % c", "((a / b) % c)"),
        ("-x * y", "((-x) * y)"),
        ("x * -y", "(x * (-y))"),
        ("- - x", "(-(-x))"),
        ("-x^2", "(-(x ^ 2))"),
        ("x^2^3", "(x ^ (2 ^ 3))"),
        ("x^-y^2", "(x ^ (-(y ^ 2)))"),
        ("-f(x)[i].w^2", "(-(f(x)[i].w ^ 2))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a - (b - c)", "(a - (b - c))"),
        ("(x^2)^3", "((x ^ 2) ^ 3)"),
    ],
)
def test_precedence(text: str, groups: str) -> None:
    """L051–L056"""
    assert grouped(text) == groups


ORDER = (("|>",), ("|",), ("⊗", "∘"), ("==", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%", "·"))


def test_every_pair_of_operators() -> None:
    """L051–L055: looser ones outside, whichever side they stand on; equal ones to the left."""
    for i, outer in enumerate(ORDER):
        for j, inner in enumerate(ORDER):
            for a in outer:
                for b in inner:
                    left = f"((x {a} y) {b} z)"
                    right = f"(x {a} (y {b} z))"
                    assert grouped(f"x {a} y {b} z") == (right if i < j else left)


def test_paths_and_fields() -> None:
    """L057"""
    assert expression("m.MiniGPT.apply") == t.Field(A, t.Field(A, name("m"), "MiniGPT", 0), "apply", 0)
    assert expression("Linear{D, E}") == t.DimArgs(A, name("Linear"), (name("D"), name("E")))
    assert codes("const a = f(x){D}") == ["E0001 1"]
    assert codes("const a = 3{D}") == ["E0001 1"]


def test_arguments() -> None:
    """L058"""
    assert expression("f(x, std = 0.02, axis model, seq: T, g())") == t.Call(
        A,
        name("f"),
        (
            t.Positional(A, name("x")),
            t.Named(A, "std", t.Decimal(A, "0.02")),
            t.AxisArg(A, "model"),
            t.NamedAxis(A, "seq", name("T")),
            t.Positional(A, t.Call(A, name("g"), ())),
        ),
    )


TYPE_WORDS = ("ℝ", "Real", "ℝ[]", "idx[N]", "bool", "bool[D]", "param ℝ", "params M", "nat", "int", "rat", "f64", "key")


@pytest.mark.parametrize("word", TYPE_WORDS)
def test_ascribed_arguments(word: str) -> None:
    """L059, O35: `name : T` is an ascription when a type word follows."""
    expected = t.Call(A, name("sqrt"), (t.Positional(A, t.Ascribe(A, name("HD"), type_of(word))),))
    assert expression(f"sqrt(HD : {word})") == expected
    assert expression(f"sqrt((HD : {word}))") == expected
    assert expression(f"sqrt(x, HD : {word})").__class__ is t.Call


def test_arguments_that_are_no_ascriptions() -> None:
    """L059, O35: otherwise a name before the colon is an axis; parentheses force an ascription."""
    axis = t.Call(A, name("f"), (t.NamedAxis(A, "seq", name("Acts")),))
    assert expression("f(seq : Acts)") == expression("f(seq: Acts)") == axis
    assert expression("f(seq: (nat))") == t.Call(A, name("f"), (t.NamedAxis(A, "seq", name("nat")),))
    acts = t.NamedType(A, ("Acts",), None)
    assert expression("f((seq : Acts))") == t.Call(A, name("f"), (t.Positional(A, t.Ascribe(A, name("seq"), acts)),))
    # What is no bare name is no axis.
    field = t.Field(A, name("m"), "HD", 0)
    assert expression("f(m.HD : ℝ)") == t.Call(A, name("f"), (t.Positional(A, t.Ascribe(A, field, t.RealType(A, ()))),))


def test_ascriptions_and_tuples() -> None:
    """L066"""
    assert expression("(x : Acts)") == t.Ascribe(A, name("x"), t.NamedType(A, ("Acts",), None))
    assert expression("(0 : ℝ)") == t.Ascribe(A, nat("0"), t.RealType(A, ()))
    assert expression("()") == t.TupleExpr(A, ())
    assert expression("(a, (b, c))") == t.TupleExpr(A, (name("a"), t.TupleExpr(A, (name("b"), name("c")))))
    assert expression("(a)") == name("a")


def test_bindings() -> None:
    """L060, L021, O85: a name, a tuple of names; rebinding; any number of names."""
    node = function("fn f(x) =\n  let x = x + 1\n  let (a, b) = x\n  let () = a\n  x")
    body = node.body
    assert isinstance(body, t.Let)
    assert body.pattern == t.Pattern(A, (t.Binder(A, "x"),), False)
    assert body.value == t.Binary(A, "+", 0, name("x"), nat("1"))
    assert isinstance(body.body, t.Let)
    assert body.body.pattern == t.Pattern(A, (t.Binder(A, "a"), t.Binder(A, "b")), True)
    assert isinstance(body.body.body, t.Let)
    assert body.body.body.pattern == t.Pattern(A, (), True)
    assert body.body.body.body == name("x")
    assert codes("fn f(x) =\n  let ((a, b), c) = x\n  a") == ["E0001 2"]


def test_lambdas() -> None:
    """L061, L062, O85: as far to the right as possible."""
    theta = t.Pattern(A, (t.Binder(A, "θ"),), False)
    assert expression("λ θ. a + b |> c") == t.Lambda(A, theta, expression("a + b |> c"))
    assert expression("\\θ. a") == t.Lambda(A, theta, name("a"))
    assert expression("grad(λ θ. f(θ, x))(θ)") == t.Call(
        A,
        t.Call(A, name("grad"), (t.Positional(A, t.Lambda(A, theta, expression("f(θ, x)"))),)),
        (t.Positional(A, name("θ")),),
    )
    pair = t.Pattern(A, (t.Binder(A, "a"), t.Binder(A, "b")), True)
    assert expression("λ (a, b). λ θ. a.b") == t.Lambda(A, pair, t.Lambda(A, theta, expression("a.b")))
    typed = t.Pattern(A, (t.Binder(A, "x", t.RealType(A, ())),), False)
    assert expression("λ (x : ℝ[]). x") == t.Lambda(A, typed, name("x"))
    assert expression("(λ a. a)(x)") == t.Call(A, expression("λ a. a"), (t.Positional(A, name("x")),))


def test_a_binding_in_brackets() -> None:
    """O33"""
    assert expression("f(λ a.\n  let b = a\n  b + 1\n)") == t.Call(
        A,
        name("f"),
        (
            t.Positional(
                A,
                t.Lambda(
                    A,
                    t.Pattern(A, (t.Binder(A, "a"),), False),
                    t.Let(A, t.Pattern(A, (t.Binder(A, "b"),), False), name("a"), expression("b + 1")),
                ),
            ),
        ),
    )


def test_einstein_sums() -> None:
    """L063, O90"""
    axes = tuple(t.AxisName(A, axis) for axis in ("batch", "seq", "seq2"))
    assert expression("ein[batch, seq, seq2](q * k)") == t.Ein(A, axes, expression("q * k"))
    assert expression("ein[](q * k)") == t.Ein(A, (), expression("q * k"))
    assert grouped("ein[a](x) / ein[b](y)") == "(ein[a](x) / ein[b](y))"


def test_selectors() -> None:
    """L064, L065, L014: the negation is in the tree; a slice's bounds extend over sums."""
    assert expression("t[i]") == t.Index(A, name("t"), (t.Selector(A, None, name("i")),))
    assert expression("logits[seq: -1]") == t.Index(A, name("logits"), (t.Selector(A, "seq", t.Negate(A, nat("1"))),))
    assert expression("w[seq: 1..T + 1, 0..2, i]") == t.Index(
        A,
        name("w"),
        (
            t.Selector(A, "seq", t.Slice(A, nat("1"), expression("T + 1"))),
            t.Selector(A, None, t.Slice(A, nat("0"), nat("2"))),
            t.Selector(A, None, name("i")),
        ),
    )
    assert codes("const a = t[]") == ["E0001 1"]
    assert codes("const a = t[..2]") == ["E0001 1"]  # O79: both bounds


def test_literals() -> None:
    """L010, L011, L012, L013"""
    assert expression("007") == nat("007")
    assert expression("3e-4") == t.Decimal(A, "3e-4")
    assert expression("192KiB/sm") == t.Quantity(A, "192", "KiB/sm")
    assert expression(r'"a\"b"') == t.Text(A, 'a"b')
    assert codes("optimizer a { t = 5 ms }") == ["E0001 1"]


# --- places -----------------------------------------------------------------------------------------------------------


def test_places_count_tokens() -> None:
    """First and last token of a form, parentheses around it left out; tokens of names; operators."""
    (chunk,) = parsed("const c = (a + b) * f(x, n = -1)").file.declarations
    node = chunk.declaration
    assert isinstance(node, t.Const)
    assert (node.at, node.name_at) == ((0, 17), 1)
    product = node.value
    assert isinstance(product, t.Binary)
    assert (product.at, product.operator_at) == ((3, 17), 8)
    assert product.left.at == (4, 6)
    call = product.right
    assert isinstance(call, t.Call)
    assert call.at == (9, 17)
    assert [argument.at for argument in call.arguments] == [(11, 11), (13, 16)]


def test_a_line_break_that_counts_is_a_token() -> None:
    (chunk,) = parsed("fn f(x) =\n  let y = x\n  y").file.declarations
    node = chunk.declaration
    assert isinstance(node, t.Fn)
    assert isinstance(node.body, t.Let)
    assert node.body.at == (6, 11)
    assert node.body.body.at == (11, 11)
