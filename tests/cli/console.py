"""A command line in a folder of its own: what is typed, what is printed, and with which exit code it leaves.

Commands are executed in this process by `presk.cli.app.run`, with their own environment, streams and terminal. `Console` joins
them to a transcript, in which the folder's name, times, sizes and digests are replaced: it is the same on every machine.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.maintain import open_store
from presk.cli.app import run
from presk.cli.request import Request, Terminal
from presk.elab.files import FolderReader

COMMAND: Final = (sys.executable, "-c", "from presk.cli.client import main; main()")
"""The console script, in a process of its own."""

GOOD: Final = """\
const D = 4
dim B

module Linear{In Out : dim} {
  param w : ℝ[In, Out] init = xavier_uniform
  param b : ℝ[Out]

  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] =
    x · w + b
}

fn loss(θ : params Linear{D, 2}, x : ℝ[batch: B, D]) -> ℝ[] =
  mean(Linear.apply(θ, x)^2)
"""
BAD: Final = """\
const D = 4
dim B

fn f(x : ℝ[batch: B, model: D]) -> ℝ[batch: B, model: D + 1] =
  x + x

fn g(θ : ℝ[D]) -> ℝ[D] = θ + meaning
"""
WARNED: Final = "fn f(x : ℝ[T]) -> ℝ[T] = x\n"
IMPORTING: Final = 'import "lib/sizes.psk" as sizes\n\nfn f(x : ℝ[sizes.V]) -> ℝ[sizes.V] = x + y\n'
SIZES: Final = "const V = 5\nfn g(x : ℝ[V]) -> ℝ[V + 1] = x\n"


# What depends on the machine, on the time, or on every detail of how values are encoded.
_MASKED: Final = (
    (r" *\d+\.\d ms", "  ⟨time⟩"),
    (r"\b[0-9a-f]{12}\b", "⟨digest⟩"),
    (r"\b\d+(\.\d)? (B|KiB|MiB)\b", "⟨size⟩"),
    (r"\b[1-9]\d*(?= (entries|results) (checked|removed|computed))", "⟨number⟩"),
    (r"(?<=entries: )[1-9]\d*", "⟨number⟩"),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


class Console:
    """A folder with a few programs, a store beside it, and the transcript of the commands so far."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder / "work"
        self.folder.mkdir()
        self.env: Final[dict[str, str]] = {"PRESK_CACHE": str(folder / "cache"), "PRESK_NO_DAEMON": "1"}
        self.transcript = ""

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def presk(
        self,
        *arguments: str,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        terminal: Terminal | None = None,
        make_reader: Callable[[Path], FolderReader] = FolderReader,
    ) -> Ran:
        """Executes a command line in the folder (or one inside it), and notes it."""
        out, err = io.BytesIO(), io.BytesIO()
        code = run(
            arguments,
            cwd=self.folder / cwd,
            env={**self.env, **(env or {})},
            stdout=out,
            stderr=err,
            terminal=terminal,
            make_engine=make_engine,
            make_reader=make_reader,
        )
        ran = Ran(self._shown(out.getvalue()), self._shown(err.getvalue()), code)
        setting = "".join(f"{name}={value} " for name, value in (env or {}).items())
        place = f"{cwd} " if cwd else ""
        self.transcript += f"{place}$ {setting}presk {shlex.join(arguments)}\n"
        self.transcript += "".join(f"{line}\n" for line in ran.out.splitlines())
        self.transcript += "".join(f"! {line}\n" for line in ran.err.splitlines())
        self.transcript += f"exit {code}\n\n"
        return ran

    def _shown(self, data: bytes) -> str:
        text = data.decode().replace(str(self.folder.parent), "⟨folder⟩")
        for pattern, mark in _MASKED:
            text = re.sub(pattern, mark, text)
        return text


@cache
def fingerprints() -> Fingerprints:
    """Of the compiler; its sources are read once."""
    return Fingerprints()


def make_engine(request: Request) -> Engine:
    """As the application makes one; the compiler's sources are read once for all tests."""
    return Engine(
        open_store(request.env, request.cwd, lambda text: request.complain(f"presk: warning: {text}")),
        fingerprints=fingerprints(),
    )


def process(console: Console, *arguments: str | bytes, **settings: object) -> subprocess.CompletedProcess[bytes]:
    """The same in a process of its own."""
    given: dict[str, object] = {"cwd": console.folder, "capture_output": True, "check": False, **settings}
    env = console.env | {"PATH": os.environ.get("PATH", "")}
    return subprocess.run([*COMMAND, *arguments], env=env, **given)  # type: ignore[call-overload, no-any-return]
