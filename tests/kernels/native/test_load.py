"""Loading: code in memory that can be executed and not written, at the addresses that are said."""

import ctypes

import numpy as np
import pytest

from presk.kernels.host import UnsupportedMachine
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.native import load
from presk.kernels.native.load import Code
from presk.kernels.objects import Blob, ObjectError, blob
from presk.kernels.targets import X86_64, X86_64_V3, X86_64_V4
from tests.kernels.native.support import adding, loaded, scaling

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run(address, *arrays):
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    CALL(address)(ctypes.addressof(pointers), 0, 1)


def protection(address):
    """What the system says of the memory at an address."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            where, rights = line.split()[:2]
            start, end = (int(part, 16) for part in where.split("-"))
            if start <= address < end:
                return rights
    raise AssertionError("no memory there")


def test_blobs_run_where_they_were_copied():
    code = loaded([adding(5), scaling(5), adding(5)])
    assert len(set(code.addresses)) == 3
    x, y = np.arange(5), np.zeros(5, np.int64)
    run(code.addresses[0], x, y)
    run(code.addresses[1], x, y)
    run(code.addresses[2], x, y)
    assert y.tolist() == [0, 5, 10, 15, 20]


def test_memory_is_never_writable_and_executable():
    code = loaded([adding(5)])
    assert protection(code.addresses[0]) == "r-xp"


def test_constants_stand_where_vectors_want_them():
    """Blobs of odd lengths in front do not move the alignment of what follows."""
    first = blob(X86_64.name, 0, b"\xc3")
    code = Code([first, *(compile_kernel(adding(3), X86_64) for _ in range(2)), first])
    assert all(address % 64 == 0 for address in code.addresses)


def test_no_blobs_are_no_addresses():
    assert Code([]).addresses == ()


def test_a_damaged_blob_is_not_loaded():
    good = compile_kernel(adding(3), X86_64)
    with pytest.raises(ObjectError, match="damaged"):
        Code([good, Blob(good.level, good.entry, good.code + b"\x90", good.digest)])


def test_a_blob_for_an_unknown_level_is_not_loaded():
    with pytest.raises(ObjectError, match="level x86-64-v9"):
        Code([blob("x86-64-v9", 0, b"\xc3")])


def test_a_blob_for_a_better_machine_is_not_loaded(monkeypatch):
    monkeypatch.setattr(load, "host_level", lambda: X86_64_V3)
    assert len(Code([blob(X86_64.name, 0, b"\xc3"), blob(X86_64_V3.name, 0, b"\xc3")]).addresses) == 2
    with pytest.raises(UnsupportedMachine, match="x86-64-v4 cannot run on this machine, which is x86-64-v3"):
        Code([blob(X86_64_V4.name, 0, b"\xc3")])
