"""Fixtures of the tests of the command line."""

from pathlib import Path

import pytest

from tests.cli.console import BAD, GOOD, IMPORTING, SIZES, WARNED, Console


@pytest.fixture
def console(tmp_path: Path) -> Console:
    made = Console(tmp_path)
    made.write("good.psk", GOOD)
    made.write("bad.psk", BAD)
    made.write("warned.psk", WARNED)
    made.write("importing.psk", IMPORTING)
    made.write("lib/sizes.psk", SIZES)
    return made
