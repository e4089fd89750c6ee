"""Texts of a driver and its kernels, for `presk dump`."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from presk.kernels.ir import SIZES, Kernel
from presk.kernels.llvm.emit import emit
from presk.kernels.targets import LEVELS
from presk.kernels.text import print_kernel
from presk.kernels.trace.hyper import AnyExpr, Apply, Given, Known, LoopCount, Pi
from presk.kernels.trace.memory import AFTER, BEFORE, Driver, launches
from presk.kernels.trace.rows import Launch, Loop, Part, Row
from presk.kernels.trace.values import Ref, size_of


def kernels_text(driver: Driver) -> str:
    """Every kernel once, in the order of the launches, with the nests that it computes."""
    return _each(driver, print_kernel)


def llvm_text(driver: Driver, level: str) -> str:
    """The LLVM IR of every kernel."""
    return _each(driver, lambda kernel: emit(kernel, LEVELS[level]), comment=";")


def asm_text(driver: Driver, level: str) -> str:
    """The assembly of every kernel."""
    # It loads LLVM, which nothing else in a process that runs programs does.
    from presk.kernels.llvm.compile import assembly

    return _each(driver, lambda kernel: assembly(emit(kernel, LEVELS[level]), LEVELS[level]), comment="#")


def _each(driver: Driver, text: Callable[[Kernel], str], comment: str = "--") -> str:
    sites: dict[int, dict[str, int]] = {}
    _sites(driver.rows, 1, sites)
    found: list[str] = []
    for number, kernel in enumerate(driver.kernels):
        names = ", ".join(name if often == 1 else f"{name} ×{often}" for name, often in sites[number].items())
        found.append(f"{comment} kernel {number}: {names}\n{text(kernel).rstrip()}\n")
    return "\n".join(found)


def _sites(rows: Sequence[Row], often: int, found: dict[int, dict[str, int]]) -> None:
    """How often each nest launches each kernel."""
    for row in rows:
        if isinstance(row, Loop):
            _sites(row.rows, often * row.count, found)
        else:
            names = found.setdefault(row.kernel, {})
            name = row.site or "copy"
            names[name] = names.get(name, 0) + often


def driver_text(driver: Driver) -> str:
    """The memory plan and the launches: places are bytes in the arena, `+n·i` what a loop moves them by."""
    pinned = sum(size_of(part.operand) for part in driver.inputs)
    lines = [
        f"launches {launches(driver.rows)}, kernels {len(driver.kernels)}",
        f"arena {driver.size} bytes, of which parameters {pinned}; live at one time {driver.peak}",
    ]
    if driver.state:
        lines.append(f"state {driver.state} bytes, `before` a call and `after` it: what it hands to the next")
    lines += _parts("parameter", driver.inputs)
    lines += _parts("result", driver.results)
    lines += [f"number    {path or '.'} = {expression(expr)}" for path, expr in driver.numbers]
    lines += [f"scalar    {_place(place)} : {one.elem} = {expression(one.expr)}" for one, place in driver.scalars]
    lines += [
        f"constant  {constant.offset} : {constant.elem}[{constant.count}] = {constant.fill:g}"
        for constant in driver.constants
    ]
    lines += [f"check     {check.buffer} : {check.size} flags, {check.code}" for check in driver.checks]
    _rows(driver.rows, driver.kernels, "", lines)
    return "\n".join(lines) + "\n"


def _parts(what: str, parts: Sequence[Part]) -> list[str]:
    return [
        f"{what.ljust(9)} {_place(part.place)} : {part.operand.elem}{list(part.operand.shape)} {part.path or '.'}"
        for part in parts
    ]


def _rows(rows: Sequence[Row], kernels: Sequence[Kernel], indent: str, lines: list[str]) -> None:
    for row in rows:
        if isinstance(row, Loop):
            lines.append(f"{indent}loop i{row.loop}, {row.count} times")
            _rows(row.rows, kernels, indent + "  ", lines)
        else:
            lines.append(indent + _launch(row, kernels[row.kernel]))


def _launch(row: Launch, kernel: Kernel) -> str:
    places = ", ".join(
        f"{buffer.access} {_place(place)}({buffer.size * SIZES[buffer.elem]})"
        for place, buffer in zip(row.places, kernel.buffers, strict=True)
    )
    name = "copy" if row.move else f"{row.site}, prepared" if row.quiet else row.site
    stated = f", on {row.workers} workers" if row.workers > 1 else ""
    return f"{name}{stated}: kernel {row.kernel}: {places}"


_REGIONS: Final = MappingProxyType({BEFORE: "before+", AFTER: "after+"})
"""What stands before an offset that is not in the region of work."""


def _place(place: Ref) -> str:
    return (
        _REGIONS.get(place.buffer, "") + str(place.offset) + "".join(f"{step:+d}·i{loop}" for loop, step in place.steps)
    )


def expression(expr: AnyExpr) -> str:
    """An expression of hyperparameters."""
    match expr:
        case Given(path):
            return path
        case Known(text, truth):
            return ("true" if text == "1" else "false") if truth else text
        case Pi():
            return "π"
        case LoopCount(loop):
            return f"i{loop}"
        case Apply(name, args):
            return f"{name.removeprefix('hyper_')}({', '.join(map(expression, args))})"
