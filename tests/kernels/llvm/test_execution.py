"""LLVM's execution of random kernels gives the interpreter's bits, for every level that this machine runs."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from presk.kernels.host import host_level
from presk.kernels.interpret import interpret
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import run_blob
from presk.kernels.targets import LEVELS
from presk.kernels.text import print_kernel
from tests.kernels.strategies import aliased, arguments, differences, kernels

RUNNABLE = list(LEVELS.values())[: list(LEVELS).index(host_level().name) + 1]


@settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_kernels(data):
    kernel = data.draw(kernels())
    given_arrays = data.draw(arguments(kernel))
    workers = data.draw(st.sampled_from((1, 1, 2, 3, 7)))
    note(print_kernel(kernel))
    proof = aliased(kernel, given_arrays)
    for worker in range(workers):
        interpret(kernel, proof, worker, workers)
    for level in LEVELS.values():
        blob = compile_kernel(kernel, level)
        if level in RUNNABLE:
            arrays = aliased(kernel, given_arrays)
            run_blob(blob, kernel, arrays, workers)
            assert not differences(kernel, proof, arrays), level.name
