"""The driver: threads give the same bytes as one, the control word is set everywhere and put back, pools end."""

import ctypes
import gc
import os
import threading
import time

import numpy as np
import pytest

from presk.kernels.native import driver as drivers
from presk.kernels.native.driver import Driver, DriverError
from presk.kernels.native.load import Code
from presk.kernels.native.table import Bound, Launch, Loop, Operand, Table
from presk.kernels.native.words import CONTROL, FAILED
from tests.kernels.native.support import adding, loaded, native, routines, scaling

THREADS = (1, 2, 3, 7)
SIZE = 1000

STORE_CONTROL = """
  %here = load ptr, ptr %args, align 8
  %place = getelementptr i32, ptr %here, i64 %worker
  call void @llvm.x86.sse.stmxcsr(ptr %place)
"""
"""Each worker writes down its control word."""

LOAD_CONTROL = """
  %here = load ptr, ptr %args, align 8
  call void @llvm.x86.sse.ldmxcsr(ptr %here)
"""

CONTROLS = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


def comes_to(threads):
    """Whether so many threads are left: one that was joined is listed for another moment."""
    for _ in range(1000):
        if threads_of_this_process() == threads:
            return True
        time.sleep(0.005)
    return False


def call(blob, array):
    """Calls native code in this thread, without a driver."""
    code = Code([blob])
    pointers = (ctypes.c_void_p * 1)(array.ctypes.data)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
    function(ctypes.addressof(pointers), 0, 1)


@pytest.mark.parametrize("spin", (0, 50, drivers.SPIN_LIMIT))
@pytest.mark.parametrize("threads", THREADS)
def test_any_number_of_threads_gives_the_same_bytes(monkeypatch, threads, spin):
    """Thousands of launches whose order matters, with helpers that sleep at once, sometimes, or hardly ever."""
    monkeypatch.setattr(drivers, "SPIN_LIMIT", spin)
    rng = np.random.default_rng(1)
    x, start = rng.integers(-9, 9, 3 * SIZE), rng.integers(-9, 9, SIZE)
    code = loaded([adding(SIZE), scaling(SIZE)])
    body = (
        Launch(1, (Operand(0, 0, (8 * SIZE,)), Operand(1)), 7),
        Launch(0, (Operand(0), Operand(1)), 2),
        Launch(0, (Operand(0, 8 * SIZE), Operand(1))),
        Launch(1, (Operand(0), Operand(1)), 1000),
    )
    y, expected = start.copy(), start.copy()
    for _ in range(60):
        for i in range(3):
            moved = x[i * SIZE : (i + 1) * SIZE]
            expected = 3 * expected + moved
            expected = expected + x[:SIZE] + x[SIZE : 2 * SIZE]
            expected = 3 * expected + x[:SIZE]
    with Driver(routines(), threads) as driver:
        bound = Bound(
            Table((Loop(20, (Loop(3, tuple(_inner(body))),)),)), code.addresses, [x.ctypes.data, y.ctypes.data]
        )
        for _ in range(3):
            driver.run(bound)
    assert np.array_equal(y, expected)


def _inner(body):
    """The same rows one loop deeper: what moved with the outer loop moves with the inner one."""
    for launch in body:
        operands = tuple(Operand(one.region, one.offset, (0, *one.steps)) for one in launch.operands)
        yield Launch(launch.kernel, operands, launch.workers)


def test_helpers_that_slept_wake_up():
    """And the caller, who sleeps while they work."""
    code = loaded([adding(SIZE)])
    x, y = np.ones(SIZE, np.int64), np.zeros(SIZE, np.int64)
    with Driver(routines(), 3) as driver:
        bound = Bound(Table((Launch(0, (Operand(0), Operand(1)), 3),)), code.addresses, [x.ctypes.data, y.ctypes.data])
        for _ in range(20):
            driver.run(bound)
            time.sleep(0.003)
    assert (y == 20).all()


@pytest.mark.parametrize("threads", (1, 3))
def test_the_control_word_is_set_in_every_thread_and_put_back(threads):
    """The caller rounds down and flushes subnormals; kernels do not, and afterwards the caller still does."""
    foreign = CONTROL | 0x2000 | 0x8040 | 0x21  # down, flush results and operands, two flags up
    control, seen, before = (np.zeros(threads, np.uint32) for _ in range(3))
    store, load = native(STORE_CONTROL, CONTROLS), native(LOAD_CONTROL, CONTROLS)
    call(store, before)
    code = Code([store])
    with Driver(routines(), threads) as driver:
        bound = Bound(Table((Launch(0, (Operand(0),), threads),)), code.addresses, [seen.ctypes.data])
        try:
            control[0] = foreign
            call(load, control)
            driver.run(bound)
            call(store, control)
        finally:
            call(load, before)
    assert control[0] == foreign
    assert (seen & 0xFFC0 == CONTROL).all() and (seen != 0).all()


def test_a_control_word_that_does_not_take_is_an_error():
    """Here by the note that a helper leaves where it did not."""
    with Driver(routines(), 2) as driver:
        driver._state._words[FAILED // 8] = 1
        with pytest.raises(DriverError, match="control word"):
            driver.run(Bound(Table(()), (), ()))


def test_other_python_threads_go_on_while_a_table_runs():
    """The call gives up the interpreter's lock."""
    code = loaded([adding(1)])
    x, y = np.ones(1, np.int64), np.zeros(1, np.int64)
    count = 20_000_000
    bound = Bound(
        Table((Loop(count, (Launch(0, (Operand(0), Operand(1))),)),)), code.addresses, [x.ctypes.data, y.ctypes.data]
    )
    with Driver(routines()) as driver:
        runner = threading.Thread(target=driver.run, args=(bound,))
        runner.start()
        seen = set()
        while runner.is_alive():
            seen.add(int(y[0]))
        runner.join()
    assert y[0] == count and len(seen - {0, count}) > 1


def test_threads_that_run_the_same_driver_wait_for_each_other():
    code = loaded([adding(SIZE)])
    x, y = np.ones(SIZE, np.int64), np.zeros(SIZE, np.int64)
    table = Table((Loop(50, (Launch(0, (Operand(0), Operand(1)), 2),)),))
    with Driver(routines(), 2) as driver:
        bound = Bound(table, code.addresses, [x.ctypes.data, y.ctypes.data])

        def often():
            for _ in range(20):
                driver.run(bound)

        runners = [threading.Thread(target=often) for _ in range(4)]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
    assert (y == 4 * 20 * 50).all()


def test_a_closed_driver_runs_nothing_and_leaves_no_thread():
    before = threads_of_this_process()
    driver = Driver(routines(), 5)
    assert threads_of_this_process() == before + 4
    driver.close()
    driver.close()
    assert comes_to(before)
    with pytest.raises(DriverError, match="closed"):
        driver.run(Bound(Table(()), (), ()))


def test_a_driver_that_is_dropped_ends_its_threads():
    before = threads_of_this_process()
    driver = Driver(routines(), 3)
    driver.run(Bound(Table(()), (), ()))
    del driver
    gc.collect()
    assert comes_to(before)


def test_a_driver_is_not_used_across_a_fork():
    """The child is told so at once instead of waiting for ever, and ends without waiting for threads that are not there."""
    with Driver(routines(), 2) as driver:
        bound = Bound(Table(()), (), ())
        child = os.fork()
        if not child:
            status = 1
            try:
                driver.run(bound)
            except DriverError:
                driver.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        driver.run(bound)


@pytest.mark.parametrize("threads", (0, -1, 1025))
def test_a_wrong_number_of_threads(threads):
    with pytest.raises(ValueError, match="threads"):
        Driver(routines(), threads)
