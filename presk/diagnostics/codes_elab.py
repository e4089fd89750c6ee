"""E1001 to E1024: names, imports, constants, dimensions, assertions, module signatures."""

from typing import Final

from presk.diagnostics.code import Code, Example, paragraphs, program, source

_LINEAR: Final = """
module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = xavier_uniform
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w
}
"""

# Thirty dimensions that are 0 or 1, and a sum of factors for them: powers of 5 modulo a prime, which have no pattern.
_NUMBERS: Final = range(1, 31)
_SWITCHES: Final = "".join(f"dim A{number} <= 1\n" for number in _NUMBERS)
_SUM: Final = " + ".join(f"{pow(5, number + 2, 1009)}*A{number}" for number in _NUMBERS)


def _with_linear(text: str) -> Example:
    """A program below the module `Linear`."""
    return program(f"{_LINEAR}\n{source(text)}")


ELABORATION: Final = (
    Code(
        "E1001",
        "unknown name",
        paragraphs("""
            A type, a dimension, a module or a constant is used that nothing declares: neither the file nor, for a name
            with an alias in front (`m.V`), the imported file. An alias reaches what its file declares itself; what that
            file imports is not passed on.
        """),
        paragraphs("""
            Correct the spelling, declare the name, or import the file that does. A name that is nearly the same is
            proposed.
        """),
        _with_linear("""
            module Net {
              use first : Linera{4, 4}
            }
        """),
        _with_linear("""
            module Net {
              use first : Linear{4, 4}
            }
        """),
    ),
    Code(
        "E1002",
        "imported file is missing or cannot be read",
        paragraphs("""
            The path of an import is relative to the file that imports, not to the directory in which the command is
            run. There is no such file, or it may not be read.
        """),
        paragraphs("""
            Correct the path, or add the file.
        """),
        program("""
            import "shape.psk" as s

            type Row = ℝ[s.D]
        """),
        program(
            """
            import "shapes.psk" as s

            type Row = ℝ[s.D]
            """,
            {"shapes.psk": "const D = 4\n"},
        ),
    ),
    Code(
        "E1003",
        "import cycle",
        paragraphs("""
            A file imports itself, directly or through others. An imported file is elaborated before the one that imports
            it, so there is no order in which these could be. The message shows the path of the cycle; the import that
            closes it is marked.
        """),
        paragraphs("""
            Move what both files need into a third one that imports neither.
        """),
        program(
            """
            import "model.psk" as m

            const D = 4
            """,
            {"model.psk": 'import "main.psk" as settings\n\ntype Row = ℝ[settings.D]\n'},
        ),
        program(
            """
            import "model.psk" as m

            type Table = ℝ[m.settings_rows, 4]
            """,
            {
                "model.psk": 'import "settings.psk" as settings\n\nconst settings_rows = 2 * settings.D\n',
                "settings.psk": "const D = 4\n",
            },
        ),
    ),
    Code(
        "E1004",
        "static assertion that fails",
        paragraphs("""
            A `static assert` is decided for every natural value of its symbolic dimensions, 0 included, within the bounds
            that `dim T <= N` states. This one is false for some value, and the message shows the least: `fails for T = 1`.
            An assertion over constants alone is computed.

            An assertion is a claim, not a demand: it adds no fact, and it does not restrict a dimension.
        """),
        paragraphs("""
            Correct the constants, or state the bound of a dimension where it is declared (`dim T <= 1024`).
        """),
        program("""
            const D = 768
            const H = 7

            static assert D % H == 0
        """),
        program("""
            const D = 768
            const H = 12

            static assert D % H == 0
        """),
    ),
    Code(
        "E1005",
        "constant that is not a natural number",
        paragraphs("""
            Constants are computed exactly, with fractions and negative numbers in between; the value must be a natural
            number.
        """),
        paragraphs("""
            Change the expression, or the constants in it, so that the value is a whole number, 0 or more.
        """),
        program("""
            const D = 768
            const HD = D / 7
        """),
        program("""
            const D = 768
            const HD = D / 12
        """),
    ),
    Code(
        "E1006",
        "constant or bound used before its declaration",
        paragraphs("""
            Constants, and the bounds of dimensions, are evaluated in the order in which they are declared, and may only
            use what stands above them. (Everything else may be used before its declaration.)
        """),
        paragraphs("""
            Move the declaration up.
        """),
        program("""
            const HD = D / 12
            const D = 768
        """),
        program("""
            const D = 768
            const HD = D / 12
        """),
    ),
    Code(
        "E1007",
        "dimension that is not linear",
        paragraphs("""
            A dimension is a linear form: symbolic dimensions times numbers, added up, as in `2*D + 1`. For these every
            question can be decided. The product of two symbolic dimensions, the division by one, a slice bound that is no
            dimension, and a `merge` or `split` of two lengths of which none is constant lie outside.
        """),
        paragraphs("""
            Make one of the two factors a constant, or give the product a name of its own with `dim`.
        """),
        program("""
            dim A
            dim B

            type Flat = ℝ[A * B]
        """),
        program("""
            dim A
            const B = 16

            type Flat = ℝ[A * B]
        """),
    ),
    Code(
        "E1008",
        "division of a dimension that may leave a remainder",
        paragraphs("""
            Dividing a symbolic dimension by a number is allowed where the number divides it at every value, as in
            `(4*D) / 2`. Here it does not, and the message shows a value at which a remainder stays. An assertion does
            not help, since assertions add no fact.
        """),
        paragraphs("""
            Declare the smaller dimension, and write the larger one as its multiple.
        """),
        program("""
            dim D

            type Half = ℝ[D / 2]
        """),
        program("""
            dim HALF

            type Half = ℝ[HALF]
            type Whole = ℝ[2*HALF]
        """),
    ),
    Code(
        "E1009",
        "wrong number of dimension or module arguments",
        paragraphs("""
            A module is applied to as many dimensions, in braces, as it declares, and `stack{L}(M)` to one dimension and
            one module. A type alias takes none.
        """),
        paragraphs("""
            Give every parameter of the module an argument, in the order of its declaration.
        """),
        _with_linear("""
            module Net {
              use first : Linear{4}
            }
        """),
        _with_linear("""
            module Net {
              use first : Linear{4, 4}
            }
        """),
    ),
    Code(
        "E1010",
        "`...` that is not the first axis",
        paragraphs("""
            `...` stands for any number of leading axes, so it is the first in a list of axes and occurs there once. It
            has a meaning in the signature of a function only.
        """),
        paragraphs("""
            Move it to the front.
        """),
        program("""
            fn double(x : ℝ[4, ...]) -> ℝ[4, ...] = x + x
        """),
        program("""
            fn double(x : ℝ[..., 4]) -> ℝ[..., 4] = x + x
        """),
    ),
    Code(
        "E1011",
        "module parameter that is not a real tensor",
        paragraphs("""
            A `param` is learned, so it is a tensor of real numbers. Index tensors, masks, hyperparameters and tuples are
            not.
        """),
        paragraphs("""
            Declare a real tensor, or pass the value to the function that needs it.
        """),
        program("""
            module Table {
              param rows : idx[16][8]
            }
        """),
        program("""
            module Table {
              param rows : ℝ[16, 8]
            }
        """),
    ),
    Code(
        "E1012",
        "name declared twice",
        paragraphs("""
            The constants, dimensions, types, modules, functions and imports of a file share one space of names, and so do
            the members of a module, the parameters of a function and the type parameters of either. Both declarations are
            shown. (Names bound by `let` may be bound again.)
        """),
        paragraphs("""
            Rename or remove one of the two.
        """),
        program("""
            const D = 4
            const D = 8
        """),
        program("""
            const D = 4
            const E = 8
        """),
    ),
    Code(
        "E1013",
        "undeclared dimension in a module",
        paragraphs("""
            A dimension inside a module is a type parameter of the module or of the member function, or a constant or
            `dim` of the file. Only the signature of a top-level function may use one that is not declared (W0001).
        """),
        paragraphs("""
            Add the dimension to the module's type parameters.
        """),
        program("""
            module Scale {
              param g : ℝ[D]  init = ones
            }
        """),
        program("""
            module Scale{D : dim} {
              param g : ℝ[D]  init = ones
            }
        """),
    ),
    Code(
        "E1014",
        "name or expression of the wrong kind",
        paragraphs("""
            Something else is wanted here than what is written: a module expression behind `use` and `model` (a module, a
            `stack{L}(M)`, an `A ∘ B`), a number in a dimension, a type behind a colon. The name exists, but names another
            kind of thing.
        """),
        paragraphs("""
            Use a name of the kind that the message asks for.
        """),
        program("""
            type Row = ℝ[4]
            type Table = ℝ[16, Row]
        """),
        program("""
            const ROW = 4

            type Table = ℝ[16, ROW]
        """),
    ),
    Code(
        "E1015",
        "`params` of what is no module to its left",
        paragraphs("""
            `params m` is the type of the parameters of module `m`: of a module that the file declares or imports, or of a
            parameter of the same signature whose type is a module. In the latter case the module must stand to the left.
        """),
        paragraphs("""
            Exchange the two parameters.
        """),
        _with_linear("""
            fn predict(θ : params net, net : Linear{4, 2}, x : ℝ[4]) -> ℝ[2] = net.apply(θ, x)
        """),
        _with_linear("""
            fn predict(net : Linear{4, 2}, θ : params net, x : ℝ[4]) -> ℝ[2] = net.apply(θ, x)
        """),
    ),
    Code(
        "E1016",
        "assertion of a form that is not decided",
        paragraphs("""
            A `static assert` compares two dimension expressions with `==`, `<=`, `<`, `>=` or `>`, or states a remainder:
            `a % k == 0` with a constant `k` above 0. Nothing else is an assertion: no other remainder, no `and`, no chain
            of comparisons.
        """),
        paragraphs("""
            Say it in one of these forms, or in several assertions.
        """),
        program("""
            dim T

            static assert (2*T + 1) % 2 == 1
        """),
        program("""
            dim T

            static assert (2*T + 2) % 2 == 0
        """),
    ),
    Code(
        "E1017",
        "assertion that cannot be decided",
        paragraphs("""
            Assertions are decided by a procedure that is complete for linear arithmetic, with a budget of steps. This one
            used up the budget. It is an error rather than a silent pass.

            That takes many dimensions with unrelated factors in one question. The example hides a knapsack problem: whether
            some of the factors add up to a given number.
        """),
        paragraphs("""
            Split the assertion into smaller ones, or give some of the dimensions constant values.
        """),
        program(f"{_SWITCHES}dim A0 <= {_SUM} - 7000\n\nstatic assert A0 < {_SUM} - 7000\n"),
        program("""
            dim A1 <= 1
            dim A0 <= 125*A1

            static assert A0 <= 125
        """),
    ),
    Code(
        "E1018",
        "type aliases that form a cycle",
        paragraphs("""
            A type alias is replaced by the type it stands for. Here the replacement never ends, since an alias stands
            for itself, directly or through others. The message shows the cycle.
        """),
        paragraphs("""
            Write the type out in one of them.
        """),
        program("""
            type Pair = (Item, Item)
            type Item = Pair
        """),
        program("""
            type Pair = (Item, Item)
            type Item = ℝ[4]
        """),
    ),
    Code(
        "E1019",
        "feature of the specification that is not supported",
        paragraphs("""
            The construct belongs to the language's specification and is read, but this version gives it no meaning. Type
            parameters of kind `Shape` are such a construct.
        """),
        paragraphs("""
            Use a type parameter of kind `dim` for each axis, or `...` in the member functions.
        """),
        program("""
            module Bias{S : Shape} {
              param b : ℝ[4]
            }
        """),
        program("""
            module Bias{D : dim} {
              param b : ℝ[D]
            }
        """),
    ),
    Code(
        "E1020",
        "dimension that is not a natural number",
        paragraphs("""
            The length of an axis, the bound of an index and the argument of a module are natural numbers. This expression
            has another value, whatever its symbolic dimensions are.
        """),
        paragraphs("""
            Correct the expression. A quotient must leave no remainder, a difference must not be negative.
        """),
        program("""
            type Half = ℝ[7 / 2]
        """),
        program("""
            type Half = ℝ[8 / 2]
        """),
    ),
    Code(
        "E1021",
        "axis name that occurs twice in a type",
        paragraphs("""
            Axes are selected by name, so a type has each name once. That holds for types that are written and for those
            that an operation would make; the operation is marked.
        """),
        paragraphs("""
            Rename one of the axes. A second copy of an axis is usually numbered: `seq` and `seq2`.
        """),
        program("""
            type Scores = ℝ[seq: 8, seq: 8]
        """),
        program("""
            type Scores = ℝ[seq: 8, seq2: 8]
        """),
    ),
    Code(
        "E1022",
        "constant of a type other than `nat`",
        paragraphs("""
            A constant is a natural number; `: nat` may be written or left out.
        """),
        paragraphs("""
            Give the number as a parameter with a default, or write it where it is used.
        """),
        program("""
            const RATE : f64 = 0.5

            fn scale(x : ℝ[4]) -> ℝ[4] = x * RATE
        """),
        program("""
            fn scale(x : ℝ[4], rate : f64 = 0.5) -> ℝ[4] = x * rate
        """),
    ),
    Code(
        "E1023",
        "division by zero in a constant or dimension",
        paragraphs("""
            The divisor is 0. It may have become so by the value of a constant, also by one that the command line sets.
        """),
        paragraphs("""
            Correct the constant that is 0.
        """),
        program("""
            const H = 0
            const HD = 768 / H
        """),
        program("""
            const H = 12
            const HD = 768 / H
        """),
    ),
    Code(
        "E1024",
        "bound of a dimension that a call may exceed",
        paragraphs("""
            The function that is called uses a dimension with a bound (`dim T <= N`), and its proofs rest on it. So at every
            call the length that takes the dimension's place must be shown to lie within the bound. Here it may not, and the
            message shows a value.
        """),
        paragraphs("""
            State the same bound for the caller's dimension, or call with a constant length.
        """),
        program("""
            dim T <= 16
            dim S

            fn double(x : ℝ[T]) -> ℝ[T] = x + x

            fn twice(x : ℝ[S]) -> ℝ[S] = double(x)
        """),
        program("""
            dim T <= 16
            dim S <= 16

            fn double(x : ℝ[T]) -> ℝ[T] = x + x

            fn twice(x : ℝ[S]) -> ℝ[S] = double(x)
        """),
    ),
)
