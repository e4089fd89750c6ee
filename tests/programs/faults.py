"""Programs with one error: a well-typed program in which one place is wrong, and the code that must be reported for it.

A fault is a scalar that multiplies some expression deep in the program, or a declaration of its own. Nothing else in the program is
wrong, so nothing else may be reported.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from tests.programs.choices import Choices, pick
from tests.programs.entries import MAIN, Programs
from tests.programs.lengths import Len, symbol
from tests.programs.state import PRODUCT, E, Fn, Scope, tight
from tests.programs.types import Ax, Axes, Idx, Key, Mask, Real, T, put_in


def _axes(**lengths: int | str) -> Axes:
    return tuple(
        Ax(Len(length) if isinstance(length, int) else symbol(length), None if name.startswith("_") else name)
        for name, length in lengths.items()
    )


_X2: Final = Real(_axes(n=2))
_X3: Final = Real(_axes(n=3))
_PAIR: Final = Real(_axes(n=2, m=2))
_T2: Final = Idx(Len(2), _axes(n=2))
_M2: Final = Mask(_axes(n=2))


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong: a scalar with parameters `{0}`, `{1}`, … of the given types, and `declaration`s that it needs.

    `N` in lengths and in the text is the first dimension of the file. A fault without a text is its declaration alone.
    """

    code: str
    text: str = ""
    params: tuple[T, ...] = ()
    declaration: str = ""


def _declared(code: str, declaration: str) -> Fault:
    return Fault(code, declaration=declaration)


FAULTS: Final = (
    Fault("E2002", "sum(nowhere)"),
    Fault("E2002", "sum(nowhere({0}))", (_X2,)),
    Fault("E2003", "sum({0} + {1})", (_X2, _X3)),
    Fault("E2003", "sum({0} - {1})", (Real(_axes(n="N")), Real(_axes(m="N")))),
    Fault("E2003", "sum({0} * {1})", (_PAIR, Real(_axes(_0=3)))),
    Fault("E2003", "{0} · {1}", (_X2, Real(_axes(m=2)))),
    Fault("E2003", "sum({0} · {1})", (Real(_axes(n="N")), Real(_axes(_0=2, k=2)))),
    Fault("E2003", "sum(concat(axis n, {0}, {1}))", (_PAIR, Real(_axes(n=1, m=3)))),
    Fault("E2003", "sum(softmax(axis n, {0}, where = {1}))", (_X2, Mask(_axes(n=2, m=2)))),
    Fault("E2003", "sum(({0} : ℝ[n: 3]))", (_X2,)),
    Fault("E2003", "sum(max({0}, {1}))", (_X2, _X3)),
    Fault("E2001", "sum(tanh({0}))", (_T2,)),
    Fault("E2001", "sum(exp({0}))", (_M2,)),
    Fault("E2001", "sum(clamp({0}, 0, 1))", (_X2,)),
    Fault("E2001", "sum(softmax(axis n, {0}, where = {0}))", (_X2,)),
    Fault("E2001", "sum(real({0}))", (_X2,)),
    Fault("E2004", "sum(tanh({0}, {0}))", (_X2,)),
    Fault("E2004", "sum(max({0}))", (_X2,)),
    Fault("E2004", "sum(tanh(y = {0}))", (_X2,)),
    Fault("E2005", "sum(embed({0}, {1}))", (Real(_axes(_0=3, _1=2)), _T2)),
    Fault("E2005", "sum(cross_entropy({0}, {1}))", (Real(_axes(n=2, m=3)), _T2)),
    Fault("E2006", "sum(split(axis n, p: 2, q: 2, {0}))", (_X3,)),
    Fault("E2007", "sum(merge(axis m, axis n, {0}))", (_PAIR,)),
    Fault("E2007", "sum(merge(axis n, axis k, {0}))", (Real(_axes(n=2, m=2, k=2)),)),
    Fault("E2008", "sum(sum(axis nowhere, {0}))", (_X2,)),
    Fault("E2008", "sum(softmax(axis nowhere, {0}))", (_X2,)),
    Fault("E2008", "sum({0}[nowhere: 0])", (_X2,)),
    Fault("E2008", "sum(concat(axis n, {0}, {1}))", (_X2, Real(_axes(_0=2)))),
    Fault("E2009", "sum(ein[n, n2, n3]({0} * {0}))", (_X2,)),
    Fault("E2011", "ein[]({0} + {0})", (_X2,)),
    Fault("E2011", "sum(ein[q]({0}))", (_X2,)),
    Fault("E2011", "ein[]({0} * {1})", (_X2, Real(_axes(_0=2)))),
    Fault("E2012", "sum({0}) % 2", (_X2,)),
    Fault("E2012", "sum(vjp({0}))", (_X2,)),
    Fault("E2012", "({0} |> sum)", (_X2,)),
    Fault("E2014", "sum({0}[n: 0..3])", (_X2,)),
    Fault("E2014", "sum({0}[n: 0..N + 1])", (Real(_axes(n="N")),)),
    Fault("E2014", "sum({0}[n: 1..0])", (_X2,)),
    Fault("E2014", "sum({0}[n: 2])", (_X2,)),
    Fault("E2014", "sum({0}[-3])", (_X2,)),
    Fault("E2018", "sum(grad(λ v9. v9)({0}))", (_X2,)),
    Fault("E2021", "sum(dropout(1.5, {0}, {1}))", (Key(), _X2)),
    Fault("E2021", "sum({0}^0.5)", (_X2,)),
    Fault("E2022", "sum({0} + {1})", (_X2, _T2)),
    Fault("E2022", "sum({0} * {1})", (_M2, _X2)),
    Fault("E2022", "sum({0}^{0})", (_X2,)),
    Fault("E2023", "(sum({0}) / 0)", (_X2,)),
    Fault("E2024", "(sum({0}) * real(N))", (Real(_axes(n="N")),)),
    Fault("E2025", "(let (a9, b9, c9) = ({0}, {0})\n    sum(a9))", (_X2,)),
    Fault("E2017", "(let f9 = λ v9. v9\n    sum({0}))", (_X2,)),
    Fault("E2027", "sum({0}({0}))", (_X2,)),
    Fault("E1001", "sum(({0} : Nowhere))", (_X2,)),
    Fault("E1007", "sum(merge(axis n, axis m, {0}))", (Real(_axes(n="N", m="N")),)),
    Fault("E1008", "sum(({0} : ℝ[n: N / 2]))", (_X2,)),
    Fault("E1020", "sum(({0} : ℝ[n: -2]))", (_X2,)),
    Fault("E1021", "sum(({0} : ℝ[n: 2, n: 2]))", (_PAIR,)),
    Fault("E1021", "sum(ein[n, n]({0} * {0}))", (_X2,)),
    Fault("E1021", "sum({0} · {1})", (Real(_axes(n=2, k=2)), Real(_axes(_0=2, n=2)))),
    Fault("E2016", "again({0})", (_X2,), "fn again(x : ℝ[n: 2]) -> ℝ = again(x) + 1"),
    Fault("E2015", "late({0})", (_X2,), "fn late(x : ℝ[n: 2]) = sum(x)"),
    Fault("E1024", "within9({0})", (_X2,), "dim Z9 <= 1\n\nfn within9(x : ℝ[n: Z9]) -> ℝ = sum(x)"),
    Fault("E2004", "taking({0}, {0})", (_X2,), "fn taking(x : ℝ[n: 2]) -> ℝ = sum(x)"),
    Fault("E2004", "taking()", (), "fn taking(x : ℝ[n: 2]) -> ℝ = sum(x)"),
    Fault("E2003", "taking({0})", (_X3,), "fn taking(x : ℝ[n: 2]) -> ℝ = sum(x)"),
    Fault("E2001", "taking({0})", (_M2,), "fn taking(x : ℝ[n: 2]) -> ℝ = sum(x)"),
    _declared("E2026", "module M9 { param w : ℝ[2] }\n\nfn gone9(θ : params M9) -> ℝ = sum(θ.nowhere)"),
    _declared("E2016", "module Self { use s : Self }"),
    _declared(
        "E2019",
        "module Odd9 { fn apply(x : ℝ[n: 2]) -> ℝ = sum(x) }\n\n"
        "module Tower9 {\n  use o : stack{2}(Odd9)\n  fn apply(x : ℝ[n: 2]) -> ℝ = o.apply(x)\n}",
    ),
    _declared("E2013", "module Start9 { param w : ℝ[2] init = kaiming }"),
    _declared("E2003", "fn wrong9(x : ℝ[n: 2]) -> ℝ[n: 3] = x"),
    _declared("E2001", "fn wrong9(x : ℝ[n: 2]) -> idx[2][n: 2] = x"),
    _declared("E1002", 'import "nowhere.psk" as gone9'),
    _declared("E1004", "static assert K > 1000"),
    _declared("E1004", "dim Z9\n\nstatic assert Z9 >= 1"),
    _declared("E1005", "const HALF9 : nat = 7 / 2"),
    _declared("E1006", "const EARLY9 : nat = LATE9 + 1\n\nconst LATE9 : nat = 1"),
    _declared("E1009", "module Two9{In Out : dim} { param w : ℝ[In, Out] }\n\nmodule Use9 { use t : Two9{2} }"),
    _declared("E1010", "fn open9(x : ℝ[n: 2, ...]) -> ℝ = sum(x)"),
    _declared("E1011", "module Index9 { param t : idx[3][n: 2] }"),
    _declared("E1012", "fn twice9(x : ℝ, x : ℝ) -> ℝ = x"),
    _declared("E1013", "module Free9 { param w : ℝ[Width9] }"),
    _declared("E1014", "module Use9 { use t : K }"),
    _declared("E1015", "module M9 { param w : ℝ[2] }\n\nfn early9(θ : params net9, net9 : M9) -> ℝ = sum(θ.w)"),
    _declared("E1018", "type A9 = B9\n\ntype B9 = A9"),
    _declared("E1019", "module Shape9{S : Shape} { }"),
    _declared("E1022", "const F9 : f64 = 2"),
    _declared("E1023", "const Z9 : nat = 1 / 0"),
    _declared("E1007", "dim A9\n\ndim B9\n\nfn prod9(x : ℝ[A9 * B9]) -> ℝ = sum(x)"),
    _declared("E3001", "fn jump9(x : ℝ[n: 2]) -> ℝ[n: 2] = grad(λ v. real(argmax(v)) * sum(v))(x)"),
    _declared("E4001", "fn noise9(k : key, x : ℝ[n: 2]) -> ℝ[n: 2] = dropout(0.5, k, x)"),
    _declared("E4002", "fn wild9(x : ℝ) -> ℝ uses Wild = x"),
    _declared(
        "E5002",
        "module B9 { param w : ℝ[2] }\n\nmodule S9{L : dim} { use b : stack{L}(B9) }\n\n"
        "fn made9{L : dim}(k : key, x : ℝ[L]) -> params S9{L} uses Rand = S9{L}.init(k)",
    ),
    _declared("E6001", "fn second9(x : ℝ[n: 2]) -> ℝ[n: 2] = grad(λ v. sum(grad(λ u. sum(u^3))(v)))(x)"),
    _declared(
        "E6002",
        "fn inner9(x : ℝ[n: 2], y : ℝ[n: 2]) -> ℝ[n: 2] =\n  grad(λ v.\n"
        "    let f = λ a. sum(a * y)\n    let g = λ b. f(b) * 2\n    g(v))(x)",
    ),
    _declared(
        "E2022",
        "fn trees9(x : params M9, y : params M9) -> ℝ =\n  let z = x + y\n  sum(x.w)\n\nmodule M9 { param w : ℝ[2] }",
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class IllTyped:
    """A program, the code that must be reported for it, and the text that is wrong."""

    files: dict[str, str]
    code: str
    wrong: str

    def __repr__(self) -> str:
        texts = "\n".join(f"-- {name} --\n{text}" for name, text in self.files.items())
        return f"{texts}\n-- {self.code}: {self.wrong} --"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Shows a failing program as its text."""
        printer.text(repr(self))


class Faulty(Programs):
    """Programs with a fault."""

    def __init__(self, choices: Choices, fuel: int) -> None:
        super().__init__(choices, fuel)
        self.fault: Final = pick(choices, FAULTS)
        self.wait = choices.below(12) if self.fault.text else -1
        self.wrong = ""

    def ill_typed(self) -> IllTyped:
        """A program with the fault."""
        files = dict(self.program().files)
        main = self.files[-1]
        if self.fault.text and (not self.wrong or self.wrong not in files[MAIN]):
            # The program has not the place that was chosen: the fault gets a function of its own.
            fn = Fn("lone9", main)
            text = self.faulty(Scope(fn))
            params = ", ".join(f"{param.name} : {self.type(main, param.type)}" for param in fn.params)
            files[MAIN] += f"\nfn lone9({params}) -> ℝ =\n  {text}\n"
        if self.fault.declaration:
            files[MAIN] += f"\n{self.fault.declaration}\n"
        return IllTyped(files, self.fault.code, self.wrong or self.fault.declaration)

    def _real(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        if self.wait < 0 or scope.file.path != MAIN or scope.fn.plain:
            return super()._real(scope, goal, fuel, data)
        self.wait -= 1
        if self.wait >= 0:
            return super()._real(scope, goal, fuel, data)
        good = super()._real(scope, goal, fuel, data)
        return E(f"{tight(good, PRODUCT)} * {self.faulty(scope)}", PRODUCT, good.type, good.mag, good.data)

    def faulty(self, scope: Scope) -> str:
        """The scalar that is wrong."""
        first = next(iter(scope.file.dims))
        names = [self.parameter(scope, _at(type_, first), False).text for type_ in self.fault.params]
        self.wrong = re.sub(r"\bN\b", first, self.fault.text.format(*names))
        return self.wrong


def _at(type_: T, first: str) -> T:
    """The type with `N` as the first dimension of the file."""
    return put_in(type_, {"N": symbol(first)})
