"""Kernels compiled in other processes: the same blobs, in order; a process that dies costs one kernel, by name."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from presk.kernels.build import Builder
from presk.kernels.compiling import CompileError, Compilers, compile_all, kernel_name
from presk.kernels.ir import Access, Binary, BinaryOp, Bitcast, Buffer, Const, Elem, Index, Kernel, Let, Store, Type
from presk.kernels.llvm.blobs import compile_kernel, compile_routines
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3


def small(number):
    b = Builder()
    output = b.buffer(Elem.F64, number + 1, Access.OUT)
    b.store(output, b.at(base=number), b.const(Elem.F64, float(number)))
    return b.kernel()


def deadly():
    """A vector that LLVM's code generator does not take: it aborts."""
    lanes = 1 << 17
    type_ = Type(Elem.F64, lanes)
    body = (Let(0, type_, Const(0)), Let(1, type_, Binary(BinaryOp.ADD, 0, 0)), Store(0, Index(0), 1))
    return Kernel((Buffer(Elem.F64, lanes, Access.OUT),), body)


def wrong():
    """The bits of a type of another size, which LLVM refuses."""
    body = (Let(0, Type(Elem.F32), Const(0)), Let(1, Type(Elem.F64), Bitcast(0)), Store(0, Index(0), 1))
    return Kernel((Buffer(Elem.F64, 1, Access.OUT),), body)


@pytest.fixture(scope="module")
def compilers():
    with Compilers(2) as two:
        yield two


@pytest.mark.parametrize("level", LEVELS.values(), ids=lambda level: level.name)
def test_blobs_are_those_of_this_process_in_order(compilers, level):
    """Objects do not depend on the process; kernels alike have one blob."""
    kernels = [small(number) for number in (3, 1, 2, 1, 0)]
    assert compilers.all(kernels, level.name) == tuple(compile_kernel(kernel, level) for kernel in kernels)


def test_the_routines_are_those_of_this_process(compilers):
    assert compilers.routines() == compile_routines()


def test_nothing_is_compiled_of_nothing(compilers):
    assert compilers.all([], X86_64.name) == ()


def test_a_kernel_that_llvm_dies_of_is_named_and_others_go_on(compilers):
    with pytest.raises(CompileError, match=f"{kernel_name(deadly())} for x86-64: the compiling process ended: signal "):
        compilers.kernel(deadly(), X86_64.name)
    assert compilers.kernel(small(1), X86_64.name) == compile_kernel(small(1), X86_64)


def test_a_kernel_that_llvm_refuses_is_named(compilers):
    with pytest.raises(CompileError, match=rf"{kernel_name(wrong())} for x86-64-v3: LlvmError: .*parsing"):
        compilers.kernel(wrong(), X86_64_V3.name)


def test_a_level_that_does_not_exist(compilers):
    with pytest.raises(CompileError, match="for mips: KeyError"):
        compilers.kernel(small(1), "mips")


def test_a_process_that_ended_while_it_was_idle_is_replaced():
    """It ends by itself after a while; that it did is no fault of the next kernel's."""
    with Compilers(1, idle=0.05) as one:
        one.kernel(small(4), X86_64.name)
        (process,) = one._idle
        assert process._process.wait() == 0
        assert one.kernel(small(5), X86_64.name) == compile_kernel(small(5), X86_64)


def test_threads_share_the_processes(compilers):
    kernels = [small(number) for number in range(24)]
    with ThreadPoolExecutor(6) as threads:
        blobs = list(threads.map(lambda kernel: compilers.kernel(kernel, X86_64.name), kernels))
    assert blobs == [compile_kernel(kernel, X86_64) for kernel in kernels]
    assert len(compilers._idle) <= 2


def test_processes_end_when_they_are_closed():
    with Compilers(1) as one:
        one.kernel(small(0), X86_64.name)
        (process,) = one._idle
        assert process._process.poll() is None
    assert process._process.returncode == 0


def test_no_process_cannot_compile():
    with pytest.raises(ValueError, match="0 processes"):
        Compilers(0)


def test_all_in_one_call():
    assert compile_all([small(2)], X86_64.name, 1) == (compile_kernel(small(2), X86_64),)


def test_the_asking_process_does_not_load_llvm():
    """Nor does one that only loads and runs."""
    program = (
        "import sys\n"
        "from presk.kernels.compiling import Compilers\n"
        "from presk.kernels.native.driver import Driver\n"
        "from presk.kernels.native.table import Bound, Table\n"
        "with Compilers(1) as one:\n"
        "    routines = one.routines()\n"
        "with Driver(routines, 2) as driver:\n"
        "    driver.run(Bound(Table(()), (), ()))\n"
        "assert not any(name.startswith('llvmlite') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, env={**os.environ})
