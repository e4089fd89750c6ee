"""E2001 to E2027: types of bodies, calls, and the configuration blocks."""

from typing import Final

from presk.diagnostics.code import Code, Example, paragraphs, program, source

_LINEAR: Final = """
module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = xavier_uniform
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w
}
"""


def _with_linear(text: str) -> Example:
    """A program below the module `Linear`."""
    return program(f"{_LINEAR}\n{source(text)}")


TYPING: Final = (
    Code(
        "E2001",
        "type mismatch",
        paragraphs("""
            An expression has a type of one kind where another is wanted: a real tensor for an index tensor, a mask for a
            hyperparameter, a tuple for a tensor, a function for a value. (Real tensors whose shapes differ are E2003, index
            tensors whose bounds differ E2005.)
        """),
        paragraphs("""
            Convert the value (`real(t)` makes reals of indices, `(n : ℝ)` of a number), or correct the type that is
            declared.
        """),
        program("""
            fn best(scores : ℝ[batch: 4, 10]) -> ℝ[batch: 4] = argmax(scores)
        """),
        program("""
            fn best(scores : ℝ[batch: 4, 10]) -> idx[10][batch: 4] = argmax(scores)
        """),
    ),
    Code(
        "E2002",
        "unknown name in a body",
        paragraphs("""
            The name is bound by no `let`, lambda or parameter, and is none of the file's, the imports' or the language's
            own functions and constants. The initializers (`zeros`, `xavier_uniform`, …) are words of the `init =` clause and
            no functions.
        """),
        paragraphs("""
            Correct the spelling, or bind the name. A name that is nearly the same is proposed.
        """),
        program("""
            fn double(x : ℝ[4]) -> ℝ[4] = x + y
        """),
        program("""
            fn double(x : ℝ[4]) -> ℝ[4] = x + x
        """),
    ),
    Code(
        "E2003",
        "shapes that do not agree",
        paragraphs("""
            Two shapes must be one, and are not. Shapes agree axis by axis: a name agrees with the same name or with none,
            never with another one; lengths must be provably equal, for every value of their dimensions. If they are not,
            the message shows values at which they differ.

            In `+ - * /` the smaller operand is aligned with the larger one's last axes or, where names forbid that, by its
            names; one that is the larger one's `...` prefix is aligned with that. An axis of length 1 is not repeated. A
            mask must fit into what it masks.
        """),
        paragraphs("""
            Correct the shape that is declared wrongly, or name an axis so that it finds its partner.
        """),
        program("""
            fn add(x : ℝ[batch: 8, 3], y : ℝ[4]) -> ℝ[batch: 8, 4] = x + y
        """),
        program("""
            fn add(x : ℝ[batch: 8, 4], y : ℝ[4]) -> ℝ[batch: 8, 4] = x + y
        """),
    ),
    Code(
        "E2004",
        "wrong arguments of a call",
        paragraphs("""
            The arguments do not match the parameters of the function: one is missing, one too many, one unknown or given
            twice, or a positional argument stands behind a named one. A parameter with a default may be left out.
        """),
        paragraphs("""
            Compare with the signature, which the message shows.
        """),
        program("""
            fn scale(x : ℝ[4], s : ℝ[]) -> ℝ[4] = x * s

            fn half(x : ℝ[4]) -> ℝ[4] = scale(x)
        """),
        program("""
            fn scale(x : ℝ[4], s : ℝ[]) -> ℝ[4] = x * s

            fn half(x : ℝ[4]) -> ℝ[4] = scale(x, (0.5 : ℝ))
        """),
    ),
    Code(
        "E2005",
        "index bounds that differ",
        paragraphs("""
            `idx[N]` holds numbers below N. Two index types are the same only if their bounds are, provably; a smaller bound
            does not fit into a larger one. The table of an `embed` and the classes of a `cross_entropy` count as bounds too.
        """),
        paragraphs("""
            Use one constant for the bound in both places.
        """),
        program("""
            fn look_up(table : ℝ[100, 8], words : idx[50][seq: 6]) -> ℝ[seq: 6, 8] = embed(table, words)
        """),
        program("""
            const V = 50

            fn look_up(table : ℝ[V, 8], words : idx[V][seq: 6]) -> ℝ[seq: 6, 8] = embed(table, words)
        """),
    ),
    Code(
        "E2006",
        "`split` into lengths whose product is another",
        paragraphs("""
            `split(axis a, n1: L1, n2: L2, x)` reads axis `a` as two axes, so L1 · L2 must be the length of `a`.
        """),
        paragraphs("""
            Correct one of the lengths.
        """),
        program("""
            fn by_head(x : ℝ[model: 12]) -> ℝ[head: 3, part: 5] = split(axis model, head: 3, part: 5, x)
        """),
        program("""
            fn by_head(x : ℝ[model: 12]) -> ℝ[head: 3, part: 4] = split(axis model, head: 3, part: 4, x)
        """),
    ),
    Code(
        "E2007",
        "`merge` of axes that are not neighbours in this order",
        paragraphs("""
            `merge(axis a, axis b, x)` reads two axes as one without moving data, so `b` must follow directly behind `a`.
            Axes that are distant or in the other order would have to be transposed.
        """),
        paragraphs("""
            Name the axes in the order in which they stand, or bring them into it with `ein`.
        """),
        program("""
            fn flat(x : ℝ[row: 2, col: 3]) -> ℝ[6] = merge(axis col, axis row, x)
        """),
        program("""
            fn flat(x : ℝ[row: 2, col: 3]) -> ℝ[6] = merge(axis row, axis col, x)
        """),
    ),
    Code(
        "E2008",
        "axis not found",
        paragraphs("""
            An axis is selected by a name that the tensor does not have. An axis without a name cannot be selected by
            one, and inside a function `...` hides the axes that it stands for.
        """),
        paragraphs("""
            Use one of the names that the message lists, or name the axis in the type (an ascription does: `(x : ℝ[a: 4])`).
        """),
        program("""
            fn centre(x : ℝ[batch: 8, model: 4]) -> ℝ[batch: 8] = mean(axis seq, x)
        """),
        program("""
            fn centre(x : ℝ[batch: 8, model: 4]) -> ℝ[batch: 8] = mean(axis model, x)
        """),
    ),
    Code(
        "E2009",
        "`ein` with two candidates for a renamed axis",
        paragraphs("""
            Where both operands of an `ein` have an axis `seq`, and one copy of it (`seq2`) has no partner, the second operand's
            axis becomes that copy. Here two copies have none, so it is not clear which is meant.
        """),
        paragraphs("""
            Leave one copy, or give the axes different names in the operands' types.
        """),
        program("""
            fn scores(q : ℝ[seq: 4, hd: 8], k : ℝ[seq: 4, hd: 8]) -> ℝ[seq: 4, seq2: 4, seq3: 4] =
              ein[seq, seq2, seq3](q * k)
        """),
        program("""
            fn scores(q : ℝ[seq: 4, hd: 8], k : ℝ[seq: 4, hd: 8]) -> ℝ[seq: 4, seq2: 4] =
              ein[seq, seq2](q * k)
        """),
    ),
    Code(
        "E2010",
        "configuration block that is not valid",
        paragraphs("""
            The blocks `optimizer`, `training run` and `inference serve` have fixed fields, and each field takes values of a
            fixed form. A field is unknown, missing or given twice, its value has another form, or the block does not go
            with the program: the objective is no function of the model's parameters and a batch, the data are of another
            type, a name means nothing.

            The optimizer block is named for its algorithm, `adamw`; its fields are `lr betas weight_decay grad_clip schedule
            eps`. A `training run` has `model objective optimizer data epochs parallel precision` and `checkpoint every N steps
            to "path"`; an `inference serve` has `model weights precision target batching cache generate`.
        """),
        paragraphs("""
            Use a field or a form that the message lists.
        """),
        program("""
            optimizer adamw {
              lr    = 0.001
              decay = 0.1
            }
        """),
        program("""
            optimizer adamw {
              lr           = 0.001
              weight_decay = 0.1
            }
        """),
    ),
    Code(
        "E2011",
        "`ein` of a form that is not a sum of products",
        paragraphs("""
            `ein[out](a * b)` multiplies its operands and sums over the axes that `out` does not name. So the body is a
            product, every axis of every operand has a name, no operand has a name twice, and every name in `out` occurs in
            an operand.
        """),
        paragraphs("""
            Bind other parts of the body with `let`, and name the axes.
        """),
        program("""
            fn add(x : ℝ[row: 4], y : ℝ[row: 4]) -> ℝ[row: 4] = ein[row](x + y)
        """),
        program("""
            fn add(x : ℝ[row: 4], y : ℝ[row: 4]) -> ℝ[row: 4] = x + y
        """),
    ),
    Code(
        "E2012",
        "not implemented in programs",
        paragraphs("""
            The construct is read but has no meaning in the body of a function: `vjp` and `jvp` (use `grad`), `%` outside of an
            assertion, and the operators `|>`, `|`, `⊗` and `∘`, which belong to configuration blocks and module expressions.
        """),
        paragraphs("""
            Write a call: `f(x)` for `x |> f`.
        """),
        program("""
            fn active(x : ℝ[4]) -> ℝ[4] = x |> relu
        """),
        program("""
            fn active(x : ℝ[4]) -> ℝ[4] = relu(x)
        """),
    ),
    Code(
        "E2013",
        "initializer that does not exist",
        paragraphs("""
            The clause `init =` takes one of four forms and no other expression: `zeros`, `ones`, `normal(std = 0.02)` with a
            decimal, and `xavier_uniform`. Without a clause a parameter starts as zeros.
        """),
        paragraphs("""
            Use one of the four.
        """),
        program("""
            module Linear {
              param w : ℝ[4, 2]  init = kaiming
            }
        """),
        program("""
            module Linear {
              param w : ℝ[4, 2]  init = xavier_uniform
            }
        """),
    ),
    Code(
        "E2014",
        "slice or selection outside of its axis",
        paragraphs("""
            The bounds of a slice are proved: 0 ≤ lo ≤ hi ≤ length for every value of the dimensions. Here that fails, and the
            message shows a value where it does. A selection of one element is refused when it lies outside of the axis at
            every value; a run checks the rest.
        """),
        paragraphs("""
            Correct the bounds, or state in the type that the axis is long enough: `ℝ[seq: T + 1]`.
        """),
        program("""
            dim T

            fn tail(x : ℝ[seq: T]) -> ℝ[seq: T - 1] = x[seq: 1..T]
        """),
        program("""
            dim T

            fn tail(x : ℝ[seq: T + 1]) -> ℝ[seq: T] = x[seq: 1..T + 1]
        """),
    ),
    Code(
        "E2015",
        "function called before its return type is known",
        paragraphs("""
            A function without a declared return type has the type of its body, which is known once the body is checked. The
            call stands in a function that is checked earlier.
        """),
        paragraphs("""
            Declare the return type of the function that is called.
        """),
        program("""
            fn twice(x : ℝ[4]) -> ℝ[4] = double(x)

            fn double(x : ℝ[4]) = x + x
        """),
        program("""
            fn twice(x : ℝ[4]) -> ℝ[4] = double(x)

            fn double(x : ℝ[4]) -> ℝ[4] = x + x
        """),
    ),
    Code(
        "E2016",
        "function or module that contains itself",
        paragraphs("""
            A function calls itself, or a module uses itself, directly or through others; the message shows the cycle. Programs
            end, so there is no recursion, and a module that contained itself would have infinitely many parameters.
        """),
        paragraphs("""
            To repeat something a fixed number of times put it into a module and use `stack{N}(M)`.
        """),
        program("""
            fn power(x : ℝ[4]) -> ℝ[4] = power(x * x)
        """),
        program("""
            module Square {
              fn apply(x : ℝ[4]) -> ℝ[4] = x * x
            }

            module Power {
              use squares : stack{3}(Square)
              fn apply(x : ℝ[4]) -> ℝ[4] = squares.apply(x)
            }
        """),
    ),
    Code(
        "E2017",
        "type or dimension that cannot be inferred",
        paragraphs("""
            The type of a parameter or a lambda's variable that is left out, or a dimension of a function that is called,
            follows from nothing in the program.
        """),
        paragraphs("""
            State it: write the type, or give the dimension as an argument in braces.
        """),
        program("""
            fn same(x) = x
        """),
        program("""
            fn same(x : ℝ[4]) = x
        """),
    ),
    Code(
        "E2018",
        "`grad` of what has no gradient",
        paragraphs("""
            `grad` takes a function of one argument that returns a real scalar, `ℝ[]`, and gives the function of that
            argument's gradient. The function returns something else, has another number of arguments, or its argument is
            not made of real tensors and parameter trees: nothing is differentiated in an index, a mask, a number or a key.
        """),
        paragraphs("""
            Reduce the result with `sum` or `mean`. To differentiate by several values take a tuple: `grad(λ (a, b). e)((a, b))`.
        """),
        program("""
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(λ z. z * z)(x)
        """),
        program("""
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(λ z. sum(z * z))(x)
        """),
    ),
    Code(
        "E2019",
        "stacked module whose result is of another type than its argument",
        paragraphs("""
            `stack{L}(M)` applies `M.apply` L times, each time to the result of the time before. So the result must have the
            type of the first argument.
        """),
        paragraphs("""
            Make the module return what it takes, and put what changes the type in front of the stack or behind it.
        """),
        program("""
            module Shrink {
              fn apply(x : ℝ[4]) -> ℝ[] = mean(x)
            }

            module Net {
              use layers : stack{3}(Shrink)
              fn apply(x : ℝ[4]) -> ℝ[] = layers.apply(x)
            }
        """),
        program("""
            module Bend {
              fn apply(x : ℝ[4]) -> ℝ[4] = relu(x)
            }

            module Net {
              use layers : stack{3}(Bend)
              fn apply(x : ℝ[4]) -> ℝ[] = mean(layers.apply(x))
            }
        """),
    ),
    Code(
        "E2020",
        "`split_heads` or `merge_heads` without the constants H and HD",
        paragraphs("""
            Both read the number of heads, `H`, and the width of one, `HD`, from the constants of the file in which the call is
            written. The file does not declare them.
        """),
        paragraphs("""
            Declare both constants, or use `split` and `merge`, which take lengths as arguments.
        """),
        program("""
            fn by_head(x : ℝ[batch: 2, seq: 5, model: 12]) -> ℝ[batch: 2, heads: 3, seq: 5, hd: 4] =
              split_heads(x)
        """),
        program("""
            const H  = 3
            const HD = 4

            fn by_head(x : ℝ[batch: 2, seq: 5, model: 12]) -> ℝ[batch: 2, heads: 3, seq: 5, hd: 4] =
              split_heads(x)
        """),
    ),
    Code(
        "E2021",
        "number outside of the range that is allowed",
        paragraphs("""
            A number in the program lies outside of what the operation takes: the rate of a `dropout` is at least 0 and less
            than 1, an exponent is a natural number.
        """),
        paragraphs("""
            Correct the number. For a square root write `sqrt(x)`.
        """),
        program("""
            fn drop(x : ℝ[4], key : key) -> ℝ[4] uses Rand = dropout(1.5, key, x)
        """),
        program("""
            fn drop(x : ℝ[4], key : key) -> ℝ[4] uses Rand = dropout(0.5, key, x)
        """),
    ),
    Code(
        "E2022",
        "operator that is not defined for these types",
        paragraphs("""
            Arithmetic is defined between real tensors, between a real tensor and a number, and between numbers of one type.
            Index tensors do not mix with reals, masks enter no arithmetic, parameter trees are not added, and comparisons
            compare numbers, not tensors.
        """),
        paragraphs("""
            Convert index tensors with `real(t)`. A mask is used in `softmax(axis a, x, where = m)`.
        """),
        program("""
            fn shift(t : idx[10][seq: 4], x : ℝ[seq: 4]) -> ℝ[seq: 4] = t + x
        """),
        program("""
            fn shift(t : idx[10][seq: 4], x : ℝ[seq: 4]) -> ℝ[seq: 4] = real(t) + x
        """),
    ),
    Code(
        "E2023",
        "division by zero in a body",
        paragraphs("""
            The divisor is 0 whatever the arguments are. (A divisor that becomes 0 in a run is an error of the run.)
        """),
        paragraphs("""
            Correct the divisor.
        """),
        program("""
            fn scale(x : ℝ[4]) -> ℝ[4] = x * real(7 / 0)
        """),
        program("""
            fn scale(x : ℝ[4]) -> ℝ[4] = x * real(7 / 2)
        """),
    ),
    Code(
        "E2024",
        "dimension used as a value",
        paragraphs("""
            A symbolic dimension is the length of an axis and no number that a body could compute with. (A constant is both.)
        """),
        paragraphs("""
            Take a mean instead of dividing by a length, or pass the number as a `nat`.
        """),
        program("""
            dim T

            fn average(x : ℝ[seq: T]) -> ℝ[] = sum(x) / real(T)
        """),
        program("""
            dim T

            fn average(x : ℝ[seq: T]) -> ℝ[] = mean(x)
        """),
    ),
    Code(
        "E2025",
        "tuple pattern that does not fit its value",
        paragraphs("""
            `let (a, b) = e` takes a tuple of two values apart. The value has another number of parts, or is no tuple.
        """),
        paragraphs("""
            Write as many names as the value has parts, or bind it with one name.
        """),
        program("""
            fn first(pair : (ℝ[4], ℝ[4], ℝ[4])) -> ℝ[4] =
              let (a, b) = pair
              a
        """),
        program("""
            fn first(pair : (ℝ[4], ℝ[4])) -> ℝ[4] =
              let (a, b) = pair
              a
        """),
    ),
    Code(
        "E2026",
        "unknown member or field",
        paragraphs("""
            A name behind a full stop is a member of a module (`l1.apply`), or a field of a parameter tree (`θ.w`). There is none
            of this name.
        """),
        paragraphs("""
            Use one of the names that the message lists.
        """),
        _with_linear("""
            module Net {
              use l1 : Linear{4, 2}
              fn apply(x : ℝ[4]) -> ℝ[2] = l1.forward(x)
            }
        """),
        _with_linear("""
            module Net {
              use l1 : Linear{4, 2}
              fn apply(x : ℝ[4]) -> ℝ[2] = l1.apply(x)
            }
        """),
    ),
    Code(
        "E2027",
        "not a function",
        paragraphs("""
            Something is called, or handed to `grad`, that is no function.
        """),
        paragraphs("""
            Elements of a tensor are selected with brackets: `x[0]`.
        """),
        program("""
            fn first(x : ℝ[4]) -> ℝ[] = x(0)
        """),
        program("""
            fn first(x : ℝ[4]) -> ℝ[] = x[0]
        """),
    ),
)
