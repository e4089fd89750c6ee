"""Constant and dimension expressions, evaluated exactly.

Both are evaluated by one walk, to a linear form with rational coefficients. Intermediate results may be fractions and
negative; what must hold of the result is asked at the end: a constant is a natural number, a dimension may not be
certainly none. Dividing a symbolic form needs a proof that the divisor divides it at every value (E1008).

Chains like `a + b + c + …` are walked along their left spine, so that their length costs no recursion.
"""

from collections.abc import Collection
from typing import Final

from gmpy2 import lcm, mpq, mpz

from presk.diagnostics.report import Reporter
from presk.elab.entities import ConstEntity, DimEntity, LateEntity, OtherEntity
from presk.elab.scope import Scope, declared_at, describe, path_of, report_late
from presk.syntax import tree
from presk.types.claim import Claim, Proved, Relation
from presk.types.decide import explain
from presk.types.dim import Dim, constant, symbol

ARITHMETIC: Final = ("+", "-", "*", "/")

MAX_BITS: Final = 4_000_000
"""Numbers beyond this many bits (1.2 million digits) are refused: a line of products would otherwise fill the memory."""

WRONG_KIND: Final = "E1014"


def constant_value(name: str, expr: tree.Expr, scope: Scope, reporter: Reporter) -> Dim | None:
    """The value of the constant `name`, a natural number; None after a report (E1005 and those of `dimension`)."""
    value = _Evaluation(scope, reporter, WRONG_KIND, constants_only=True).value(expr)
    if value is None:
        return None
    if value.natural() is None:
        what = "which is negative" if value.constant < 0 else "which is not a whole number"
        reporter.report(
            "E1005",
            expr.at,
            f"the constant `{name}` is not a natural number",
            text=f"this is {value}, {what}",
            notes=["a constant is a natural number; only its intermediate results may be fractions or negative"],
        )
        return None
    return value


def dimension(
    expr: tree.Expr,
    scope: Scope,
    reporter: Reporter,
    *,
    natural: bool = True,
    fractions: bool = False,
    wrong_kind: str = WRONG_KIND,
) -> Dim | None:
    """The linear form that a dimension expression denotes, None after a report.

    `natural` asks that the form is not certainly something else than a natural number (E1020); a symbolic one that is
    negative at some values only is accepted (O70). `fractions` allows a fraction as a factor of a symbol without proof
    (assertions compare rational forms). `wrong_kind` is the code for what is no dimension expression at all.
    Errors: E1001, E1006, E1007, E1008, E1013, E1014, E1020, E1023; W0001 where the scope allows implicit dimensions.
    """
    value = _Evaluation(scope, reporter, wrong_kind, whole=not fractions).value(expr)
    if value is None:
        return None
    if natural and not may_be_natural(value):
        what = f"this is {value}" if value.is_constant() else f"{value} is no natural number at any value"
        reporter.report("E1020", expr.at, f"the dimension {value} is not a natural number", text=what)
        return None
    return value


def may_be_natural(value: Dim) -> bool:
    """Whether a form is a natural number at some values of its symbols, as far as can be seen without a proof."""
    if value.is_constant():
        return value.natural() is not None
    if all(coefficient.denominator == 1 for _, coefficient in value.terms) and value.constant.denominator != 1:
        return False
    return not (value.constant < 0 and all(coefficient < 0 for _, coefficient in value.terms))


def why_not_divisible(form: Dim, divisor: mpq, scope: Scope) -> str | None:
    """None if `form / divisor` is a whole number at all values; else what to say of it (`fails for D = 1`)."""
    quotient = form.scaled(1 / divisor)
    common = lcm(quotient.constant.denominator, *(factor.denominator for _, factor in quotient.terms))
    if common == 1:
        return None
    claim = Claim(Relation.DIVIDES, quotient.scaled(mpq(common)), constant(mpq(common)))
    verdict = scope.decider.decide(claim, scope.facts(form.symbols()))
    return None if isinstance(verdict, Proved) else explain(verdict, claim)


def decimal_value(text: str) -> mpq | None:
    """The exact value of a natural or decimal literal; None where it is too large to be written out."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = mpz((whole + fraction) or "0")
    if len(exponent) > 8:
        return mpq(0) if digits == 0 else None
    shift = int(exponent or "0") - len(fraction)
    if abs(shift) * 4 > MAX_BITS:
        return mpq(0) if digits == 0 else None
    return mpq(digits * mpz(10) ** shift) if shift >= 0 else mpq(digits, mpz(10) ** -shift)


class _Evaluation:
    """One walk over one expression."""

    def __init__(
        self, scope: Scope, reporter: Reporter, wrong_kind: str, *, constants_only: bool = False, whole: bool = True
    ) -> None:
        self._scope = scope
        self._reporter = reporter
        self._wrong_kind = wrong_kind
        self._constants_only = constants_only
        self._whole = whole

    def value(self, expr: tree.Expr) -> Dim | None:
        """The form; both operands of an operation are visited, so that each reports its own errors."""
        spine: list[tree.Binary] = []
        while isinstance(expr, tree.Binary) and expr.operator in ARITHMETIC:
            spine.append(expr)
            expr = expr.left
        total = self._atom(expr)
        for node in reversed(spine):
            right = self.value(node.right)
            total = None if total is None or right is None else self._combine(node, total, right)
        return total

    def _atom(self, expr: tree.Expr) -> Dim | None:
        match expr:
            case tree.Nat(text=text):
                return constant(mpq(mpz(text)))
            case tree.Decimal(at=at, text=text):
                value = decimal_value(text)
                if value is None:
                    return self._too_large(at)
                return constant(value)
            case tree.Negate(operand=operand):
                inner = self.value(operand)
                return None if inner is None else -inner
            case tree.Name() | tree.Field():
                path = path_of(expr)
                if path is not None:
                    return self._named(".".join(path), path, expr.at)
        return self._wrong_form(expr)

    def _combine(self, node: tree.Binary, left: Dim, right: Dim) -> Dim | None:
        match node.operator:
            case "+":
                return self._bounded(node, left + right)
            case "-":
                return self._bounded(node, left - right)
            case "*":
                return self._product(node, left, right)
            case _:
                return self._quotient(node, left, right)

    def _bounded(self, node: tree.Binary, value: Dim) -> Dim | None:
        return self._too_large(node.at) if _bits(value) > MAX_BITS else value

    def _product(self, node: tree.Binary, left: Dim, right: Dim) -> Dim | None:
        if not left.is_constant() and not right.is_constant():
            self._reporter.report(
                "E1007",
                node.at,
                "the product of two symbolic dimensions is not a dimension",
                text=f"{_factor(left)}*{_factor(right)} is not linear",
                labels=[(node.left.at, f"this is {left}"), (node.right.at, f"this is {right}")],
                notes=["dimensions are linear: sums of symbolic dimensions, each times a number"],
                mend="make one factor a constant, or name the product with a dimension of its own",
            )
            return None
        if _bits(left) + _bits(right) > MAX_BITS:
            return self._too_large(node.at)
        factor, form = (left, right) if left.is_constant() else (right, left)
        if self._whole and not form.is_constant() and factor.constant.denominator != 1:
            whole = form.scaled(mpq(factor.constant.numerator))
            return self._proved_quotient(node, whole, mpq(factor.constant.denominator))
        return form.scaled(factor.constant)

    def _quotient(self, node: tree.Binary, left: Dim, right: Dim) -> Dim | None:
        if not right.is_constant():
            self._reporter.report(
                "E1007",
                node.at,
                "division by a symbolic dimension is not a dimension",
                text="not linear",
                labels=[(node.right.at, f"the divisor is {right}, not a constant")],
                notes=["a symbolic dimension may be 0"],
            )
            return None
        if right.constant == 0:
            self._reporter.report(
                "E1023", node.at, "division by zero", text="this divides by 0", labels=[(node.right.at, "this is 0")]
            )
            return None
        if _bits(left) + _bits(right) > MAX_BITS:
            return self._too_large(node.at)
        if left.is_constant():
            return left.scaled(1 / right.constant)
        return self._proved_quotient(node, left, right.constant)

    def _proved_quotient(self, node: tree.Binary, form: Dim, divisor: mpq) -> Dim | None:
        refusal = why_not_divisible(form, divisor, self._scope)
        if refusal is None:
            return form.scaled(1 / divisor)
        self._reporter.report(
            "E1008",
            node.at,
            f"cannot prove that {abs(divisor)} divides {form} at every value",
            text=refusal,
            notes=[
                "a quotient of a symbolic dimension must be a whole number at every value of its symbols",
                "a static assertion adds no fact",
            ],
            mend=f"let the quotient be a dimension of its own, and write {abs(divisor)} times it here",
        )
        return None

    def _too_large(self, at: tree.At) -> Dim | None:
        self._reporter.report(
            "E1005" if self._constants_only else "E1020",
            at,
            "this number has more than a million digits",
            text=f"too large for a {self._wanted()}",
        )
        return None

    def _named(self, path: str, names: tuple[str, ...], at: tree.At) -> Dim | None:
        scope = self._scope
        if len(names) == 1 and path in scope.params:
            return self._symbolic(symbol(path), f"`{path}` is a type parameter", at)
        entity = scope.env.names.get(path)
        match entity:
            case ConstEntity(value=value):
                return value
            case LateEntity():
                report_late(entity, at, self._reporter)
                return None
            case OtherEntity(what="a dimension") if self._constants_only:
                return self._symbolic(symbol(path), f"`{path}` is a symbolic dimension", at)
            case DimEntity(symbol=name):
                return self._symbolic(symbol(scope.free(name)), f"`{path}` is a symbolic dimension", at)
            case None:
                return self._undeclared(path, names, at)
        self._reporter.report(
            self._wrong_kind,
            at,
            f"`{path}` is {describe(entity)}, not a {self._wanted()}",
            text=f"a {self._wanted()} is expected here",
            labels=declared_at(entity, path, scope.env),
        )
        return None

    def _wanted(self) -> str:
        return "constant" if self._constants_only else "dimension"

    def _symbolic(self, form: Dim, said: str, at: tree.At) -> Dim | None:
        if not self._constants_only:
            return form
        self._reporter.report(
            self._wrong_kind,
            at,
            f"{said}, its value is not known here",
            text="a constant is expected here",
            notes=["a constant is computed from literals and earlier constants"],
        )
        return None

    def _undeclared(self, path: str, names: tuple[str, ...], at: tree.At) -> Dim | None:
        scope = self._scope
        if path in scope.env.broken or names[0] in scope.env.broken:
            return None
        if len(names) > 1:
            report_unknown_path(names, at, scope, self._reporter, self._wanted())
            return None
        if path in scope.env.imports:
            self._reporter.report(
                self._wrong_kind,
                at,
                f"`{path}` is an imported file, not a {self._wanted()}",
                text=f"a {self._wanted()} is expected here",
                mend=f"write `{path}.NAME` for one of its declarations",
            )
            return None
        if self._constants_only:
            self._reporter.report(
                "E1001", at, f"unknown constant `{path}`", text="not declared", unknown=path, wanted="constant"
            )
            return None
        if path in scope.axes:
            self._reporter.report(
                self._wrong_kind,
                at,
                f"`{path}` is an axis parameter of {scope.owner}, not a {self._wanted()}",
                text=f"a {self._wanted()} is expected here",
                mend=f"write `{path}: N` for an axis of this name and its length",
            )
            return None
        if path in scope.known:
            return symbol(path)
        if scope.implicit is not None:
            if path not in scope.implicit:
                scope.implicit[path] = at
            return symbol(path)
        report_undeclared_dimension(path, at, scope, self._reporter)
        return None

    def _wrong_form(self, expr: tree.Expr) -> Dim | None:
        match expr:
            case tree.Binary(operator="%"):
                said = "`%` stands only in a static assertion, as `a % k == 0`"
            case tree.Binary(operator="^"):
                said = "a power is not a dimension expression"
            case tree.Binary(operator=operator):
                said = f"`{operator}` has no meaning in a {self._wanted()} expression"
            case _:
                said = f"this is not a {self._wanted()} expression"
        self._reporter.report(
            self._wrong_kind,
            expr.at,
            said,
            text=f"a {self._wanted()} is expected here",
            notes=[f"a {self._wanted()} expression is made of numbers, names and `+ - * /`"],
        )
        return None


def report_undeclared_dimension(name: str, at: tree.At, scope: Scope, reporter: Reporter) -> None:
    """An undeclared dimension where none may be implicit: E1013 inside a module, E1001 elsewhere."""
    if scope.module is not None:
        reporter.report(
            "E1013",
            at,
            f"the dimension `{name}` is not declared",
            text=f"unknown in module `{scope.module}`",
            notes=["only the signature of a function outside of modules may use an undeclared dimension"],
            mend=f"add `{name}` to the type parameters of `{scope.module}`, or declare `dim {name}` in the file",
            unknown=name,
            wanted="dimension",
        )
        return
    reporter.report(
        "E1001",
        at,
        f"unknown dimension `{name}`",
        text=f"unknown in {scope.owner}",
        mend=f"declare it: `dim {name}`",
        unknown=name,
        wanted="dimension",
    )


def report_unknown_path(names: Collection[str], at: tree.At, scope: Scope, reporter: Reporter, wanted: str) -> None:
    """E1001 for a dotted path that leads nowhere; `wanted` is the kind of thing it was taken for."""
    first, *rest = names
    path = ".".join(names)
    if first not in scope.env.imports:
        said = f"no import is called `{first}`"
        reporter.report("E1001", at, said, text=f"`{path}` is not known", unknown=first, wanted="import")
        return
    notes = []
    if len(rest) > 1:
        notes.append(f"the imports of the file `{first}` are not visible here: import that file itself")
    reporter.report(
        "E1001",
        at,
        f"the file imported as `{first}` declares no `{'.'.join(rest)}`",
        text="not found",
        notes=notes,
        unknown=path,
        wanted=wanted,
    )


def _bits(form: Dim) -> int:
    """A bound on the size of the numbers in a form."""
    sizes = [form.constant, *(coefficient for _, coefficient in form.terms)]
    return max(int(value.numerator.bit_length() + value.denominator.bit_length()) for value in sizes)


def _factor(form: Dim) -> str:
    text = str(form)
    return f"({text})" if " " in text else text
