"""The text form of kernel IR: what `presk dump --stage kernel` prints, and what `presk.kernels.parse` reads back.

    kernel {
      b0 : in f32[4096]
      b1 : in i32[64] < 92
      b2 : out f32[4096] in_place b0

      %0 : f32x8 = const 0.5
      %6 = for %1 < 64 with %5 = %0 {
        %2 : f32x8 = load b0[64*%1]
        %3 : f32x8 = fma %2, %2, %5
        next %3
      }
      for %7 < 3 parallel {
        store %6 to b2[4000 + 8*%7] count 5
      }
    }

`parse(print_kernel(k)) == k`. A type is an element type and, behind an `x`, the number of lanes if there are several. What stands
where it is usual is left out, and only that: a stride of 1, a count of all lanes, a base of 0 beside terms, a factor of 1.

A constant prints as the shortest decimal that reads back as it, in its own type; the infinities as `inf` and `-inf`; a NaN by its
pattern, `nan(0x7fc00000)`; a truth value as `false` or `true`; a pattern that its type does not have as `bits(0x…)`.

A loop with accumulators gives values, so it is written as their definition: in front of `for` stand the accumulators behind the
loop, after `with` those inside it with what they start from, in `next` at the body's end what they are in the next iteration.

Printing takes time linear in the text.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from presk.kernels.ir import (
    AnyOp,
    AnyStmt,
    Binary,
    Bitcast,
    Buffer,
    Compare,
    Const,
    Convert,
    Elem,
    Fma,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefetch,
    Select,
    Shuffle,
    Splat,
    Store,
    Type,
    Unary,
    bits_of,
    value_of,
)

INDENT: Final = "  "

WIDTHS: Final = {Elem.F64: 64, Elem.F32: 32, Elem.I64: 64, Elem.I32: 32, Elem.BOOL: 1}
"""Bits of the pattern of a value."""

FRACTIONS: Final = {Elem.F64: 52, Elem.F32: 23}
"""Bits of a float's fraction."""


def type_text(type_: Type) -> str:
    """`f32`, `f32x8`."""
    return f"{type_.elem}" if type_.lanes == 1 else f"{type_.elem}x{type_.lanes}"


def buffer_text(number: int, buffer: Buffer) -> str:
    """`b1 : in i32[64] < 92`."""
    bound = "" if buffer.bound is None else f" < {buffer.bound}"
    in_place = "" if buffer.in_place is None else f" in_place b{buffer.in_place}"
    return f"b{number} : {buffer.access} {buffer.elem}[{buffer.size}]{bound}{in_place}"


def constant_text(elem: Elem, bits: int) -> str:
    """A constant of a type by its pattern."""
    width = WIDTHS.get(elem)
    if width is None or not 0 <= bits < 1 << width:
        return f"bits({bits:#x})"
    if elem is Elem.BOOL:
        return "true" if bits else "false"
    if elem not in FRACTIONS:
        return str(value_of(elem, bits))
    value = float(value_of(elem, bits))
    if math.isnan(value):
        return f"nan({bits:#0{width // 4 + 2}x})"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    shortest = repr(value) if elem is Elem.F64 else str(np.float32(value))
    # A reader rounds the decimal to binary64 first: where that would be felt in binary32, the longer decimal is exact.
    return shortest if bits_of(elem, float(shortest)) == bits else repr(value)


def index_text(index: Index) -> str:
    """`4096 + 64*%3 - %7`."""
    pieces = [(index.base, "")] if index.base or not index.terms else []
    pieces += [(stride, f"%{var}") for var, stride in index.terms]
    text = "".join(
        f"{'-' if factor < 0 else '+'}{_product(abs(factor), what)}" if place == 0 else _further(factor, what)
        for place, (factor, what) in enumerate(pieces)
    )
    return text.removeprefix("+")


def _further(factor: int, what: str) -> str:
    return f" {'-' if factor < 0 else '+'} {_product(abs(factor), what)}"


def _product(factor: int, what: str) -> str:
    if not what:
        return str(factor)
    return what if factor == 1 else f"{factor}*{what}"


def place_text(buffer: int, index: Index) -> str:
    """`b0[64*%1]`."""
    return f"b{buffer}[{index_text(index)}]"


def _lanes_text(stride: int, count: int | None) -> str:
    return (f" stride {stride}" if stride != 1 else "") + ("" if count is None else f" count {count}")


def operation_text(type_: Type, op: AnyOp) -> str:
    """What stands behind the `=` of a `Let`."""
    match op:
        case Const(bits):
            return f"const {constant_text(type_.elem, bits)}"
        case Unary(name, x):
            return f"{name} %{x}"
        case Binary(name, x, y):
            return f"{name} %{x}, %{y}"
        case Compare(name, x, y):
            return f"{name} %{x}, %{y}"
        case Fma(x, y, z):
            return f"fma %{x}, %{y}, %{z}"
        case Select(condition, x, y):
            return f"select %{condition}, %{x}, %{y}"
        case Convert(x):
            return f"convert %{x}"
        case Bitcast(x):
            return f"bitcast %{x}"
        case Splat(x):
            return f"splat %{x}"
        case Shuffle(x, y, pattern):
            return f"shuffle %{x}, %{y} [{' '.join(map(str, pattern))}]"
        case Load(buffer, index, stride, count):
            return f"load {place_text(buffer, index)}{_lanes_text(stride, count)}"


def _vars(variables: Iterable[int]) -> str:
    return ", ".join(f"%{var}" for var in variables)


def statement_text(statement: AnyStmt) -> str:
    """A statement on one line; of a loop the head, without its `{`."""
    match statement:
        case Let(var, type_, op):
            return f"%{var} : {type_text(type_)} = {operation_text(type_, op)}"
        case Store(buffer, index, x, stride, count):
            return f"store %{x} to {place_text(buffer, index)}{_lanes_text(stride, count)}"
        case Prefetch(buffer, index):
            return f"prefetch {place_text(buffer, index)}"
        case For(var, extent, _, carried, parallel, split):
            after = f"{_vars(one.after for one in carried)} = " if carried else ""
            flags = (" parallel" if parallel else "") + (" split" if split else "")
            inside = ", ".join(f"%{one.inside} = %{one.init}" for one in carried)
            return f"{after}for %{var} < {extent}{flags}{f' with {inside}' if carried else ''}"


def _body(statements: Sequence[AnyStmt], indent: str, lines: list[str]) -> None:
    for statement in statements:
        if not isinstance(statement, For):
            lines.append(indent + statement_text(statement))
            continue
        lines.append(f"{indent}{statement_text(statement)} {{")
        _body(statement.body, indent + INDENT, lines)
        if statement.carried:
            lines.append(f"{indent}{INDENT}next {_vars(one.next for one in statement.carried)}")
        lines.append(indent + "}")


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel; it ends with a line break."""
    lines = ["kernel {", *(INDENT + buffer_text(number, one) for number, one in enumerate(kernel.buffers))]
    if kernel.buffers and kernel.body:
        lines.append("")
    _body(kernel.body, INDENT, lines)
    return "\n".join([*lines, "}", ""])
