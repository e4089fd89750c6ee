"""Arithmetic that a level has no instruction for, written out in LLVM IR with the same bits.

**bf16** is integer code: widening is a shift, narrowing rounds once to nearest even, from f32 on the pattern itself, from f64
through an f32 that is *rounded to odd* (cut off, with the last bit set where something was cut off: what follows then rounds as
if from the whole number, since f32 has more than two bits more than bf16).

**fma in f32** without the instruction: the product of two f32 is an f64 exactly; its sum with the third operand is rounded to odd
in f64 and then once to f32.

**fma in f64**: the method of Boldo and Melquiond ("Emulation of FMA and correctly rounded sums", 2008): the product and the
sums as unevaluated pairs (Dekker, Knuth), the two low parts added with rounding to odd, and one last addition. It is right where
nothing overflows and no low part falls below the least subnormal, which a test of the operands' sizes makes sure of; lanes
of which one fails the test go to a scalar routine on 128-bit integers, which is right for all operands.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from presk.kernels.ir import Elem

Emit = Callable[[str], str]
"""Writes an instruction and gives its value's name."""

Call = Callable[..., str]
"""Calls an intrinsic: name without `llvm.`, type, operands."""

_ATTRIBUTES: Final = "noinline nounwind"


def _type(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def _splat(scalar: str, lanes: int, text: str) -> str:
    return text if lanes == 1 else f"splat ({scalar} {text})"


def widen_bf16(op: Emit, lanes: int, x: str) -> str:
    """f32 from the 16 bits of a bf16."""
    i32 = _type("i32", lanes)
    wide = op(f"zext {_type('i16', lanes)} {x} to {i32}")
    shifted = op(f"shl {i32} {wide}, {_splat('i32', lanes, '16')}")
    return op(f"bitcast {i32} {shifted} to {_type('float', lanes)}")


def narrow_bf16(op: Emit, call: Call, elem: Elem, lanes: int, x: str) -> str:
    """The 16 bits of the bf16 nearest to an f32 or f64, ties to even. A NaN keeps its sign and the payload's highest bits, or
    becomes the quiet one where these are 0."""
    i32, i1, f32 = _type("i32", lanes), _type("i1", lanes), _type("float", lanes)
    if elem is Elem.F64:
        f64, i64 = _type("double", lanes), _type("i64", lanes)
        near = op(f"fptrunc {f64} {x} to {f32}")
        back = op(f"fpext {f32} {near} to {f64}")
        size, sized = call("fabs", f64, x), call("fabs", f64, back)
        above = op(f"zext {i1} {op(f'fcmp ogt {f64} {sized}, {size}')} to {i32}")
        inexact = op(f"zext {i1} {op(f'fcmp one {f64} {back}, {x}')} to {i32}")
        cut = op(f"sub {i32} {op(f'bitcast {f32} {near} to {i32}')}, {above}")
        bits = op(f"or {i32} {cut}, {inexact}")
        # The conversion makes a NaN quiet: what is kept of it is taken from the f64, at the places that it has in an f32.
        whole = op(f"bitcast {f64} {x} to {i64}")
        shifted = op(f"lshr {i64} {whole}, {_splat('i64', lanes, '45')}")
        fraction = op(f"and {i32} {op(f'trunc {i64} {shifted} to {i32}')}, {_splat('i32', lanes, '127')}")
    elif elem is Elem.F32:
        near = x
        bits = op(f"bitcast {f32} {x} to {i32}")
    else:
        raise ValueError(f"a store into bf16 takes a float, not {elem}")
    high = op(f"lshr {i32} {bits}, {_splat('i32', lanes, '16')}")
    odd = op(f"and {i32} {high}, {_splat('i32', lanes, '1')}")
    half = op(f"add {i32} {odd}, {_splat('i32', lanes, '32767')}")
    up = op(f"lshr {i32} {op(f'add {i32} {bits}, {half}')}, {_splat('i32', lanes, '16')}")
    if elem is Elem.F64:
        ends = _splat("i32", lanes, "65408")  # sign and exponent
        high = op(f"or {i32} {op(f'and {i32} {high}, {ends}')}, {fraction}")
    payload = op(f"and {i32} {high}, {_splat('i32', lanes, '127')}")
    none = op(f"icmp eq {i32} {payload}, {_splat('i32', lanes, '0')}")
    quiet = op(f"select {i1} {none}, {i32} {_splat('i32', lanes, '64')}, {i32} {_splat('i32', lanes, '0')}")
    nan = op(f"fcmp uno {f32} {near}, {near}")
    chosen = op(f"select {i1} {nan}, {i32} {op(f'or {i32} {high}, {quiet}')}, {i32} {up}")
    return op(f"trunc {i32} {chosen} to {_type('i16', lanes)}")


class Function(NamedTuple):
    """The name of a function, the definitions that it needs, by name, and what these declare."""

    name: str
    definitions: Mapping[str, str]
    declarations: tuple[str, ...]


@cache
def fma(elem: Elem, lanes: int) -> Function:
    """A function that computes `x · y + z`, rounded once, lane by lane."""
    if elem is Elem.F32:
        name = f"fma.f32.{lanes}"
        return Function(name, {name: _fma_f32(name, lanes)}, ())
    name = f"fma.f64.{lanes}"
    declarations = (f"{_fabs(lanes)}({_type('double', lanes)})", *_SLOW_DECLARATIONS)
    return Function(name, {name: _fma_f64(name, lanes), "fma.slow": _FMA_SLOW}, declarations)


def _fabs(lanes: int) -> str:
    return f"{_type('double', lanes)} @llvm.fabs.{'' if lanes == 1 else f'v{lanes}'}f64"


class _Writer:
    """Lines of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name


def _two_sum(op: Emit, type_: str, x: str, y: str) -> tuple[str, str]:
    """x + y and what rounding it left, exactly (Knuth)."""
    total = op(f"fadd {type_} {x}, {y}")
    of_y = op(f"fsub {type_} {total}, {x}")
    of_x = op(f"fsub {type_} {total}, {of_y}")
    return total, op(f"fadd {type_} {op(f'fsub {type_} {x}, {of_x}')}, {op(f'fsub {type_} {y}, {of_y}')}")


def _to_odd(op: Emit, lanes: int, total: str, error: str) -> str:
    """A sum that was rounded to nearest and its error, to the sum rounded to odd.

    Where there is an error, the exact sum lies between the rounded one and a neighbour: outwards where the signs are equal,
    inwards else, where the pattern, as a natural number, is one less. Of the two the odd one is that of the inner with its last
    bit set. An error that is NaN (of an infinite sum) is none.
    """
    i64, i1, f64 = _type("i64", lanes), _type("i1", lanes), _type("double", lanes)
    some = op(f"fcmp one {f64} {error}, {_splat('double', lanes, '0.0')}")
    inexact = op(f"zext {i1} {some} to {i64}")
    bits = op(f"bitcast {f64} {total} to {i64}")
    signs = op(f"xor {i64} {bits}, {op(f'bitcast {f64} {error} to {i64}')}")
    differ = op(f"lshr {i64} {signs}, {_splat('i64', lanes, '63')}")
    inwards = op(f"and {i64} {differ}, {inexact}")
    odd = op(f"or {i64} {op(f'sub {i64} {bits}, {inwards}')}, {inexact}")
    return op(f"bitcast {i64} {odd} to {f64}")


def _fma_f32(name: str, lanes: int) -> str:
    f32, f64 = _type("float", lanes), _type("double", lanes)
    writer = _Writer()
    op = writer.op
    x, y, z = (op(f"fpext {f32} %{one} to {f64}") for one in "xyz")
    total, error = _two_sum(op, f64, op(f"fmul {f64} {x}, {y}"), z)
    result = op(f"fptrunc {f64} {_to_odd(op, lanes, total, error)} to {f32}")
    return "\n".join(
        (
            f"define internal {f32} @{name}({f32} %x, {f32} %y, {f32} %z) {_ATTRIBUTES} {{",
            *writer.lines,
            f"  ret {f32} {result}\n}}",
        )
    )


_SPLITTER: Final = "134217729.0"  # 2²⁷ + 1
_LEAST: Final = "0x23D0000000000000"  # 2⁻⁴⁵⁰
_MOST: Final = "0x5C10000000000000"  # 2⁴⁵⁰
_LARGE: Final = "0x7E70000000000000"  # 2¹⁰⁰⁰


def _halves(op: Emit, type_: str, lanes: int, x: str) -> tuple[str, str]:
    """x as the sum of two numbers of 26 bits (Veltkamp)."""
    scaled = op(f"fmul {type_} {x}, {_splat('double', lanes, _SPLITTER)}")
    high = op(f"fsub {type_} {scaled}, {op(f'fsub {type_} {scaled}, {x}')}")
    return high, op(f"fsub {type_} {x}, {high}")


def _fma_f64(name: str, lanes: int) -> str:
    f64, i1 = _type("double", lanes), _type("i1", lanes)
    writer = _Writer()
    op = writer.op

    def absolute(x: str) -> str:
        return op(f"call {_fabs(lanes)}({f64} {x})")

    def compare(condition: str, x: str, bound: str) -> str:
        return op(f"fcmp {condition} {f64} {x}, {_splat('double', lanes, bound)}")

    good = compare("olt", absolute("%z"), _LARGE)
    for factor in ("%x", "%y"):
        size = absolute(factor)
        inside = op(f"and {i1} {compare('oge', size, _LEAST)}, {compare('ole', size, _MOST)}")
        fit = op(f"or {i1} {inside}, {compare('oeq', size, '0.0')}")
        good = op(f"and {i1} {good}, {fit}")
    if lanes == 1:
        every = good
    else:
        every = op(f"icmp eq i{lanes} {op(f'bitcast {i1} {good} to i{lanes}')}, -1")
    writer.lines.append(f"  br i1 {every}, label %near, label %slow\nnear:")
    product = op(f"fmul {f64} %x, %y")
    (xh, xl), (yh, yl) = _halves(op, f64, lanes, "%x"), _halves(op, f64, lanes, "%y")
    low = op(f"fsub {f64} {op(f'fmul {f64} {xh}, {yh}')}, {product}")
    low = op(f"fadd {f64} {low}, {op(f'fmul {f64} {xh}, {yl}')}")
    low = op(f"fadd {f64} {low}, {op(f'fmul {f64} {xl}, {yh}')}")
    low = op(f"fadd {f64} {low}, {op(f'fmul {f64} {xl}, {yl}')}")
    middle, rest = _two_sum(op, f64, "%z", low)
    high, other = _two_sum(op, f64, product, middle)
    total, error = _two_sum(op, f64, rest, other)
    result = op(f"fadd {f64} {high}, {_to_odd(op, lanes, total, error)}")
    # An exact 0 has its sign from the plain sum, in which the product is then exact.
    plain = op(f"fadd {f64} {product}, %z")
    zero = compare("oeq", result, "0.0")
    result = op(f"select {i1} {zero}, {f64} {plain}, {f64} {result}")
    writer.lines.append(f"  ret {f64} {result}\nslow:")
    slow = "poison"
    for lane in range(lanes):
        if lanes == 1:
            slow = op("call double @fma.slow(double %x, double %y, double %z)")
            break
        one = ", ".join(f"double {op(f'extractelement {f64} %{operand}, i64 {lane}')}" for operand in "xyz")
        slow = op(f"insertelement {f64} {slow}, double {op(f'call double @fma.slow({one})')}, i64 {lane}")
    return "\n".join(
        (
            f"define internal {f64} @{name}({f64} %x, {f64} %y, {f64} %z) {_ATTRIBUTES} {{",
            *writer.lines,
            f"  ret {f64} {slow}\n}}",
        )
    )


_SLOW_DECLARATIONS: Final = (
    "i128 @llvm.ctlz.i128(i128, i1)",
    "i64 @llvm.umax.i64(i64, i64)",
    "i64 @llvm.umin.i64(i64, i64)",
    "i64 @llvm.smax.i64(i64, i64)",
)

_FMA_SLOW: Final = """\
; An operand's significand and exponent: its size is m · 2^e.
define internal { i64, i64 } @fma.parts(i64 %bits) noinline nounwind {
  %shifted = lshr i64 %bits, 52
  %biased = and i64 %shifted, 2047
  %fraction = and i64 %bits, 4503599627370495
  %normal = icmp ne i64 %biased, 0
  %one = zext i1 %normal to i64
  %hidden = shl i64 %one, 52
  %m = or i64 %fraction, %hidden
  %least = call i64 @llvm.umax.i64(i64 %biased, i64 1)
  %e = sub i64 %least, 1075
  %first = insertvalue { i64, i64 } poison, i64 %m, 0
  %both = insertvalue { i64, i64 } %first, i64 %e, 1
  ret { i64, i64 } %both
}
; A number that is not 0, moved up until its highest bit is bit 125, and its exponent.
define internal { i128, i64 } @fma.up(i128 %m, i64 %e) noinline nounwind {
  %zeros = call i128 @llvm.ctlz.i128(i128 %m, i1 false)
  %by = sub i128 %zeros, 2
  %moved = shl i128 %m, %by
  %less = trunc i128 %by to i64
  %new = sub i64 %e, %less
  %first = insertvalue { i128, i64 } poison, i128 %moved, 0
  %both = insertvalue { i128, i64 } %first, i64 %new, 1
  ret { i128, i64 } %both
}
; A number moved down, with its last bit set where a bit was lost.
define internal i128 @fma.down(i128 %m, i64 %by) noinline nounwind {
  %most = call i64 @llvm.umin.i64(i64 %by, i64 127)
  %n = zext i64 %most to i128
  %moved = lshr i128 %m, %n
  %back = shl i128 %moved, %n
  %lost = icmp ne i128 %back, %m
  %last = zext i1 %lost to i128
  %all = or i128 %moved, %last
  ret i128 %all
}
define internal double @fma.slow(double %x, double %y, double %z) noinline nounwind {
entry:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %zb = bitcast double %z to i64
  %xs = and i64 %xb, 9223372036854775807
  %ys = and i64 %yb, 9223372036854775807
  %zs = and i64 %zb, 9223372036854775807
  %xf = icmp ult i64 %xs, 9218868437227405312
  %yf = icmp ult i64 %ys, 9218868437227405312
  %zf = icmp ult i64 %zs, 9218868437227405312
  %x0 = icmp eq i64 %xs, 0
  %y0 = icmp eq i64 %ys, 0
  %factors = and i1 %xf, %yf
  %some0 = or i1 %x0, %y0
  %odd = xor i1 %factors, true
  %plain = or i1 %odd, %some0
  br i1 %plain, label %direct, label %finite
direct: ; a factor is NaN, infinite or 0: the product is what it would be exactly
  %p = fmul double %x, %y
  %q = fadd double %p, %z
  ret double %q
finite:
  br i1 %zf, label %numbers, label %third
third: ; NaN or infinite, whatever the finite product
  %twice = fadd double %z, %z
  ret double %twice
numbers:
  %xp = call { i64, i64 } @fma.parts(i64 %xs)
  %yp = call { i64, i64 } @fma.parts(i64 %ys)
  %xm = extractvalue { i64, i64 } %xp, 0
  %xe = extractvalue { i64, i64 } %xp, 1
  %ym = extractvalue { i64, i64 } %yp, 0
  %ye = extractvalue { i64, i64 } %yp, 1
  %xw = zext i64 %xm to i128
  %yw = zext i64 %ym to i128
  %pm = mul i128 %xw, %yw
  %pe = add i64 %xe, %ye
  %pn = call { i128, i64 } @fma.up(i128 %pm, i64 %pe)
  %a = extractvalue { i128, i64 } %pn, 0
  %ae = extractvalue { i128, i64 } %pn, 1
  %signs = xor i64 %xb, %yb
  %as = lshr i64 %signs, 63
  %z0 = icmp eq i64 %zs, 0
  br i1 %z0, label %round, label %add
add:
  %zp = call { i64, i64 } @fma.parts(i64 %zs)
  %zm = extractvalue { i64, i64 } %zp, 0
  %ze = extractvalue { i64, i64 } %zp, 1
  %zw = zext i64 %zm to i128
  %zn = call { i128, i64 } @fma.up(i128 %zw, i64 %ze)
  %b = extractvalue { i128, i64 } %zn, 0
  %be = extractvalue { i128, i64 } %zn, 1
  %bs = lshr i64 %zb, 63
  %e = call i64 @llvm.smax.i64(i64 %ae, i64 %be)
  %ad = sub i64 %e, %ae
  %bd = sub i64 %e, %be
  %a1 = call i128 @fma.down(i128 %a, i64 %ad)
  %b1 = call i128 @fma.down(i128 %b, i64 %bd)
  %same = icmp eq i64 %as, %bs
  %sum = add i128 %a1, %b1
  %more = icmp uge i128 %a1, %b1
  %ab = sub i128 %a1, %b1
  %ba = sub i128 %b1, %a1
  %difference = select i1 %more, i128 %ab, i128 %ba
  %larger = select i1 %more, i64 %as, i64 %bs
  %total = select i1 %same, i128 %sum, i128 %difference
  %nothing = icmp eq i128 %total, 0
  br i1 %nothing, label %zero, label %round
zero:
  ret double 0.0
round: ; sign, m · 2^e with m > 0
  %s = phi i64 [ %as, %numbers ], [ %larger, %add ]
  %m = phi i128 [ %a, %numbers ], [ %total, %add ]
  %me = phi i64 [ %ae, %numbers ], [ %e, %add ]
  %zeros = call i128 @llvm.ctlz.i128(i128 %m, i1 false)
  %up = shl i128 %m, %zeros
  %fewer = trunc i128 %zeros to i64
  %e0 = sub i64 %me, %fewer
  %top = add i64 %e0, 127 ; the exponent of the highest bit
  ; 62 bits with a last one that stands for the rest; 9 more than are kept of a normal number
  %cut = call i128 @fma.down(i128 %up, i64 66)
  %t = trunc i128 %cut to i64
  %below = sub i64 -1022, %top
  %under = call i64 @llvm.smax.i64(i64 %below, i64 0)
  %under9 = add i64 %under, 9
  %by = call i64 @llvm.umin.i64(i64 %under9, i64 63)
  %kept = lshr i64 %t, %by
  %back = shl i64 %kept, %by
  %rest = sub i64 %t, %back
  %by1 = sub i64 %by, 1
  %half = shl i64 1, %by1
  %above = icmp ugt i64 %rest, %half
  %tie = icmp eq i64 %rest, %half
  %low = trunc i64 %kept to i1
  %even = and i1 %tie, %low
  %add1 = or i1 %above, %even
  %one = zext i1 %add1 to i64
  %q1 = add i64 %kept, %one
  %field0 = add i64 %top, 1022
  %field1 = call i64 @llvm.smax.i64(i64 %field0, i64 0)
  %field2 = call i64 @llvm.umin.i64(i64 %field1, i64 2046)
  %field = shl i64 %field2, 52
  %bits0 = add i64 %field, %q1
  %bits1 = call i64 @llvm.umin.i64(i64 %bits0, i64 9218868437227405312)
  %sign = shl i64 %s, 63
  %bits = or i64 %bits1, %sign
  %r = bitcast i64 %bits to double
  ret double %r
}"""
