"""Codes of a run: what is undefined at the dimensions or the values given. `presk run` reports them; `check` cannot."""

from typing import Final

from presk.diagnostics.code import Code, paragraphs, program

_ENTRY: Final = ("main.psk", "--entry", "f")


def _row(code: str, title: str, explanation: str, mend: str, text: str, *args: str, mended: str | None = None) -> Code:
    """A row whose example is run: entry `f`, with more arguments; a mended one is only checked."""
    return Code(
        code,
        title,
        paragraphs(explanation),
        paragraphs(mend),
        program(text, args=(*_ENTRY, *args), command="run"),
        None if mended is None else program(mended),
    )


RUN: Final = (
    _row(
        "E7001",
        "division by zero",
        """
            A division, or a power of a hyperparameter, divides by a value that is 0. On the exact reference that has no value. (Under
            a realization in machine numbers the arithmetic is IEEE's, with infinities.)
        """,
        """
            Add a small constant to the divisor, or keep the case away from the division.
        """,
        """
            fn f(x : ℝ[4]) -> ℝ[4] = x / (x - x)
        """,
        mended="""
            fn f(x : ℝ[4]) -> ℝ[4] = x / (x - x + 1e-6)
        """,
    ),
    _row(
        "E7002",
        "realization or plan that does not fit",
        """
            The record that `--realize` or `--plan` names cannot be read, says what no realization can say (arithmetic in bf16, sums
            in a type narrower than the arithmetic), or names a function or a nest that the program does not have. Each decision of a
            plan's layouts has to be one that the nest's kind has, and to fit every shape, type and machine at which the nest is
            launched. Nothing is ignored: what was ignored would be reported as if it had been applied.
        """,
        """
            Correct the record. `presk dump --stage realize` prints the nests of a program by name. A decision that is left away takes
            its default, which always fits.
        """,
        """
            fn f(x : ℝ[4]) -> ℝ[] = sum(x)
        """,
        "--backend",
        "native",
        "--realize",
        '{"default": "f32", "functions": {"g": "f64"}}',
    ),
    _row(
        "E7003",
        "undefined at the dimensions given",
        """
            Before anything is computed the entry and everything it reaches is looked at, with the dimensions of the run: a mean
            over no element, a selection outside its axis, indices below 0, a dimension that is no natural number, a bound
            (`dim T <= N`) that does not hold. The check reads types, not values.
        """,
        """
            Give other dimensions with `--dim`.
        """,
        """
            fn f{N : dim}(x : ℝ[N]) -> ℝ[] = mean(x)
        """,
        "--dim",
        "N=0",
    ),
    _row(
        "E7004",
        "row that its mask empties",
        """
            A softmax whose mask refuses every position of a row has no value in that row. The message names the row.
        """,
        """
            Let the mask allow at least one position of each row.
        """,
        """
            fn f(x : ℝ[s2: 3]) -> ℝ[s2: 3] = softmax(axis s2, x, where = causal_mask(s: 4)[s: 0, s2: 1..4])
        """,
    ),
    _row(
        "E7005",
        "outside a function's domain",
        """
            `sqrt` or `log` of a number for which it is not defined over the reals, or a derivative where there is none.
        """,
        """
            Keep the argument in the domain, for example with `max` or by adding a constant.
        """,
        """
            fn f(x : ℝ[4]) -> ℝ[4] = sqrt(0 - x^2 - 1)
        """,
    ),
    _row(
        "E7006",
        "number too large",
        """
            A value, or an exponent, is beyond what is computed with: the exact reference has no overflow, but memory has an end.
        """,
        """
            Give smaller values.
        """,
        """
            fn f(n : nat) -> ℝ[] = real((n + 2) ^ (n * n))
        """,
        "--arg",
        "n=100000",
    ),
    Code(
        "E7007",
        "result that rounding decides",
        paragraphs("""
            With `--bounds`, something discrete (an index, a mask, a branch of `max`) is not decided by the enclosures: the computed
            result and the exact one may differ there. This has no example, since none is certain to stay one.
        """),
        paragraphs("""
            Ask for more bits with `--bits`.
        """),
        None,
    ),
    Code(
        "E7008",
        "dimension without a value",
        paragraphs("""
            A dimension of the file that no argument determines is used by what the entry reaches. This has no example of its own.
        """),
        paragraphs("""
            Give it with `--dim N=K`, or mention it in the type of a parameter.
        """),
        None,
    ),
    _row(
        "E7009",
        "dropout rate outside its range",
        """
            The rate of a `dropout` is computed and does not lie in [0, 1). (A literal outside is E2021.)
        """,
        """
            Give a rate that is at least 0 and below 1.
        """,
        """
            fn f(rate : f64, key : key, x : ℝ[4]) -> ℝ[4] uses Rand = dropout(rate, key, x)
        """,
        "--arg",
        "rate=1.5",
        "--mode",
        "training",
    ),
    Code(
        "E7010",
        "training that left the numbers",
        paragraphs("""
            The loss of a step, the norm of its gradient, or a parameter that it makes, is infinite or NaN. The run ends before
            the step counts; the message names the first value of the step that is not finite, with the nest that computes it.

            It has no example, since it takes a training.
        """),
        paragraphs("""
            Lower the learning rate, warm up longer, clip the gradient (`grad_clip`), or type the nest that is named wider
            (`--realize`). The checkpoints from before are whole: `presk train --resume` goes on from the last one.
        """),
        None,
    ),
)

INPUTS: Final = (
    Code(
        "E8002",
        "input that does not fit",
        paragraphs("""
            A file or a word of the command line does not hold a value of its parameter's type: another shape, an index that is not
            below its bound (with its row and value), a mask that is neither true nor false, a number that is none, a damaged file.
        """),
        paragraphs("""
            Give a value of the parameter's type; `presk dump --stage elab` shows it.
        """),
        program(
            """
            fn f(t : idx[4][row: 3]) -> ℝ[row: 3] = real(t)
            """,
            {"t.json": "[0, 1, 7]"},
            args=(*_ENTRY, "--input", "t=t.json"),
            command="run",
        ),
    ),
)
