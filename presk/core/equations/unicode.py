"""Equations in plain characters."""

from collections.abc import Iterable, Sequence
from typing import Final

from presk.core.equations.forms import (
    Abstraction,
    Applied,
    At,
    Denoted,
    Each,
    Equal,
    Equation,
    Formula,
    FunctionEquations,
    Group,
    Infix,
    Iterate,
    Member,
    Minus,
    Operation,
    Raised,
    Recurrence,
    Root,
    Selected,
    Sum,
    Where,
    Word,
)
from presk.core.text import commented

INDENT: Final = "    "

# How tightly a formula binds; one in a place that wants more stands in parentheses.
OPEN: Final = 0
"""A lambda, and what has equations of its own: as far to the right as it can."""
LISTED: Final = 1
"""An operation with operands between commas: not among other things between commas."""
LOOSE: Final = 2
"""An operation, a sum: not an operand of `+`."""
COMPARED: Final = 3
ADDED: Final = 4
MULTIPLIED: Final = 5
SIGNED: Final = 6
RAISED: Final = 7
ATOM: Final = 8

_LEVELS: Final = {"+": ADDED, "-": ADDED, "·": MULTIPLIED, "⊙": MULTIPLIED, "/": MULTIPLIED}
_SUPERSCRIPTS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def unicode_text(functions: Iterable[FunctionEquations]) -> str:
    """The equations of functions, with a blank line between two."""
    return "\n".join(_function(function) for function in functions)


def _function(function: FunctionEquations) -> str:
    params = ",  ".join(
        f"axis {formula(word)}" if type_ is None else f"{formula(word)} : {type_}" for word, type_ in function.params
    )
    head = f"{function.name}, of {params}" if params else function.name
    lines = [(f"{INDENT}{equation(one)}", one.reason if isinstance(one, Equal) else "") for one in function.equations]
    return "".join(f"{line}\n" for line in (head, *commented(lines)))


def level(form: Formula) -> int:
    """How tightly a formula binds."""
    match form:
        case Abstraction() | Where():
            return OPEN
        case Operation(_, detail, operands):
            if not operands and not detail:
                return ATOM
            return LISTED if len(operands) > 1 or "," in detail else LOOSE
        case Sum(over, factors):
            return LOOSE if over or len(factors) != 1 else level(factors[0])
        case Infix(op):
            return _LEVELS.get(op, COMPARED)
        case Minus():
            return SIGNED
        case Raised() | Root():
            return RAISED
        case _:
            return ATOM


def wrapped(form: Formula, wanted: int) -> str:
    """A formula where at least `wanted` is asked for."""
    text = formula(form)
    return text if level(form) >= wanted else f"({text})"


def listed(forms: Sequence[Formula]) -> str:
    """Formulas between commas; one alone needs no parentheses."""
    return ", ".join(wrapped(one, OPEN if len(forms) == 1 else LOOSE) for one in forms)


def formula(form: Formula) -> str:
    """A formula."""
    match form:
        case Word(text, primes):
            return text + "'" * primes
        case Denoted(name):
            return f"⟦{name}⟧"
        case Applied(function, args):
            return f"{wrapped(function, ATOM)}({listed(args)})"
        case Operation(name, detail, operands):
            return " ".join(filter(None, (name, detail, ", ".join(wrapped(one, ATOM) for one in operands))))
        case Infix(op, left, right):
            bound = level(form)
            return f"{wrapped(left, bound)} {op} {wrapped(right, ATOM if isinstance(right, Minus) else bound + 1)}"
        case Minus(value):
            return f"-{wrapped(value, SIGNED + 1)}"
        case Raised(base, Word(text)) if text.isdecimal():
            return wrapped(base, ATOM) + text.translate(_SUPERSCRIPTS)
        case Raised(base, exponent):
            return f"{wrapped(base, ATOM)}^{wrapped(exponent, ATOM)}"
        case Root(value):
            return f"√{wrapped(value, ATOM)}"
        case Sum(over, factors):
            product = " ".join(wrapped(one, RAISED) for one in factors)
            return f"∑_{{{', '.join(over)}}} {product}" if over else product
        case At(base, indices):
            return f"{wrapped(base, ATOM)}[{', '.join(indices)}]"
        case Each(indices, body):
            return f"[{', '.join(indices)} ↦ {formula(body)}]"
        case Selected(base, selectors):
            inner = ", ".join(bounds if axis is None else f"{axis}: {bounds}" for axis, bounds in selectors)
            return f"{wrapped(base, ATOM)}[{inner}]"
        case Group(items):
            return f"({listed(items)})"
        case Member(base, name):
            return f"{wrapped(base, ATOM)}.{name}"
        case Iterate(name, number):
            return formula(name) + _subscript(number)
        case Abstraction(params, destructures, body):
            names = ", ".join(map(formula, params))
            return f"λ {f'({names})' if destructures else names}. {formula(body)}"
        case Where(body, equations):
            return f"{wrapped(body, LISTED)} where {', '.join(map(equation, equations))}"


def _subscript(number: str) -> str:
    if number.isdecimal():
        return number.translate(_SUBSCRIPTS)
    return f"_{number}" if number.isalnum() else f"_({number})"


def equation(one: Equation) -> str:
    """An equation, or a recurrence."""
    match one:
        case Equal(left, right):
            return f"{formula(left)} = {formula(right)}"
        case Recurrence(first, step, inner, index, count):
            within = f" where {', '.join(map(equation, inner))}," if inner else ""
            return f"{equation(first)}, {equation(step)}{within} for 0 ≤ {index} < {count}"
