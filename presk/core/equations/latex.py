"""Equations as LaTeX: a fragment in a few macros of its own, or with these a document.

Each function is a `pskfunction`, its equations an `align*`. The macros: `\\den` is the bracket ⟦ ⟧, `\\pskname` a name of more than
one letter, `\\pskword` a word of the language, `\\pskop` an operation, `\\pskreason` what an equation is for. Letters with an accent
and Greek ones become commands, so that any engine with the AMS packages reads the text.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
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
from presk.core.equations.unicode import ATOM, LISTED, LOOSE, OPEN, RAISED, SIGNED, level
from presk.core.spelling import NUMBER

PREAMBLE: Final = r"""\documentclass{article}
\usepackage[landscape,margin=1.5cm]{geometry}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\setlength{\parindent}{0pt}
\newcommand{\den}[1]{\mathopen{[\mkern-2.7mu[}#1\mathclose{]\mkern-2.7mu]}}
\newcommand{\pskname}[1]{\mathit{#1}}
\newcommand{\pskword}[1]{\mathrm{#1}}
\newcommand{\pskop}[1]{\mathrm{#1}}
\newcommand{\pskreason}[1]{\qquad\text{-- #1}}
\newcommand{\pskletter}[1]{\ensuremath{\langle\mathtt{#1}\rangle}}
\newenvironment{pskfunction}[2]{\par\medskip{\boldmath$#1$}#2\par}{\par}
"""
BEGIN: Final = "\\begin{document}\n"
END: Final = "\\end{document}\n"

_GREEK: Final = {
    **dict(zip("αβγδεζηθικλμνξπρστυφχψω", (
        "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi psi"
        " omega"
    ).split())),
    **dict(zip("ΓΔΘΛΞΠΣΥΦΨΩ", "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split())),
    "ℓ": "ell",
    "ℝ": "mathbb{R}",
    "∂": "partial",
}  # fmt: skip
_ACCENTS: Final = {
    "\u0302": "hat",
    "\u0303": "tilde",
    "\u0304": "bar",
    "\u0305": "bar",
    "\u0307": "dot",
    "\u0308": "ddot",
    "\u0300": "grave",
    "\u0301": "acute",
    "\u030c": "check",
    "\u0306": "breve",
    "\u20d7": "vec",
    "\u030a": "mathring",
}
_GLYPHS: Final = frozenset("çÇşŞţŢőŐűŰßæœøłÆŒØŁ")
"""The letters beyond ASCII that stand in text as they are and that TeX's own fonts have."""
_SPECIAL: Final = {
    "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "~": r"\sim ", "^": r"\hat{\ }",
    "\\": r"\backslash ", "…": r"\ldots ", "∘": r"\circ ", "·": r"\cdot ", " ": r"\ ", "*": r"\cdot ", "ₗ": r"_{\ell}",
}  # fmt: skip
_SIGNS: Final = {"·": r"\cdot", "⊙": r"\odot", "==": "=", "<=": r"\le", ">=": r"\ge"}
_TOKEN: Final = re.compile(r"->|\.\.\.|\.\.|%?[^\W_][\w\u0300-\u036f\u20d7']*|.", re.DOTALL)
_WORDS: Final = frozenset(
    "params idx bool nat int rat f64 key axis module stack stacked acc reverse scan indexed".split()
)


def latex_text(functions: Iterable[FunctionEquations], *, standalone: bool = False) -> str:
    """The equations of functions as a fragment, or as a document."""
    body = "\n".join(map(_function, functions))
    return f"{PREAMBLE}{_declarations(body)}{BEGIN}{body}{END}" if standalone else body


def _declarations(body: str) -> str:
    """For the letters that pdfTeX has no glyph of: each by its number. Other engines show them if their fonts do."""
    unknown = sorted({character for character in body if not character.isascii()} - _GLYPHS)
    lines = "".join(
        rf"\DeclareUnicodeCharacter{{{ord(one):04X}}}{{\pskletter{{{ord(one):04X}}}}}" "\n" for one in unknown
    )
    return f"\\ifdefined\\DeclareUnicodeCharacter\n{lines}\\fi\n" if lines else ""


def _function(function: FunctionEquations) -> str:
    params = r",\quad ".join(
        rf"\pskword{{axis}}\ {formula(word)}" if type_ is None else f"{formula(word)} : {textual(type_)}"
        for word, type_ in function.params
    )
    head = f", of ${params}$" if params else ""
    lines = " \\\\\n".join(f"  {_line(one)}" for one in function.equations)
    return (
        f"\\begin{{pskfunction}}{{{dotted(function.name)}}}{{{head}}}\n"
        f"\\begin{{align*}}\n{lines}\n\\end{{align*}}\n\\end{{pskfunction}}\n"
    )


def _line(one: Equation) -> str:
    match one:
        case Equal(left, right, reason):
            behind = f" \\pskreason{{{prose(reason)}}}" if reason else ""
            return f"{formula(left)} &= {formula(right)}{behind}"
        case Recurrence(first, step):
            return f"{formula(first.left)} &= {formula(first.right)},\\quad {equation(step)}{_range(one)}"


def _range(one: Recurrence) -> str:
    within = rf"\ \text{{where}}\ {', '.join(map(equation, one.inner))},\ " if one.inner else ""
    return rf"{within}\quad 0 \le {textual(one.index)} < {textual(one.count)}"


def equation(one: Equation) -> str:
    """An equation inside another one."""
    match one:
        case Equal(left, right):
            return f"{formula(left)} = {formula(right)}"
        case Recurrence(first, step):
            return rf"{equation(first)},\ {equation(step)}{_range(one)}"


# --- formulas -----------------------------------------------------------------------------------------------------------


def wrapped(form: Formula, wanted: int) -> str:
    """A formula where at least `wanted` is asked for; what stands under a root or over a line is closed by that."""
    text = formula(form)
    return text if isinstance(form, Root) or level(form) >= wanted else rf"\left({text}\right)"


def listed(forms: Sequence[Formula]) -> str:
    """Formulas between commas."""
    return ", ".join(wrapped(one, OPEN if len(forms) == 1 else LOOSE) for one in forms)


def formula(form: Formula) -> str:
    """A formula."""
    match form:
        case Word(text, primes):
            return dotted(text) + "'" * primes
        case Denoted(name):
            return rf"\den{{{dotted(name)}}}"
        case Applied(function, args):
            return f"{wrapped(function, ATOM)}({listed(args)})"
        case Operation(name, detail, operands):
            front = rf"\pskop{{{_escaped(name)}}}"
            return r"\ ".join(filter(None, (front, textual(detail), ", ".join(wrapped(one, ATOM) for one in operands))))
        case Infix("/", left, right):
            return rf"\frac{{{formula(left)}}}{{{formula(right)}}}"
        case Infix(op, left, right):
            bound = level(form)
            return f"{wrapped(left, bound)} {_SIGNS.get(op, op)} {wrapped(right, ATOM if isinstance(right, Minus) else bound + 1)}"
        case Minus(value):
            return f"-{wrapped(value, SIGNED + 1)}"
        case Raised(base, exponent):
            # A number with a power of ten in it is one factor, which its parts would not show.
            shown = wrapped(base, ATOM)
            shown = rf"\left({shown}\right)" if isinstance(base, Word) and r"\times" in shown else shown
            return f"{{{shown}}}^{{{formula(exponent)}}}"
        case Root(value):
            return rf"\sqrt{{{formula(value)}}}"
        case Sum(over, factors):
            product = r"\, ".join(wrapped(one, RAISED) for one in factors)
            return rf"\sum_{{{', '.join(map(identifier, over))}}} {product}" if over else product
        case At(base, indices):
            return f"{wrapped(base, ATOM)}[{', '.join(map(identifier, indices))}]"
        case Each(indices, body):
            return rf"\left[{', '.join(map(identifier, indices))} \mapsto {formula(body)}\right]"
        case Selected(base, selectors):
            inner = ", ".join(textual(bounds if axis is None else f"{axis}: {bounds}") for axis, bounds in selectors)
            return f"{wrapped(base, ATOM)}[{inner}]"
        case Group(items):
            return rf"\left({listed(items)}\right)"
        case Member(base, name):
            return f"{wrapped(base, ATOM)}.{identifier(name)}"
        case Iterate(name, number):
            return f"{formula(name)}_{{{textual(number)}}}"
        case Abstraction(params, destructures, body):
            names = ", ".join(map(formula, params))
            return rf"\lambda {f'({names})' if destructures else names}.\ {formula(body)}"
        case Where(body, equations):
            return rf"{wrapped(body, LISTED)}\ \text{{where}}\ {', '.join(map(equation, equations))}"


# --- names and words ----------------------------------------------------------------------------------------------------


def dotted(name: str) -> str:
    """A name with dots in it, or a number."""
    return _number(name) if NUMBER.fullmatch(name) else ".".join(map(identifier, name.split(".")))


def _number(text: str) -> str:
    """A number: a power of ten is written as one; `12x64` are two."""
    mantissa, letter, exponent = text.lower().partition("e")
    if letter and NUMBER.fullmatch(text):
        return rf"{mantissa} \times 10^{{{exponent.removeprefix('+')}}}"
    first, letter, second = text.partition("x")
    return rf"{first} \times {second}" if letter and first.isdecimal() and second.isdecimal() else _escaped(text)


def identifier(name: str) -> str:
    """A name: one letter with its accent and its number, or a word."""
    name, _, number = name.partition("%")
    if number:
        front = identifier(name) if name else ""
        return rf"{{{front}}}_{{\%{number}}}" if front else rf"\%{number}"
    primes = len(name) - len(name.rstrip("'"))
    letters = unicodedata.normalize("NFD", name[: len(name) - primes])
    if not letters or letters[0].isdecimal():
        return _number(name)
    marks = 1
    while marks < len(letters) and unicodedata.combining(letters[marks]):
        marks += 1
    rest = letters[marks:]
    if not rest or rest.isdecimal():
        return _accented(letters[:marks]) + (f"_{{{rest}}}" if rest else "") + "'" * primes
    return rf"\pskname{{{_escaped(name)}}}"


def _accented(letter: str) -> str:
    """A letter with its combining marks; one with a mark that mathematics has no command for stands as it is."""
    if not set(letter[1:]) <= set(_ACCENTS):
        return rf"\text{{{unicodedata.normalize('NFC', letter)}}}"
    text = _letter(letter[0])
    for mark in letter[1:]:
        text = rf"\{_ACCENTS[mark]}{{{text}}}"
    return text


def _letter(character: str) -> str:
    if character in _GREEK:
        return rf"\{_GREEK[character]}"
    if character in _SPECIAL:
        return _SPECIAL[character]
    return character if character.isascii() else rf"\text{{{character}}}"


def _escaped(text: str) -> str:
    """Characters of a name or of signs, each as mathematics shows it."""
    found = ""
    for character in _clusters(text):
        if character in _SPECIAL:
            found += _SPECIAL[character]
        else:
            found += _accented(character)
            # A command ends where the next letter would belong to it.
            found += "{}" if found[-1].isalpha() and character in _GREEK else ""
    return found


def textual(text: str) -> str:
    """A type, a selector, the detail of an operation: its words and signs one by one."""
    found = ""
    for token in _TOKEN.findall(text):
        if token in _WORDS:
            found += rf"\pskword{{{token}}}"
        elif token == "->":
            found += r"\to "
        elif token in ("...", ".."):
            found += r"\ldots "
        elif token == "ℝ":
            found += r"\mathbb{R}"
        elif token[0].isalnum() or (token[0] == "%" and len(token) > 1):
            found += identifier(token)
        else:
            found += _escaped(token)
    return found


def prose(text: str) -> str:
    """Words of a reason, in text: signs that are no plain characters in mathematics."""
    found = ""
    for character in _clusters(text):
        if character in "{}_%&#$":
            found += "\\" + character
        elif character.isascii() and character not in "\\~^":
            found += character
        else:
            found += f"${_escaped(character)}$"
    return found


def _clusters(text: str) -> Iterator[str]:
    """The characters of a text, decomposed, each with its combining marks."""
    letters = unicodedata.normalize("NFD", text)
    place = 0
    while place < len(letters):
        end = place + 1
        while end < len(letters) and unicodedata.combining(letters[end]):
            end += 1
        yield letters[place:end]
        place = end
