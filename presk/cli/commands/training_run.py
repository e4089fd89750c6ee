"""The part of `presk train` that runs: from a checked program to the end of its training."""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.step import STEP
from presk.cache.log import RequestLog
from presk.check import Checked
from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.commands.parameters import existing
from presk.cli.commands.realizing import check_plan, check_workers, plan_of
from presk.cli.commands.running_native import level_of, threads_of
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.ir import Program as Core
from presk.core.program import CoreProgram
from presk.elab.dump import dump_training
from presk.elab.program import Program
from presk.exact import draws
from presk.exact.faults import COMMAND, Fault
from presk.exact.interpreter import Stopped
from presk.kernels.ir import Elem
from presk.kernels.trace.memory import launches
from presk.native.layouts import layouts
from presk.native.run import Asked as Native
from presk.native.run import Executor, faulted, too_large
from presk.realize.plan import Plan
from presk.realize.record import uniform
from presk.train import plot as plotting
from presk.train.conduct import Evaluating, Named, Training, Wanted
from presk.train.log import Log, Run, read_log
from presk.train.rates import rates_text
from presk.train.record import Recorder
from presk.train.report import Reporter, Start
from presk.train.session import Session, frozen_moment, session
from presk.types.dim import Dim

SEEDS: Final = draws.SEEDS
DEFAULT: Final = "f32"
"""The machine types of a training where none are named: what models are trained in."""

USAGE: Final = "E9"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says, as it was written; see `presk.cli.commands.training.train_command`."""

    file: str
    steps: int | None
    seed: int
    realize: str | None
    plan: str | None
    threads: int | None
    level: str | None
    fusion: bool
    remat: Remat
    resume: str | None
    params: str | None
    checkpoints: str | None
    every: int | None
    keep: int
    overwrite: bool
    eval_data: str | None
    eval_every: int | None
    eval_batches: int | None
    log: str | None
    plot: str | None


def train(request: Request, ran: RequestLog, overrides: dict[str, Dim], asked: Asked, *, dry: bool) -> bool:
    """Trains; whether it ended in errors, which are then said. What is wrong with the command line leaves with its code."""
    found, typed = programs.elaborated(request, asked.file, overrides)
    programs.complain_of(request, found.diagnostics, found.sources)
    training = typed.training
    if training is None:
        request.complain(
            f"error[E9003]: `{asked.file}` has no `training run` block: there is nothing to train\n"
            "  = help: `presk run` evaluates its functions"
        )
        raise typer.Exit(Exit.NOTHING)
    if training.data is None:
        request.complain(
            "error[E9003]: the `training run` block names no data: there is nothing to train on\n"
            '  = help: data = stream "file.psk.d" |> shuffle(seed = 1) |> batch(B = 16)'
        )
        raise typer.Exit(Exit.NOTHING)
    data = _beside(request, asked.file, training.data.path)
    if training.data_info is None:
        window = f"--window {length}" if (length := dict(training.dims).get("T")) is not None else "--window T"
        return failed(
            request,
            Fault(
                "E8001",
                f"the data file `{data.shown}` is not there",
                mend=f"make it of a text: presk data pack TEXT {window} --out {data.shown}",
            ),
        )
    plan = Plan(uniform(DEFAULT))
    if asked.realize is not None or asked.plan is not None:
        plan = plan_of(request, asked.realize, asked.plan)
    threads = threads_of(request, asked.threads)
    check_workers(request, plan, threads)
    native = Native(
        dims={},
        words={},
        inputs={},
        seed=asked.seed,
        remat=asked.remat,
        unroll=False,
        realization=plan.realization,
        executor=Executor.NATIVE,
        level=level_of(request, asked.level, runs=not dry),
        threads=threads,
        layouts=layouts(plan),
        fused=asked.fusion,
    )

    def fits(core: CoreProgram, program: Core) -> None:
        check_plan(request, InCore(found, typed, core, STEP), program, plan, asked.remat)

    try:
        prepared = session(request.engine, typed, native, fits)
    except Stopped as stopped:
        return _stopped(request, found, typed, stopped)
    except Fault as fault:
        return failed(request, fault)
    if isinstance(prepared, AfterAd):
        programs.complain_of(request, prepared.diagnostics, found.sources)
        return True
    return _run(request, ran, found, prepared, asked, data, dry=dry)


def _run(
    request: Request, ran: RequestLog, found: Checked, session_: Session, asked: Asked, data: Named, *, dry: bool
) -> bool:
    total = session_.total
    if total == 0:
        batch = session_.training.data.batch if session_.training.data else 0
        why = f"`{data.shown}` has fewer samples than a batch of {batch}"
        return failed(request, Fault("E8002", f"the run has no step: {why}"))
    last = total if asked.steps is None else asked.steps
    if last > total:
        raise programs.usage(
            request, "E9003", f"`--steps {last}`: the run has {total} steps", "`epochs` in the block makes it longer"
        )
    frozen = frozen_moment(session_)
    if frozen is not None:
        return failed(request, frozen)
    if any(part.operand.elem is Elem.BF16 for part in session_.driver.value.inputs):
        request.complain(
            "warning[W0005]: parameters or moments are kept in bf16, in which small updates vanish\n"
            '  = help: --realize \'{"default": "bf16", "functions": {"training.step": "f32", "adamw.step": "f32", '
            '"adamw.lr": "f32"}}\''
        )
    if dry:
        request.print(dry_text(request, session_), end="")
        return False
    if asked.plot is not None:
        _drawable(request, asked.plot)
    recorder = Recorder()
    reporter = Reporter(
        lambda text: _say(request, text),
        terminal=request.terminal.is_terminal and request.env.get("TERM") != "dumb",
        columns=request.terminal.columns,
    )
    bad = False
    try:
        with ExitStack() as stack:
            wanted = _wanted(request, session_, asked, data, last)
            if request.terminal.is_terminal:
                _say(request, "kernels are compiled where they are not kept …\n")
            training = Training(request.engine, ran, session_, wanted, stack)
            if training.first > last:
                request.print(
                    f"nothing is left to do: the run has come to step {training.first - 1} of {session_.total}"
                )
                return False
            listeners: list[Reporter | Recorder | Log] = [recorder, reporter]
            log = None if asked.log is None else _log(request, asked, training)
            if log is not None:
                listeners.append(stack.enter_context(log))
            reporter.start(_start(session_, training, last))
            try:
                training.run(tuple(listeners))
            except KeyboardInterrupt:
                reporter.end("interrupted")
                raise
            except Stopped as stopped:
                reporter.close()
                bad = _stopped(request, found, session_.typed, stopped, session_)
            except Fault as fault:
                reporter.close()
                bad = failed(request, fault)
            else:
                reporter.end()
            if log is not None and not bad:
                done = recorder.last
                log.end({"step": last, "loss": None if done is None else done.loss})
    except (Stopped, Fault) as error:
        ended = error if isinstance(error, Stopped) else Stopped(error, ())
        return _stopped(request, found, session_.typed, ended, session_)
    except (MemoryError, OSError) as error_:
        return failed(request, too_large(error_))
    finally:
        with suppress(OSError):
            request.stdout.flush()
    return _drawn(request, asked, recorder) or bad


def _drawable(request: Request, name: str) -> None:
    """E9002 for a picture whose folder is not there or may not be written to: better now than when the run is over."""
    path = request.path(name)
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK) or path.is_dir():
        raise programs.usage(
            request, "E9002", f"`{name}` cannot be written: its folder is not there, or may not be written to"
        )


def _drawn(request: Request, asked: Asked, recorder: Recorder) -> bool:
    """Draws the loss where that is asked for; whether it failed."""
    if asked.plot is None:
        return False
    name = Path(asked.file).stem
    try:
        run: Run = recorder.run if asked.log is None else read_log(request.path(asked.log), asked.log)
        plotting.plot(request.path(asked.plot), asked.plot, [(name, run)], f"training of {name}")
    except Fault as fault:
        return failed(request, fault)
    request.print(f"plot  {asked.plot}")
    return False


def _say(request: Request, text: str) -> None:
    request.print(text, end="")
    request.stdout.flush()


def _start(session_: Session, training: Training, last: int) -> Start:
    driver = session_.driver.value
    leaf = training.data.leaves[0]
    elements = 1
    for length in leaf.lengths:
        elements *= length
    batch = session_.training.data.batch if session_.training.data else 0
    return Start(
        what=str(session_.training.model),
        total=last,
        first=training.first,
        tokens=elements * batch if leaf.bound else 0,
        launches=launches(driver.rows),
        threads=session_.asked.threads,
        facts=(
            f"{session_.asked.realization.name}",
            f"arena {(driver.size + 2 * driver.state) / 1e6:.1f} MB",
        ),
    )


def _wanted(request: Request, session_: Session, asked: Asked, data: Named, last: int) -> Wanted:
    for name in (asked.resume, asked.params):
        if name is not None:
            existing(request, name)
    block = session_.training.checkpoint
    folder: Named | None = None
    if asked.checkpoints is not None:
        folder = Named(request.path(asked.checkpoints), asked.checkpoints)
    elif block is not None:
        folder = _beside(request, asked.file, block.folder)
    every = asked.every if asked.every is not None else (block.steps if block is not None else None)
    evaluating = None
    if asked.eval_data is not None:
        if not request.path(asked.eval_data).exists():
            raise programs.usage(request, "E9002", f"`{asked.eval_data}` cannot be read: there is no such file")
        named = Named(request.path(asked.eval_data), asked.eval_data)
        evaluating = Evaluating(named, asked.eval_every or every, asked.eval_batches)
    return Wanted(
        data=data,
        folder=folder,
        every=every,
        keep=asked.keep,
        last=last,
        resume=None if asked.resume is None else Named(request.path(asked.resume), asked.resume),
        parameters=None if asked.params is None else Named(request.path(asked.params), asked.params),
        evaluating=evaluating,
        overwrite=asked.overwrite,
    )


def _log(request: Request, asked: Asked, training: Training) -> Log:
    assert asked.log is not None
    path = request.path(asked.log)
    metadata = training.describe(asked.file)
    if asked.resume is not None:
        return Log.resume(path, asked.log, training.first - 1, metadata, ("program", "seed", "realization", "data"))
    if path.is_file() and path.stat().st_size and not asked.overwrite:
        read_log(path, asked.log)  # a file that is no log is refused as such
        raise Fault(
            COMMAND,
            f"`{asked.log}` is the log of another run",
            mend="name another file; or begin anew and delete it: --overwrite; or go on: --resume",
        )
    return Log.create(path, asked.log, metadata)


def _beside(request: Request, file: str, written: str) -> Named:
    """A path of a program, which is relative to the program's file."""
    folder = Path(file).parent
    return Named(request.path(str(folder)) / written, str(folder / written))


def dry_text(request: Request, session_: Session) -> str:
    """What would be run."""
    driver = session_.driver.value
    total, record = session_.total, session_.optimizer
    rates = rates_text(request.engine, session_.typed, record, total)
    decay = f"every tensor, by {record.weight_decay}" if float(record.weight_decay) else "none"
    rows = [
        ("machine types", session_.asked.realization.name),
        ("launches", f"{launches(driver.rows)} a step, of {len(driver.kernels)} kernels"),
        ("memory", f"{driver.size:,} bytes of work, {driver.state:,} of state, twice"),
        ("in use at most", f"{driver.peak:,} bytes of work"),
        ("learning rate", rates),
        ("weight decay", decay),
    ]
    width = max(len(name) for name, _ in rows)
    return (
        dump_training(session_.typed) + "\n".join(["", "-- step --", *(f"{n:<{width}}  {v}" for n, v in rows)]) + "\n"
    )


def _stopped(
    request: Request, found: Checked, typed: Program, stopped: Stopped, session_: Session | None = None
) -> bool:
    """Says what ended a run, at its place in the program."""
    if stopped.fault.code.startswith(USAGE):
        raise programs.usage(request, stopped.fault.code, stopped.fault.message, stopped.fault.mend)
    if session_ is None or not stopped.trail:
        return failed(request, stopped.fault)
    diagnostics = faulted(typed, session_.core, STEP, session_.after.value, stopped)
    request.complain(programs.diagnostics_text(request, diagnostics, found.sources), end="")
    return True


def failed(request: Request, fault: Fault) -> bool:
    """Says what ended a run that stands nowhere in the program."""
    if fault.code.startswith(USAGE):
        raise programs.usage(request, fault.code, fault.message, fault.mend)
    programs.usage(request, fault.code, fault.message)
    for note in fault.notes:
        request.complain(f"  = note: {note}")
    if fault.mend is not None:
        request.complain(f"  = help: {fault.mend}")
    return True
