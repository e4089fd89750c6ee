"""The text of `dump --stage elab`, and the records that `check --summary` prints.

Files stand in the order of elaboration, imported ones first. For each: constants, dimensions with their facts, types, modules with
their generic header, signatures, then the parameter trees of its closed modules and of every instance that its types and
signatures mention, every leaf with its path.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, ModuleHeader, Param, Signature
from presk.elab.program import Program
from presk.elab.records import OptimizerRecord, ServeRecord, TrainingRecord
from presk.elab.sight import FileState
from presk.syntax import tree
from presk.syntax.printer import print_expr
from presk.types.claim import Claim
from presk.types.dim import ONE, ZERO, NonLinear, symbol
from presk.types.trees import Init, ParamField, leaf_count, leaves
from presk.types.type import (
    Function,
    Instance,
    ModuleRef,
    ModuleType,
    Named,
    Params,
    Tuple,
    Type,
)

MAX_LEAVES: Final = 4_096
"""A tree with more leaves is counted, not listed: a module that uses another twice, and so on, has exponentially many."""

Headers = Mapping[ModuleRef, ModuleHeader]


def dump_program(program: Program) -> str:
    """The elaborated program as text."""
    parts: list[str] = []
    for state in program.states.values():
        lines = [f"-- {state.name} --", *_declarations(state)]
        for instance in _instances(state):
            lines.extend(("", *_tree(instance, program.headers)))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _declarations(state: FileState) -> Iterator[str]:
    block = False
    for chunk in state.loaded.parsed.file.declarations:
        if chunk.key in state.names.repeated:
            continue
        node = chunk.declaration
        lines: list[str] = []
        match node:
            case tree.Import(alias=alias):
                target = state.imports.get(alias)
                if target is not None:
                    lines = [f'import "{target.name}" as {alias}']
            case tree.Const(name=name) | tree.DimDecl(name=name) | tree.TypeAlias(name=name):
                lines = _entity(state, name)
            case tree.Module(name=name) | tree.Model(name=name):
                lines = ["", *_module(state, name)]
            case tree.Fn(name=name):
                signature = state.signatures[None, name].value.entity
                lines = [signature_text(signature, state)] if isinstance(signature, Signature) else []
        if block and lines and lines[0]:
            yield ""
        block = bool(lines) and not lines[0]
        yield from lines


def _entity(state: FileState, name: str) -> list[str]:
    entity = state.entities[name].value.entity
    match entity:
        case ConstEntity(value=value) if value is not None:
            return [f"const {name} : nat = {value}"]
        case DimEntity(facts=facts):
            return [f"dim {facts[0]}" if facts else f"dim {name}"]
        case AliasEntity(type=type_) if type_ is not None:
            return [f"type {name} = {type_}{_where(entity.facts)}"]
        case _:
            return []


def _where(facts: Iterable[Claim]) -> str:
    shown = ", ".join(map(str, facts))
    return f" where {shown}" if shown else ""


def _module(state: FileState, name: str) -> list[str]:
    header = state.entities[name].value.entity
    if not isinstance(header, ModuleHeader):
        return []
    if header.model is not None:
        return [f"model {name} = {header.model}{_mentioned(header)}"]
    lines = [f"module {name}{_generic(header.dims)}{_mentioned(header)} {{"]
    for field in header.fields:
        if isinstance(field, ParamField):
            lines.append(f"  param {field.name} : {field.type} init = {init_text(field.init)}")
        else:
            lines.append(f"  use {field.name} : {field.instance}")
    for function in header.functions:
        found = state.signatures.get((name, function))
        signature = None if found is None else found.value.entity
        if isinstance(signature, Signature):
            lines.append(f"  {signature_text(signature, state, len(header.dims))}")
    return [*lines, "}"]


def _mentioned(header: ModuleHeader) -> str:
    """The dimensions of the file that a module's parameters depend on."""
    if not header.hidden:
        return ""
    return f" for {' '.join(header.hidden)}{_where(header.facts)}"


def _generic(names: Iterable[str]) -> str:
    shown = " ".join(names)
    return f"{{{shown} : dim}}" if shown else ""


def init_text(init: Init) -> str:
    """An initializer as it is written."""
    return init.kind if init.std is None else f"{init.kind}(std = {init.std})"


def signature_text(signature: Signature, state: FileState, inherited: int = 0) -> str:
    """A signature on one line; all its dimensions stand in the braces, but the first `inherited`."""
    params = ", ".join(_param(param, state) for param in signature.params)
    result = "" if signature.result is None else f" -> {signature.result}"
    uses = f" uses {', '.join(signature.uses)}" if signature.uses else ""
    dims = _generic(signature.dims[inherited:])
    return f"fn {signature.name}{dims}({params}){result}{uses}{_where(signature.facts)}"


def _param(param: Param, state: FileState) -> str:
    if param.axis:
        return f"axis {param.name}"
    type_ = "" if param.type is None else f" : {param.type}"
    default = "" if param.default is None else f" = {print_expr(_folded(param.default, state))}"
    return f"{param.name}{type_}{default}"


def _folded(default: tree.Expr, state: FileState) -> tree.Expr:
    """A default with the file's constants put in; the dump shows no constant's name."""
    match default:
        case tree.Name(at=at, name=name):
            found = state.entities.get(name)
            entity = None if found is None else found.value.entity
            if isinstance(entity, ConstEntity) and entity.value is not None:
                return tree.Nat(at, str(entity.value))
            return default
        case tree.Binary(left=left, right=right):
            return msgspec.structs.replace(default, left=_folded(left, state), right=_folded(right, state))
        case tree.Negate(operand=operand):
            return msgspec.structs.replace(default, operand=_folded(operand, state))
        case tree.Ascribe(value=value):
            return msgspec.structs.replace(default, value=_folded(value, state))
        case tree.TupleExpr(items=items):
            return msgspec.structs.replace(default, items=tuple(_folded(item, state) for item in items))
        case _:
            return default


# --- parameter trees --------------------------------------------------------------------------------------------------


def _instances(state: FileState) -> list[Instance]:
    """The instances whose trees are shown: closed modules, and what aliases, models and signatures mention."""
    found: dict[Instance, None] = {}
    for entity in (each.value.entity for each in state.entities.values()):
        match entity:
            case ModuleHeader(ref=ref, dims=(), hidden=hidden):
                found[Named(ref, (), tuple((name, symbol(name)) for name in hidden))] = None
            case AliasEntity(type=type_) if type_ is not None:
                found.update(dict.fromkeys(_in_type(type_)))
            case _:
                pass
    for signature in (each.value.entity for each in state.signatures.values()):
        if isinstance(signature, Signature):
            for param in signature.params:
                if param.type is not None:
                    found.update(dict.fromkeys(_in_type(param.type)))
            if signature.result is not None:
                found.update(dict.fromkeys(_in_type(signature.result)))
    return list(found)


def _in_type(type_: Type) -> Iterator[Instance]:
    match type_:
        case Params(instance) | ModuleType(instance):
            yield instance
        case Tuple(items):
            for item in items:
                yield from _in_type(item)
        case Function(params, result):
            for item in (*params, result):
                yield from _in_type(item)
        case _:
            pass


def _tree(instance: Instance, headers: Headers) -> Iterator[str]:
    count = leaf_count(instance, headers)
    total = parameter_count(instance, headers) if count <= MAX_LEAVES else None
    numbers = f" {total} parameters" if total is not None else ""
    yield f"params {instance}:{numbers}"
    if count > MAX_LEAVES:
        yield f"  {count} tensors"
        return
    for leaf in leaves(instance, headers):
        yield f"  {leaf.path} : {leaf.type}"


def parameter_count(instance: Instance, headers: Headers) -> str | None:
    """How many real numbers a tree holds: a number with a comma at every thousand, or a linear form; None if it is neither."""
    total = ZERO
    for leaf in leaves(instance, headers):
        size = ONE
        try:
            for axis in leaf.type.shape.axes:
                size = size * axis.length
        except NonLinear:
            return None
        total = total + size
    return _grouped(str(total)) if total.is_constant() else str(total)


def _grouped(digits: str) -> str:
    front = len(digits) % 3
    parts = [digits[:front]] if front else []
    return ",".join([*parts, *(digits[i : i + 3] for i in range(front, len(digits), 3))])


# --- JSON -------------------------------------------------------------------------------------------------------------


def dump_json(program: Program) -> str:
    """The elaborated program as one JSON object; dimensions, types and numbers are texts, as `dump_program` writes them."""
    files = [_file_json(state, program.headers) for state in program.states.values()]
    return msgspec.json.format(msgspec.json.encode({"files": files}), indent=2).decode() + "\n"


def _file_json(state: FileState, headers: Headers) -> dict[str, object]:
    constants: dict[str, str] = {}
    dimensions: dict[str, list[str]] = {}
    types: dict[str, str] = {}
    modules: list[dict[str, object]] = []
    for name, found in state.entities.items():
        match found.value.entity:
            case ConstEntity(value=value) if value is not None:
                constants[name] = str(value)
            case DimEntity(facts=facts):
                dimensions[name] = [str(claim) for claim in facts]
            case AliasEntity(type=type_) if type_ is not None:
                types[name] = str(type_)
            case ModuleHeader() as header:
                modules.append(_module_json(state, header))
            case _:
                pass
    functions = [
        _signature_json(entity)
        for (module, _), found in state.signatures.items()
        if module is None and isinstance(entity := found.value.entity, Signature)
    ]
    trees = [
        {
            "module": str(instance),
            "leaves": [{"path": leaf.path, "type": str(leaf.type)} for leaf in leaves(instance, headers)],
        }
        for instance in _instances(state)
        if leaf_count(instance, headers) <= MAX_LEAVES
    ]
    return {
        "file": state.name,
        "constants": constants,
        "dimensions": dimensions,
        "types": types,
        "modules": modules,
        "functions": functions,
        "trees": trees,
    }


def _module_json(state: FileState, header: ModuleHeader) -> dict[str, object]:
    fields: list[dict[str, str]] = []
    for field in header.fields:
        if isinstance(field, ParamField):
            fields.append({"param": field.name, "type": str(field.type), "init": init_text(field.init)})
        else:
            fields.append({"use": field.name, "module": str(field.instance)})
    signatures = (state.signatures.get((header.ref.name, name)) for name in header.functions)
    entities = (None if found is None else found.value.entity for found in signatures)
    return {
        "name": header.ref.name,
        "dims": list(header.dims),
        "file_dims": list(header.hidden),
        "fields": fields,
        "functions": [_signature_json(entity) for entity in entities if isinstance(entity, Signature)],
        "model": None if header.model is None else str(header.model),
    }


def _signature_json(signature: Signature) -> dict[str, object]:
    return {
        "name": signature.name,
        "dims": list(signature.dims),
        "facts": [str(claim) for claim in signature.facts],
        "params": [
            {"name": param.name, "type": None if param.type is None else str(param.type), "axis": param.axis}
            for param in signature.params
        ],
        "result": None if signature.result is None else str(signature.result),
        "uses": list(signature.uses),
    }


# --- records ----------------------------------------------------------------------------------------------------------


def summary(program: Program) -> str:
    """The resolved configuration blocks as text: what `check --summary` prints."""
    parts = [_table("optimizer", _optimizer(record)) for record in program.optimizers]
    if program.training is not None:
        parts.insert(0, _table("training", _training(program.training, program.headers)))
    if program.serve is not None:
        parts.append(_table("inference", _serve(program.serve, program.headers)))
    return "\n".join(parts)


def dump_training(program: Program) -> str:
    """The training run's record, and that of its optimizer."""
    training = program.training
    if training is None:
        return ""
    optimizer = next(one for one in program.optimizers if one.name == training.optimizer)
    return "\n".join(
        [_table("training", _training(training, program.headers)), _table("optimizer", _optimizer(optimizer))]
    )


Rows = list[tuple[str, str]]


def _table(title: str, rows: Rows) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"-- {title} --", *(f"{name:<{width}}  {value}" for name, value in rows)]) + "\n"


def _model(instance: Instance, headers: Headers) -> Rows:
    rows = [("model", str(instance))]
    count = leaf_count(instance, headers)
    total = parameter_count(instance, headers) if count <= MAX_LEAVES else None
    tensors = f"{count} tensor{'' if count == 1 else 's'}"
    rows.append(("parameters", f"{total} in {tensors}" if total is not None else tensors))
    return rows


def _training(record: TrainingRecord, headers: Headers) -> Rows:
    rows = _model(record.model, headers)
    key = "key, " if record.key else ""
    rows.append(("objective", f"{record.objective}(θ, {key}batch)"))
    rows.append(("batch", str(record.batch)))
    rows.append(("sample", str(record.sample)))
    if record.dims:
        rows.append(("dimensions", ", ".join(f"{name} = {value}" for name, value in record.dims)))
    if record.facts:
        rows.append(("bounds", ", ".join(map(str, record.facts))))
    rows.append(("optimizer", record.optimizer))
    if record.data is not None:
        rows.append(("data", str(record.data)))
        info = record.data_info
        if info is None:
            rows.append(("samples", "the file is not there"))
        else:
            windows = f", windows of {info.window[0]} every {info.window[1]}" if info.window is not None else ""
            rows.append(("samples", f"{info.count} of {info.sample}{windows}"))
    rows.append(("epochs", str(record.epochs)))
    if record.batches is not None:
        rows.append(("steps", f"{record.epochs * record.batches} ({record.batches} of each epoch)"))
    if record.checkpoint is not None:
        rows.append(("checkpoint", f'every {record.checkpoint.steps} steps to "{record.checkpoint.folder}"'))
    rows.extend(_optional(parallel=record.parallel, precision=record.precision))
    return rows


def _optimizer(record: OptimizerRecord) -> Rows:
    return [
        ("name", record.name),
        ("lr", record.lr),
        ("betas", f"({', '.join(record.betas)})"),
        ("eps", record.eps),
        ("weight_decay", record.weight_decay),
        ("grad_clip", record.grad_clip or "none"),
        ("schedule", str(record.schedule)),
    ]


def _serve(record: ServeRecord, headers: Headers) -> Rows:
    rows = _model(record.model, headers)
    generation = record.generation
    if generation is None:
        rows.append(("generate", "no function of the file generates"))
    else:
        rows.append(("generate", generation.function))
        rows.append(("context", str(generation.context)))
        rows.append(("result", str(generation.result)))
        rows.extend(_optional(key=generation.key))
    rows.extend(
        _optional(
            weights=None if record.weights is None else f'"{record.weights}"',
            precision=record.precision,
            target=record.target,
            batching=record.batching,
            cache=record.cache,
        )
    )
    return rows


def _optional(**values: str | None) -> Rows:
    return [(name, value) for name, value in values.items() if value is not None]
