"""Regularity classes of the corpus, as the language's description states them."""

from pathlib import Path

from presk.cache.engine import Engine
from presk.check import check_program
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.core.regularity import Summary, summarize
from presk.elab.files import FolderReader
from presk.prims.regularity import Class

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


def summaries(name: str) -> dict[str, Summary]:
    """The summaries of a program's functions, callees first."""
    engine = Engine(None)
    reader = FolderReader(CORPUS / name)
    checked = check_program(engine, reader, reader.main, name)
    assert not isinstance(checked, str)
    core = lower_program(engine, checked[1], Mode.TRAINING)
    found: dict[str, Summary] = {}
    waiting = dict(core.parts)
    while waiting:
        for part_name in list(waiting):
            try:
                found[part_name] = summarize(waiting[part_name].value.functions, found)
            except KeyError:
                continue
            del waiting[part_name]
    return found


def test_the_classes_of_the_minigpt():
    """L213: `loss` is C∞ in θ and Disc in the batch; `next_token` is Disc in all its parameters."""
    found = summaries("nlp/train_minigpt.psk")
    loss = dict(zip(found["loss"].parameters, found["loss"].classes(), strict=True))
    assert loss == {"θ": Class.SMOOTH, "batch": Class.DISC}
    assert set(found["next_token"].classes()) == {Class.DISC}
