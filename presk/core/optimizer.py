"""The optimizer of a training run, lowered: AdamW as three functions of the core over P = `params M`, M the model.

    adamw.init(θ : P) -> (P, P)                                      both moments at zero
    adamw.lr(t : nat, total : nat) -> ℝ[]                            the schedule
    adamw.step(θ : P, s : (P, P), g : P, t : nat, total : nat) -> (P, (P, P))

A step is the language chapter's:

    c   = min(1, grad_clip / (‖g‖₂ + 10⁻⁶))                          where the block has a `grad_clip`; ‖g‖₂ over all leaves
    m'  = β₁ m + (1 − β₁) c g            m̂ = m' / (1 − β₁ᵗ)
    v'  = β₂ v + (1 − β₂) (c g)²         v̂ = v' / (1 − β₂ᵗ)
    θ'  = θ − lr(t, total) · (m̂ / (√v̂ + ε) + λ θ)                   every leaf decays; without λ the term is left out

t counts from 1. The schedules are lr · min(t, w)/w times what follows warming up for w steps, 1 − a (linear) or ½(1 + cos πa)
(cosine), a = max(t − w, 0)/(total − w): both are 0 at t = total.

Method: arithmetic of trees is that of their leaves, so the functions do not know the model's. Decimals stay hyperparameters as long as
arithmetic on them is exact (1 − β₁ is 1/10, not 1 less a rounded 9/10), and so do numbers of steps. What is piecewise is `relu` of a
difference, put where a rounding cannot show: min(t, w) is w − relu(w − t), a difference of whole numbers, and min(1, c/d) is
c / (c + relu(d − c)): 1 exactly where nothing is clipped, and of full relative precision where much is.
"""

from typing import Final

import msgspec

from presk.core.ir import Binding, Call, Function, Literal, MakeTuple, Operation, Origin, Param, Prim, Project
from presk.core.lower import Lowered, Sited
from presk.elab.exprs import decimal_value
from presk.elab.records import OptimizerRecord
from presk.prims.attrs import Align, Attrs, Length
from presk.types.dim import constant
from presk.types.type import SCALAR, Hyper, HyperKind, Instance, Params, Real, Tuple, Type, type_dims

INIT: Final = "init"
RATE: Final = "lr"
STEP: Final = "step"
FUNCTIONS: Final = (INIT, RATE, STEP)
"""The functions of an optimizer, by what stands behind its name."""

CLIP_EPS: Final = "1e-6"
"""What clipping adds to the norm."""

DEFAULTS: Final = (("s", "0"),)
"""What a step takes where nothing is given for it: the moments of `init`."""


class Optimizer(msgspec.Struct, frozen=True, array_like=True):
    """What lowering needs: the block's record, the model, the names of the functions in the order of `FUNCTIONS`, and where the
    block stands."""

    record: OptimizerRecord
    model: Instance
    names: tuple[str, str, str]
    file: str
    chunk: str


_SCALAR: Final = Real(SCALAR)
_NAT: Final = Hyper(HyperKind.NAT)
_INT: Final = Hyper(HyperKind.INT)
_DECIMAL: Final = Hyper(HyperKind.F64)
_BOTH: Final[Attrs] = (("left", Align(False, ())), ("right", Align(False, ())))
_HAT: Final = "\N{COMBINING CIRCUMFLEX ACCENT}"
_SQUARE: Final[Attrs] = (("n", Length(constant(2))),)


def lower_optimizer(given: Optimizer, function: str) -> Lowered:
    """One of the three functions, with where its bindings come from: the head of the block."""
    made = {INIT: _init, RATE: _rate, STEP: _step}[function](given)
    origin = Origin(given.file, given.chunk, (0, 1))
    return Lowered((made,), tuple(Sited(made.name, binding.var, origin) for binding in made.bindings))


class _Body:
    """A body that grows; `tree` is P."""

    def __init__(self, given: Optimizer, function: str) -> None:
        self.tree: Type = Params(given.model)
        self.name = given.names[FUNCTIONS.index(function)]
        self.params: list[Param] = []
        self.bindings: list[Binding] = []
        self.types: list[Type] = []

    def param(self, name: str, type_: Type) -> int:
        self.params.append(Param(name, type_))
        self.types.append(type_)
        return len(self.types) - 1

    def emit(self, type_: Type, op: Operation, name: str | None = None) -> int:
        var = len(self.types)
        self.types.append(type_)
        self.bindings.append(Binding(var, name, type_, op))
        return var

    def finish(self, returns: int) -> Function:
        """The function; its dimensions are those that its types mention."""
        result = self.types[returns]
        mentioned = [*(param.type for param in self.params), result]
        dims = sorted({name for type_ in mentioned for dim in type_dims(type_) for name in dim.symbols()})
        return Function(self.name, tuple(dims), tuple(self.params), result, tuple(self.bindings), returns)

    # --- values ---

    def decimal(self, text: str) -> int:
        """A number of the block, a hyperparameter."""
        return self.emit(_DECIMAL, Literal(text))

    def steps(self, count: int) -> int:
        """A number of steps, or of anything."""
        return self.emit(_NAT, Literal(str(count)))

    def less(self, one: int, other: int) -> int:
        """A difference of hyperparameters, exact."""
        kind = _DECIMAL if _DECIMAL in (self.types[one], self.types[other]) else _INT
        return self.emit(kind, Prim("hyper_sub", (one, other)))

    def real(self, number: int) -> int:
        """A hyperparameter as a real."""
        return self.emit(_SCALAR, Prim("real", (number,)))

    def of(self, name: str, x: int, attrs: Attrs = (), let: str | None = None) -> int:
        """A primitive of one operand, of its type."""
        return self.emit(self.types[x], Prim(name, (x,), attrs), let)

    def both(self, name: str, x: int, y: int, let: str | None = None) -> int:
        """A primitive of two scalars, of two trees, or of a scalar and every leaf of a tree."""
        trees = self.tree in (self.types[x], self.types[y])
        type_, attrs = (self.tree, ()) if trees else (_SCALAR, _BOTH)
        return self.emit(type_, Prim(name, (x, y), attrs), let)

    def item(self, base: int, place: int, let: str) -> int:
        """An item of a pair of trees."""
        return self.emit(self.tree, Project(base, place), let)

    def pair(self, *items: int) -> int:
        """A pair."""
        return self.emit(Tuple(tuple(self.types[item] for item in items)), MakeTuple(items))


def _init(given: Optimizer) -> Function:
    body = _Body(given, INIT)
    theta = body.param("θ", body.tree)
    m = body.of("zeros_like", theta, let="m")
    v = body.of("zeros_like", theta, let="v")
    return body.finish(body.pair(m, v))


def _rate(given: Optimizer) -> Function:
    body = _Body(given, RATE)
    t, total = body.param("t", _NAT), body.param("total", _NAT)
    schedule = given.record.schedule
    rate = body.real(body.decimal(given.record.lr))
    if schedule.kind == "constant":
        return body.finish(rate)
    warmup = body.steps(schedule.warmup)
    if schedule.warmup > 0:
        # Whole numbers, so that the difference is min(t, w) itself.
        all_ = body.real(warmup)
        left = body.of("relu", body.real(body.less(warmup, t)))
        rate = body.both("mul", rate, body.both("div", body.both("sub", all_, left), all_), "warmed")
    span = body.real(body.less(total, warmup))
    gone = body.of("relu", body.real(body.less(t, warmup)))
    if schedule.kind == "linear":
        # Whole numbers again: 1 − gone/span would round close to 1 and keep few digits close to the end.
        return body.finish(body.both("mul", rate, body.both("div", body.both("sub", span, gone), span)))
    pi = body.emit(_SCALAR, Prim("pi", ()))
    cos = body.of("cos", body.both("mul", pi, body.both("div", gone, span)))
    one, half = body.real(body.steps(1)), body.real(body.decimal("0.5"))
    return body.finish(body.both("mul", rate, body.both("mul", half, body.both("add", one, cos))))


def _step(given: Optimizer) -> Function:
    record = given.record
    body = _Body(given, STEP)
    tree = body.tree
    theta = body.param("θ", tree)
    state = body.param("s", Tuple((tree, tree)))
    gradient = body.param("g", tree)
    t, total = body.param("t", _NAT), body.param("total", _NAT)
    old = [body.item(state, place, let) for place, let in enumerate(("m", "v"))]
    if record.grad_clip is not None:
        gradient = body.both("mul", gradient, _clip(body, gradient, record.grad_clip), "clipped")
    new: list[int] = []
    corrected: list[int] = []
    for place, let in enumerate(("m", "v")):
        one, beta = body.steps(1), body.decimal(record.betas[place])
        kept, taken = body.real(beta), body.real(body.less(one, beta))
        arrives = gradient if let == "m" else body.of("pow", gradient, _SQUARE)
        moment = body.both("add", body.both("mul", kept, old[place]), body.both("mul", taken, arrives), f"{let}1")
        new.append(moment)
        power = body.emit(_SCALAR, Prim("powv", (kept, t)))
        corrected.append(body.both("div", moment, body.both("sub", body.real(one), power), let + _HAT))
    m, v = corrected
    root = body.of("sqrt", v)
    update = body.both("div", m, body.both("add", root, body.real(body.decimal(record.eps))), "update")
    if decays(record):
        decay = body.both("mul", body.real(body.decimal(record.weight_decay)), theta)
        update = body.both("add", update, decay)
    rate = body.emit(_SCALAR, Call(given.names[FUNCTIONS.index(RATE)], (), None, (t, total)), "lr")
    moved = body.both("sub", theta, body.both("mul", rate, update), "θ1")
    return body.finish(body.pair(moved, body.pair(*new)))


def _clip(body: _Body, gradient: int, bound: str) -> int:
    """min(1, bound / (‖g‖₂ + 10⁻⁶)), a scalar; nothing is divided by zero where the gradient is."""
    norm = body.of("sqrt", body.emit(_SCALAR, Prim("sum_squares", (gradient,))), let="norm")
    size = body.both("add", norm, body.real(body.decimal(CLIP_EPS)))
    limit = body.real(body.decimal(bound))
    above = body.of("relu", body.both("sub", size, limit))
    return body.both("div", limit, body.both("add", limit, above), "scale")


def decays(record: OptimizerRecord) -> bool:
    """Whether weights decay: then all leaves of the tree do."""
    return decimal_value(record.weight_decay) != 0
