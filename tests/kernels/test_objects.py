"""Objects become blobs only if they need nothing from outside; whatever is damaged is refused, and by its own error."""

import random
import struct

import pytest

from presk.kernels.build import Builder
from presk.kernels.ir import Access, Elem
from presk.kernels.llvm.compile import compile_text
from presk.kernels.llvm.emit import ENTRY, emit
from presk.kernels.objects import Blob, ObjectError, check, flatten
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3


def text(body, more=""):
    head = f'source_filename = "t"\ntarget triple = "{X86_64.triple}"\n{more}\n'
    return f"{head}define void @f(ptr %p) nounwind {{\n{body}\n  ret void\n}}\n"


def flat(body, more="", level=X86_64):
    return flatten(compile_text(text(body, more), level), level.name, "f")


def object_of(level=X86_64):
    b = Builder()
    x, y = b.buffer(Elem.F64, 64), b.buffer(Elem.F64, 64, Access.OUT)
    with b.loop(8) as i:
        v = b.load(x, b.at((i, 8)), 8)
        b.store(y, b.at((i, 8)), b.fma(v, b.const(Elem.F64, 0.1, 8), v))
    return compile_text(emit(b.kernel(), level), level)


@pytest.mark.parametrize("level", LEVELS.values(), ids=lambda level: level.name)
def test_a_kernel_is_a_blob_on_every_level(level):
    blob = flatten(object_of(level), level.name, ENTRY)
    assert blob.level == level.name and blob.entry == 0
    assert struct.pack("<d", 0.1) in blob.code  # the constants are inside
    check(blob)


def test_an_undefined_symbol_is_refused_by_name():
    with pytest.raises(ObjectError, match="refers to the symbol sin, which"):
        flat(
            "  %x = load double, ptr %p\n  %y = call double @sin(double %x)\n  store double %y, ptr %p",
            "declare double @sin(double)",
        )


@pytest.mark.parametrize(
    "call, symbol",
    (
        ("%y = call double @llvm.fma.f64(double %x, double %x, double %x)", "fma"),
        ("%y = call double @llvm.exp.f64(double %x)", "exp"),
        ("%y = frem double %x, 3.0", "fmod"),
        ("%b = fptrunc double %x to bfloat\n  %y = fpext bfloat %b to double", "__truncdfbf2"),
        ("%y = fadd double %x, %x\n  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 4096, i1 false)", "memset"),
    ),
)
def test_what_llvm_makes_a_call_of_is_refused(call, symbol):
    declarations = (
        "declare double @llvm.fma.f64(double, double, double)\ndeclare double @llvm.exp.f64(double)\n"
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
    )
    with pytest.raises(ObjectError, match=f"refers to the symbol {symbol},"):
        flat(f"  %x = load double, ptr %p\n  {call}\n  store double %y, ptr %p", declarations)


def test_a_section_that_can_be_written_is_refused():
    with pytest.raises(ObjectError, match=r"the section \.(bss|data), which is not constant"):
        flat("  store i64 1, ptr @state", "@state = internal global i64 0")


def test_a_relocation_that_depends_on_the_address_is_refused():
    """A table of addresses: it stands in a section of its own, which can be written while it is relocated."""
    with pytest.raises(ObjectError, match=r"\.data\.rel\.ro|relocation of type 1 "):
        flat("  store ptr @table, ptr %p", "@table = internal constant [1 x ptr] [ptr @f]")


def test_the_entry_must_be_there():
    with pytest.raises(ObjectError, match="does not define the function g"):
        flatten(compile_text(text(""), X86_64), X86_64.name, "g")


def test_another_machine_is_refused():
    data = bytearray(object_of())
    data[18:20] = (183).to_bytes(2, "little")
    with pytest.raises(ObjectError, match="no relocatable ELF file for x86-64"):
        flatten(bytes(data), X86_64.name, ENTRY)


@pytest.mark.parametrize("size", (0, 1, 16, 63, 64, 200, -200, -64, -1))
def test_an_object_that_was_cut_is_refused(size):
    with pytest.raises(ObjectError):
        flatten(object_of()[:size], X86_64.name, ENTRY)


def test_damage_is_refused_or_changes_nothing_else_than_bytes_of_code():
    """Any byte of an object may be wrong: `ObjectError`, or a blob; never another exception."""
    whole = object_of()
    rng = random.Random(5)
    refused = 0
    for place in (*range(64), *(rng.randrange(len(whole)) for _ in range(1500))):
        data = bytearray(whole)
        data[place] ^= rng.randrange(1, 256)
        try:
            check(flatten(bytes(data), X86_64.name, ENTRY))
        except ObjectError:
            refused += 1
    assert refused > 100  # most bytes are code and names


def test_a_damaged_blob_is_refused():
    blob = flatten(object_of(), X86_64.name, ENTRY)
    code = bytearray(blob.code)
    code[len(code) // 2] ^= 1
    for wrong in (
        Blob(blob.level, blob.entry, bytes(code), blob.digest),
        Blob(blob.level, blob.entry + 1, blob.code, blob.digest),
        Blob(blob.level, len(blob.code), blob.code, blob.digest),
        Blob(X86_64_V3.name, blob.entry, blob.code, blob.digest),
        Blob(blob.level, blob.entry, blob.code[:-1], blob.digest),
        Blob(blob.level, -1, blob.code, blob.digest),
    ):
        with pytest.raises(ObjectError, match="damaged"):
            check(wrong)
