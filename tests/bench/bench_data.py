"""What data costs a training: a batch of windows, the order of an epoch, opening and checking a file, packing a text."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from presk.data.packing import Cut, pack
from presk.data.reading import DataFile
from presk.data.stream import Position, Stream, order
from presk.data.vocabulary import Vocabulary

TOKENS: Final = 1_115_394
"""As many as the characters of the plays that small language models are trained on."""
LETTERS: Final = np.frombuffer(bytes(range(32, 97)), dtype=np.uint8)
SHAPES: Final = ((12, 64), (64, 256), (8, 1024))
COUNTS: Final = (10_000, 1_000_000, 10_000_000)


def text() -> bytes:
    """A text of 65 different characters."""
    return LETTERS[np.random.Generator(np.random.PCG64(1)).integers(0, len(LETTERS), TOKENS)].tobytes()


def times(call: Callable[[int], object], runs: int) -> tuple[float, float]:
    """Median and 99th percentile, in microseconds."""
    found = []
    for run in range(runs):
        started = time.perf_counter()
        call(run)
        found.append(time.perf_counter() - started)
    found.sort()
    return statistics.median(found) * 1e6, found[min(runs - 1, runs * 99 // 100)] * 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = text()
        print(f"{'batch of windows':<34}{'median µs':>12}{'99 % µs':>12}")
        for batch, length in SHAPES:
            path = Path(folder, f"{length}.psk.d")
            pack(whole, "a text", None, Cut(length), path)
            with DataFile(path, path.name) as data:
                stream = Stream(data, seed=1, batch=batch)
                stream.batch(Position())  # the order of the epoch is made here
                middle, high = times(lambda run: stream.batch(Position(0, run)), 1000)  # noqa: B023 (called at once)
            print(f"{f'{batch} × {length}':<34}{middle:>12.1f}{high:>12.1f}")
        print(f"\n{'order of an epoch':<34}{'ms':>12}")
        for count in COUNTS:
            middle, _ = times(lambda run: order(1, run, count), 5)  # noqa: B023
            print(f"{f'{count:,} samples':<34}{middle / 1e3:>12.1f}")
        print(f"\n{f'{TOKENS:,} characters':<34}{'ms':>12}")
        path = Path(folder, "a.psk.d")
        for name, known in (("packed, characters", None), ("packed, bytes", Vocabulary())):
            middle, _ = times(lambda _: pack(whole, "a text", known, Cut(64), path), 5)  # noqa: B023
            print(f"{name:<34}{middle / 1e3:>12.1f}")
        middle, _ = times(lambda _: DataFile(path, "a").close(), 20)
        print(f"{'opened':<34}{middle / 1e3:>12.2f}")
        with DataFile(path, "a") as data:
            middle, _ = times(lambda _: data.check(), 20)
            print(f"{'checked whole':<34}{middle / 1e3:>12.2f}")
