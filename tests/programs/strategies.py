"""Random well-typed programs: the front of this package, for the tests of every stage and every backend.

    @settings(examples(60))
    @given(programs(), st.integers(0, 1 << 20))
    def test_a_backend_computes_what_the_reference_does(program: Generated, seed: int) -> None:
        made = core(program.files)                        # checked and lowered; `made.program` is the core
        after = made.after()                              # differentiated
        dims = program.setting(seed)                      # lengths at which all of it is defined
        inputs = Inputs(seed, dims).entry(program.value)  # exact numbers for the parameters, all different, none at a kink
        for entry in (program.value.name, program.gradient.name):
            expected = plain(made.run(after, entry, dims, inputs).value)
            …

`program.value` gives ℝ[], and `program.gradient` its gradient in the parameters at the places `program.inputs`; both take the same
parameters. `program.features` says what of the language a program uses, so that a backend can `assume` those away that it does not
have. Values are described in `values`, running them and comparing with differences in `running` (`core`, `Point`).

A program by its seed is `from_seed(7)`; run as a module, this prints how much of the language the programs use.
"""

import sys
from collections import Counter
from typing import Any, Final

from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st

from tests.programs.choices import Choices, Drawn, Seeded
from tests.programs.entries import Generated, Programs
from tests.programs.faults import Faulty, IllTyped

FUEL: Final = 60
LONG: Final = settings.get_current_profile_name() == "fuzz"


def examples(count: int) -> settings:
    """Settings for a test of `count` programs; under `make fuzz` of so many times more.

    A failing program is made smaller under `make fuzz` alone: that takes minutes, and what is found is small enough to be read.
    """
    return settings(
        max_examples=max(1, count * settings().max_examples // 100),
        phases=tuple(Phase) if LONG else (Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def generated(choices: Choices, fuel: int = FUEL) -> Generated:
    """The program of a sequence of choices; `fuel` bounds the number of its operations, roughly."""
    return Programs(choices, fuel).program()


def from_seed(seed: int, fuel: int = FUEL) -> Generated:
    """The program of a seed."""
    return generated(Seeded(seed), fuel)


@st.composite
def programs(draw: Any, fuel: int = FUEL) -> Generated:
    """Programs without errors, each defined at some lengths at least."""
    program = generated(Drawn(draw), fuel)
    # A requirement that a call hands on may be one that no length meets.
    assume(program.settings)
    return program


def ill_typed_from_seed(seed: int, fuel: int = FUEL) -> IllTyped:
    """The program with one error of a seed."""
    return Faulty(Seeded(seed), fuel).ill_typed()


@st.composite
def ill_typed(draw: Any, fuel: int = FUEL) -> IllTyped:
    """Programs with one error, and its code."""
    return Faulty(Drawn(draw), fuel).ill_typed()


def coverage(count: int) -> Counter[str]:
    """In how many of the first programs, by seed, each feature occurs."""
    found: Counter[str] = Counter()
    for seed in range(count):
        found.update(from_seed(seed).features)
    return found


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for feature, number in coverage(total).most_common():
        print(f"{100 * number / total:5.1f} %  {feature}")
