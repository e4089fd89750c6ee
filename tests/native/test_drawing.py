"""Parameters drawn by native code are those of the reference, bit for bit."""

import numpy as np
import pytest

from presk.exact import draws
from presk.kernels.host import host_level
from presk.native.drawing import FEWEST, NativeNormals
from tests.native.support import engine


@pytest.mark.parametrize("n", [0, 1, FEWEST - 1, FEWEST, FEWEST + 1, 100_003])
def test_native_draws_are_the_references(n: int) -> None:
    key = draws.child(draws.master_key(7), n)
    found = NativeNormals(engine(), host_level().name)(key, n)
    assert found.dtype == np.float64
    assert found.tobytes() == draws.normals(key, n).tobytes()
