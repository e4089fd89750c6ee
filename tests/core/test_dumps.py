"""Whole dumps of the specification's examples: core, core after differentiation under both policies, the fusion partition."""

from collections.abc import Callable
from typing import Final

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.core.lower import Mode
from presk.core.partition_text import partition_text
from presk.core.text import print_program
from tests.core.support import corpus

FILES: Final = ("basics/mlp.psk", "tutorial/03_attention.psk", "tutorial/09_dropout.psk")

Golden = Callable[[str, str], None]


def name_of(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".psk").lstrip("0123456789_")


@pytest.mark.parametrize("file", FILES)
def test_core(file: str, golden: Golden) -> None:
    golden(f"core/{name_of(file)}.txt", print_program(corpus(file, Mode.TRAINING).program))


@pytest.mark.parametrize("remat", Remat)
@pytest.mark.parametrize("file", ["basics/mlp.psk", "tutorial/09_dropout.psk"])
def test_core_after_ad(file: str, remat: Remat, golden: Golden) -> None:
    done = after_ad(corpus(file, Mode.TRAINING).program, remat, hold_groups=False)
    reasons = {(one.function, one.var): one.text for one in done.purposes}
    golden(f"core-after-ad/{name_of(file)}_{remat.value}.txt", print_program(done.program, reasons))


@pytest.mark.parametrize("hold", [False, True])
def test_realize(hold: bool, golden: Golden) -> None:
    done = after_ad(corpus("basics/mlp.psk").program, Remat.STORE, hold_groups=hold)
    golden(f"realize/mlp{'_held' if hold else ''}.txt", partition_text(done.program))


def test_realize_of_a_normalization(golden: Golden) -> None:
    """The chain of a layer normalization is cut at each mean."""
    text = partition_text(corpus("nlp/05_gpt.psk").program)
    part = text[text.index("fn LayerNorm.apply") :].partition("\n\n")[0]
    golden("realize/layer_norm.txt", f"{part}\n")
