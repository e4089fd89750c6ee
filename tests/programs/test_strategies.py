"""The generator itself: what its programs use, how fast it is, that it is repeatable and that what it finds can be made small."""

import time
from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, find, settings

from tests.programs.entries import MAIN, Generated
from tests.programs.faults import FAULTS
from tests.programs.reals import relabel
from tests.programs.strategies import LONG, coverage, from_seed, ill_typed_from_seed, programs

COUNT: Final = 1000

# In how many of the first thousand programs each occurs at least.
AT_LEAST: Final = {
    **dict.fromkeys(("module", "param", "sub-module", "member call", "call", "let in parentheses", "lambda", "grad"), 80),
    **dict.fromkeys(("grad of a tuple", "grad of a tree", "grad with a name", "grad of a named lambda", "stack"), 80),
    **dict.fromkeys(("stack of none", "stack of 1", "stack of 2", "stack of 3", "stack of stacks"), 40),
    **dict.fromkeys(("fold of a tuple", "key in the accumulator", "tuple in the accumulator", "composition"), 60),
    **dict.fromkeys(("model", "open stack", "depth of a module", "stack with extra arguments", "sibling function"), 10),
    **dict.fromkeys(("open parameter", "names lent", "broadcast from the last axis", "scalar broadcast"), 60),
    **dict.fromkeys(("broadcast by name", "broadcast along the prefix", "number beside a tensor", "centered"), 3),
    **dict.fromkeys(("tuple", "tuple pattern", "function of a tuple", "tuple in a tuple", "name bound again"), 10),
    **dict.fromkeys(("lambda called", "lambda applied", "lambda of a pair"), 40),
    **dict.fromkeys(("masked softmax", "causal_mask", "softmax", "index of a mask", "slice of a mask"), 5),
    **dict.fromkeys(("ein", "ein of 1", "ein of 2", "ein of 3"), 60),
    **dict.fromkeys(("ein: a copy in the result", "ein: a copy in a factor", "dot", "matmul"), 20),
    **dict.fromkeys(("slice", "symbolic bounds", "slice and selector", "slice by position", "index"), 20),
    **dict.fromkeys(("index by position", "index at a dimension", "index of indices", "slice of indices"), 20),
    **dict.fromkeys(("merge", "split", "heads", "concat"), 15),
    **dict.fromkeys(("sum", "mean", "sum axis", "mean axis"), 80),
    **dict.fromkeys(("embed", "one_hot", "cross_entropy", "argmax", "real of an index"), 40),
    **dict.fromkeys(("positions", "sample", "init", "dropout", "split_key"), 10),
    **dict.fromkeys(("extremum", "clamp", "relu", "abs", "gelu", "exp", "sqrt", "log", "neg", "pow"), 50),
    **dict.fromkeys(("tanh", "sin", "cos", "sigmoid", "+", "-", "*", "/", "pow by a value"), 30),
    **dict.fromkeys(("hyperparameter arithmetic", "int", "integer quotient", "comparison", "injection"), 2),
    **dict.fromkeys(("default", "argument left out", "named argument", "axis parameter", "inferred result"), 10),
    **dict.fromkeys(("module parameter", "module argument", "generic module", "dimension parameter"), 10),
    **dict.fromkeys(("import", "function of another file", "function used again", "module used again"), 15),
    **dict.fromkeys(("ascii", "nfd", "comment", "signature of several lines", "ascription", "alias"), 40),
    **dict.fromkeys(("constant", "compound length", "odd length", "bounded dimension", "length 0", "static assert"), 40),
    "sub-module used again": 1,
    **dict.fromkeys(("param with a dimension of the file", "leaf by its path"), 3),
    **dict.fromkeys(("init zeros", "init ones", "init normal", "init xavier_uniform", "init none"), 80),
}  # fmt: skip


def test_programs_use_the_language() -> None:
    found = coverage(COUNT)
    rare = {name: found[name] for name, least in AT_LEAST.items() if found[name] < least}
    assert rare == {}, "features that the generator hardly uses any more"
    assert set(found) - set(AT_LEAST) <= {"draws"}, "features that no line above watches"


def test_a_program_takes_milliseconds() -> None:
    times = []
    for seed in range(100):
        start = time.process_time()
        from_seed(seed)
        times.append(time.process_time() - start)
    assert sorted(times)[50] < 0.1, "half of the programs took longer"


def test_a_program_is_defined_somewhere() -> None:
    assert all(from_seed(seed).settings for seed in range(200))


def test_a_seed_makes_one_program() -> None:
    for seed in range(20):
        assert from_seed(seed).files == from_seed(seed).files
        assert ill_typed_from_seed(seed).files == ill_typed_from_seed(seed).files
    assert len({from_seed(seed).files[MAIN] for seed in range(50)}) == 50


def test_every_fault_is_made() -> None:
    made = Counter(ill_typed_from_seed(seed).code for seed in range(500))
    assert set(made) == {fault.code for fault in FAULTS}


# Making a program smaller takes from seconds to minutes: `make fuzz` does it for more.
SMALL: Final = ("ein", "stack", "masked softmax", "composition", "key in the accumulator")[: 5 if LONG else 1]


@pytest.mark.hypothesis
@pytest.mark.parametrize("feature", SMALL)
def test_a_program_with_a_feature_is_made_small(feature: str) -> None:
    def has(program: Generated) -> bool:
        return feature in program.features

    quick = settings(
        max_examples=500, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    program = find(programs(), has, settings=quick)
    assert len(program.files) == 1 and len(program.files[MAIN]) < 900, program


@pytest.mark.parametrize(
    ("operands", "output", "labels"),
    [
        (["seq hd", "seq hd"], "seq seq2", ["seq hd", "seq2 hd"]),
        (["seq seq2", "seq hd"], "seq hd", ["seq seq2", "seq2 hd"]),
        (["a b", "b c"], "a c", ["a b", "b c"]),
        (["a a2", "a2 b"], "a b", ["a a2", "a2 b"]),
        (["a", "a", "a"], "a a2", ["a", "a", "a"]),
        (["a"], "a", ["a"]),
    ],
)
def test_relabelling_follows_the_rule(operands: list[str], output: str, labels: list[str]) -> None:
    assert relabel([one.split() for one in operands], output.split()) == [one.split() for one in labels]
