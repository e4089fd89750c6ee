"""Typing of operators: arithmetic of reals and of hyperparameters, `·`, `^`, comparisons, unary minus."""

from typing import Final

from presk.prims.movement import dot
from presk.prims.surface import Bound, Refused
from presk.syntax import tree
from presk.types.type import SCALAR, Hyper, HyperKind, Index, Mask, Params, Real, Type
from presk.typing import expressions
from presk.typing.checker import Checker, literal_value
from presk.typing.scope import Scope
from presk.typing.typed import Arith, HyperOp, Inject, Literal, NegateReal, Power, Prim, Typed
from presk.typing.unify import describe

_ARITHMETIC: Final = ("+", "-", "*", "/")
_COMPARISONS: Final = ("==", "<=", ">=", "<", ">")
_WHOLE: Final = (HyperKind.NAT, HyperKind.INT)


def operator(checker: Checker, expr: tree.Negate | tree.Binary, scope: Scope) -> Typed:
    """A unary or binary operator."""
    if isinstance(expr, tree.Negate):
        value = expressions.infer(checker, expr.operand, scope)
        return checker.when_known(expr.at, (value.type,), lambda: _negate(checker, expr, value))
    op = expr.operator
    if op in ("|>", "|", "⊗", "∘"):
        raise Refused(
            "E2012",
            f"`{op}` has no meaning in a function's body",
            mend="write the call: `f(x)`" if op == "|>" else None,
            notes=("it stands in configuration blocks and module expressions",),
        )
    if op == "%":
        raise Refused(
            "E2012", "`%` stands only in a static assertion", notes=("`static assert D % H == 0` is such an assertion",)
        )
    left = expressions.infer(checker, expr.left, scope)
    right = expressions.infer(checker, expr.right, scope)
    return checker.when_known(expr.at, (left.type, right.type), lambda: _binary(checker, expr, left, right))


def _negate(checker: Checker, expr: tree.Negate, value: Typed) -> Typed:
    match checker.subst.type(value.type):
        case Real() as type_:
            return NegateReal(expr.at, type_, value)
        case Hyper(kind) if kind is not HyperKind.BOOL:
            result = Hyper(HyperKind.INT) if kind in _WHOLE else Hyper(kind)
            return HyperOp(expr.at, result, "-", (value,))
        case other:
            raise Refused("E2022", f"unary `-` is not defined for {describe(other)}")


def _binary(checker: Checker, expr: tree.Binary, left: Typed, right: Typed) -> Typed:
    op = expr.operator
    one, other = checker.subst.type(left.type), checker.subst.type(right.type)
    if op in _COMPARISONS:
        return _compare(checker, expr, left, right)
    if op == "^":
        return _power(checker, expr, left, right)
    if op == "·":
        if not (isinstance(one, Real) and isinstance(other, Real)):
            raise _undefined(expr, one, other)
        bound = Bound("·", expr.at, (), {"x": checker.operand("x", left), "w": checker.operand("w", right)}, (), {})
        return Prim(expr.at, dot(bound, checker).type, "dot", (left, right), ())
    assert op in _ARITHMETIC, op
    if isinstance(one, Hyper) and isinstance(other, Hyper):
        return _hyper(checker, expr, left, right)
    if op == "/":
        _refuse_zero(right)
    left, right = _injected(left, one, other), _injected(right, other, one)
    one, other = checker.subst.type(left.type), checker.subst.type(right.type)
    if not (isinstance(one, Real) and isinstance(other, Real)):
        raise _undefined(expr, one, other)
    joined = checker.broadcast(one.shape, other.shape, expr.at)
    return Arith(expr.at, Real(joined.shape), op, left, right, joined.left, joined.right)


def _injected(node: Typed, type_: Type, other: Type) -> Typed:
    """A number beside a real tensor is injected (O12)."""
    if isinstance(type_, Hyper) and type_.kind is not HyperKind.BOOL and isinstance(other, Real):
        return Inject(node.at, Real(SCALAR), node)
    return node


def _undefined(expr: tree.Binary, one: Type, other: Type) -> Refused:
    mend = None
    notes: tuple[str, ...] = ()
    if isinstance(one, Index) or isinstance(other, Index):
        mend = "inject the indices: `real(…)`"
        notes = ("an index never mixes with real numbers",)
    elif isinstance(one, Mask) or isinstance(other, Mask):
        notes = ("a mask enters no arithmetic; `softmax(axis a, x, where = m)` reads one",)
    elif isinstance(one, Params) or isinstance(other, Params):
        notes = ("arithmetic on parameter trees is not written in a program; take a field: `θ.w`",)
    return Refused(
        "E2022",
        f"`{expr.operator}` is not defined for {describe(one)} and {describe(other)}",
        notes=notes,
        mend=mend,
        labels=((expr.left.at, f"`{one}`"), (expr.right.at, f"`{other}`")),
    )


def _refuse_zero(right: Typed) -> None:
    if literal_value(right) == 0:
        raise Refused("E2023", "division by zero", at=right.at, text="this is 0")


def _hyper(checker: Checker, expr: tree.Binary, left: Typed, right: Typed) -> Typed:
    one, other = checker.subst.type(left.type), checker.subst.type(right.type)
    assert isinstance(one, Hyper) and isinstance(other, Hyper)
    kind = _common(left, one.kind, right, other.kind)
    if kind is None:
        raise Refused(
            "E2022",
            f"`{expr.operator}` is not defined for {describe(one)} and {describe(other)}",
            labels=((expr.left.at, f"`{one}`"), (expr.right.at, f"`{other}`")),
        )
    if expr.operator == "/":
        _refuse_zero(right)
    if kind is HyperKind.NAT and expr.operator in ("-", "/"):
        kind = HyperKind.INT
    return HyperOp(expr.at, Hyper(kind), expr.operator, (left, right))


def _common(left: Typed, one: HyperKind, right: Typed, other: HyperKind) -> HyperKind | None:
    """The kind in which two numbers meet: equal kinds, `int` for nat and int, `f64` for f64 and a literal (O89)."""
    if HyperKind.BOOL in (one, other):
        return None
    if one is other:
        return one
    if one in _WHOLE and other in _WHOLE:
        return HyperKind.INT
    if HyperKind.F64 in (one, other):
        whole = left if one is not HyperKind.F64 else right
        return HyperKind.F64 if _is_literal(whole) else None
    return HyperKind.RAT


def _is_literal(node: Typed) -> bool:
    match node:
        case Literal():
            return True
        case HyperOp(op="-", operands=(inner,)):
            return _is_literal(inner)
        case _:
            return False


def _compare(checker: Checker, expr: tree.Binary, left: Typed, right: Typed) -> Typed:
    one, other = checker.subst.type(left.type), checker.subst.type(right.type)
    if isinstance(one, Hyper) and isinstance(other, Hyper) and _common(left, one.kind, right, other.kind) is not None:
        return HyperOp(expr.at, Hyper(HyperKind.BOOL), expr.operator, (left, right))
    raise Refused(
        "E2022",
        f"`{expr.operator}` compares two numbers of one type, not {describe(one)} and {describe(other)}",
        notes=("comparing tensors is not defined",) if isinstance(one, Real) or isinstance(other, Real) else (),
        labels=((expr.left.at, f"`{one}`"), (expr.right.at, f"`{other}`")),
    )


def _shown(node: Typed) -> str:
    """A literal as the program writes it."""
    match node:
        case Literal(text=text):
            return f"`{text}`"
        case HyperOp(operands=(Literal(text=text),)):
            return f"`-{text}`"
        case _:
            return "none"


def _power(checker: Checker, expr: tree.Binary, left: Typed, right: Typed) -> Typed:
    base, exponent = checker.subst.type(left.type), checker.subst.type(right.type)
    if exponent != Hyper(HyperKind.NAT):
        literal = literal_value(right)
        code = "E2021" if literal is not None else "E2022"
        raise Refused(
            code,
            f"the exponent of `^` is a natural number, and this is {_shown(right) if literal is not None else describe(exponent)}",
            at=expr.right.at,
            text="not a `nat`",
            mend="`sqrt(x)` for a half, `1 / x^n` for a negative power" if literal is not None else None,
        )
    match base:
        case Real():
            return Power(expr.at, base, left, right)
        case Hyper(kind) if kind is not HyperKind.BOOL:
            return HyperOp(expr.at, base, "^", (left, right))
        case _:
            raise Refused("E2022", f"`^` is not defined for {describe(base)}", at=expr.left.at)
