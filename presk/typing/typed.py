"""The typed program: what a body means, with every type, every instantiation and every alignment made explicit.

Lowering and the exporters that print a program as it was written read this tree. It holds no unknowns. Variables are numbered
through a function's parameters (θ first in a member) and its bindings, in order.
"""

import msgspec

from presk.diagnostics.value import Diagnostic
from presk.elab.entities import Signature
from presk.prims.attrs import Align, Attrs, AxisNames, Select
from presk.syntax.tree import At
from presk.types.dim import Dim
from presk.types.type import Instance, ModuleRef, Shape, Type


class FunctionRef(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A function: its file, its module for a member, its name, and the names given to its axis parameters."""

    file: str
    module: ModuleRef | None
    name: str
    axes: tuple[str, ...] = ()


class Node(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A typed expression: its place and its type."""

    at: At
    type: Type


class Var(Node, frozen=True):
    """A variable."""

    index: int
    name: str


class Literal(Node, frozen=True):
    """A number among hyperparameters, exact: `text` as written, or a constant's value."""

    text: str


class HyperOp(Node, frozen=True):
    """Arithmetic or comparison of hyperparameters; `op` as written; unary minus has one operand."""

    op: str
    operands: tuple["Typed", ...]


class Inject(Node, frozen=True):
    """A hyperparameter as a real number."""

    value: "Typed"


class Arith(Node, frozen=True):
    """`+ - * /` of real tensors, with the alignment of either operand in the result."""

    op: str
    left: "Typed"
    right: "Typed"
    left_align: Align
    right_align: Align


class NegateReal(Node, frozen=True):
    """Unary minus of a real tensor."""

    value: "Typed"


class Power(Node, frozen=True):
    """A real tensor to a natural power; the exponent is a hyperparameter."""

    base: "Typed"
    exponent: "Typed"


class Prim(Node, frozen=True):
    """A builtin: operands in the order of its parameters, keywords last, and its attributes."""

    name: str
    args: tuple["Typed", ...]
    attrs: Attrs


class EinSum(Node, frozen=True):
    """An Einstein summation, with the relabelled axis names of every operand and of the output."""

    output: AxisNames
    operand_names: tuple[AxisNames, ...]
    operands: tuple["Typed", ...]


class IndexInto(Node, frozen=True):
    """Selectors and slices, as written."""

    base: "Typed"
    selectors: tuple[Select, ...]


class ReadField(Node, frozen=True):
    """A field of a parameter tree: `θ.w`, `θ.l1`."""

    base: "Typed"
    name: str


class MakeTuple(Node, frozen=True):
    """A tuple."""

    items: tuple["Typed", ...]


class BoundName(msgspec.Struct, frozen=True, array_like=True):
    """A variable that a pattern or a parameter list binds."""

    index: int
    name: str
    type: Type


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """`let` of one name, or (`destructures`) of the items of a tuple."""

    at: At
    binders: tuple[BoundName, ...]
    destructures: bool
    value: "Typed"


class LetIn(Node, frozen=True):
    """A run of `let`s, in order, and the expression behind them."""

    bindings: tuple[Binding, ...]
    body: "Typed"


class LambdaFn(Node, frozen=True):
    """A lambda of one argument, which it may take apart."""

    binders: tuple[BoundName, ...]
    destructures: bool
    body: "Typed"


class GradOf(Node, frozen=True):
    """`grad(f)`."""

    function: "Typed"


class ApplyValue(Node, frozen=True):
    """The application of a function value."""

    function: "Typed"
    args: tuple["Typed", ...]


class FunctionValue(Node, frozen=True):
    """A declared function as a value, instantiated."""

    function: FunctionRef
    dims: tuple[tuple[str, Dim], ...]
    prefix: Shape | None


class ModuleArg(Node, frozen=True):
    """A module passed as an argument: a compile-time value."""

    instance: Instance


class Direct(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function at its instantiation: values of the callee's dimensions, and what its `...` stands for."""

    function: FunctionRef
    dims: tuple[tuple[str, Dim], ...]
    prefix: Shape | None


class Repeated(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A member through `stack{length}`: applied once a layer, on slice i of the tree, threading its first argument."""

    length: Dim
    inner: "Target"


class Chained(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`apply` of `outer ∘ inner`: the extra arguments (those behind the first) that either part takes, by number, and the
    type of the inner one's result."""

    outer: "Target"
    inner: "Target"
    outer_extras: tuple[int, ...]
    inner_extras: tuple[int, ...]
    middle: Type


Target = Direct | Repeated | Chained


class Call(Node, frozen=True):
    """A call of a declared function. An argument that is left to its default is None. `theta` is the parameter tree of a
    member function (its `args` do not repeat it); module-typed arguments are `ModuleArg`s."""

    target: Target
    theta: "Typed | None"
    args: tuple["Typed | None", ...]


class InitCall(Node, frozen=True):
    """`M.init(key)`."""

    instance: Instance
    key: "Typed"


class Retag(Node, frozen=True):
    """An ascription: the same value, its unnamed axes named."""

    value: "Typed"


class Wrong(Node, frozen=True):
    """An expression that was refused; it stands only in a body that has errors."""


class Hole(Node, frozen=True):
    """An expression that waits, while its body is typed, for the type of an operand. None is left in a typed function."""

    number: int


Typed = (
    Var
    | Literal
    | HyperOp
    | Inject
    | Arith
    | NegateReal
    | Power
    | Prim
    | EinSum
    | IndexInto
    | ReadField
    | MakeTuple
    | LetIn
    | LambdaFn
    | GradOf
    | ApplyValue
    | FunctionValue
    | ModuleArg
    | Call
    | InitCall
    | Retag
    | Wrong
    | Hole
)


class CallSite(msgspec.Struct, frozen=True, array_like=True):
    """That a function calls another, and where."""

    function: FunctionRef
    at: At


class TypedFunction(msgspec.Struct, frozen=True, array_like=True):
    """A function whose body was checked.

    `signature` has every type (the inferred ones too, as far as they were found), `axes` the names given to its axis
    parameters; `theta` is the type of the parameter tree of
    a member function, variable 0; `defaults` are the typed defaults, None where a parameter has none. `body` is None where it
    was refused. `inits` are the module instances whose `init` it calls. Everything but
    the signature has the instance in place of a `model`'s name.
    """

    signature: Signature
    axes: tuple[str, ...]
    theta: Type | None
    params: tuple[BoundName, ...]
    defaults: tuple[Typed | None, ...]
    result: Type | None
    body: Typed | None
    calls: tuple[CallSite, ...]
    inits: tuple[Instance, ...]
    diagnostics: tuple[Diagnostic, ...]
