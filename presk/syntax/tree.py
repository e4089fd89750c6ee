"""The syntax tree: frozen values, one class per form of the language.

Every node carries `at`, the first and the last token of its text, counted from the first token of its *chunk*. A chunk is
a declaration, or a member of a module, or a line of a configuration block; it is parsed by itself from its tokens. So a
tree is a function of its chunk's tokens alone: layout, comments and a neighbour's edit do not change it, and the table
that turns token numbers into lines and columns lies beside the program (`tokens.TokenTable`).

Names are NFC. Operators are in their Unicode spelling (`·`, not `@`). Literals keep their text.
"""

from typing import Final

import msgspec

At = tuple[int, int]

NOWHERE: Final[At] = (0, -1)


class Node(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A form with a place: `at` is (first token, last token), inclusive, counted in its chunk."""

    at: At


# --- expressions ------------------------------------------------------------------------------------------------------


class Name(Node, frozen=True):
    """A bare name: `x`, `θ`, `zeros`."""

    name: str


class Nat(Node, frozen=True):
    """A natural literal; `text` is its digits as written."""

    text: str


class Decimal(Node, frozen=True):
    """A decimal literal; `text` as written: `0.02`, `3e-4`."""

    text: str


class Quantity(Node, frozen=True):
    """A number with a unit: `5ms`, `204GB/s`."""

    number: str
    unit: str


class Text(Node, frozen=True):
    """A string literal; `value` has its escapes resolved."""

    value: str


class Negate(Node, frozen=True):
    """Unary minus."""

    operand: "Expr"


class Binary(Node, frozen=True):
    """`left operator right`; `operator` is one of `|> | ⊗ ∘ == <= >= < > + - * / % · ^`; `operator_at` its token."""

    operator: str
    operator_at: int
    left: "Expr"
    right: "Expr"


class Positional(Node, frozen=True):
    """A positional argument."""

    value: "Expr"


class Named(Node, frozen=True):
    """A named argument `name = value`."""

    name: str
    value: "Expr"


class AxisArg(Node, frozen=True):
    """An axis argument `axis name`."""

    name: str


class NamedAxis(Node, frozen=True):
    """A named axis `name: length`."""

    name: str
    length: "Expr"


Argument = Positional | Named | AxisArg | NamedAxis


class Call(Node, frozen=True):
    """`callee(arguments)`. `stream "path"` is the call of `stream` with that string."""

    callee: "Expr"
    arguments: tuple[Argument, ...]


class Slice(Node, frozen=True):
    """`lo..hi` in a selector."""

    lo: "Expr"
    hi: "Expr"


class Selector(Node, frozen=True):
    """One selector of an index: `value` or `axis: value`, where the value may be a slice."""

    axis: str | None
    value: "Expr | Slice"


class Index(Node, frozen=True):
    """`base[selectors]`."""

    base: "Expr"
    selectors: tuple[Selector, ...]


class DimArgs(Node, frozen=True):
    """`base{arguments}`: dimension arguments on a name, also `stack{L}`."""

    base: "Expr"
    arguments: tuple["Expr", ...]


class Field(Node, frozen=True):
    """`base.name`; `name_at` is the name's token."""

    base: "Expr"
    name: str
    name_at: int


class Binder(Node, frozen=True):
    """A name that a pattern or a parameter list binds, with its type if written (`λ (x : T). e`)."""

    name: str
    type: "TypeExpr | None" = None


class Pattern(Node, frozen=True):
    """What `let` and `λ` bind: one binder (`tuple` false) or a tuple of them (`tuple` true; any number of binders)."""

    binders: tuple[Binder, ...]
    tuple: bool


class Let(Node, frozen=True):
    """`let pattern = value`, then `body` on the next line."""

    pattern: Pattern
    value: "Expr"
    body: "Expr"


class Lambda(Node, frozen=True):
    """`λ pattern. body`."""

    pattern: Pattern
    body: "Expr"


class AxisName(Node, frozen=True):
    """An axis name in the list of an `ein`."""

    name: str


class Ein(Node, frozen=True):
    """`ein[axes](body)`."""

    axes: tuple[AxisName, ...]
    body: "Expr"


class Ascribe(Node, frozen=True):
    """`(value : type)`, also the argument `name : ℝ`."""

    value: "Expr"
    type: "TypeExpr"


class TupleExpr(Node, frozen=True):
    """`()`, `(a, b)`. A parenthesized expression is the expression itself."""

    items: tuple["Expr", ...]


Expr = (
    Name
    | Nat
    | Decimal
    | Quantity
    | Text
    | Negate
    | Binary
    | Call
    | Index
    | DimArgs
    | Field
    | Let
    | Lambda
    | Ein
    | Ascribe
    | TupleExpr
)


# --- types ------------------------------------------------------------------------------------------------------------


class Axis(Node, frozen=True):
    """One axis of an axis list: `length` or `name: length`."""

    name: str | None
    length: Expr


class Ellipsis(Node, frozen=True):
    """`...` in an axis list."""


AxisItem = Axis | Ellipsis


class RealType(Node, frozen=True):
    """`ℝ[axes]`; bare `ℝ` has no axes, as `ℝ[]`."""

    axes: tuple[AxisItem, ...]


class IndexType(Node, frozen=True):
    """`idx[bound][axes]`; `idx[bound]` has no axes."""

    bound: Expr
    axes: tuple[AxisItem, ...]


class MaskType(Node, frozen=True):
    """`bool[axes]`. Bare `bool` is a `NamedType`."""

    axes: tuple[AxisItem, ...]


class NamedType(Node, frozen=True):
    """A path with optional dimension arguments: `nat`, `key`, `Tokens`, `ff.Linear{D, D}`. `arguments` is None without braces."""

    path: tuple[str, ...]
    arguments: tuple[Expr, ...] | None


class ParamType(Node, frozen=True):
    """`param T`, the same as `T`."""

    type: "TypeExpr"


class ParamsType(Node, frozen=True):
    """`params M`, the parameter tree of a module (`params net`, `params m.MiniGPT`, `params Linear{D, D}`)."""

    module: NamedType


class TupleType(Node, frozen=True):
    """`(A, B)`, `()`."""

    items: tuple["TypeExpr", ...]


TypeExpr = RealType | IndexType | MaskType | NamedType | ParamType | ParamsType | TupleType


# --- declarations -----------------------------------------------------------------------------------------------------


class TypeParam(Node, frozen=True):
    """A type parameter with its kind, `dim` or `Shape` (`{In Out : dim}` gives two)."""

    name: str
    kind: str


class Parameter(Node, frozen=True):
    """`[axis] name [: type] [= default]`; `name_at` is the name's token."""

    name: str
    name_at: int
    axis: bool
    type: TypeExpr | None
    default: Expr | None


class Import(Node, frozen=True):
    """`import "path" as alias`; `path_at` is the string's token."""

    path: str
    path_at: int
    alias: str
    alias_at: int


class Const(Node, frozen=True):
    """`const name [: type] = value`."""

    name: str
    name_at: int
    type: TypeExpr | None
    value: Expr


class StaticAssert(Node, frozen=True):
    """`static assert condition`."""

    condition: Expr


class DimDecl(Node, frozen=True):
    """`dim name` or `dim name <= bound`."""

    name: str
    name_at: int
    bound: Expr | None


class TypeAlias(Node, frozen=True):
    """`type name = type`."""

    name: str
    name_at: int
    type: TypeExpr


class Effect(Node, frozen=True):
    """`effect name`."""

    name: str
    name_at: int


class Model(Node, frozen=True):
    """`model name = module-expression`. Module expressions are parsed as expressions; elaboration reads them."""

    name: str
    name_at: int
    value: Expr


class Fn(Node, frozen=True):
    """A function. `uses` holds each effect as a `Name`. `body` is None in a *header*, which keeps the rest."""

    name: str
    name_at: int
    type_params: tuple[TypeParam, ...]
    params: tuple[Parameter, ...]
    result: TypeExpr | None
    uses: tuple[Name, ...]
    body: Expr | None


class ParamMember(Node, frozen=True):
    """`param names : type [init = init]` in a module."""

    names: tuple[Name, ...]
    type: TypeExpr
    init: Expr | None


class UseMember(Node, frozen=True):
    """`use names : module-expression` in a module."""

    names: tuple[Name, ...]
    module: Expr


class Item(Node, frozen=True):
    """A line of a configuration block: `name = value`, `name : type = value` (`type` given) or `name : value`."""

    name: str
    name_at: int
    type: TypeExpr | None
    value: Expr


class Checkpoint(Node, frozen=True):
    """`checkpoint every count unit to "path"`; the language knows the unit `steps` only."""

    count: Expr
    unit: str
    unit_at: int
    path: str
    path_at: int


Member = ParamMember | UseMember | Fn
ConfigItem = Item | Checkpoint


class MemberChunk(msgspec.Struct, frozen=True, array_like=True):
    """A member of a module with the key of its chunk (`module Linear/fn apply`, `module Linear/param w`, `…/use l1`)."""

    key: str
    member: Member


class ItemChunk(msgspec.Struct, frozen=True, array_like=True):
    """A line of a configuration block with the key of its chunk (`training run/objective`)."""

    key: str
    item: ConfigItem


class Module(Node, frozen=True):
    """`module name{type params} { members }`. `at` covers the header; each member's places are its own chunk's."""

    name: str
    name_at: int
    type_params: tuple[TypeParam, ...]
    members: tuple[MemberChunk, ...]


class Block(Node, frozen=True):
    """`optimizer name { … }`, `training run { … }`, `inference serve { … }`: `kind` is the first word, `name` the second."""

    kind: str
    name: str
    name_at: int
    items: tuple[ItemChunk, ...]


Declaration = Import | Const | StaticAssert | DimDecl | TypeAlias | Effect | Model | Module | Fn | Block


class DeclChunk(msgspec.Struct, frozen=True, array_like=True):
    """A declaration with the key of its chunk: `fn mse`, `module Linear`, `const D`, `static assert 2`, `import m`.

    The key is kind and name; of two with one key the second gets `#2`. Assertions are numbered from 1.
    """

    key: str
    declaration: Declaration


class SourceFile(msgspec.Struct, frozen=True, array_like=True):
    """A file: its declarations that parsed, in order."""

    declarations: tuple[DeclChunk, ...]
