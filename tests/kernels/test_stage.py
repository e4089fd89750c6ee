"""The stages of native code: their keys hold what they must, and their answers survive the store."""

from presk.cache.engine import Engine
from presk.kernels.build import Builder
from presk.kernels.ir import Access, Elem
from presk.kernels.llvm.blobs import compile_kernel, compile_routines
from presk.kernels.stage import KERNEL, OBJECT, ROUTINES
from presk.kernels.targets import X86_64, X86_64_V3
from tests.cache.keys import assert_every_ingredient_counts, undeclared_packages


def copying(size):
    b = Builder()
    x, y = b.buffer(Elem.F32, size), b.buffer(Elem.F32, size, Access.OUT)
    with b.loop(size) as i:
        b.store(y, b.at((i, 1)), b.load(x, b.at((i, 1))))
    return b.kernel()


def test_every_ingredient_counts():
    engine = Engine()
    kernel = engine.leaf("kernel", copying(4), KERNEL)
    assert_every_ingredient_counts(OBJECT, (kernel,), {"level": X86_64.name})
    assert_every_ingredient_counts(ROUTINES, (), {})


def test_packages_are_declared():
    assert not undeclared_packages(OBJECT)
    assert not undeclared_packages(ROUTINES)


def test_answers_are_blobs_that_survive_their_codec():
    engine = Engine(roundtrip=True)
    kernel = engine.leaf("kernel", copying(4), KERNEL)
    for level in (X86_64, X86_64_V3):
        assert engine.get(OBJECT, kernel, level=level.name).value == compile_kernel(copying(4), level)
    assert engine.get(ROUTINES).value == compile_routines()


def test_kernels_alike_share_an_object_and_others_do_not():
    engine = Engine()
    one, same, other = (engine.leaf("kernel", copying(size), KERNEL) for size in (4, 4, 5))
    with engine.request() as log:
        first = engine.get(OBJECT, one, subject="here", level=X86_64.name)
        assert engine.get(OBJECT, same, subject="there", level=X86_64.name).digest == first.digest
        assert engine.get(OBJECT, other, level=X86_64.name).digest != first.digest
    assert log.counts("object").computed == 2 and log.counts("object").memory == 1
