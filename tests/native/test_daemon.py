"""Native runs through the daemon: the same bytes as without it, and a crash of native code is an error of its request."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from presk.cache.digest import value_digest
from presk.cli.app import run
from presk.kernels import stage
from presk.kernels.entry import InterpretedEntry
from presk.kernels.ir import Kernel
from presk.kernels.objects import Blob
from presk.native import run as running
from tests.daemon.support import Home, same
from tests.native.conftest import PROGRAM

LINE = ("run", "net.psk", "--backend", "native", "--entry", "loss_grad", "--dim", "B=4", "--realize", "f32")
BAD_ACCESS = bytes.fromhex("31c0 8b00 c3")
"""`xor eax, eax; mov eax, [rax]; ret`"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose daemon the tests share."""
    home = Home(tmp_path_factory.mktemp("native"))
    home.write("net.psk", PROGRAM)
    yield home
    home.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home of its own."""
    made = Home(tmp_path)
    made.write("net.psk", PROGRAM)
    yield made
    made.close()


def test_runs_and_dumps_are_the_same(there: Home) -> None:
    done = there.presk(*LINE)
    assert done.code == 0, done.complaint
    same(done, there.alone(*LINE))
    for line in (
        (*LINE, "--gap", "--json"),
        ("run", "net.psk", "--backend", "kernel", *LINE[4:]),
        ("run", "net.psk", "--backend", "native", "--entry", "loss", "--dim", "B=0"),
        (*LINE[:-1], "f16"),
        *(("dump", "net.psk", "--stage", one, *LINE[4:]) for one in ("asm", "driver")),
    ):
        same(there.presk(*line), there.alone(*line))
    assert there.presk("bench", "net.psk", *LINE[4:], "--runs", "3", "--json").code == 0


def test_a_crash_of_native_code_is_an_error_of_its_request(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is given code that touches what it may not, in the place of every kernel's."""

    def bad(kernel: Kernel, *, level: str) -> Blob:
        return Blob(level, 0, BAD_ACCESS, value_digest(b"%s\0%d\0" % (level.encode(), 0) + BAD_ACCESS))

    with monkeypatch.context() as patch:
        patch.setattr(running, "OBJECT", dataclasses.replace(stage.OBJECT, run=bad))
        patch.setattr(running, "NativeEntry", lambda driver, blobs, threads: InterpretedEntry(driver))
        out, err = io.BytesIO(), io.BytesIO()
        assert run(LINE, cwd=home.work, env=home.env, stdout=out, stderr=err) == 0, err.getvalue()
    assert home.presk("check", "net.psk").code == 0
    before = home.living()
    done = home.presk(*LINE)
    assert (done.code, done.out) == (70, b"")
    assert "error[E9004]: the process that worked on this ended: SIGSEGV" in done.complaint, done.complaint
    assert "run net.psk" in done.complaint
    assert home.living().pid == before.pid
    # Another realization has kernels of its own, which are as they should be.
    assert home.presk(*LINE[:-1], "f64").code == 0
