"""The lock files fit pyproject.toml, pin everything by hash, and name no address; the environment holds what they say."""

import importlib.metadata
import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.repo.tree import ROOT

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DEPENDENCIES: Final[list[str]] = PROJECT["project"]["dependencies"]
GROUPS: Final[dict[str, list[str]]] = PROJECT["dependency-groups"]
WANTED: Final = {
    "run": DEPENDENCIES,
    "dev": DEPENDENCIES + GROUPS["dev"],
    "lock-tool": GROUPS["lock"],
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One pinned package: version, where it applies, hashes, and what it is there for (`via`)."""

    version: Version
    marker: Marker | None
    hashes: tuple[str, ...]
    via: frozenset[str]


def read(name: str) -> dict[str, Entry]:
    """A lock file's entries by the normal name of the package; every line of the file is understood or refused."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
    entries: dict[str, Entry] = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]:
        head, *rest = block.rstrip("\n").split("\n")
        requirement = Requirement(head.removesuffix(" \\"))
        (pin,) = requirement.specifier
        assert pin.operator == "==", head
        hashes, via = [], []
        for line in rest:
            if match := re.fullmatch(r"    --hash=(sha256:[0-9a-f]{64})(?: \\)?", line):
                hashes.append(match[1])
            else:
                match = re.fullmatch(r"    #(?: via)? *(.*)", line)
                assert match, f"{name}.lock: a line that is no pin, hash or comment: {line}"
                via.append(match[1])
        key = canonicalize_name(requirement.name)
        assert key not in entries, f"{name}.lock: {key} is pinned twice"
        sources = frozenset(source for source in via if source and not source.startswith("-c "))
        entries[key] = Entry(Version(pin.version), requirement.marker, tuple(hashes), sources)
    return entries


@pytest.mark.parametrize("name", sorted(WANTED))
def test_every_requirement_is_pinned_and_fits(name: str) -> None:
    entries = read(name)
    for line in WANTED[name]:
        requirement = Requirement(line)
        entry = entries.get(canonicalize_name(requirement.name))
        assert entry is not None, f"{requirement.name} is not in {name}.lock: run `make lock`"
        assert entry.version in requirement.specifier, f"{line} against {entry.version}: run `make lock`"


@pytest.mark.parametrize("name", sorted(WANTED))
def test_every_pin_has_hashes_and_a_reason(name: str) -> None:
    """A package that nothing asks for any more is a lock that was not made again."""
    entries = read(name)
    wanted = {canonicalize_name(Requirement(line).name) for line in WANTED[name]}
    for package, entry in entries.items():
        assert entry.hashes, package
        direct = any(source.startswith("presk (pyproject.toml") for source in entry.via)
        assert direct == (package in wanted), f"{package} in {name}.lock: run `make lock`"
        assert direct or {canonicalize_name(source) for source in entry.via} <= set(entries), package


@pytest.mark.parametrize("name", sorted(WANTED))
def test_no_address_and_no_option_is_in_a_lock(name: str) -> None:
    """Where packages come from is a setting of each machine's pip."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
    assert "://" not in text
    assert not re.search(r"^-", text, flags=re.MULTILINE)


def test_developers_run_what_users_run() -> None:
    run, dev = read("run"), read("dev")
    assert {name: dev[name].version for name in run if name in dev} == {name: run[name].version for name in run}


def test_the_locks_are_all_of_the_locks() -> None:
    assert {path.stem for path in (ROOT / "requirements").glob("*.lock")} == set(WANTED)


def test_what_builds_the_package_is_in_the_lock() -> None:
    """The project is installed without build isolation, so its build requirements come from the lock too."""
    assert set(PROJECT["build-system"]["requires"]) <= set(GROUPS["dev"])


def test_the_environment_holds_the_locked_versions() -> None:
    applying = {name: entry for name, entry in read("dev").items() if entry.marker is None or entry.marker.evaluate()}
    installed = {name: Version(importlib.metadata.version(name)) for name in applying}
    assert installed == {name: entry.version for name, entry in applying.items()}
