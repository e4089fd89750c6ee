"""Runs an entry: what the command line asks of the exact reference, and what it gets.

In order: what is given is read and determines open dimensions, what is undefined at the dimensions is refused, the arguments are made,
the function is evaluated. Whatever goes wrong is a diagnostic: E9003 for the command line, E8002 for data, E7xxx for the run, at the
binding that was being evaluated and with the calls that led to it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import gmpy2

from presk.core.ir import Function, Origin, Program
from presk.diagnostics.value import Diagnostic, Label, Place
from presk.exact import output, synthesize
from presk.exact.balls import Balls, enclose
from presk.exact.closing import closed
from presk.exact.defined import check_entry
from presk.exact.draws import SEEDS
from presk.exact.faults import COMMAND, UNDECIDED, Fault
from presk.exact.given import Given
from presk.exact.interpreter import Interpreter, Site, Stopped
from presk.exact.output import Bounds
from presk.exact.reals import Reals, whole
from presk.exact.scope import Headers, Scope
from presk.exact.values import Index, Items, Key, Mask, Number, Real, Record, Truth, Value, gathered
from presk.types import type as types
from presk.types.claim import Claim
from presk.types.type import Type

FEWEST_BITS: Final = 2
MOST_BITS: Final = 1_000_000
_CALLS: Final = 4  # calls that a diagnostic shows


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run.

    `origins` says where bindings stand, `facts` the bounds of dimensions that functions rely on, `defaults` the texts of the entry's
    default values, by parameter. `inputs` and `words` (`--arg`) are by parameter or part of one (`batch.0`, `θ.l1.w`). With `bounds`
    the program is evaluated in balls as well. `on_binding` is called before each binding, and may raise to stop the run.
    """

    program: Program
    entry: str
    headers: Headers
    origins: Mapping[Site, Origin] = field(default_factory=dict)
    facts: Mapping[str, Sequence[Claim]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Given] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    bits: int = 256
    bounds: bool = False
    on_binding: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Result:
    """The value of an entry, with bounds on its distance to the exact one if they were asked for."""

    entry: str
    value: Value
    type: Type
    scope: Scope
    bits: int
    bounds: Bounds = None

    def to_json(self) -> str:
        """One JSON object."""
        return output.to_json(self.entry, self.value, self.type, self.scope, self.bits, self.bounds)

    def to_text(self, *, full: bool = False) -> str:
        """Lines for people."""
        return output.to_text(self.entry, self.value, self.type, self.scope, self.bits, self.bounds, full=full)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, or why there is none."""

    result: Result | None
    diagnostics: tuple[Diagnostic, ...] = ()


def run_entry(job: Job) -> Outcome:
    """Evaluates an entry."""
    job = dataclasses.replace(job, program=closed(job.program))
    functions = {function.name: function for function in job.program.functions}
    try:
        return Outcome(_run(job, functions))
    except Stopped as stopped:
        return Outcome(None, (diagnostic(stopped, job.origins, functions),))
    except Fault as fault:
        return Outcome(None, (diagnostic(Stopped(fault, ()), job.origins, functions),))


def evaluate(job: Job, m: Reals | Balls) -> Value:
    """The value of an entry in an arithmetic of the caller's; Fault or Stopped for what goes wrong."""
    job = dataclasses.replace(job, program=closed(job.program))
    function, scope, found = _prepared(job, {function.name: function for function in job.program.functions})
    return _evaluate(job, function, m, scope, found)


def _prepared(job: Job, functions: Mapping[str, Function]) -> tuple[Function, Scope, synthesize.Sources]:
    """The entry, its dimensions, and where its arguments come from; Fault for what is wrong or undefined before a run."""
    function = functions.get(job.entry)
    if function is None:
        raise Fault(COMMAND, f"the program has no function `{job.entry}`")
    for name, length in job.dims.items():
        if name not in function.dims:
            names = ", ".join(f"`{dim}`" for dim in function.dims)
            raise Fault(COMMAND, f"`{job.entry}` has no dimension `{name}`", notes=(f"it has {names or 'none'}",))
        if length < 0:
            raise Fault(COMMAND, f"the dimension `{name}` is {length}, which is no natural number")
    check_bits(job.bits)
    if not 0 <= job.seed < SEEDS:
        raise Fault(COMMAND, f"the seed {job.seed} does not lie between 0 and 2²⁵⁶ − 1")
    found = synthesize.sources(job.inputs, job.words, job.defaults, job.seed)
    dims, prefix = synthesize.determine(function, found, Scope({}, (), job.headers), job.dims)
    check_entry(job.program, job.entry, dims, prefix, job.headers, job.facts)
    return function, Scope(dims, prefix, job.headers), found


def _run(job: Job, functions: Mapping[str, Function]) -> Result:
    function, scope, found = _prepared(job, functions)
    value = _evaluate(job, function, Reals(job.bits), scope, found)
    bounds = None
    if job.bounds:
        enclosed = _evaluate(job, function, Balls(job.bits), scope, found)
        with Balls(job.bits).active():
            bounds = distances(value, enclosed)
    return Result(job.entry, value, function.result, scope, job.bits, bounds)


def check_bits(bits: int) -> None:
    """COMMAND for a precision that is not computed with."""
    if not FEWEST_BITS <= bits <= MOST_BITS:
        raise Fault(COMMAND, f"{bits} bits: the precision lies between {FEWEST_BITS} and {MOST_BITS}")


def _evaluate(job: Job, function: Function, m: Reals | Balls, scope: Scope, found: synthesize.Sources) -> Value:
    with m.active():
        args = synthesize.arguments(m, scope, function, found)
    interpreter = Interpreter(job.program, m, job.headers, job.on_binding)
    return interpreter.run(job.entry, args, scope.dims, scope.prefix)


def distances(value: Value, enclosed: Value) -> Bounds:
    """For each real an upper bound of its distance to the exact value, which lies in the ball.

    UNDECIDED if something discrete differs: then the rounded evaluation chose otherwise than the exact one.
    """
    match value, enclosed:
        case Real(data), Real(balls):
            pairs = zip(data.ravel().tolist(), balls.ravel().tolist())
            return gathered([distance(number, ball) for number, ball in pairs], data.shape)
        case Items(items), Items(others):
            return [distances(item, other) for item, other in zip(items, others, strict=True)]
        case Record(fields), Record(other_fields):
            return {name: distances(item, other_fields[name]) for name, item in fields.items()}
        case (Index(one), Index(other)) | (Mask(one), Mask(other)):
            same = bool((one == other).all())
        case _:
            same = isinstance(value, Number | Truth | Key) and value == enclosed
    if not same:
        raise Fault(
            UNDECIDED,
            "the exact result differs from the one that is computed with rounding",
            mend="ask for more bits with `--bits`",
        )
    return None


def distance(number: Any, ball: Any) -> Any:
    """|number − x| at most, for x in the ball, rounded up."""
    upper = (enclose(number) - ball).abs_upper()
    if not upper.is_finite():
        return gmpy2.inf()
    mantissa, exponent = map(int, upper.man_exp())
    up = gmpy2.context(precision=64, round=gmpy2.RoundUp)
    size = up.plus(whole(mantissa))
    return up.mul_2exp(size, exponent) if exponent >= 0 else up.div_2exp(size, -exponent)


# --- diagnostics ----------------------------------------------------------------------------------------------------------


def diagnostic(stopped: Stopped, origins: Mapping[Site, Origin], functions: Mapping[str, Function]) -> Diagnostic:
    """What ended a run, at the innermost binding whose place is known; the calls around it are labels."""
    fault = stopped.fault
    known = [(site, origins[site]) for site in reversed(stopped.trail) if site in origins]
    message = fault.message + _where(fault, stopped.trail, functions)
    notes = fault.notes
    if not known:
        if stopped.trail:
            notes = (*notes, f"in `{stopped.trail[-1][0]}`")
        place = _beginning(stopped.trail, origins)
        return Diagnostic(fault.code, message, Label(place), (), notes, fault.mend)
    (site, origin), *calls = known
    labels = tuple(Label(_place(around), "called here") for _, around in calls[:_CALLS])
    return Diagnostic(fault.code, message, Label(_place(origin), f"in `{site[0]}`"), labels, notes, fault.mend)


def _place(origin: Origin) -> Place:
    return Place(*origin.at, origin.chunk, origin.file)


def _beginning(trail: Sequence[Site], origins: Mapping[Site, Origin]) -> Place:
    """The beginning of the declaration of a function, if any of its bindings has a place."""
    names = {name for name, _ in trail}
    for (name, _), origin in origins.items():
        if name in names:
            return Place(0, -1, origin.chunk, origin.file)
    return Place(0, -1)


def _where(fault: Fault, trail: Sequence[Site], functions: Mapping[str, Function]) -> str:
    """` at [batch: 1, 3]`: the element, by the names of its axes."""
    if not fault.index:
        return ""
    names = fault.axes if fault.axes is not None else _axes(trail, functions)
    names = ((None,) * (len(fault.index) - len(names)) + names)[-len(fault.index) :]
    return f" at [{', '.join(str(at) if name is None else f'{name}: {at}' for name, at in zip(names, fault.index))}]"


def _axes(trail: Sequence[Site], functions: Mapping[str, Function]) -> tuple[str | None, ...]:
    """The names of the axes of a binding's value."""
    if trail and trail[-1][0] in functions:
        for binding in functions[trail[-1][0]].bindings:
            if binding.var == trail[-1][1] and isinstance(binding.type, types.Real | types.Index | types.Mask):
                return tuple(axis.name for axis in binding.type.shape.axes)
    return ()
