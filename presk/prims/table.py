"""The table of primitives: one row each, joined by one explicit call. Nothing registers itself on import."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from presk.prims import elementwise, movement, random, reductions, tables
from presk.prims.surface import Form, Rule


@dataclass(frozen=True, slots=True)
class Primitive:
    """One row: all that the compiler knows about one builtin. `form` is how a program calls it and `typing` its rule; `draws`
    says that it draws from a key: a use of it is a use of Rand."""

    name: str
    form: Form
    typing: Rule
    draws: bool = False


def _table(rows: Iterable[Primitive]) -> Mapping[str, Primitive]:
    found: dict[str, Primitive] = {}
    for row in rows:
        assert row.name not in found, row.name
        found[row.name] = row
    return MappingProxyType(found)


_X: Final = Form(("x",))
_HEADS: Final = Form(("x",), constants=("H", "HD"))

BUILTINS: Final = _table(
    (
        *(
            Primitive(name, _X, elementwise.elementwise)
            for name in ("gelu", "relu", "exp", "tanh", "sqrt", "abs", "log", "sigmoid", "sin", "cos")
        ),
        Primitive("max", Form(("x", "y")), elementwise.extremum),
        Primitive("min", Form(("x", "y")), elementwise.extremum),
        Primitive("clamp", Form(("x", "lo", "hi")), elementwise.clamp),
        Primitive("real", _X, elementwise.real),
        Primitive("mean", Form(("x",), optional_axis=True), reductions.reduction),
        Primitive("sum", Form(("x",), optional_axis=True), reductions.reduction),
        Primitive("softmax", Form(("x",), axes=1, keywords=("where",)), reductions.softmax),
        Primitive("cross_entropy", Form(("logits", "y")), reductions.cross_entropy),
        Primitive("argmax", _X, reductions.argmax),
        Primitive("sample", Form(("key", "logits")), reductions.sample, draws=True),
        Primitive("embed", Form(("w", "t")), tables.embed),
        Primitive("one_hot", Form(("t",)), tables.one_hot),
        Primitive("positions", Form(named_axes=1), tables.positions),
        Primitive("causal_mask", Form(named_axes=1), tables.causal_mask),
        Primitive("merge", Form(("x",), axes=2), movement.merge),
        Primitive("split", Form(("x",), axes=1, named_axes=2), movement.split),
        Primitive("split_heads", _HEADS, movement.split_heads),
        Primitive("merge_heads", _HEADS, movement.merge_heads),
        Primitive("concat", Form(("x", "y"), axes=1), movement.concat),
        Primitive("matmul", Form(("x", "w")), movement.dot),
        Primitive("dropout", Form(("rate", "key", "x"), decimals=("rate",)), random.dropout, draws=True),
        Primitive("split_key", Form(("key",)), random.split_key, draws=True),
    )
)
"""The builtins of the language by name. `grad` is a form of its own, since its argument is a function."""

NOT_IMPLEMENTED: Final = frozenset({"vjp", "jvp"})
"""Names that the specification has and this language has not (E2012)."""
