"""Levels: which one a machine has, and that the machine at hand, LLVM and the system agree."""

import platform
import sys

import pytest

from presk.kernels import host
from presk.kernels.host import UnsupportedMachine, host_level, level_for
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3, X86_64_V4

ALL = frozenset(flag for level in LEVELS.values() for flag in level.flags)


@pytest.mark.parametrize(
    "lacking, expected",
    (
        ((), X86_64_V4),
        (("avx512vl",), X86_64_V3),
        (("avx512f", "avx512bw"), X86_64_V3),
        (("fma",), X86_64),
        (("avx2",), X86_64),
        (("movbe",), X86_64),
    ),
)
def test_a_machine_has_the_highest_level_of_which_it_lacks_nothing(lacking, expected):
    assert level_for(ALL - set(lacking)) is expected


def test_a_machine_without_the_lowest_level_is_refused():
    with pytest.raises(UnsupportedMachine, match="lacks sse2") as error:
        level_for(ALL - {"sse2"})
    assert error.value.code == "E9006"


def test_another_system_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnsupportedMachine, match="darwin"):
        host_level()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(UnsupportedMachine, match="aarch64"):
        host_level()


def test_a_machine_that_says_nothing_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nmodel name : none\n")
    monkeypatch.setattr(host, "CPUINFO", file)
    with pytest.raises(UnsupportedMachine, match="does not say"):
        host_level()


def test_the_machine_is_read_from_what_the_system_says(monkeypatch, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nflags\t\t: {' '.join(sorted(X86_64_V3.flags))} other\nbugs\t\t: spectre\n")
    monkeypatch.setattr(host, "CPUINFO", file)
    assert host_level() is X86_64_V3


def test_llvm_knows_the_same_features_of_this_machine():
    """What a level tells LLVM to use, this machine has by LLVM's own look at it; and of a higher level it lacks something."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    have = {name for name, present in features.items() if present}
    level = host_level()
    # LLVM reports these two only of processors that it tells apart by them.
    assert set(level.features) - {"crc32", "64bit"} <= have
    for higher in list(LEVELS.values())[list(LEVELS).index(level.name) + 1 :]:
        assert not set(higher.features) <= have


def test_levels_are_named_by_their_targets_and_grow():
    assert [(name, level.target.bytes, level.target.registers) for name, level in LEVELS.items()] == [
        ("x86-64", 16, 16),
        ("x86-64-v3", 32, 16),
        ("x86-64-v4", 64, 32),
    ]
    for lower, higher in zip(list(LEVELS.values()), list(LEVELS.values())[1:]):
        assert set(lower.features) < set(higher.features) and set(lower.flags) < set(higher.flags)
