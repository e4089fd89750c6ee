"""E0001 to E0014: what the lexer and the parser refuse."""

from types import MappingProxyType
from typing import Final

from presk.diagnostics.code import MAIN, Code, Example, paragraphs, program

_SHAPES: Final = MappingProxyType({"shapes.psk": "const D = 4\n"})

SYNTAX: Final = (
    Code(
        "E0001",
        "unexpected token",
        paragraphs("""
            A token stands where the grammar admits none of its kind. The message names what was found and what could
            stand there.

            The declaration, module member or configuration field with the error is left out; all others are read and
            checked, so a file with several such errors reports each of them.
        """),
        paragraphs("""
            Look at the token before the marked one: usually something is missing between them.
        """),
        program("""
            const D : nat 768
        """),
        program("""
            const D : nat = 768
        """),
    ),
    Code(
        "E0002",
        "character that no token begins with",
        paragraphs("""
            The character begins no token of the language. The reason is often a character that looks like another one
            (a typographic minus, a full-width parenthesis) or that cannot be seen: only spaces and tabs are blanks, so
            a no-break space is an error, and so is NUL.

            Comments begin with `--` and strings are written in double quotes; inside of both every character but a
            control character may stand.
        """),
        paragraphs("""
            Replace or remove the character. The message names its code where it cannot be seen.
        """),
        program("""
            const D = 4 $ 2
        """),
        program("""
            const D = 4 * 2
        """),
    ),
    Code(
        "E0003",
        "string that is not closed on its line",
        paragraphs("""
            A string begins and ends on one line. A line break in the text itself is written `\\n`.
        """),
        paragraphs("""
            Put the closing `"` where the string ends.
        """),
        program(
            """
            import "shapes.psk as s

            type Row = ℝ[s.D]
            """,
            _SHAPES,
        ),
        program(
            """
            import "shapes.psk" as s

            type Row = ℝ[s.D]
            """,
            _SHAPES,
        ),
    ),
    Code(
        "E0004",
        "unknown escape in a string",
        paragraphs("""
            In a string a backslash begins an escape. There are four: `\\"`, `\\\\`, `\\n` and `\\t`.
        """),
        paragraphs("""
            Write `\\\\` for a backslash. In paths write `/`, which works on every system.
        """),
        program(
            r"""
            import "lib\shapes.psk" as s

            type Row = ℝ[s.D]
            """,
            {"lib/shapes.psk": "const D = 4\n"},
        ),
        program(
            """
            import "lib/shapes.psk" as s

            type Row = ℝ[s.D]
            """,
            {"lib/shapes.psk": "const D = 4\n"},
        ),
    ),
    Code(
        "E0005",
        "unknown unit after a number",
        paragraphs("""
            A number directly followed by letters is a quantity, one token of a number and a unit. The units are `ns`,
            `us`, `ms` and `s`; `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB` and `GiB`; and one of the latter over `s`, `sm`
            or `core`, as in `204GB/s`. No other letters may follow a number, which also catches `4D` written for a
            product.
        """),
        paragraphs("""
            Write products with `*`. Put a blank between a number and a word that does not belong to it.
        """),
        program("""
            const D = 8

            type Wide = ℝ[4D]
        """),
        program("""
            const D = 8

            type Wide = ℝ[4*D]
        """),
    ),
    Code(
        "E0006",
        "name or number that is too long",
        paragraphs("""
            A name has at most 255 characters after normalization (NFC), a number at most 10,000 digits. The limits keep
            a damaged file from being read as one endless name; no program comes near them.
        """),
        paragraphs("""
            Shorten the name. A file with such a number was most likely not meant to be a program.
        """),
        program(f"""
            const {"d" * 300} = 4
        """),
        program("""
            const d = 4
        """),
    ),
    Code(
        "E0007",
        "nesting that is too deep",
        paragraphs("""
            Expressions and types may be nested 500 levels deep: brackets, lambdas, signs and chains of `^` count.
        """),
        paragraphs("""
            Give parts of the expression names with `let`, or make them functions.
        """),
        program(f"""
            const D = {"(" * 600}4{")" * 600}
        """),
        program("""
            const D = 4
        """),
    ),
    Code(
        "E0008",
        "line that ends with an operator",
        paragraphs("""
            An expression ends with its line unless the next line begins with a binary operator. So the operator
            belongs to the beginning of the line that continues. `-` and `^` never continue a line: `-x` is an
            expression of its own, and `^` is read with the signs.

            Inside parentheses and brackets line breaks mean nothing, and an operator may stand anywhere.
        """),
        paragraphs("""
            Move the operator to the next line, or put the expression in parentheses.
        """),
        program("""
            fn total(x : ℝ[4], y : ℝ[4], z : ℝ[4]) -> ℝ[4] =
              x + y +
              z
        """),
        program("""
            fn total(x : ℝ[4], y : ℝ[4], z : ℝ[4]) -> ℝ[4] =
              x + y
              + z
        """),
    ),
    Code(
        "E0009",
        "bracket that is not closed, or not opened",
        paragraphs("""
            Every `(`, `[` and `{` needs its partner, and pairs lie inside one another. The marked bracket has none. What
            stands behind an open bracket is read as its content, up to the next declaration.
        """),
        paragraphs("""
            Add the missing bracket, or remove the one that is too many.
        """),
        program("""
            fn double(x : ℝ[4] -> ℝ[4] = x + x
        """),
        program("""
            fn double(x : ℝ[4]) -> ℝ[4] = x + x
        """),
    ),
    Code(
        "E0010",
        "reserved word used as a name",
        paragraphs("""
            These words cannot be names: `module param params use fn const dim type import as static assert optimizer
            training inference effect let uses init axis idx ein`, `ℝ` (also spelled `Real`) and `λ`. As the name of a field
            in a configuration block a reserved word is allowed (`optimizer = adamw`).

            The words `model run serve stream checkpoint every steps to` are special only where the grammar looks for
            them, and may be names.
        """),
        paragraphs("""
            Choose another name.
        """),
        program("""
            const use = 4
        """),
        program("""
            const used = 4
        """),
    ),
    Code(
        "E0011",
        "file that is not UTF-8",
        paragraphs("""
            Programs are read as UTF-8. The file holds bytes that are none; the message shows the first. Either the file
            was saved in another encoding, or it is no text.
        """),
        paragraphs("""
            Save the file as UTF-8. A byte order mark at its beginning is allowed and ignored.
        """),
        Example(MappingProxyType({MAIN: b"-- caf\xe9\nconst D = 4\n"})),
        program("""
            -- café
            const D = 4
        """),
    ),
    Code(
        "E0012",
        "two items on one line",
        paragraphs("""
            A declaration, a module member and a configuration field end with their line. Something that begins another
            one stands on the same line.

            A block may stand on one line if it holds no more than one item: `module M { param w : ℝ[4] }`.
        """),
        paragraphs("""
            Put each item on a line of its own.
        """),
        program("""
            const A = 1 const B = 2
        """),
        program("""
            const A = 1
            const B = 2
        """),
    ),
    Code(
        "E0013",
        "`let` without a body",
        paragraphs("""
            `let` names a value for the expression on the following line, and that expression is missing. There is no
            `in`: the value takes the rest of the line, and the body starts on the next.
        """),
        paragraphs("""
            Write the result on the line below, or drop the `let`.
        """),
        program("""
            fn double(x : ℝ[4]) -> ℝ[4] =
              let y = x + x
        """),
        program("""
            fn double(x : ℝ[4]) -> ℝ[4] =
              let y = x + x
              y
        """),
    ),
    Code(
        "E0014",
        "lambda without a pattern",
        paragraphs("""
            A lambda is `λ`, a name or a tuple of names, a full stop and a body. `λ` is a letter: directly followed by
            another one it begins a longer name, so `λθ` is one name and no lambda. The ASCII spelling of `λ` is the
            backslash alone, so `\\. e` has no pattern, and `\\lambda. e` binds the name `lambda`.
        """),
        paragraphs("""
            Write a blank behind `λ`, and the name that the body uses.
        """),
        program("""
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(λθ. sum(θ * θ))(x)
        """),
        program("""
            fn slope(x : ℝ[4]) -> ℝ[4] = grad(λ θ. sum(θ * θ))(x)
        """),
    ),
)
