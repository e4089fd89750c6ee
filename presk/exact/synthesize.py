"""The arguments of an entry: what is given, and what is drawn from the seed where nothing is.

Parameter i draws from child i of the master key, whether or not others are given, so giving one changes no other. A real tensor is
standard normal, an index ⌊u · N⌋, a truth value u < ½, a key the child itself; item i of a tuple draws from child i of the tuple's
key. A parameter tree is what its module's initializer makes of its key: field i of a module draws from child i of the module's key,
layer i of a stack from child i of the stack's, and of `A ∘ B` the outer part is child 0. A parameter of tensors that has a default is
zeros.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gmpy2 import mpq

from presk.core.ir import Function, Param
from presk.exact import checkpoints, draws, given
from presk.exact.arithmetic import Making
from presk.exact.checkpoints import Tree
from presk.exact.faults import COMMAND, DATA, Fault
from presk.exact.given import Given, Raw
from presk.exact.interpreter import literal
from presk.exact.scope import Scope
from presk.exact.values import Index, Items, Key, Mask, Real, Record, Value, stack_of
from presk.types import type as types
from presk.types.dim import Dim
from presk.types.trees import Init, ParamField
from presk.types.type import Composed, Instance, Named, Stacked, Type, map_instance, type_dims


@dataclass(frozen=True, slots=True)
class Sources:
    """What an entry is called with: files and words by parameter or part of one (`batch.0`), defaults, the seed.

    `checkpoints` names the files of the parameters that are the tree of a checkpoint.
    """

    raws: Mapping[str, Raw]
    defaults: Mapping[str, str]
    seed: int
    checkpoints: Mapping[str, str] = dataclasses.field(default_factory=dict)


def sources(inputs: Mapping[str, Given], words: Mapping[str, str], defaults: Mapping[str, str], seed: int) -> Sources:
    """Reads what is given. COMMAND for one thing that is given twice."""
    raws: dict[str, Raw] = {name: given.raw_of_file(file) for name, file in inputs.items()}
    for name, text in words.items():
        if name in raws:
            raise Fault(COMMAND, f"`{name}` is given twice")
        raws[name] = given.raw_of_word(text)
    for name in raws:
        outer = name.rpartition(".")[0]
        while outer:
            if outer in raws:
                raise Fault(COMMAND, f"`{name}` is given, and so is `{outer}`, of which it is a part")
            outer = outer.rpartition(".")[0]
    return Sources(raws, defaults, seed, {name: file.name for name, file in inputs.items() if file.checkpoint})


def determine(
    function: Function, found: Sources, scope: Scope, known: Mapping[str, int]
) -> tuple[dict[str, int], tuple[int, ...]]:
    """The dimensions of an entry, the known ones and those that the lengths of given tensors determine, and its leading axes.

    COMMAND for a part that is given and does not exist, for a dimension that the parameters or the result mention and that nothing
    determines, and for open leading axes; DATA for tensors that do not fit, MISFIT for those of a checkpoint.
    """
    dims = dict(known)
    prefixes: list[tuple[int, ...]] = []
    used: set[str] = set()
    trees = [
        Tree(param.name, param.type, found.raws[param.name], found.checkpoints[param.name])
        for param in function.params
        if param.name in found.checkpoints and isinstance(param.type, types.Params)
    ]
    for tree in trees:
        checkpoints.infer(tree, scope, dims)
        used.add(tree.path)
    for param in function.params:
        if param.name not in used:
            _visit(param.type, param.name, None, found.raws, scope, dims, prefixes, used)
    unknown = [name for name in found.raws if name not in used]
    if unknown:
        names = ", ".join(f"`{param.name}`" for param in function.params)
        raise Fault(COMMAND, f"`{function.name}` has no parameter `{unknown[0]}`", notes=(f"it has {names or 'none'}",))
    for prefix in prefixes:
        if prefix != prefixes[0]:
            raise Fault(DATA, f"`...` is {list(prefixes[0])} in one parameter and {list(prefix)} in another")
    mentioned = [*(param.type for param in function.params), function.result]
    open_ = sorted({name for type_ in mentioned for dim in type_dims(type_) for name in dim.symbols()} - set(dims))
    if open_:
        raise Fault(
            COMMAND,
            f"the dimension `{open_[0]}` of `{function.name}` has no value",
            mend=" ".join(f"--dim {name}=…" for name in open_),
        )
    for tree in trees:
        checkpoints.check(tree, Scope(dims, (), scope.headers))
    if not prefixes and any(_open(param.type) for param in function.params):
        raise Fault(
            COMMAND,
            f"nothing says how many axes `...` of `{function.name}` stands for",
            mend="give the parameter with `--input`",
        )
    return dims, prefixes[0] if prefixes else ()


def _open(type_: Type) -> bool:
    match type_:
        case types.Real(shape) | types.Mask(shape) | types.Index(_, shape):
            return shape.prefix is not None
        case types.Tuple(items):
            return any(map(_open, items))
        case _:
            return False


def _visit(
    type_: Type,
    path: str,
    raw: Raw | None,
    raws: Mapping[str, Raw],
    scope: Scope,
    dims: dict[str, int],
    prefixes: list[tuple[int, ...]],
    used: set[str],
) -> None:
    """Finds what is given for a parameter and its parts, and lets its tensors determine dimensions."""
    if path in raws:
        raw = raws[path]
        used.add(path)
    match type_:
        case types.Real(shape) | types.Mask(shape) | types.Index(_, shape) if raw is not None:
            prefix = given.infer_lengths(shape, given.as_tensor(raw, path).shape, dims, path)
            if prefix is not None:
                prefixes.append(prefix)
        case types.Tuple(items):
            parts: Sequence[Raw | None] = [None] * len(items)
            if raw is not None:
                parts = given.item_parts(raw, len(items), path)
            for place, (item, part) in enumerate(zip(items, parts)):
                _visit(item, f"{path}.{place}", part, raws, scope, dims, prefixes, used)
        case types.Params(instance) if raw is not None or any(name.startswith(f"{path}.") for name in raws):
            fields = scope.fields(instance)
            found: Mapping[str, Raw] = {}
            if raw is not None:
                found = given.field_parts(raw, fields, scope, path)
            for field in fields:
                inner = field.type if isinstance(field, ParamField) else types.Params(field.instance)
                _visit(inner, f"{path}.{field.name}", found.get(field.name), raws, scope, dims, prefixes, used)
        case _:
            pass


def arguments(m: Making, scope: Scope, function: Function, found: Sources) -> list[Value]:
    """The values of an entry's parameters, in an arithmetic that is active."""
    master = draws.master_key(found.seed)
    return [
        _argument(m, scope, param, draws.child(master, place), found) for place, param in enumerate(function.params)
    ]


def _argument(m: Making, scope: Scope, param: Param, key: bytes, found: Sources) -> Value:
    if isinstance(param.type, types.Hyper) and param.name not in found.raws and param.name in found.defaults:
        return literal(found.defaults[param.name])
    return _value(m, scope, param.type, param.name, key, found.raws, zero=param.name in found.defaults)


def _value(
    m: Making, scope: Scope, type_: Type, path: str, key: bytes, raws: Mapping[str, Raw], *, zero: bool
) -> Value:
    if path in raws:
        return given.value_of(m, scope, raws[path], type_, path)
    match type_:
        case types.Real(shape):
            lengths = scope.shape(shape)
            if zero:
                return Real(m.zeros(lengths))
            return Real(m.from_doubles(m.normals(key, prod(lengths)).reshape(lengths)))
        case types.Index(limit, shape):
            lengths, bound = scope.shape(shape), scope.length(limit)
            return Index(draws.indices(key, prod(lengths), bound).reshape(lengths), bound)
        case types.Mask(shape):
            lengths = scope.shape(shape)
            return Mask(draws.below(key, prod(lengths), mpq(1, 2)).reshape(lengths))
        case types.Key():
            return Key(key)
        case types.Tuple(items):
            return Items(
                tuple(
                    _value(m, scope, item, f"{path}.{place}", draws.child(key, place), raws, zero=zero)
                    for place, item in enumerate(items)
                )
            )
        case types.Params(instance):
            tree = initialized(m, scope, instance, key, zero=zero)
            return _with_parts(m, scope, tree, instance, path, raws)
        case types.Hyper():
            raise Fault(
                COMMAND, f"`{path} : {type_}` has no default and is not drawn", mend=f"give it with `--arg {path}=…`"
            )
        case _:
            raise Fault(COMMAND, f"`{path} : {type_}` can neither be given nor drawn, so this is no entry")


def _with_parts(m: Making, scope: Scope, tree: Value, instance: Instance, path: str, raws: Mapping[str, Raw]) -> Value:
    """The tree with the parts that are given by their own paths."""
    if not isinstance(tree, Record) or not any(name.startswith(f"{path}.") for name in raws):
        return tree
    replaced: dict[str, Value] = {}
    for field in scope.fields(instance):
        below = f"{path}.{field.name}"
        inner = field.type if isinstance(field, ParamField) else types.Params(field.instance)
        if below in raws:
            replaced[field.name] = given.value_of(m, scope, raws[below], inner, below)
        elif isinstance(field, ParamField):
            replaced[field.name] = tree.fields[field.name]
        else:
            replaced[field.name] = _with_parts(m, scope, tree.fields[field.name], field.instance, below, raws)
    return Record(replaced)


def initialized(m: Making, scope: Scope, instance: Instance, key: bytes, *, zero: bool = False) -> Value:
    """What the initializer of a module instance makes of a key; `zero`: a tree of its form, of zeros."""
    match instance:
        case Stacked(length, inner):
            count = scope.length(length)
            layers = [initialized(m, scope, inner, child, zero=zero) for child in draws.split_key(key, count)]
            return stack_of(layers, layers[0] if layers else initialized(m, scope, inner, key, zero=zero))
        case Composed(outer, inner):
            first, second = draws.split_key(key, 2)
            return Record(
                {
                    name: initialized(m, scope, part, child, zero=zero)
                    for (name, part), child in zip((("outer", outer), ("inner", inner)), (first, second))
                }
            )
        case Named(module, arguments_, hidden):
            header = scope.headers[module]
            if header.model is not None:
                values: dict[str, Dim] = {**dict(zip(header.dims, arguments_, strict=True)), **dict(hidden)}
                model = map_instance(header.model, lambda dim: dim.substitute(values))
                return initialized(m, scope, model, key, zero=zero)
            fields = scope.fields(instance)
            made: dict[str, Value] = {}
            for field, child in zip(fields, draws.split_key(key, len(fields))):
                if isinstance(field, ParamField):
                    made[field.name] = _parameter(m, scope, field, child, zero=zero)
                else:
                    made[field.name] = initialized(m, scope, field.instance, child, zero=zero)
            return Record(made)


def _parameter(m: Making, scope: Scope, field: ParamField, key: bytes, *, zero: bool) -> Real:
    lengths = scope.shape(field.type.shape)
    match Init("zeros") if zero else field.init:
        case Init("zeros"):
            return Real(m.zeros(lengths))
        case Init("ones"):
            return Real(m.ones(lengths))
        case Init("normal", std):
            drawn = draws.scaled(m.normals(key, prod(lengths)), mpq(std or "1"))
        case Init("xavier_uniform"):
            fans = (lengths[0], lengths[-1]) if lengths else (1, 1)
            drawn = draws.xavier_uniform(key, prod(lengths), *fans)
        case other:
            raise TypeError(f"{other.kind} is no initializer")
    return Real(m.from_doubles(drawn.reshape(lengths)))
