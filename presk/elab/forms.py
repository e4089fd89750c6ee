"""The forms that values of configuration fields take, as tables, and their reading (E2010).

A field's value is a number, a text, a name, or *calls* joined by an operator: `cosine(warmup = 2000)`,
`gpu(sm_90) | cpu(avx512)`. A call is described by its name and arguments; reading gives the arguments' values and the
canonical text.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gmpy2 import mpq

from presk.diagnostics.report import Reporter
from presk.elab.exprs import decimal_value, dimension
from presk.elab.scope import Scope
from presk.syntax import tree

MAX_NATURAL: Final = 2**63 - 1

Value = int | str | None


class Kind(NamedTuple):
    """A kind of argument: what it is called in messages, and how it is read (None after a report)."""

    shown: str
    read: Callable[[tree.Expr, Scope, Reporter, str], Value]


class Arg(NamedTuple):
    """An argument of a call. `keys` are the names it may be given by (one of them); none for a positional one."""

    keys: tuple[str, ...]
    kind: Kind


class Form(NamedTuple):
    """A call that a value may consist of; `shown` is its description."""

    name: str
    args: tuple[Arg, ...]
    shown: str


class Read(NamedTuple):
    """A call that was read: its form's name, its arguments' values (a key given one of several ways is itself a value)."""

    name: str
    values: Mapping[str, Value]
    text: str


def refuse(at: tree.At, what: str, expected: str, reporter: Reporter, *, text: str = "unexpected value") -> None:
    """E2010 for a value of a form that its field does not take."""
    reporter.report("E2010", at, f"{what} takes {expected}", text=text)


# --- numbers, texts, names --------------------------------------------------------------------------------------------


def _natural(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str, least: int) -> int | None:
    wanted = "a natural number" if least == 0 else f"a natural number from {least}"
    if not isinstance(expr, tree.Nat | tree.Name | tree.Field | tree.Negate | tree.Binary) or (
        isinstance(expr, tree.Name) and expr.name not in scope.env.names and expr.name not in scope.env.broken
    ):
        refuse(expr.at, what, wanted, reporter)
        return None
    value = dimension(expr, scope, reporter, natural=False, wrong_kind="E2010")
    if value is None:
        return None
    number = value.natural()
    if number is None:
        refuse(expr.at, what, wanted, reporter, text=f"this is {value}")
        return None
    if number < least:
        refuse(expr.at, what, wanted, reporter, text=f"this is {number}")
        return None
    if number > MAX_NATURAL:
        refuse(expr.at, what, "a number below 2^63", reporter, text="too large")
        return None
    return number


def read_natural(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> int | None:
    """A natural number: a literal or an expression of constants."""
    return _natural(expr, scope, reporter, what, 0)


def read_positive(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> int | None:
    """A natural number from 1."""
    return _natural(expr, scope, reporter, what, 1)


def read_number(
    expr: tree.Expr, reporter: Reporter, what: str, *, low: str = "0", above: bool = False, below: str | None = None
) -> str | None:
    """A natural or decimal literal, as its text, in a range: from `low` (not at it, with `above`), below `below`."""
    if not isinstance(expr, tree.Nat | tree.Decimal):
        refuse(expr.at, what, "a number, such as `0.1` or `3e-4`", reporter)
        return None
    value = decimal_value(expr.text)
    floor = mpq(low)
    if value is None or value < floor or (above and value == floor):
        refuse(expr.at, what, f"a number {'above' if above else 'from'} {low}", reporter, text=f"this is {expr.text}")
        return None
    if below is not None and value >= mpq(below):
        refuse(expr.at, what, f"a number below {below}", reporter, text=f"this is {expr.text}")
        return None
    return expr.text


def read_text(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> str | None:
    """A string."""
    if isinstance(expr, tree.Text):
        return expr.value
    refuse(expr.at, what, 'a text, such as `"ckpt/final"`', reporter)
    return None


def _replicas(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Value:
    if isinstance(expr, tree.Name) and expr.name == "auto":
        return "auto"
    return read_positive(expr, scope, reporter, what)


def _fraction(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Value:
    return read_number(expr, reporter, what, above=True)


def _word(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Value:
    if isinstance(expr, tree.Name):
        return expr.name
    refuse(expr.at, what, "a name", reporter)
    return None


def _int8(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Value:
    if isinstance(expr, tree.Name) and expr.name == "int8":
        return "int8"
    refuse(expr.at, what, "`int8`", reporter)
    return None


def _duration(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Value:
    if isinstance(expr, tree.Quantity) and expr.unit in ("ns", "us", "ms", "s"):
        return f"{expr.number}{expr.unit}"
    refuse(expr.at, what, "a time, such as `5ms`", reporter)
    return None


NATURAL: Final = Kind("N", read_natural)
POSITIVE: Final = Kind("N", read_positive)
REPLICAS: Final = Kind("auto", _replicas)
FRACTION: Final = Kind("ε", _fraction)
TEXT: Final = Kind('"path"', read_text)
WORD: Final = Kind("NAME", _word)
INT8: Final = Kind("int8", _int8)
DURATION: Final = Kind("5ms", _duration)
AXIS: Final = Kind("axis a", _word)

CONSTANT: Final = Form("constant", (), "constant()")
LINEAR: Final = Form("linear", (Arg(("warmup",), NATURAL),), "linear(warmup = N)")
COSINE: Final = Form("cosine", (Arg(("warmup",), NATURAL),), "cosine(warmup = N)")
SCHEDULE: Final = (CONSTANT, LINEAR, COSINE)
PARALLEL: Final = (
    Form("data_parallel", (Arg(("replicas",), REPLICAS),), "data_parallel(replicas = auto)"),
    Form("tensor_parallel", (Arg((), AXIS),), "tensor_parallel(axis a)"),
)
PRECISION: Final = (
    Form("budget", (Arg(("rel_error", "abs_error"), FRACTION),), "budget(rel_error = ε)"),
    Form("quantize", (Arg((), INT8), Arg(("calibration",), TEXT)), 'quantize(int8, calibration = "path")'),
)
TARGET: Final = (Form("gpu", (Arg((), WORD),), "gpu(NAME)"), Form("cpu", (Arg((), WORD),), "cpu(NAME)"))
BATCHING: Final = (
    Form(
        "dynamic",
        (Arg(("max_batch",), POSITIVE), Arg(("timeout",), DURATION)),
        "dynamic(max_batch = N, timeout = 5ms)",
    ),
)
CACHE: Final = (Form("kv_cache", (Arg((), AXIS),), "kv_cache(axis a)"),)
SHUFFLE: Final = (Form("shuffle", (Arg(("seed",), NATURAL),), "shuffle(seed = N)"),)
BATCH: Final = (Form("batch", (Arg(("B",), POSITIVE),), "batch(B = N)"),)
TAKE: Final = (Form("take", (Arg(("n",), POSITIVE),), "take(n = N)"),)
STREAM: Final = (Form("stream", (Arg((), TEXT),), 'stream "path"'),)


# --- calls ------------------------------------------------------------------------------------------------------------


def read_call(expr: tree.Expr, forms: tuple[Form, ...], scope: Scope, reporter: Reporter, what: str) -> Read | None:
    """One call of one of the forms; None after a report."""
    shown = _shown(forms)
    if not isinstance(expr, tree.Call) or not isinstance(expr.callee, tree.Name):
        refuse(expr.at, what, shown, reporter)
        return None
    name = expr.callee.name
    form = next((form for form in forms if form.name == name), None)
    if form is None:
        refuse(expr.callee.at, what, shown, reporter, text=f"`{name}` is not one of them")
        return None
    given = _matched(expr, form, reporter)
    if given is None:
        return None
    values: dict[str, Value] = {}
    parts: list[str] = []
    for arg, (key, value) in zip(form.args, given, strict=True):
        read = arg.kind.read(value, scope, reporter, f"`{key}` of `{name}`" if key else f"`{name}`")
        if read is None:
            return None
        values[key] = read
        quoted = f'"{read}"' if arg.kind is TEXT else str(read)
        parts.append(f"{key} = {quoted}" if key else f"axis {read}" if arg.kind is AXIS else quoted)
    return Read(name, values, f"{name}({', '.join(parts)})")


def _matched(expr: tree.Call, form: Form, reporter: Reporter) -> list[tuple[str, tree.Expr]] | None:
    """The argument for each of the form's, with the key it was given by; None after a report."""
    named: dict[str, tree.Expr] = {}
    positional: list[tuple[bool, tree.Expr]] = []  # whether it is an axis, and the value
    for argument in expr.arguments:
        match argument:
            case tree.Named(at=at, name=name, value=value):
                if name in named or not any(name in arg.keys for arg in form.args):
                    refuse(at, f"`{form.name}`", f"the form `{form.shown}`", reporter, text="unexpected argument")
                    return None
                named[name] = value
            case tree.Positional(value=value):
                positional.append((False, value))
            case tree.AxisArg(at=at, name=name):
                positional.append((True, tree.Name(at, name)))
            case tree.NamedAxis(at=at):
                refuse(at, f"`{form.name}`", f"the form `{form.shown}`", reporter, text="unexpected argument")
                return None
    found: list[tuple[str, tree.Expr]] = []
    for arg in form.args:
        if arg.keys:
            keys = [key for key in arg.keys if key in named]
            if len(keys) == 1:
                found.append((keys[0], named.pop(keys[0])))
                continue
        elif positional and positional[0][0] == (arg.kind is AXIS):
            found.append(("", positional.pop(0)[1]))
            continue
        refuse(expr.at, f"`{form.name}`", f"the form `{form.shown}`", reporter, text="an argument is missing or wrong")
        return None
    left = [*(value for _, value in positional), *named.values()]
    if left:
        refuse(left[0].at, f"`{form.name}`", f"the form `{form.shown}`", reporter, text="unexpected argument")
        return None
    return found


def read_joined(
    expr: tree.Expr, operator: str, forms: tuple[Form, ...], scope: Scope, reporter: Reporter, what: str
) -> str | None:
    """Calls joined by an operator, as canonical text; None after a report."""
    texts: list[str] = []
    complete = True
    for part in split(expr, operator):
        read = read_call(part, forms, scope, reporter, what)
        if read is None:
            complete = False
        else:
            texts.append(read.text)
    return f" {operator} ".join(texts) if complete else None


def split(expr: tree.Expr, operator: str) -> list[tree.Expr]:
    """The operands of a chain of one operator, left to right."""
    parts: list[tree.Expr] = []
    while isinstance(expr, tree.Binary) and expr.operator == operator:
        parts.append(expr.right)
        expr = expr.left
    parts.append(expr)
    return parts[::-1]


def _shown(forms: tuple[Form, ...]) -> str:
    *front, last = (f"`{form.shown}`" for form in forms)
    return f"{', '.join(front)} or {last}" if front else last
