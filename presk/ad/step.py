"""One step of a training run as a function of the core: loss, gradient and optimizer.

    training.step(θ : P, s : (P, P), key : key, batch, t : nat, total : nat) -> (ℝ[], ℝ[], ℝ[], P, (P, P))

    (l, g) = loss.value_vjp(θ, key, batch)
    (l, ‖g‖₂, adamw.lr(t, total), adamw.step(θ, s, g, t, total))

`key` is there where the objective takes one; its other parameters have their defaults. The step calls the objective's
`.value_vjp`, which differentiation makes, so it joins a program there (`presk.ad`) and has no meaning before."""

from typing import Final

import msgspec

from presk.ad.kinds import carries
from presk.ad.names import value_vjp
from presk.cache.codec import struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.core.calls import same_dims
from presk.core.ir import (
    Binding,
    Call,
    Dims,
    Function,
    Literal,
    MakeTuple,
    Operation,
    Origin,
    Param,
    Prim,
    Project,
    operands,
)
from presk.core.lower import Lowered, Sited
from presk.core.stage import LOWERED
from presk.elab.codecs import PACKAGES
from presk.types.dim import symbol
from presk.types.type import SCALAR, Hyper, HyperKind, Instance, Key, Params, Real, Tuple, Type, instantiate, type_dims

STEP: Final = "training.step"
"""`training` is a word of the language: no module has this name."""

THETA: Final = "θ"
STATE: Final = "s"
KEY: Final = "key"
BATCH: Final = "batch"
STEPS: Final = "t"
TOTAL: Final = "total"

NORM: Final = "norm"
VALUES: Final = ("loss", NORM, "rate")
"""The numbers of a step, the first items of its result; the new tree and the new moments stand behind them."""

CARRIED: Final = ((THETA, f".{len(VALUES)}"), (STATE, f".{len(VALUES) + 1}"))
"""What a step hands to the next: parameters, and the parts of the result that they become."""


class Objective(msgspec.Struct, frozen=True, array_like=True):
    """The objective in the core: its name, dimensions and parameters. `bound` are the dimensions that the model decides,
    `defaults` the literals of the parameters behind the batch.
    """

    name: str
    dims: tuple[str, ...]
    params: tuple[Param, ...]
    bound: Dims
    defaults: tuple[str, ...]


class Training(msgspec.Struct, frozen=True, array_like=True):
    """What the step is made of: the objective, the model, the optimizer's `lr` and `step`, and where the block stands."""

    objective: Objective
    model: Instance
    rate: str
    step: str
    file: str
    chunk: str


def lower_step(given: Training) -> Lowered:
    """The step, with where its bindings come from: the head of the training block."""
    function = _step(given)
    origin = Origin(given.file, given.chunk, (0, 1))
    return Lowered((function,), tuple(Sited(function.name, binding.var, origin) for binding in function.bindings))


def _step(given: Training) -> Function:
    objective = given.objective
    bound = dict(objective.bound)
    dims = tuple(name for name in objective.dims if name not in bound)
    taken = [Param(param.name, instantiate(param.type, bound, None)) for param in objective.params]
    tree: Type = Params(given.model)
    scalar, nat = Real(SCALAR), Hyper(HyperKind.NAT)
    moments = Tuple((tree, tree))
    keyed = isinstance(taken[1].type, Key)
    params = [Param(THETA, tree), Param(STATE, moments)]
    if keyed:
        params.append(Param(KEY, taken[1].type))
    params += [Param(BATCH, taken[1 + keyed].type), Param(STEPS, nat), Param(TOTAL, nat)]
    place = {param.name: number for number, param in enumerate(params)}
    bindings: list[Binding] = []

    def emit(type_: Type, op: Operation, name: str | None = None) -> int:
        var = len(params) + len(bindings)
        bindings.append(Binding(var, name, type_, op))
        return var

    args = [place[THETA], *([place[KEY]] if keyed else []), place[BATCH]]
    for param, text in zip(taken[len(args) :], objective.defaults, strict=True):
        args.append(emit(param.type, Literal(text), param.name))
    both = Tuple((scalar, *(param.type for param in taken if carries(param.type))))
    handed = tuple((name, bound.get(name, symbol(name))) for name in objective.dims)
    made = emit(both, Call(value_vjp(objective.name), handed, None, tuple(args)))
    loss = emit(scalar, Project(made, 0), "loss")
    gradient = emit(tree, Project(made, 1), "g")
    norm = emit(scalar, Prim("sqrt", (emit(scalar, Prim("sum_squares", (gradient,))),)), NORM)
    counted = (place[STEPS], place[TOTAL])
    rate = emit(scalar, Call(given.rate, (), None, counted), "lr")
    own = same_dims(sorted({name for dim in type_dims(tree) for name in dim.symbols()}))
    moved = emit(Tuple((tree, moments)), Call(given.step, own, None, (place[THETA], place[STATE], gradient, *counted)))
    result = (loss, norm, rate, emit(tree, Project(moved, 0)), emit(moments, Project(moved, 1)))
    types = Tuple((scalar, scalar, scalar, tree, moments))
    returns = emit(types, MakeTuple(result))
    return Function(STEP, dims, tuple(params), types, tuple(bindings), returns)


def squares(function: Function) -> str:
    """The nest of a step that adds up the squares of the gradient."""
    (root,) = (one.op for one in function.bindings if one.name == NORM)
    (var,) = operands(root)
    return f"{function.name}/%{var}"


LOWER_STEP: Final = Stage("training step", __name__, (), lower_step, LOWERED, PACKAGES)
TRAINING: Final = struct_codec(Training)


def lowered_step(queries: Queries, given: Training) -> Result[Lowered]:
    """The step, by its stage."""
    return queries.get(LOWER_STEP, queries.leaf("training", given, TRAINING), subject=STEP)
