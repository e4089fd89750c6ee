"""How many kernels the course GPT launches, natively, against the static count and the chapters' figures (shown with `-s`)."""

import pytest

from presk.ad.launches import Launches
from presk.ad.pipeline import Remat
from presk.core.lower import Mode
from presk.kernels.trace.memory import launches
from presk.types.trees import leaf_count
from tests.ad.support import corpus
from tests.native.support import after, driver_of, traced

FILE = "nlp/05_gpt.psk"
SIZES = {"V": 92, "D": 64, "H": 2, "L": 2}
DIMS = {"B": 2, "T": 32}
WAYS = [
    ("loss", "f32", Remat.STORE),
    ("loss", "bf16", Remat.STORE),
    *(("loss_grad", type_, remat) for type_ in ("f32", "bf16") for remat in Remat),
]
MARKS = {("loss", "f32"): (108, 81)}
"""What the chapter counts without and with fusion for its own program, which is another than ours."""


@pytest.mark.parametrize(("entry", "type_", "remat"), WAYS)
def test_as_many_as_the_static_count_says(entry: str, type_: str, remat: Remat) -> None:
    given = corpus(FILE, Mode.INFERENCE, **SIZES)
    program = after(given, type_, remat)
    found = []
    for fused in (False, True):
        counted = Launches(program, lambda instance: leaf_count(instance, given.headers), fused=fused).of(entry, DIMS)
        driver = driver_of(traced(program, given.headers, entry, DIMS, type_, fused=fused))
        assert launches(driver.rows) == counted
        found.append(counted)
    mark = MARKS.get((entry, type_))
    chapter = f" (the chapter: {mark[0]} → {mark[1]})" if mark else ""
    print(f"{entry} in {type_}, {remat.value}: {found[0]} → {found[1]}{chapter}")
    assert found[1] <= 0.85 * found[0]
    if mark:
        assert found[0] <= mark[0] and found[1] <= 1.05 * mark[1]
