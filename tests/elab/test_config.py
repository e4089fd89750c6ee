"""Configuration blocks: schemas, forms, and the records they resolve to."""

import json
from typing import Any

import pytest

from presk.elab.program import Program
from presk.elab.records import (
    Checkpoints,
    Data,
    DataInfo,
    Generation,
    OptimizerRecord,
    Schedule,
)
from presk.types.dim import symbol
from tests.elab.support import MAIN, program, reported, tokens, type_of, words

HEAD = """
const V = 7
const N = 4
dim B
dim T <= 1024
module M {
  param w : ℝ[V, 3]
  param pos : ℝ[T, 3]
}
module G{D : dim} { param w : ℝ[D] }
fn loss(θ : params M, batch : (idx[V][batch: B, seq: T], idx[V][batch: B, seq: T])) -> ℝ[] = x
fn keyed(θ : params M, key : key, batch : ℝ[n: 2, batch: B], rate : f64 = 0.5) -> ℝ[] = x
fn generic{D : dim}(θ : params G{D}, batch : ℝ[batch: B, D]) -> ℝ[] = x
fn next(θ : params M, key : key, ctx : idx[V][batch: B, seq: T], t : f64 = 0.8) -> idx[V][batch: B] uses Rand = x
fn later(θ : params M, ctx : idx[V][batch: T, seq: B], key : key) -> idx[V][T] = x
optimizer adamw { lr = 3e-4 }
"""


def block(lines: str, kind: str = "training run", head: str = HEAD, files: dict[str, bytes] | None = None) -> Program:
    text = f"{head}{kind} {{\n{lines}\n}}\n"
    return program({MAIN: text, **(files or {})})


def optimizer(lines: str) -> Program:
    return block(lines, "optimizer adamw", "const N = 4\n")


def said(found: Program) -> list[str]:
    return [code for code, _, _ in reported(found)]


TRAINING = "model = M\nobjective = loss\noptimizer = adamw\n"


def test_an_optimizer_with_its_defaults() -> None:
    found = optimizer("lr = 3e-4")
    assert said(found) == []
    assert found.optimizers == (
        OptimizerRecord("adamw", "3e-4", ("0.9", "0.999"), "1e-8", "0", None, Schedule("constant")),
    )


def test_an_optimizer_with_everything() -> None:
    found = optimizer("""
  lr           : f64 = 1
  betas        : (f64, f64) = (0.9, 0)
  weight_decay = 0.1
  grad_clip    = 1.0
  eps          = 1e-6
  schedule     : cosine(warmup = 500 * N)
""")
    assert said(found) == []
    assert found.optimizers == (
        OptimizerRecord("adamw", "1", ("0.9", "0"), "1e-6", "0.1", "1.0", Schedule("cosine", 2000)),
    )


@pytest.mark.parametrize(
    "line, words_",
    [
        ("momentum = 0.9", "no field `momentum`"),
        ("beta = (0.9, 0.99)", "did you mean `betas`"),
        ("lr = 1e-3", "given twice"),
        ("betas = 0.9", "two numbers"),
        ("betas = (0.9, 0.99, 0.999)", "two numbers"),
        ("betas = (0.9, 1)", "below 1"),
        ("weight_decay = -0.1", "a number"),
        ("grad_clip = 0", "above 0"),
        ("eps = N", "a number"),
        ('eps = "x"', "a number"),
        ("schedule = cosine()", "cosine(warmup = N)"),
        ("schedule = cosine(2000)", "cosine(warmup = N)"),
        ("schedule = cosine(warmup = 2, warmup = 3)", "cosine(warmup = N)"),
        ("schedule = cosine(warm = 2)", "cosine(warmup = N)"),
        ("schedule = linear(warmup = 0.5)", "natural number"),
        ("schedule = linear(warmup = 2 - N)", "natural number"),
        ("schedule = linear(warmup = many)", "natural number"),
        ("schedule = linear(warmup = 99999999999999999999)", "2^63"),
        ("schedule = constant", "`constant()`"),
        ("schedule = constant(1)", "`constant()`"),
        ("schedule = step(warmup = 1)", "`step` is not one of them"),
        ("schedule = 3", "`constant()`, `linear(warmup = N)` or `cosine(warmup = N)`"),
        ("schedule : f64 = constant()", "no type"),
        ("weight_decay : nat = 1", "the type `f64`"),
        ('checkpoint every 3 steps to "x"', "takes no `checkpoint`"),
    ],
)
def test_a_wrong_optimizer(line: str, words_: str) -> None:
    found = optimizer(f"lr = 1e-3\n{line}")
    assert said(found) == ["E2010"]
    (one,) = found.diagnostics
    assert words_ in words(one)
    assert one.primary.place.chunk.startswith("optimizer adamw/")


def test_the_name_of_an_optimizer_is_its_algorithm() -> None:
    found = program("optimizer sgd { lr = 0.1 }\n")
    assert reported(found) == [("E2010", MAIN, 1)]
    assert found.optimizers == ()


def test_required_fields() -> None:
    found = program("optimizer adamw { }\n\ntraining run { epochs = 3 }\n\ninference serve { }\n")
    assert reported(found) == [("E2010", MAIN, 1), ("E2010", MAIN, 3), ("E2010", MAIN, 5)]
    assert "lacks `model` and `objective` and `optimizer`" in words(found.diagnostics[1])


def test_a_line_that_does_not_parse_is_not_missed() -> None:
    found = program("optimizer adamw {\n  lr = = 3\n}\n")
    assert said(found) == ["E0001"]


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_training_record() -> None:
    found = block(TRAINING)
    assert said(found) == []
    record = found.training
    assert record is not None
    assert str(record.model) == "M"
    assert (record.objective, record.key, record.optimizer) == ("loss", False, "adamw")
    leaf = tokens(7, ("batch", symbol("B")), ("seq", symbol("T")))
    assert str(record.batch) == f"({leaf}, {leaf})"
    assert str(record.sample) == "(idx[7][seq: T], idx[7][seq: T])"
    assert (record.dims, record.data, record.epochs, record.checkpoint) == ((), None, 1, None)
    assert [str(fact) for fact in record.facts] == ["T <= 1024"]


def test_a_training_record_with_everything() -> None:
    found = block(
        TRAINING.replace("loss", "keyed")
        + """
  data = stream "d.psk.d" |> shuffle(seed = 12) |> batch(B = 8 * N) |> take(n = 5)
  epochs : nat = 10
  parallel = data_parallel(replicas = auto) ⊗ tensor_parallel(axis model) ⊗ data_parallel(replicas = 4)
  precision = budget(rel_error = 1e-3) | quantize(int8, calibration = "c.psk.d")
  checkpoint every 250 * N steps to "ckpt/"
"""
    )
    assert said(found) == ["W0002"]
    record = found.training
    assert record is not None
    assert record.key
    assert str(record.sample) == "ℝ[n: 2]"
    assert str(record.batch) == "ℝ[n: 2, batch: 32]"
    assert record.dims == (("B", 32),)
    assert record.data == Data("d.psk.d", 12, 32, 5)
    assert str(record.data) == 'stream "d.psk.d" |> shuffle(seed = 12) |> batch(B = 32) |> take(n = 5)'
    assert record.epochs == 10
    assert record.checkpoint == Checkpoints(1000, "ckpt/")
    assert (
        record.parallel == "data_parallel(replicas = auto) ⊗ tensor_parallel(axis model) ⊗ data_parallel(replicas = 4)"
    )
    assert record.precision == 'budget(rel_error = 1e-3) | quantize(int8, calibration = "c.psk.d")'


@pytest.mark.parametrize(
    "line, words_",
    [
        ("model = M", "given twice"),
        ("rate = 3", "no field `rate`"),
        ("epochs = 0", "from 1"),
        ("epochs : f64 = 3", "the type `nat`"),
        ("epochs = 1.5", "natural number"),
        ("epochs = T", "natural number"),
        ("data = 3", "shuffle(seed = N)"),
        ('data = stream "x"', "shuffle(seed = N)"),
        ('data = stream "x" |> batch(B = 3)', "shuffle(seed = N)"),
        ('data = stream "x" |> shuffle(seed = 1) |> batch(B = 0)', "from 1"),
        ('data = stream "x" |> shuffle(seed = 1) |> batch(n = 2)', "batch(B = N)"),
        ('data = stream "x" |> batch(B = 3) |> shuffle(seed = 1)', "`batch` is not one of them"),
        ("data = stream(3) |> shuffle(seed = 1) |> batch(B = 3)", "a text"),
        ('data = stream "x" |> shuffle(seed = 1) |> batch(B = 3) |> take(n = 1) |> take(n = 1)', "shuffle(seed = N)"),
        ("parallel = data_parallel(replicas = 0)", "from 1"),
        ("parallel = tensor_parallel(model)", "tensor_parallel(axis a)"),
        ("parallel = data_parallel(replicas = auto) | tensor_parallel(axis a)", "tensor_parallel(axis a)"),
        ("precision = budget(error = 1e-3)", "budget(rel_error = ε)"),
        ("precision = budget(rel_error = 1e-3, abs_error = 1e-3)", "budget(rel_error = ε)"),
        ("precision = budget(rel_error = 0)", "above 0"),
        ('precision = quantize(int4, calibration = "c")', "`int8`"),
        ("precision = quantize(int8)", "quantize(int8"),
        ('checkpoint every 0 steps to "x"', "from 1"),
        ('checkpoint every 10 epochs to "x"', "`steps`"),
        ("checkpoint = 3", "checkpoint every N steps"),
    ],
)
def test_a_wrong_training_block(line: str, words_: str) -> None:
    found = block(f"{TRAINING}{line}\n")
    errors = [one for one in found.diagnostics if one.code != "W0002"]
    assert [one.code for one in errors] == ["E2010"]
    assert words_ in words(errors[0])


def test_a_second_checkpoint() -> None:
    line = 'checkpoint every 10 steps to "x"\n'
    assert said(block(TRAINING + line + line)) == ["E2010"]


@pytest.mark.parametrize(
    "field, words_",
    [
        ("model = G", "generic"),
        ("model = loss", "a function"),
        ("model = Gone", "unknown module"),
        ("model = 3", "not a module"),
        ("objective = M", "`M` is none"),
        ("objective = los", "did you mean `loss`"),
        ("objective = M.apply", "top-level function"),
        ("objective = 3", "top-level function"),
        ("objective = next", "must return `ℝ[]`"),
        ("objective = generic", "another module"),
        ("optimizer = sgd", "`sgd` is none"),
        ("optimizer = 3", "optimizer block"),
    ],
)
def test_what_a_training_block_must_name(field: str, words_: str) -> None:
    name = field.partition(" ")[0]
    lines = [line for line in TRAINING.splitlines() if not line.startswith(name)]
    found = block("\n".join([*lines, field]))
    (one,) = found.diagnostics
    assert one.code in ("E2010", "E1001", "E1014")
    assert words_ in words(one)
    assert found.training is None


@pytest.mark.parametrize(
    "signature, words_",
    [
        ("(x : ℝ[batch: B], θ : params M) -> ℝ[]", "`θ : params <model>`"),
        ("() -> ℝ[]", "`θ : params <model>`"),
        ("(θ : params M) -> ℝ[]", "takes no batch"),
        ("(θ : params M, key : key) -> ℝ[]", "takes no batch"),
        ("(θ : params M, x : ℝ[batch: B], y : ℝ[batch: B]) -> ℝ[]", "`y` of the objective `f` has no default"),
        ("(θ : params M, x : ℝ[batch: B]) -> ℝ[batch: B]", "must return `ℝ[]`"),
        ("(θ : params M, x : ℝ[B]) -> ℝ[]", "has no axis `batch`"),
        ("(θ : params M, x : (ℝ[batch: B], ℝ[3])) -> ℝ[]", "`[3]` has no axis `batch`"),
        ("(θ : params M, x : ℝ[..., batch: B]) -> ℝ[]", "open prefix"),
        ("(θ : params M, x : (ℝ[batch: B], nat)) -> ℝ[]", "`nat` is not a tensor"),
        ("(θ : params M, axis a, x : ℝ[batch: B]) -> ℝ[]", "axis parameter"),
        ("(θ : params stack{2}) -> ℝ[]", ""),
    ],
)
def test_a_wrong_objective(signature: str, words_: str) -> None:
    if "stack" in signature:
        signature = "(θ : params G{3}, x : ℝ[batch: B]) -> ℝ[]"
        words_ = "`f` takes `params G{3}`, the model is `M`"
    found = block(TRAINING.replace("loss", "f"), head=f"{HEAD}fn f{signature} = x\n")
    (one,) = found.diagnostics
    assert one.code == "E2010"
    assert words_ in words(one)
    assert one.labels == () or one.labels[0].place.chunk == "fn f"


def test_a_generic_objective_fits_a_model_that_is_not() -> None:
    found = block(TRAINING.replace("loss", "generic").replace("= M", "= G{5}"))
    assert said(found) == []
    assert found.training is not None
    assert str(found.training.sample) == "ℝ[5]"


def test_an_objective_without_a_declared_result() -> None:
    """The stand-in for typing finds `ℝ[]`; the block sees the completed signature."""
    found = block(TRAINING.replace("loss", "f"), head=f"{HEAD}fn f(θ : params M, x : ℝ[batch: B]) = x\n")
    assert said(found) == []
    assert found.training is not None


def data_file(sample: str, metadata: dict[str, str] | None = None) -> bytes:
    values = {"presk.sample": sample, "presk.count": "100", **(metadata or {})}
    text = json.dumps({"__metadata__": values}).encode()
    return len(text).to_bytes(8, "little") + text


STREAM = TRAINING + 'data = stream "d.psk.d" |> shuffle(seed = 1) |> batch(B = 32)\n'


def test_a_data_file_that_fits() -> None:
    data = data_file("(idx[5][seq: 128], idx[7][128])", {"presk.window": "129 1"})
    found = block(STREAM, files={"d.psk.d": data})
    assert said(found) == []
    record = found.training
    assert record is not None
    assert dict(record.dims) == {"B": 32, "T": 128}
    assert str(record.sample) == "(idx[7][seq: 128], idx[7][seq: 128])"
    assert record.data_info == DataInfo(type_of("(idx[5][seq: 128], idx[7][128])"), 100, (129, 1))
    assert record.facts == ()
    # What the file decides is known of the model too: its parameters mention T.
    assert str(dict(record.model.hidden)["T"]) == "128"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data, code, words_",
    [
        (data_file("(idx[7][128], idx[7][127])"), "E2010", "axis `seq` of part 1 is 128, in the file 127"),
        (data_file("(idx[9][128], idx[7][128])"), "E2010", "the file's 9"),
        (data_file("idx[7][128]"), "E2010", "(idx[7][seq: T], idx[7][seq: T])"),
        (data_file("(idx[7][2048], idx[7][2048])"), "E2010", "T = 2048"),
        (data_file("ℝ[T]"), "E8001", "sample type"),
        (data_file("ℝ[3]\nconst A = 1"), "E8001", "sample type"),
        (data_file("ℝ["), "E8001", "sample type"),
        (b"not a data file", "E8001", "does not begin"),
    ],
)
def test_a_data_file_that_does_not(data: bytes, code: str, words_: str) -> None:
    found = block(STREAM, files={"d.psk.d": data})
    (one,) = found.diagnostics
    assert (one.code, one.primary.place.chunk) == (code, "training run/data")
    assert words_ in words(one)


def test_the_batch_must_fit_the_objective() -> None:
    def with_length(length: str) -> list[str]:
        objective = f"fn f(θ : params M, x : ℝ[batch: {length}]) -> ℝ[] = x\n"
        return sorted(said(block(STREAM.replace("loss", "f"), head=HEAD + objective)))

    assert with_length("32") == ["W0002"]
    assert with_length("2*B") == ["W0002"]
    for length in ("33", "5*B", "B + T"):
        assert with_length(length) == ["E2010", "W0002"]


def test_the_batch_must_obey_the_bound_of_its_dimension() -> None:
    found = block(STREAM, head=HEAD.replace("dim B", "dim B <= 16"))
    assert sorted(said(found)) == ["E2010", "W0002"]
    (one,) = (one for one in found.diagnostics if one.code == "E2010")
    assert "B <= 16" in one.message
    assert one.primary.text == "B = 32"


def lasting(schedule: str, more: str = "", batch: int = 32) -> Program:
    head = HEAD.replace("lr = 3e-4", f"lr = 3e-4\n schedule = {schedule}")
    lines = STREAM.replace("B = 32", f"B = {batch}") + more
    return block(lines, head=head, files={"d.psk.d": data_file("(idx[7][8], idx[7][8])")})


def test_a_warm_up_ends_before_the_training_does() -> None:
    # A hundred samples are three full batches of 32.
    assert said(lasting("cosine(warmup = 2)")) == []
    assert said(lasting("linear(warmup = 5)", "epochs = 2\n")) == []
    assert said(lasting("constant()")) == []
    for schedule, more in [("cosine(warmup = 3)", ""), ("linear(warmup = 6)", "epochs = 2\n")]:
        found = lasting(schedule, more)
        (one,) = found.diagnostics
        assert (one.code, one.primary.place.chunk) == ("E2010", "training run/optimizer")
        assert one.labels[0].place.chunk == "optimizer adamw/schedule"
        assert found.training is not None
        assert found.training.batches == 3
    taken = lasting("cosine(warmup = 1)").training
    assert taken is not None
    assert taken.batches == 3


def test_data_that_makes_no_batch() -> None:
    (one,) = lasting("constant()", batch=101).diagnostics
    assert one.code == "E2010"
    assert "100 samples, batches of 101" in words(one)


def test_take_bounds_the_batches_of_an_epoch() -> None:
    lines = TRAINING + 'data = stream "d.psk.d" |> shuffle(seed = 1) |> batch(B = 32) |> take(n = 2)\n'
    found = block(lines, files={"d.psk.d": data_file("(idx[7][8], idx[7][8])")})
    assert found.training is not None
    assert found.training.batches == 2


# --- inference --------------------------------------------------------------------------------------------------------


def serve(lines: str, **more: Any) -> Program:
    return block(f"model = M\n{lines}", "inference serve", **more)


def test_the_first_function_that_generates_is_taken() -> None:
    found = serve("")
    assert said(found) == []
    assert found.serve is not None
    context = tokens(7, ("batch", symbol("B")), ("seq", symbol("T")))
    assert found.serve.generation == Generation("next", context, tokens(7, ("batch", symbol("B"))), "key")


def test_a_generation_function_by_name() -> None:
    found = serve("generate = later")
    assert said(found) == []
    assert found.serve is not None
    assert found.serve.generation is not None
    assert found.serve.generation.function == "later"


def test_nothing_generates() -> None:
    found = serve("", head="module M { }\nfn f(x : ℝ) -> ℝ = x\n")
    assert reported(found) == [("W0003", MAIN, 3)]
    assert found.serve is not None
    assert found.serve.generation is None


@pytest.mark.parametrize(
    "signature, words_",
    [
        ("(ctx : idx[V][batch: B, seq: T]) -> idx[V][batch: B]", "not a parameter tree"),
        ("(θ : params G{3}, ctx : idx[V][batch: B, seq: T]) -> idx[V][batch: B]", "the model is `M`"),
        ("(θ : params M) -> idx[V][batch: B]", "takes no context"),
        ("(θ : params M, ctx : idx[V][batch: B, seq: T], n : nat) -> idx[V][batch: B]", "`n` has no default"),
        ("(θ : params M, ctx : idx[V][seq: T]) -> idx[V]", "axes are not `batch` and `seq`"),
        ("(θ : params M, ctx : idx[V][B, T]) -> idx[V][B]", "axes are not `batch` and `seq`"),
        ("(θ : params M, ctx : idx[V][..., batch: B, seq: T]) -> idx[V][batch: B]", "axes are not"),
        ("(θ : params M, ctx : idx[V][batch: B, seq: T]) -> idx[N][batch: B]", "not `idx[7][batch: B]`"),
        ("(θ : params M, ctx : idx[V][batch: B, seq: T]) -> ℝ[batch: B]", "not `idx[7][batch: B]`"),
        ("(θ : params M, ctx : idx[V][batch: B, seq: T]) -> idx[V][seq: B]", "not `idx[7][batch: B]`"),
    ],
)
def test_what_is_no_generation_function(signature: str, words_: str) -> None:
    found = serve("generate = f", head=f"{HEAD}fn f{signature} = x\n")
    (one,) = found.diagnostics
    assert one.code == "E2010"
    assert words_ in words(one)


@pytest.mark.parametrize(
    "line, code",
    [
        ("generate = Gone", ["E2010"]),
        ("generate = M.apply", ["E2010"]),
        ('weights = "ckpt/final"', []),
        ("weights = 3", ["E2010"]),
        ("target = gpu(sm_90) | cpu(avx512)", []),
        ("target = tpu(v5)", ["E2010"]),
        ("target = gpu()", ["E2010"]),
        ("batching = dynamic(max_batch = 64, timeout = 5ms)", []),
        ("batching = dynamic(timeout = 5ms, max_batch = 64)", []),
        ("batching = dynamic(max_batch = 64, timeout = 5MiB)", ["E2010"]),
        ("batching = dynamic(max_batch = 64)", ["E2010"]),
        ("cache = kv_cache(axis seq)", []),
        ("cache = kv_cache(seq)", ["E2010"]),
        ("epochs = 3", ["E2010"]),
    ],
)
def test_fields_of_an_inference_block(line: str, code: list[str]) -> None:
    assert said(serve(line)) == code


def test_blocks_of_one_name() -> None:
    found = program("optimizer adamw { lr = 0.1 }\noptimizer adamw { lr = 0.2 }\n")
    assert reported(found) == [("E2010", MAIN, 2)]
    assert [one.lr for one in found.optimizers] == ["0.1"]


def test_the_blocks_of_an_import_are_not_looked_at() -> None:
    found = program({MAIN: 'import "a.psk" as a\n', "a.psk": "optimizer sgd { }\ntraining run { }\n"})
    assert said(found) == []
