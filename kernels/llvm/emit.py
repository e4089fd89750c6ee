"""Kernel IR to LLVM IR, written as text: one module with one function `void kernel(ptr args, i64 worker, i64 workers)`.

Text is written in one pass over the kernel, a few lines per statement, and LLVM parses it: building instructions as objects costs
many times as much. Loops become do-while loops over `phi`s (extents are known; those of 0 and 1 leave no loop). The address of an
element is a chain of pointers, one per variable of its index and the constant last; each link is written in front of the loops
that do not change it, so that accesses which differ by a constant share everything but their displacement.

Where no loop carries sums of products, the function asks for its instructions in the order that they are written in: lowering
interleaves what does not wait for each other, and LLVM's scheduler, which spares registers, would undo it. A contraction's tile it
orders well.

No flag allows LLVM to change a bit: no fast-math, no contraction. What a level has no instruction for is written out
(`presk.kernels.llvm.soft`), so that no module calls a function.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from presk.kernels.ir import (
    FLOATS,
    LOADED,
    SIZES,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Compare,
    CompareOp,
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
    UnaryOp,
    value_of,
)
from presk.kernels.llvm import soft
from presk.kernels.targets import Level

ENTRY: Final = "kernel"
"""The name of the function in every module."""

WRITTEN: Final = '"order"="written"'
"""The attribute of a function whose instructions LLVM is not to reorder; `presk.kernels.llvm.compile` reads it."""

_SCALAR: Final = {Elem.F64: "double", Elem.F32: "float", Elem.I64: "i64", Elem.I32: "i32", Elem.BOOL: "i1"}
_MEMORY: Final = {**_SCALAR, Elem.BF16: "i16", Elem.U8: "i8"}
_MANGLED: Final = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8"}

_FLOAT_BINARY: Final = {BinaryOp.ADD: "fadd", BinaryOp.SUB: "fsub", BinaryOp.MUL: "fmul", BinaryOp.DIV: "fdiv"}
_FLOAT_COMPARE: Final = {
    CompareOp.EQ: "oeq",
    CompareOp.NE: "une",
    CompareOp.LT: "olt",
    CompareOp.LE: "ole",
    CompareOp.GT: "ogt",
    CompareOp.GE: "oge",
    CompareOp.UNO: "uno",
}
_INTEGER_COMPARE: Final = {
    CompareOp.EQ: "eq",
    CompareOp.NE: "ne",
    CompareOp.LT: "slt",
    CompareOp.LE: "sle",
    CompareOp.GT: "sgt",
    CompareOp.GE: "sge",
    CompareOp.ULT: "ult",
}
_WIDTH: Final = {Elem.F64: 64, Elem.F32: 32, Elem.I64: 64, Elem.I32: 32, Elem.BOOL: 1}


def emit(kernel: Kernel, level: Level) -> str:
    """The module of a kernel. ValueError for a kernel that `presk.kernels.check` refuses, where it is noticed."""
    return _Emitter(kernel, level).module()


def type_text(elem: Elem, lanes: int) -> str:
    """A type as LLVM writes it."""
    return _SCALAR[elem] if lanes == 1 else f"<{lanes} x {_SCALAR[elem]}>"


def constant_text(elem: Elem, bits: int) -> str:
    """A scalar constant as LLVM writes it, without its type."""
    if elem is Elem.F64:
        return f"0x{bits:016X}"
    if elem is Elem.F32:
        return f"0x{_as_double(bits):016X}"
    if elem is Elem.BOOL:
        return "true" if bits else "false"
    return str(value_of(elem, bits))


def _as_double(bits: int) -> int:
    """The pattern of the binary64 number that a binary32 number is, which is how LLVM writes these."""
    if bits & 0x7F80_0000 == 0x7F80_0000:  # infinities and NaNs, without the conversion of Python, which may quieten
        return (bits >> 31 << 63) | 0x7FF0_0000_0000_0000 | ((bits & 0x7F_FFFF) << 29)
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    (pattern,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(pattern)


@dataclass(slots=True)
class _Scope:
    """A body under construction: its lines, and the pointers that it holds, by what they point at."""

    lines: list[str] = field(default_factory=list)
    pointers: dict[tuple[object, ...], str] = field(default_factory=dict)


class _Emitter:
    """One emission."""

    def __init__(self, kernel: Kernel, level: Level) -> None:
        self._kernel = kernel
        self._level = level
        self._scopes = [_Scope()]
        self._lines = self._scopes[0].lines
        self._block = "entry"
        self._count = 0
        self._text: dict[int, str] = {}
        self._types: dict[int, Type] = {}
        self._depth: dict[int, int] = {}
        self._declared: dict[str, None] = {}
        self._helpers: dict[str, str] = {}
        self._intrinsics: dict[tuple[str, str], str] = {}
        self._products: set[int] = set()
        self._tiled = False

    def module(self) -> str:
        for number in range(len(self._kernel.buffers)):
            self._lines.append(
                f"  %p{number} = getelementptr ptr, ptr %args, i64 {number}\n  %b{number} = load ptr, ptr %p{number}, align 8"
            )
        self._body(self._kernel.body)
        bits = 8 * self._level.target.bytes
        width = f' "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"' if bits > 256 else ""
        order = "" if self._tiled else f" {WRITTEN}"
        return "\n".join(
            (
                f'source_filename = "kernel"\ntarget triple = "{self._level.triple}"',
                f"define void @{ENTRY}(ptr %args, i64 %worker, i64 %workers) #0 {{",
                "entry:",
                *self._lines,
                "  ret void\n}",
                *self._helpers.values(),
                *self._declared,
                f'attributes #0 = {{ nounwind "no-builtins"{width}{order} }}\n',
            )
        )

    # --- small parts ---

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"%t{self._count}"

    def op(self, text: str) -> str:
        """An instruction whose value has a new name."""
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def declare(self, text: str) -> None:
        """A declaration, once."""
        self._declared[f"declare {text}"] = None

    def _bind(self, var: int, type_: Type, text: str) -> None:
        self._text[var] = text
        self._types[var] = type_
        self._depth[var] = len(self._scopes) - 1

    # --- statements ---

    def _body(self, body: tuple[AnyStmt, ...]) -> None:
        for statement in body:
            match statement:
                case Let():
                    self._let(statement)
                case For():
                    self._for(statement)
                case Store():
                    self._store(statement)
                case Prefetch():
                    pointer = self._pointer(statement.buffer, statement.index)
                    self.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
                    self._lines.append(f"  call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def _for(self, loop: For) -> None:
        if loop.split and loop.carried:
            raise ValueError("a split loop carries nothing")
        if loop.extent == 0:
            for carry in loop.carried:
                self._bind(carry.after, self._types[carry.init], self._text[carry.init])
            return
        if loop.extent == 1 and not loop.split:
            self._bind(loop.var, Type(Elem.I64), "0")
            for carry in loop.carried:
                self._bind(carry.inside, self._types[carry.init], self._text[carry.init])
            self._body(loop.body)
            for carry in loop.carried:
                self._bind(carry.after, self._types[carry.next], self._text[carry.next])
            return
        first, last = "0", str(loop.extent)
        self._count += 1
        label, end, var = f"L{self._count}", f"X{self._count}", f"%i{self._count}"
        if loop.split:
            first, last, some = self._share(loop.extent)
            enter = f"  br i1 {some}, label %{label}, label %{end}"
        else:
            enter = f"  br label %{label}"
        before = self._block
        outer = self._lines
        self._scopes.append(_Scope())
        self._lines = self._scopes[-1].lines
        self._block = label
        self._bind(loop.var, Type(Elem.I64), var)
        names = []
        for carry in loop.carried:
            names.append(self.fresh())
            self._bind(carry.inside, self._types[carry.init], names[-1])
        self._body(loop.body)
        self._tiled = self._tiled or any(carry.next in self._products for carry in loop.carried)
        latch, inner = self._block, self._lines
        self._scopes.pop()
        self._lines = outer
        outer.append(f"{enter}\n{label}:\n  {var} = phi i64 [ {first}, %{before} ], [ {var}n, %{latch} ]")
        for name, carry in zip(names, loop.carried, strict=True):
            type_ = self._types[carry.init]
            outer.append(
                f"  {name} = phi {type_text(type_.elem, type_.lanes)} "
                f"[ {self._text[carry.init]}, %{before} ], [ {self._text[carry.next]}, %{latch} ]"
            )
        outer += inner
        outer.append(
            f"  {var}n = add nuw nsw i64 {var}, 1\n  {var}c = icmp ult i64 {var}n, {last}\n"
            f"  br i1 {var}c, label %{label}, label %{end}\n{end}:"
        )
        self._block = end
        for carry in loop.carried:
            self._bind(carry.after, self._types[carry.init], self._text[carry.next])

    def _share(self, extent: int) -> tuple[str, str, str]:
        """The first iteration of this worker, the one behind its last, and whether there are any."""
        before = self.op(f"mul i64 %worker, {extent}")
        first = self.op(f"udiv i64 {before}, %workers")
        behind = self.op(f"add i64 {before}, {extent}")
        last = self.op(f"udiv i64 {behind}, %workers")
        return first, last, self.op(f"icmp ult i64 {first}, {last}")

    def _let(self, let: Let) -> None:
        elem, lanes = let.type.elem, let.type.lanes
        op = let.op
        if isinstance(op, Const):
            text = constant_text(elem, op.bits)
            self._bind(let.var, let.type, text if lanes == 1 else f"splat ({_SCALAR[elem]} {text})")
            return
        type_ = type_text(elem, lanes)
        operand = self._text
        match op:
            case Binary(operator, x, y):
                name = self._binary(operator, elem, type_, operand[x], operand[y])
            case Fma(x, y, z):
                self._products.add(let.var)
                name = self._fma(elem, lanes, type_, operand[x], operand[y], operand[z])
            case Load():
                name = self._load(op, elem, lanes)
            case Unary(operator, x):
                name = self._unary(operator, elem, lanes, type_, operand[x])
            case Select(condition, x, y):
                of = self._types[condition]
                name = self.op(
                    f"select {type_text(of.elem, of.lanes)} {operand[condition]}, {type_} {operand[x]}, {type_} {operand[y]}"
                )
            case Compare(operator, x, y):
                of = self._types[x]
                word = f"fcmp {_FLOAT_COMPARE[operator]}" if of.elem in FLOATS else f"icmp {_INTEGER_COMPARE[operator]}"
                name = self.op(f"{word} {type_text(of.elem, of.lanes)} {operand[x]}, {operand[y]}")
            case Convert(x):
                name = self._convert(self._types[x], let.type, operand[x])
            case Bitcast(x):
                of = self._types[x]
                name = self.op(f"bitcast {type_text(of.elem, of.lanes)} {operand[x]} to {type_}")
            case Splat(x):
                name = self._splat(_SCALAR[elem], lanes, operand[x])
            case Shuffle():
                name = self._shuffle(op, elem)
        self._bind(let.var, let.type, name)

    # --- operations ---

    def _binary(self, operator: BinaryOp, elem: Elem, type_: str, x: str, y: str) -> str:
        if elem not in FLOATS:
            return self.op(f"{operator.value} {type_} {x}, {y}")
        if operator is BinaryOp.COPYSIGN:
            return self._call("copysign", type_, x, y)
        return self.op(f"{_FLOAT_BINARY[operator]} {type_} {x}, {y}")

    def _call(self, name: str, type_: str, *operands: str) -> str:
        """An intrinsic on values of one type of floats, of which every level makes instructions."""
        full = self._intrinsics.get((name, type_))
        if full is None:
            full = self._intrinsics[name, type_] = f"{type_} @llvm.{name}.{_mangled(type_)}"
            self.declare(f"{full}({', '.join(type_ for _ in operands)})")
        return self.op(f"call {full}({type_} {f', {type_} '.join(operands)})")

    def _fma(self, elem: Elem, lanes: int, type_: str, x: str, y: str, z: str) -> str:
        if self._level.target.fma:
            return self._call("fma", type_, x, y, z)
        function = soft.fma(elem, lanes)
        self._helpers.update(function.definitions)
        for declaration in function.declarations:
            self.declare(declaration)
        return self.op(f"call {type_} @{function.name}({type_} {x}, {type_} {y}, {type_} {z})")

    def _unary(self, operator: UnaryOp, elem: Elem, lanes: int, type_: str, x: str) -> str:
        match operator:
            case UnaryOp.NEG:
                return self.op(f"fneg {type_} {x}")
            case UnaryOp.ABS:
                return self._call("fabs", type_, x)
            case UnaryOp.SQRT:
                return self._call("sqrt", type_, x)
            case UnaryOp.RINT if self._level.rounding:
                return self._call("roundeven", type_, x)
            case UnaryOp.FLOOR if self._level.rounding:
                return self._call("floor", type_, x)
            case UnaryOp.RINT:
                return self._rint(elem, lanes, type_, x)
            case UnaryOp.FLOOR:
                rounded = self._rint(elem, lanes, type_, x)
                one = self._constant(elem, lanes, 1.0)
                above = self.op(f"fcmp ogt {type_} {rounded}, {x}")
                less = self.op(f"fsub {type_} {rounded}, {one}")
                return self.op(f"select {type_text(Elem.BOOL, lanes)} {above}, {type_} {less}, {type_} {rounded}")
            case UnaryOp.NOT:
                ones = "true" if elem is Elem.BOOL else "-1"
                return self.op(f"xor {type_} {x}, {ones if lanes == 1 else f'splat ({_SCALAR[elem]} {ones})'}")

    def _rint(self, elem: Elem, lanes: int, type_: str, x: str) -> str:
        """To an integer, ties to even, without an instruction for it: |x| + 2ᵖ⁻¹ − 2ᵖ⁻¹ below 2ᵖ⁻¹, where p is the precision.
        Larger numbers are integers, and NaN is no smaller one; the sign is put back, so that −0.3 becomes −0."""
        size = self._call("fabs", type_, x)
        large = self._constant(elem, lanes, 2.0**52 if elem is Elem.F64 else 2.0**23)
        small = self.op(f"fcmp olt {type_} {size}, {large}")
        above = self.op(f"fadd {type_} {size}, {large}")
        rounded = self.op(f"fsub {type_} {above}, {large}")
        signed = self._call("copysign", type_, rounded, x)
        return self.op(f"select {type_text(Elem.BOOL, lanes)} {small}, {type_} {signed}, {type_} {x}")

    def _constant(self, elem: Elem, lanes: int, value: float) -> str:
        """An operand: a float of both formats in every lane."""
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        return text if lanes == 1 else f"splat ({_SCALAR[elem]} {text})"

    def _convert(self, source: Type, to: Type, x: str) -> str:
        before, after = source.elem, to.elem
        if before is after:
            return x
        wider = _WIDTH[after] > _WIDTH[before]
        if before in FLOATS:
            word = ("fpext" if wider else "fptrunc") if after in FLOATS else "fptosi"
        elif after in FLOATS:
            word = "uitofp" if before is Elem.BOOL else "sitofp"
        elif before is Elem.BOOL:
            word = "zext"
        else:
            word = "sext" if wider else "trunc"
        return self.op(
            f"{word} {type_text(before, source.lanes)} {x} to {type_text(after, to.lanes)}",
        )

    def _splat(self, scalar: str, lanes: int, x: str) -> str:
        if lanes == 1:
            return x
        if not x.startswith("%"):
            return f"splat ({scalar} {x})"
        one = self.op(f"insertelement <{lanes} x {scalar}> poison, {scalar} {x}, i64 0")
        return self.op(
            f"shufflevector <{lanes} x {scalar}> {one}, <{lanes} x {scalar}> poison, <{lanes} x i32> zeroinitializer"
        )

    def _shuffle(self, op: Shuffle, elem: Elem) -> str:
        x, y, scalar = self._text[op.x], self._text[op.y], _SCALAR[elem]
        lanes = self._types[op.x].lanes
        if lanes == 1:
            return self._gathered(scalar, [(x, y)[which] for which in op.pattern])
        if len(op.pattern) == 1:
            which = op.pattern[0]
            return self.op(f"extractelement <{lanes} x {scalar}> {x if which < lanes else y}, i64 {which % lanes}")
        pattern = ", ".join(f"i32 {which}" for which in op.pattern)
        return self.op(
            f"shufflevector <{lanes} x {scalar}> {x}, <{lanes} x {scalar}> {y}, <{len(op.pattern)} x i32> <{pattern}>"
        )

    def _gathered(self, scalar: str, lanes: list[str], whole: int | None = None) -> str:
        """A vector of scalars; lanes beyond them, up to `whole`, are 0."""
        count = len(lanes) if whole is None else whole
        if count == 1:
            return lanes[0]
        vector = "poison" if count == len(lanes) else "zeroinitializer"
        for number, lane in enumerate(lanes):
            vector = self.op(f"insertelement <{count} x {scalar}> {vector}, {scalar} {lane}, i64 {number}")
        return vector

    # --- memory ---

    def _pointer(self, buffer: int, index: Index, offset: int = 0) -> str:
        """The address of an element; `offset` is added to its index."""
        size = SIZES[self._kernel.buffers[buffer].elem]
        base = index.base + offset
        terms = []
        for var, stride in index.terms:
            text = self._text[var]
            if text.startswith("%"):
                terms.append((self._depth[var], var, stride))
            else:  # a loop of one iteration, or a constant
                base += stride * int(text)
        terms.sort()
        pointer = f"%b{buffer}"
        key: tuple[object, ...] = (buffer,)
        depth = 0
        for depth, var, stride in terms:
            key = (*key, var, stride)
            scope = self._scopes[depth]
            found = scope.pointers.get(key)
            if found is None:
                found = scope.pointers[key] = self._link(scope, pointer, var, stride * size)
            pointer = found
        if base:
            scope = self._scopes[depth]
            key = (*key, base)
            found = scope.pointers.get(key)
            if found is None:
                found = scope.pointers[key] = self.fresh()
                scope.lines.append(f"  {found} = getelementptr i8, ptr {pointer}, i64 {base * size}")
            pointer = found
        return pointer

    def _link(self, scope: _Scope, pointer: str, var: int, stride: int) -> str:
        """A pointer moved on by `stride` bytes times a variable, in front of the loops within its scope."""
        step = self._text[var]
        if stride != 1:
            product: tuple[object, ...] = ("product", var, stride)
            found = scope.pointers.get(product)
            if found is None:
                found = scope.pointers[product] = self.fresh()
                scope.lines.append(f"  {found} = mul nsw i64 {step}, {stride}")
            step = found
        name = self.fresh()
        scope.lines.append(f"  {name} = getelementptr i8, ptr {pointer}, i64 {step}")
        return name

    def _load(self, op: Load, elem: Elem, lanes: int) -> str:
        memory = self._kernel.buffers[op.buffer].elem
        if elem is not LOADED[memory]:
            raise ValueError(f"a load of {memory} gives {LOADED[memory]}, not {elem}")
        scalar, align = _MEMORY[memory], SIZES[memory]
        count = lanes if op.count is None else op.count
        if count == 0:
            return self._constant(elem, lanes, 0.0) if elem in FLOATS else self._splat(_SCALAR[elem], lanes, "0")
        type_ = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
        if lanes == 1 or op.stride == 0:
            raw = self.op(f"load {scalar}, ptr {self._pointer(op.buffer, op.index)}, align {align}")
            raw = self._splat(scalar, lanes, raw) if count == lanes else self._gathered(scalar, [raw] * count, lanes)
        elif op.stride != 1:
            raw = self._gathered(
                scalar,
                [
                    self.op(f"load {scalar}, ptr {self._pointer(op.buffer, op.index, k * op.stride)}, align {align}")
                    for k in range(count)
                ],
                lanes,
            )
        elif count == lanes:
            raw = self.op(f"load {type_}, ptr {self._pointer(op.buffer, op.index)}, align {align}")
        else:
            name = f"{type_} @llvm.masked.load.v{lanes}{_MANGLED[scalar]}.p0"
            self.declare(f"{name}(ptr, <{lanes} x i1>, {type_})")
            raw = self.op(
                f"call {name}(ptr align {align} {self._pointer(op.buffer, op.index)}, "
                f"{_mask(lanes, count)}, {type_} zeroinitializer)"
            )
        if memory is Elem.U8:
            return self.op(f"zext {type_} {raw} to {type_text(Elem.I32, lanes)}")
        if memory is Elem.BF16:
            return soft.widen_bf16(self.op, lanes, raw)
        return raw

    def _store(self, store: Store) -> None:
        of = self._types[store.x]
        lanes = of.lanes
        memory = self._kernel.buffers[store.buffer].elem
        scalar, align = _MEMORY[memory], SIZES[memory]
        x = self._text[store.x]
        if memory is Elem.BF16:
            x = soft.narrow_bf16(self.op, self._call, of.elem, lanes, x)
        elif memory is Elem.U8:
            x = self.op(f"trunc {type_text(of.elem, lanes)} {x} to {'i8' if lanes == 1 else f'<{lanes} x i8>'}")
        type_ = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
        count = lanes if store.count is None else store.count
        if count == 0:
            return
        if lanes == 1 or (count == lanes and store.stride == 1):
            self._lines.append(f"  store {type_} {x}, ptr {self._pointer(store.buffer, store.index)}, align {align}")
        elif store.stride != 1:
            for lane in range(count):
                pointer = self._pointer(store.buffer, store.index, lane * store.stride)
                one = self.op(f"extractelement {type_} {x}, i64 {lane}")
                self._lines.append(f"  store {scalar} {one}, ptr {pointer}, align {align}")
        else:
            name = f"void @llvm.masked.store.v{lanes}{_MANGLED[scalar]}.p0"
            self.declare(f"{name}({type_}, ptr, <{lanes} x i1>)")
            self._lines.append(
                f"  call {name}({type_} {x}, ptr align {align} {self._pointer(store.buffer, store.index)}, "
                f"{_mask(lanes, count)})"
            )


def _mask(lanes: int, count: int) -> str:
    """A truth vector that is true in the first `count` lanes, with its type."""
    return f"<{lanes} x i1> <{', '.join(['i1 true'] * count + ['i1 false'] * (lanes - count))}>"


def _mangled(type_: str) -> str:
    """A type in the name of an intrinsic."""
    if type_.startswith("<"):
        lanes, _, scalar = type_[1:-1].partition(" x ")
        return f"v{lanes}{_MANGLED[scalar]}"
    return _MANGLED[type_]
