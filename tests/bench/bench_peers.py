"""Native code against PyTorch in f32: contractions, what goes by elements and rows, and the course GPT; on one thread and on two.

The two are measured in turns, each in a process of its own, and a ratio is the median of those of the turns, with the least and the
greatest; "best" is that of the shortest times of either side, which a busy machine disturbs least. A ratio says how many times as
fast as PyTorch we are: below 1 we lose. PyTorch runs eagerly, with its fused attention and norms.
It is an optional extra, in an environment of its own: without it nothing is measured.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from presk.core.lower import Mode
from presk.kernels.compiling import compile_all, processors
from presk.kernels.entry import NativeEntry
from presk.kernels.host import host_level
from presk.kernels.ir import SIZES, Elem
from presk.kernels.layout import Layout
from presk.kernels.llvm.blobs import compile_routines
from presk.kernels.native.driver import Driver
from presk.kernels.native.load import Code
from presk.kernels.native.table import Bound, Launch, Operand, Table
from presk.kernels.nest import F32, Kind, Place, Use
from presk.kernels.nest import Launch as Made
from presk.kernels.nest import Operand as Shaped
from presk.kernels.nests.divide import turns
from presk.kernels.nests.table import lower, rule
from presk.prims.attrs import Attr, AxisName, AxisNames
from tests.ad.support import corpus
from tests.bench.tasks import EINS, GPTS, NORMED, PRODUCTS, ROWS, TASKS, operations
from tests.native.support import after, driver_of, filled, given_to, traced

ROOT: Final = Path(__file__).resolve().parents[2]
PEER: Final = ROOT / "build" / "peers" / "bin" / "python"
TURNS: Final = 5
LONG: Final = 0.5
"""Seconds of a call from which fewer turns are enough."""

FEW: Final = 3
SECONDS: Final = 0.1
"""How long each side measures in a turn, at least one call."""

PAUSE: Final = 0.02
"""Between the sides: threads that wait for more work fall asleep."""

Call = Callable[[], object]
Make = Callable[[Driver], Call]


# --- our side ---------------------------------------------------------------------------------------------------------------------


def real(shape: Sequence[int], names: Sequence[str] | None = None) -> Shaped:
    return Shaped(Kind.REAL, Elem.F32, tuple(shape), tuple(names or (None,) * len(shape)))


def nest(name: str, shapes: Sequence[Shaped], result: Shaped, attrs: Mapping[str, Attr]) -> Make:
    """A single use of a primitive, on random numbers."""
    made = rule(name, Use(tuple(shapes), result, F32, attrs, {}))
    assert isinstance(made, Made)
    level = host_level()
    lowered = lower(made.nest, Layout(), level.target)
    rng = np.random.default_rng(1)
    memory = [rng.standard_normal(shapes[place].shape, np.float32) for place in made.inputs]
    regions: list[np.ndarray[Any, Any]] = [*memory, np.zeros(result.shape, np.float32)]
    regions += [np.zeros(SIZES[elem] * size, np.uint8) for elem, size in lowered.scratch]
    code = Code(compile_all([step.kernel for step in lowered.steps], level.name, processors()))

    def region(place: Place, number: int) -> int:
        return {Place.INPUT: number, Place.OUTPUT: len(memory), Place.SCRATCH: len(memory) + 1 + number}[place]

    def make(driver: Driver) -> Call:
        rows = tuple(
            Launch(
                number,
                tuple(Operand(region(slot.place, slot.number)) for slot in step.slots),
                driver.threads if turns(step.kernel) > 1 else 1,
            )
            for number, step in enumerate(lowered.steps)
        )
        bound = Bound(Table(rows), code.addresses, [array.ctypes.data for array in regions])
        return lambda: driver.run(bound)

    return make


def program(size: str, entry: str, dims: Mapping[str, int], prefix: tuple[int, ...] = ()) -> Make:
    """An entry of the course GPT, without dropout, as `presk run` runs it."""
    given = corpus("nlp/05_gpt.psk", Mode.INFERENCE, **GPTS[size][0])
    text = after(given, "f32")
    function = next(one for one in text.functions if one.name == entry)
    level = host_level()
    made = driver_of(traced(text, given.headers, entry, dims, "f32", prefix=prefix, level=level))
    args = given_to(function, given.headers, dims, "f32", prefix)
    blobs = tuple(compile_all(made.kernels, level.name, processors()))

    def make(driver: Driver) -> Call:
        native = NativeEntry(made, blobs, driver)
        filled(native.arena, made, function, args)
        return native.run

    return make


@cache
def task(name: str) -> Make:
    """Our side of a task."""
    kind, _, which = name.partition(" ")
    if kind in ("product", "left", "right"):
        m, k, n = PRODUCTS[which]
        x, w, ct = real((m, k)), real((k, n)), real((m, n))
        match kind:
            case "product":
                return nest("dot", (x, w), ct, {})
            case "left":
                return nest("dot_vjp_l", (ct, w), x, {})
            case _:
                return nest("dot_vjp_r", (x, ct), w, {})
    if kind == "ein":
        spec, one, other = EINS[which]
        inputs, out = spec.split("->")
        names = inputs.split(",")
        lengths = {axis: size for axes, shape in zip(names, (one, other)) for axis, size in zip(axes, shape)}
        attrs = {f"in{place}": AxisNames(tuple(axes)) for place, axes in enumerate(names)}
        result = real([lengths[axis] for axis in out])
        return nest("ein", (real(one), real(other)), result, attrs | {"out": AxisNames(tuple(out))})
    match kind:
        case "softmax":
            shape = real(ROWS, ("n", "k"))
            return nest("softmax", (shape,), shape, {"axis": AxisName("k")})
        case "gelu":
            return nest("gelu", (real(ROWS),), real(ROWS), {})
        case "layernorm":
            return program("small", "LayerNorm.apply", {"N": NORMED[1]}, NORMED[:1])
        case _:
            entry = {"forward": "GPT.apply", "loss": "loss", "gradient": "loss_grad"}[kind]
            return program(which, entry, GPTS[which][1])


def median(run: Call, seconds: float) -> float:
    """The median time of calls, after one that is not counted."""
    run()
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while not times or time.perf_counter() < ends:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


# --- the peer ---------------------------------------------------------------------------------------------------------------------


class Peer:
    """A process with PyTorch."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers
        self.version: Final = str(self._answer())

    def _answer(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise EOFError("the process with PyTorch ended")
        return json.loads(line)

    def median(self, name: str, threads: int, seconds: float) -> float:
        """The median time of a task there."""
        print(json.dumps({"task": name, "threads": threads, "seconds": seconds}), file=self._requests, flush=True)
        return float(self._answer())


@contextmanager
def peer() -> Iterator[Peer]:
    """The process, for as long as it is needed."""
    command = [str(PEER), "-m", "tests.bench.torch_peer"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield Peer(process.stdin, process.stdout)
        process.stdin.close()


def there() -> bool:
    """Whether there is a PyTorch to compare with."""
    if not PEER.exists():
        return False
    return not subprocess.run([str(PEER), "-c", "import torch"], capture_output=True, check=False).returncode


# --- the table --------------------------------------------------------------------------------------------------------------------


def shown(seconds: float) -> str:
    """Three digits and a unit."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def compare(other: Peer, drivers: Mapping[int, Driver], name: str) -> dict[int, float]:
    """Prints a task's rows; gives its ratios by numbers of threads."""
    make = task(name)
    found: dict[int, float] = {}
    for threads, driver in drivers.items():
        call = make(driver)
        pairs: list[tuple[float, float]] = []
        while len(pairs) < (FEW if pairs and pairs[0][0] > LONG else TURNS):
            time.sleep(PAUSE)
            mine = median(call, SECONDS)
            time.sleep(PAUSE)
            pairs.append((mine, other.median(name, threads, SECONDS)))
        ratios = sorted(theirs / mine for mine, theirs in pairs)
        mine, theirs = (statistics.median(column) for column in zip(*pairs))
        done = operations(name)
        rates = f"{done / mine / 1e9:8.1f} {done / theirs / 1e9:8.1f}" if done else " " * 17
        found[threads] = statistics.median(ratios)
        best = min(theirs for _, theirs in pairs) / min(mine for mine, _ in pairs)
        print(
            f"{name:<24}{threads:>8}{shown(mine):>12}{shown(theirs):>12} {rates}"
            f"{found[threads]:>8.2f}{best:>8.2f}  [{ratios[0]:.2f}, {ratios[-1]:.2f}]",
            flush=True,
        )
    return found


def main() -> None:
    if not there():
        print("PyTorch is not at hand: `make peers` installs it into build/peers, where this looks for it")
        return
    routines = compile_routines()
    with Driver(routines, 1) as alone, Driver(routines, 2) as both, peer() as other:
        print(f"PyTorch {other.version}, f32, {TURNS} turns; level {host_level().name}")
        head = f"{'task':<24}{'threads':>8}{'ours':>12}{'PyTorch':>12} {'GFLOP/s':>8} {'PyTorch':>8}{'ratio':>8}{'best':>8}"
        print(head)
        ratios = {name: compare(other, {1: alone, 2: both}, name) for name in TASKS}
    lost = [
        f"{name} on {threads}: {ratio:.2f}"
        for name, found in ratios.items()
        for threads, ratio in found.items()
        if ratio < 1
    ]
    count = sum(len(found) for found in ratios.values())
    print(f"as fast or faster in {count - len(lost)} of {count}; slower: {', '.join(lost) or 'nowhere'}")


if __name__ == "__main__":
    main()
