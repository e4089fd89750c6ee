"""What lowering and differentiation make of generated programs, in themselves: sound, and the same whatever things are called and
wherever they stand."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from presk.ad.pipeline import Remat
from presk.ad.vjp import differentiate
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.core.text import print_program
from presk.core.unroll import unroll_program
from presk.core.verify import verify
from presk.prims.table import BUILTINS
from presk.syntax.tokens import RESERVED
from tests.programs.entries import MAIN, Generated
from tests.programs.running import Core, core
from tests.programs.strategies import examples, programs


def sound(made: Core, program: Program, after: str, *, differentiated: bool) -> None:
    """The verifier finds nothing."""
    found = verify(program, made.lowered.headers, after=after, differentiated=differentiated)
    assert found == (), "\n".join(map(str, found[:5]))


@settings(examples(20))
@given(programs(), st.sampled_from(Mode))
def test_the_core_is_sound_after_every_pass(program: Generated, mode: Mode) -> None:
    made = core(program.files, mode)
    sound(made, made.program, "lower", differentiated=False)
    sound(made, unroll_program(made.program), "unroll", differentiated=False)
    sound(made, differentiate(made.program).program, "differentiate", differentiated=True)
    for remat in Remat:
        for hold in (False, True):
            sound(made, made.after(remat, hold), f"{remat}, groups held: {hold}", differentiated=True)


@settings(examples(15))
@given(programs())
def test_the_text_form_of_the_core_reads_back(program: Generated) -> None:
    made = core(program.files)
    for one in (made.program, made.after()):
        text = print_program(one)
        assert parse(text) == one
        assert print_program(parse(text)) == text


# --- names ------------------------------------------------------------------------------------------------------------

# Names that mean something wherever they stand, those that lowering gives, and what tests call the entries by.
_KEPT: Final = frozenset((
    *RESERVED, *BUILTINS, "Real", "dim", "grad", "apply", "init", "where", "std", "zeros", "ones", "normal", "xavier_uniform",
    "stack", "params", "nat", "int", "rat", "f64", "bool", "key", "Rand", "real", "true", "false", "model",
    "H", "HD", "heads", "hd", "seq", "outer", "inner", "lib", "θ",
))  # fmt: skip
_WORD: Final = re.compile(r"\"[^\"]*\"|--[^\n]*|\d+(?:\.\d+)?(?:e-?\d+)?|[^\W\d][\w\u0301\u0302]*")


def renamed(text: str) -> str:
    """A program with other names for everything that a program names. Copies of axes (`seq2`) stay copies."""

    def other(match: re.Match[str]) -> str:
        word = unicodedata.normalize("NFC", match.group())
        if word[0] in '"-' or word[0].isdigit() or word.rstrip("0123456789") in _KEPT or word in _KEPT:
            return match.group()
        return f"ζ{match.group()}"

    return _WORD.sub(other, text)


def test_renaming_changes_names_alone() -> None:
    before = 'import "lib.psk" as lib\nfn f(x : ℝ[seq: 2, k2: 1e-3]) -> ℝ = softmax(axis k, ŷ)[1..B] -- x\n'
    after = 'import "lib.psk" as lib\nfn ζf(ζx : ℝ[seq: 2, ζk2: 1e-3]) -> ℝ = softmax(axis ζk, ζŷ)[1..ζB] -- x\n'
    assert renamed(before) == after


@settings(examples(15))
@given(programs())
def test_names_do_not_matter(program: Generated) -> None:
    other = core({name: renamed(text) for name, text in program.files.items()})
    # Where a line is broken does depend on how long the names are.
    texts = [print_program(other.program).replace("ζ", ""), print_program(core(program.files).program)]
    one, two = (text.split() for text in texts)
    assert one == two


@settings(examples(20))
@given(programs(), st.randoms(use_true_random=False))
def test_the_order_of_declarations_does_not_matter(program: Generated, random: object) -> None:
    fixed = [text for text, movable in program.parts if not movable]
    free = [text for text, movable in program.parts if movable]
    random.shuffle(free)  # type: ignore[attr-defined]  # a `random.Random`
    head = program.files[MAIN].partition("\n\n")[0] if "import" in program.features else ""
    moved: Mapping[str, str] = {**program.files, MAIN: "\n\n".join((head, *fixed, *free)) + "\n"}
    functions = {function.name: function for function in core(moved).program.functions}
    assert functions == {function.name: function for function in core(program.files).program.functions}
