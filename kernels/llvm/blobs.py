"""Kernels and the native routines as blobs: emitted, compiled and flattened in this process, which loads LLVM."""

from presk.kernels.ir import Kernel
from presk.kernels.llvm.compile import compile_text
from presk.kernels.llvm.emit import ENTRY, emit
from presk.kernels.llvm.routines import RUN, RUN_TEXT, WORK, WORK_TEXT
from presk.kernels.objects import Blob, Routines, flatten
from presk.kernels.targets import X86_64, Level


def compile_kernel(kernel: Kernel, level: Level) -> Blob:
    """A kernel as a blob; `LlvmError` and `ObjectError` are bugs of the compiler."""
    return flatten(compile_text(emit(kernel, level), level), level.name, ENTRY)


def compile_routines() -> Routines:
    """The native routines, for the lowest level: they run on every machine that runs any kernel."""
    run = flatten(compile_text(RUN_TEXT, X86_64), X86_64.name, RUN)
    return Routines(run, flatten(compile_text(WORK_TEXT, X86_64), X86_64.name, WORK))
