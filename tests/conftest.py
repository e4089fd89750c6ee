"""What all tests share: the profiles of the property tests, and comparison with golden files."""

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

GOLDEN: Final = Path(__file__).parent / "golden"

# The same examples in every run, on every machine, however slow: a red test is red again when one looks at it.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=35)
# `make fuzz`: new examples every time, many of them; failures are kept, and come first in the next run.
settings.register_profile("fuzz", derandomize=False, deadline=None, max_examples=5000, print_blob=True)
settings.load_profile("repeatable")

# What the command line takes from the environment must not reach a test from the shell that started it.
for _name in [name for name in os.environ if name.startswith("PRESK_")]:
    del os.environ[_name]


class Golden:
    """Compares a text with a file under `tests/golden`; with `--golden-update` it writes the file instead."""

    def __init__(self, folder: Path, update: bool) -> None:
        self._folder = folder
        self._update = update

    def __call__(self, name: str, actual: str) -> None:
        """`name` is `<stage>/<what_it_shows>.<extension>`; the text is compared whole and byte for byte."""
        path = self._folder / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != actual.encode():
                path.write_bytes(actual.encode())
            return
        assert path.is_file(), f"tests/golden/{name} is missing: `make golden-update` writes it, then read it"
        assert actual == path.read_bytes().decode(), f"differs from tests/golden/{name}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-update", action="store_true", help="rewrite tests/golden from what the compiler says now"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that uses the fixture `golden` bears the mark, so that `make golden-update` runs those tests alone."""
    if "golden" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.golden)


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(GOLDEN, request.config.getoption("--golden-update"))
