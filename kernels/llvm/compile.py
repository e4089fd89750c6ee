"""LLVM IR text to object code, with LLVM in this process; no other module of the package imports it.

An object is a function of the text and the level alone: the target machine is described by name, and no path or name of a file
goes in. The text goes to the code generator as it is. Kernels come with their vectors, their unrolling and their addresses worked
out, so that LLVM's optimizing passes (O1, without vectorizers) take as long as the code generator and change no kernel's speed;
without them there is also nothing that could make calls of `memset` or `memcpy` out of loops. LLVM may end the process when it
meets what it takes to be impossible; `presk.kernels.compiling` therefore runs this in worker processes.
"""

from functools import cache
from typing import Any, Final

from presk.kernels.llvm.emit import WRITTEN
from presk.kernels.targets import Level

CODEGEN_LEVEL: Final = 1
"""Of LLVM's code generator. At 0 vectors are spilled at every step; above 1 nothing becomes faster."""

RELOCATION: Final = "pic"
CODE_MODEL: Final = "small"


class LlvmError(Exception):
    """LLVM refused a module: a bug in what wrote it."""


def compile_text(text: str, level: Level) -> bytes:
    """The object (ELF, relocatable) of a module. `LlvmError` where LLVM does not accept it."""
    return bytes(_prepared(text, level).emit_object(_parsed(text)))


def assembly(text: str, level: Level) -> str:
    """The module's assembly, for reading. `LlvmError` where LLVM does not accept it."""
    return str(_prepared(text, level).emit_assembly(_parsed(text)))


def _llvm() -> Any:
    # A heavy dependency at an edge: importing it loads 180 MB of library, which processes that only run kernels never need.
    import llvmlite.binding

    return llvmlite.binding


@cache
def _machine(level: Level) -> Any:
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(level.triple)
    return target.create_target_machine(
        cpu=level.cpu, features=level.feature_list, opt=CODEGEN_LEVEL, reloc=RELOCATION, codemodel=CODE_MODEL
    )


def _prepared(text: str, level: Level) -> Any:
    """The machine, after LLVM was told whether to reorder this module's instructions: an option of the whole process, so it is said
    for each module anew."""
    machine = _machine(level)
    reorder = "false" if WRITTEN in text else "true"
    _llvm().set_option("", f"-enable-misched={reorder}")
    return machine


def _parsed(text: str) -> Any:
    try:
        module = _llvm().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise LlvmError(f"LLVM does not accept a module: {error}") from error
    return module
