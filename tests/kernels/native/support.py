"""Kernels and native code for tests of loading and running."""

from collections.abc import Sequence
from functools import cache

from presk.kernels.build import Builder
from presk.kernels.ir import Access, Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel, compile_routines
from presk.kernels.llvm.compile import compile_text
from presk.kernels.native.load import Code
from presk.kernels.objects import Blob, Routines, flatten
from presk.kernels.targets import TRIPLE, X86_64


@cache
def routines() -> Routines:
    """The native routines."""
    return compile_routines()


def adding(size: int, *, split: bool = True) -> Kernel:
    """`y += x` over i64, so that it matters how often a launch runs."""
    b = Builder()
    x, y = b.buffer(Elem.I64, size), b.buffer(Elem.I64, size, Access.OUT)
    with b.loop(size, parallel=True, split=split) as i:
        at = b.at((i, 1))
        b.store(y, at, b.add(b.load(y, at), b.load(x, at)))
    return b.kernel()


def scaling(size: int) -> Kernel:
    """`y = 3·y + x` over i64: the order of launches matters."""
    b = Builder()
    x, y = b.buffer(Elem.I64, size), b.buffer(Elem.I64, size, Access.OUT)
    with b.loop(size, parallel=True, split=True) as i:
        at = b.at((i, 1))
        b.store(y, at, b.add(b.mul(b.load(y, at), b.const(Elem.I64, 3)), b.load(x, at)))
    return b.kernel()


def loaded(kernels: Sequence[Kernel]) -> Code:
    """Kernels in memory."""
    return Code([compile_kernel(kernel, X86_64) for kernel in kernels])


def native(body: str, declarations: str = "") -> Blob:
    """A native function of a kernel's signature, by its text: for what no kernel does."""
    text = (
        f'source_filename = "native"\ntarget triple = "{TRIPLE}"\n{declarations}\n'
        f"define void @kernel(ptr %args, i64 %worker, i64 %workers) nounwind {{\n{body}\n  ret void\n}}\n"
    )
    return flatten(compile_text(text, X86_64), X86_64.name, "kernel")
