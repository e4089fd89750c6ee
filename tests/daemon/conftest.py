"""Homes for the tests of the daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.support import BAD, GOOD, WARNED, Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home without a daemon; what is started in it ends with the test."""
    home = Home(tmp_path)
    yield home
    home.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose daemon the tests of a module share; they leave it as it is."""
    home = Home(tmp_path_factory.mktemp("shared"))
    home.write("good.psk", GOOD)
    home.write("bad.psk", BAD)
    home.write("warned.psk", WARNED)
    home.write("importing.psk", 'import "good.psk" as g\n\nfn f(x : ℝ[3]) -> ℝ[3] = x\n')
    assert home.presk("check", "good.psk").code == 0
    yield home
    home.close()
