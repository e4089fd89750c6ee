"""The effects that checking knows, data files, the tool itself, and the warnings."""

from typing import Final

from presk.diagnostics.code import Code, Example, paragraphs, program, source

_TRAINING: Final = """
const V = 16
dim B
dim T

module Table {
  param w : ℝ[V, V]
  fn apply(t : idx[V][batch: B, seq: T]) -> ℝ[batch: B, seq: T, V] = embed(w, t)
}

fn loss(θ : params Table, batch : (idx[V][batch: B, seq: T], idx[V][batch: B, seq: T])) -> ℝ[] =
  let (x, y) = batch
  mean(cross_entropy(Table.apply(θ, x), y))

optimizer adamw {
  lr = 0.001
}

training run {
  model     = Table
  objective = loss
  optimizer = adamw
  data      = stream "tokens.psk.d" |> shuffle(seed = 1) |> batch(B = 8)
}
"""
_SERVING: Final = """
const V = 16
dim B
dim T

module Table {
  param w : ℝ[V, V]
  fn apply(t : idx[V][batch: B, seq: T]) -> ℝ[batch: B, seq: T, V] = embed(w, t)
}
"""


def _with_table(text: str) -> Example:
    """A program below the module `Table`."""
    return program(f"{_SERVING}\n{source(text)}")


EFFECTS: Final = (
    Code(
        "E4002",
        "unknown effect",
        paragraphs("""
            `uses` names an effect that does not exist, or `effect` declares one. The only effect is `Rand`; `effect Rand` may
            be written and changes nothing.
        """),
        paragraphs("""
            Write `uses Rand` for a function that draws random numbers, and nothing for all others.
        """),
        program("""
            fn pick(scores : ℝ[10], key : key) -> idx[10] uses Random = sample(key, scores)
        """),
        program("""
            fn pick(scores : ℝ[10], key : key) -> idx[10] uses Rand = sample(key, scores)
        """),
    ),
)

DATA: Final = (
    Code(
        "E8001",
        "data file that cannot be read",
        paragraphs("""
            The file that `data = stream "path"` names exists, but may not be read or is no `.psk.d` file: cut off, of another
            format, with arrays that overlap, leave a hole or are not those of its sample type. (A file that is missing is W0002.)
            The path is relative to the program's file. `check` reads the header alone; `presk data info` looks at the whole file.
        """),
        paragraphs("""
            Name another file, or write the file again with `presk data pack`.
        """),
        program(_TRAINING, {"tokens.psk.d": "to be or not to be\n"}),
    ),
)

TOOL: Final = (
    Code(
        "E9001",
        "internal error",
        paragraphs("""
            The compiler met a state that its authors took to be impossible. The program may be right or wrong: the error says
            nothing about it. The command leaves with 70.

            There is no example, since a program that led to one would be a reason to correct the compiler.
        """),
        paragraphs("""
            Please report it, with the program and what was printed.
        """),
        None,
    ),
    Code(
        "E9002",
        "file on the command line is missing or cannot be read",
        paragraphs("""
            A file that the command names does not exist, is a directory or may not be read. The command leaves with 2. (A file
            that an `import` names is E1002.)
        """),
        paragraphs("""
            Correct the path. Paths are relative to the directory in which the command is run.
        """),
        program(
            """
            const D = 4
            """,
            args=("man.psk",),
        ),
        program(
            """
            const D = 4
            """,
        ),
    ),
    Code(
        "E9003",
        "value on the command line that does not fit the program",
        paragraphs("""
            An option gives a value to something that the program does not have, or a value of another form: `--const N=K` wants
            a constant that the main file declares, and a natural number. The command leaves with 2.
        """),
        paragraphs("""
            Correct the name or the value. A constant of an imported file is set in that file.
        """),
        program(
            """
            const D = 4
            """,
            args=("main.psk", "--const", "E=8"),
        ),
        program(
            """
            const D = 4
            """,
            args=("main.psk", "--const", "D=8"),
        ),
    ),
    Code(
        "E9004",
        "worker process that ended",
        paragraphs("""
            The process that worked on the request ended before it had an answer: it crashed, it was killed, or the system had
            no memory left for it. The error says how it ended and what it was working on. The daemon and all other requests go
            on; a new process takes the next request. The command leaves with 70.

            There is no example, since no program should do this.
        """),
        paragraphs("""
            Run the command again. If memory ran out, make it smaller or end what else runs. If it ends in the same way again,
            please report it, with the program and the end of `presk daemon log`.
        """),
        None,
    ),
    Code(
        "E9005",
        "daemon that cannot be had or that ended",
        paragraphs("""
            The daemon ended while it passed on an answer, of which a part has been printed; or a command on the daemon itself
            (`presk daemon start`, `presk watch`) cannot start one. Where nothing has been printed yet, a command asks a new
            daemon, and works without one if none comes up. The command leaves with 70.

            There is no example, since it says nothing about a program.
        """),
        paragraphs("""
            Run the command again. The message and `presk daemon log` say what happened; `presk --no-daemon` works without the
            daemon.
        """),
        None,
    ),
    Code(
        "E9006",
        "machine without native execution",
        paragraphs("""
            Native kernels run on Linux on x86-64, at one of the levels that `presk run --level` names. This machine is another one,
            or its processor lacks what the lowest level needs.

            There is no example, since it says nothing about a program.
        """),
        paragraphs("""
            Run on another machine, or with `--backend exact`, which runs everywhere.
        """),
        None,
    ),
)

WARNINGS: Final = (
    Code(
        "W0001",
        "implicit dimension",
        paragraphs("""
            The signature of a function uses a dimension that nothing declares. It is taken as a dimension of this function,
            over which the function is generic. That may be meant, but it may be a spelling mistake as well.
        """),
        paragraphs("""
            Declare it in the braces of the function, or for the whole file with `dim`.
        """),
        program("""
            fn double(x : ℝ[N]) -> ℝ[N] = x + x
        """),
        program("""
            fn double{N : dim}(x : ℝ[N]) -> ℝ[N] = x + x
        """),
    ),
    Code(
        "W0002",
        "data file that is missing",
        paragraphs("""
            The file that `data = stream "path"` names does not exist, so its type cannot be compared with the objective's.
            `presk train` compares them when it starts. The path is relative to the program's file.
        """),
        paragraphs("""
            Correct the path, or write the file with `presk data`.
        """),
        program(_TRAINING),
    ),
    Code(
        "W0003",
        "inference block without a generation function",
        paragraphs("""
            An `inference serve` block serves a function of the file that continues a sequence: from the model's parameters and
            a context of indices it gives the next index of each sequence, `(θ : params M, ctx : idx[V][batch: B, seq: T], …) ->
            idx[V][batch: B]`; further parameters are a key, or have defaults. The field `generate` names it; without that field the
            first function that fits is taken. None does.
        """),
        paragraphs("""
            Add such a function.
        """),
        _with_table("""
            inference serve {
              model = Table
            }
        """),
        _with_table("""
            fn next_token(θ : params Table, ctx : idx[V][batch: B, seq: T], key : key) -> idx[V][batch: B] uses Rand =
              sample(key, Table.apply(θ, ctx)[seq: -1])

            inference serve {
              model = Table
            }
        """),
    ),
    Code(
        "W0004",
        "realization of a function that is not there",
        paragraphs("""
            A realization types `f.vjp` by name. When a gradient stores its forward pass, which it does unless `--remat recompute` is
            given, the derivative of `f` is split into `f.fwd` and `f.bwd`, and nothing is left of `f.vjp` but a call of either: the
            statement types nothing. It is no error, since one realization may serve entries of both kinds.
        """),
        paragraphs("""
            Type `f.fwd` and `f.bwd`.
        """),
        program(
            """
            fn g(x : ℝ[4]) -> ℝ[] = sum(exp(x))
            fn f(x : ℝ[4]) -> ℝ[4] = grad(λ x. g(x))(x)
            """,
            args=(
                *("main.psk", "--entry", "f", "--backend", "native"),
                *("--realize", '{"default": "f32", "functions": {"g.vjp": "f64"}}'),
            ),
            command="run",
        ),
        None,
    ),
    Code(
        "W0005",
        "parameters in a type in which updates vanish",
        paragraphs("""
            A training keeps its parameters in bf16, which has eight bits: a step that moves a parameter by less than 1/512 of
            its value does not move it at all, and most steps of a training do not move by more. The loss then stops falling
            early. Numbers of the optimizer are rounded as well: β₂ = 0.999 is 1 in bf16, and 1 − β₂ᵗ, by which it divides, 0
            (E7010).

            It has no example, since it takes a training.
        """),
        paragraphs("""
            Keep the parameters and the moments wider, and compute in bf16: `--realize '{"default": "bf16", "functions":
            {"training.step": "f32", "adamw.step": "f32", "adamw.lr": "f32"}}'`.
        """),
        None,
    ),
)
