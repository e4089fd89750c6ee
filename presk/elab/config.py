"""Configuration blocks: checked against their schemas, resolved to records (E2010, W0002, W0003).

A schema is a table of fields. Reading a block gives its values, each with the place of its line; resolving it matches the
values with the program: the objective with the model, the batch with the data, the generation function.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from presk.diagnostics.report import Reporter
from presk.diagnostics.suggest import closest
from presk.diagnostics.value import Diagnostic, Place, located
from presk.elab import forms
from presk.elab.data import Mismatch, match_samples, solve
from presk.elab.entities import Env, ModuleHeader, Param, Signature
from presk.elab.modules import elaborate_module
from presk.elab.records import (
    Checkpoints,
    Data,
    DataInfo,
    Generation,
    OptimizerRecord,
    Schedule,
    ServeRecord,
    TrainingRecord,
)
from presk.elab.scope import Scope, path_of
from presk.syntax import tree
from presk.types.claim import Claim, Refuted
from presk.types.decide import Decider
from presk.types.dim import Dim, constant, symbol
from presk.types.type import (
    SCALAR,
    Axis,
    Composed,
    Index,
    Instance,
    Key,
    Mask,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stacked,
    Tuple,
    Type,
    instantiate,
    map_instance,
)

ALGORITHMS: Final = ("adamw",)
BATCH_AXIS: Final = "batch"
SEQUENCE_AXIS: Final = "seq"
CHECKPOINT: Final = "checkpoint"


class Field(NamedTuple):
    """A field of a block: how its value is read (None after a report), and the type it may be declared with."""

    read: Callable[[tree.Expr, Scope, Reporter, str], Any]
    type: str | None = None


class Value(NamedTuple):
    """A field's value with its line."""

    value: Any
    at: tree.At
    key: str


class Block(NamedTuple):
    """A block that was read: the values that are right, and the fields that were written at all."""

    values: Mapping[str, Value]
    written: frozenset[str]
    diagnostics: list[Diagnostic]


# --- fields -----------------------------------------------------------------------------------------------------------


def _rate(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> str | None:
    return forms.read_number(expr, reporter, what)


def _positive_rate(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> str | None:
    return forms.read_number(expr, reporter, what, above=True)


def _betas(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> tuple[str, str] | None:
    if not isinstance(expr, tree.TupleExpr) or len(expr.items) != 2:
        forms.refuse(expr.at, what, "two numbers, such as `(0.9, 0.999)`", reporter)
        return None
    first, second = (forms.read_number(item, reporter, what, below="1") for item in expr.items)
    return None if first is None or second is None else (first, second)


def _schedule(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Schedule | None:
    read = forms.read_call(expr, forms.SCHEDULE, scope, reporter, what)
    if read is None:
        return None
    warmup = read.values.get("warmup", 0)
    return Schedule(read.name, warmup if isinstance(warmup, int) else 0)


def _joined(operator: str, options: tuple[forms.Form, ...]) -> Callable[[tree.Expr, Scope, Reporter, str], str | None]:
    def read(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> str | None:
        return forms.read_joined(expr, operator, options, scope, reporter, what)

    return read


def _single(options: tuple[forms.Form, ...]) -> Callable[[tree.Expr, Scope, Reporter, str], str | None]:
    def read(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> str | None:
        found = forms.read_call(expr, options, scope, reporter, what)
        return None if found is None else found.text

    return read


def _data(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> Data | None:
    parts = forms.split(expr, "|>")
    steps = (forms.STREAM, forms.SHUFFLE, forms.BATCH, forms.TAKE)
    if not 3 <= len(parts) <= 4:
        shown = '`stream "path" |> shuffle(seed = N) |> batch(B = N)`, perhaps with `|> take(n = N)`'
        forms.refuse(expr.at, what, shown, reporter)
        return None
    values: dict[str, forms.Value] = {}
    for part, step in zip(parts, steps, strict=False):
        read = forms.read_call(part, step, scope, reporter, "this part of `data`")
        if read is None:
            return None
        values.update(read.values)
    path, seed, batch, take = values[""], values["seed"], values["B"], values.get("n")
    assert isinstance(path, str) and isinstance(seed, int) and isinstance(batch, int)
    return Data(path, seed, batch, take if isinstance(take, int) else None)


def _expression(expr: tree.Expr, scope: Scope, reporter: Reporter, what: str) -> tree.Expr:
    return expr


OPTIMIZER: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "lr": Field(_rate, "f64"),
        "betas": Field(_betas, "(f64, f64)"),
        "weight_decay": Field(_rate, "f64"),
        "grad_clip": Field(_positive_rate, "f64"),
        "schedule": Field(_schedule),
        "eps": Field(_rate, "f64"),
    }
)
TRAINING: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "model": Field(_expression),
        "objective": Field(_expression),
        "optimizer": Field(_expression),
        "data": Field(_data),
        "epochs": Field(forms.read_positive, "nat"),
        "parallel": Field(_joined("⊗", forms.PARALLEL)),
        "precision": Field(_joined("|", forms.PRECISION)),
    }
)
SERVE: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "model": Field(_expression),
        "weights": Field(forms.read_text),
        "precision": Field(_joined("|", forms.PRECISION)),
        "target": Field(_joined("|", forms.TARGET)),
        "batching": Field(_single(forms.BATCHING)),
        "cache": Field(_single(forms.CACHE)),
        "generate": Field(_expression),
    }
)
SCHEMAS: Final[Mapping[str, Mapping[str, Field]]] = MappingProxyType(
    {"optimizer": OPTIMIZER, "training": TRAINING, "inference": SERVE}
)
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"optimizer": ("lr",), "training": ("model", "objective", "optimizer"), "inference": ("model",)}
)


def read_block(block: tree.Block, scope: Scope, whole: bool) -> Block:
    """A block against its schema. Without `whole`, lines of it did not parse, so none is missed."""
    schema = SCHEMAS[block.kind]
    values: dict[str, Value] = {}
    places: dict[str, Place] = {}
    diagnostics: list[Diagnostic] = []
    for chunk in block.items:
        reporter = Reporter()
        item = chunk.item
        name = item.name if isinstance(item, tree.Item) else CHECKPOINT
        at = (item.name_at, item.name_at) if isinstance(item, tree.Item) else (item.at[0], item.at[0])
        if name in places:
            reporter.report(
                "E2010",
                at,
                f"the field `{name}` is given twice",
                text="again here",
                labels=[(places[name], "first here")],
            )
        elif _known_field(name, item, block, schema, reporter):
            places[name] = Place(*at, chunk.key)
            found = _read_item(item, schema, scope, reporter)
            if found is not None:
                where = item.value.at if isinstance(item, tree.Item) else item.at
                values[name] = Value(found, where, chunk.key)
        diagnostics.extend(located(one, file="", chunk=chunk.key) for one in reporter.diagnostics())
    missing = [name for name in REQUIRED[block.kind] if name not in places]
    reporter = Reporter()
    if missing and whole:
        names = " and ".join(f"`{name}`" for name in missing)
        reporter.report(
            "E2010",
            block.at,
            f"the block `{block.kind} {block.name}` lacks {names}",
            text=f"{'these fields are' if len(missing) > 1 else 'this field is'} required: {names}",
        )
    diagnostics = [*reporter.diagnostics(), *diagnostics]
    return Block(values, frozenset(places), diagnostics)


def _known_field(
    name: str, item: tree.ConfigItem, block: tree.Block, schema: Mapping[str, Field], reporter: Reporter
) -> bool:
    known = [*schema, CHECKPOINT] if block.kind == "training" else [*schema]
    if name in known and not (name == CHECKPOINT and isinstance(item, tree.Item)):
        return True
    if isinstance(item, tree.Checkpoint):
        at = item.at
        said = f"`{block.kind} {block.name}` takes no `checkpoint`"
    else:
        at = (item.name_at, item.name_at)
        said = f"`{block.kind} {block.name}` has no field `{name}`"
    near = closest(name, known)
    mend = f"did you mean `{near}`?" if near is not None and near != name else None
    if name == CHECKPOINT and block.kind == "training":
        mend = 'write `checkpoint every N steps to "path"`'
    fields = ", ".join(f"`{field}`" for field in known)
    reporter.report("E2010", at, said, text="unknown field", notes=[f"the fields are {fields}"], mend=mend)
    return False


def _read_item(item: tree.ConfigItem, schema: Mapping[str, Field], scope: Scope, reporter: Reporter) -> Any:
    if isinstance(item, tree.Checkpoint):
        return _checkpoint(item, scope, reporter)
    field = schema[item.name]
    if item.type is not None and _type_text(item.type) != field.type:
        expected = f"the type `{field.type}`" if field.type is not None else "no type"
        forms.refuse(item.type.at, f"the field `{item.name}`", expected, reporter, text="another type is declared here")
    return field.read(item.value, scope, reporter, f"the field `{item.name}`")


def _type_text(type_: tree.TypeExpr) -> str:
    match type_:
        case tree.NamedType(path=(name,), arguments=None):
            return name
        case tree.TupleType(items=items):
            return f"({', '.join(map(_type_text, items))})"
        case _:
            return "?"


def _checkpoint(item: tree.Checkpoint, scope: Scope, reporter: Reporter) -> Checkpoints | None:
    if item.unit != "steps":
        forms.refuse(
            (item.unit_at, item.unit_at), "`checkpoint every N`", "`steps`", reporter, text=f"`{item.unit}` is unknown"
        )
        return None
    steps = forms.read_positive(item.count, scope, reporter, "`checkpoint every`")
    return None if steps is None else Checkpoints(steps, item.path)


# --- optimizer --------------------------------------------------------------------------------------------------------


def resolve_optimizer(
    block: tree.Block, env: Env, decider: Decider, whole: bool = True
) -> tuple[OptimizerRecord | None, tuple[Diagnostic, ...]]:
    """An optimizer block as a record; None where its algorithm or its learning rate is missing."""
    reporter = Reporter()
    if block.name not in ALGORITHMS:
        reporter.report(
            "E2010",
            (block.name_at, block.name_at),
            f"`{block.name}` is not an optimizer",
            text="unknown algorithm",
            notes=["the name of an optimizer block is its algorithm; `adamw` is the only one"],
        )
    read = read_block(block, Scope(env, decider, f"optimizer {block.name}"), whole)
    diagnostics = (*reporter.diagnostics(), *read.diagnostics)
    if reporter.failed or "lr" not in read.values:
        return None, diagnostics
    given = {name: value.value for name, value in read.values.items()}
    return OptimizerRecord(block.name, **given), diagnostics


# --- training ---------------------------------------------------------------------------------------------------------


class Sources(msgspec.Struct, frozen=True, array_like=True):
    """What a block sees of the program beside its environment: completed signatures of the file's functions, in order,
    the names of its optimizer blocks, of those that did not parse, and how many steps the schedules warm up."""

    functions: tuple[Signature, ...]
    optimizers: tuple[str, ...]
    unparsed: tuple[str, ...] = ()
    warmups: tuple[tuple[str, int], ...] = ()


def resolve_training(
    block: tree.Block, env: Env, sources: Sources, data: DataInfo | str | None, decider: Decider, whole: bool = True
) -> tuple[TrainingRecord | None, tuple[Diagnostic, ...]]:
    """The training block as a record; None where something that it needs was refused.

    `data` is what the head of the data file says, a text on why it cannot be read (E8001), or None where there is no such
    file (W0002). Without `whole`, lines of the block did not parse.
    """
    scope = Scope(env, decider, "training run")
    read = read_block(block, scope, whole)
    diagnostics = list(read.diagnostics)
    model = _model(read, scope, diagnostics)
    optimizer = _optimizer(read, sources, diagnostics)
    objective = _function(read, "objective", sources, env, diagnostics)
    found = None if objective is None else _objective(read, objective, model, diagnostics)
    pipeline = read.values.get("data")
    stream: Data | None = pipeline.value if pipeline is not None else None
    info = None if isinstance(data, str) else data
    if pipeline is not None and stream is not None:
        _about_file(pipeline, stream, data, diagnostics)
    record = None
    if found is not None and model is not None and optimizer is not None and objective is not None:
        record = _training_record(read, model, optimizer, objective, found, pipeline, info, decider, diagnostics)
    if record is not None and pipeline is not None:
        _check_length(record, pipeline, read.values["optimizer"], dict(sources.warmups), diagnostics)
    return record, tuple(diagnostics)


def _check_length(
    record: TrainingRecord,
    pipeline: Value,
    optimizer: Value,
    warmups: Mapping[str, int],
    diagnostics: list[Diagnostic],
) -> None:
    """E2010 for data that makes no batch, and for a schedule that warms up longer than the training lasts."""
    batches = record.batches
    if batches is None or record.data is None or record.data_info is None:
        return
    if batches == 0:
        _report(
            pipeline,
            f"the samples of `{record.data.path}` make no batch",
            diagnostics,
            text=f"{record.data_info.count} samples, batches of {record.data.batch}",
            notes=["a batch that is not full is dropped"],
        )
        return
    warmup = warmups.get(record.optimizer, 0)
    total = record.epochs * batches
    if warmup >= total:
        _report(
            optimizer,
            "the schedule warms up longer than the training lasts",
            diagnostics,
            text=f"the training has {total} steps: {record.epochs} × {batches} batches",
            labels=[(Place(0, 0, f"optimizer {record.optimizer}/schedule"), f"warms up for {warmup} steps")],
            mend=f"let `warmup` be less than {total}",
        )


class _Objective(NamedTuple):
    """An objective that fits: whether it takes a key, its batch parameter, what its dimensions are by the model."""

    key: bool
    batch: Param
    sample: Type
    values: dict[str, Dim]


def _report(
    value: Value, message: str, diagnostics: list[Diagnostic], *, text: str = "", at: tree.At | None = None, **more: Any
) -> None:
    reporter = Reporter()
    reporter.report("E2010", at or value.at, message, text=text, **more)
    diagnostics.extend(located(one, file="", chunk=value.key) for one in reporter.diagnostics())


def _model(read: Block, scope: Scope, diagnostics: list[Diagnostic]) -> Instance | None:
    """The instance that `model` names; E2010 for a module that still wants arguments."""
    value = read.values.get("model")
    if value is None:
        return None
    path = path_of(value.value)
    header = scope.env.names.get(".".join(path)) if path is not None else None
    if isinstance(header, ModuleHeader) and header.dims:
        name = ".".join(path or ())
        _report(
            value,
            f"the module `{name}` is generic, it cannot be the model",
            diagnostics,
            text=f"`{name}` takes {{{' '.join(header.dims)} : dim}}",
            mend=f"give its arguments, as in `{name}{{{', '.join('64' for _ in header.dims)}}}`",
        )
        return None
    reporter = Reporter()
    instance = elaborate_module(value.value, scope, reporter)
    diagnostics.extend(located(one, file="", chunk=value.key) for one in reporter.diagnostics())
    return instance


def _optimizer(read: Block, sources: Sources, diagnostics: list[Diagnostic]) -> str | None:
    value = read.values.get("optimizer")
    if value is None:
        return None
    if isinstance(value.value, tree.Name) and value.value.name in sources.optimizers:
        return value.value.name
    known = ", ".join(f"`{name}`" for name in sources.optimizers)
    named = value.value.name if isinstance(value.value, tree.Name) else None
    if named is not None and named in sources.unparsed:
        return None
    _report(
        value,
        "`optimizer` must name an optimizer block of the file" + (f", `{named}` is none" if named is not None else ""),
        diagnostics,
        text="no such block",
        notes=[f"the file's optimizer blocks are {known}" if known else "the file has no optimizer block"],
    )
    return None


def _function(read: Block, field: str, sources: Sources, env: Env, diagnostics: list[Diagnostic]) -> Signature | None:
    """The top-level function of the file that a field names."""
    value = read.values.get(field)
    if value is None:
        return None
    path = path_of(value.value)
    if path is not None and len(path) == 1:
        name = path[0]
        for signature in sources.functions:
            if signature.name == name:
                return signature
        if name in env.broken:
            return None
        near = closest(name, [signature.name for signature in sources.functions])
        _report(
            value,
            f"`{field}` must name a function of the file, `{name}` is none",
            diagnostics,
            text="no such function",
            mend=f"did you mean `{near}`?" if near is not None else None,
        )
        return None
    _report(
        value,
        f"`{field}` must name a top-level function of the file",
        diagnostics,
        text="this is not the name of one",
        notes=["a function of a module or of an import is none; a function that calls it is"],
    )
    return None


def _objective(
    read: Block, objective: Signature, model: Instance | None, diagnostics: list[Diagnostic]
) -> _Objective | None:
    """The parts of an objective; None after a report, or where the signature is not known."""
    if objective.refused or not objective.complete:
        return None
    value = read.values["objective"]
    where = [(Place(*objective.header, objective.chunk, objective.file), f"the signature of `{objective.name}`")]

    def refuse(message: str, text: str, **more: Any) -> None:
        _report(value, message, diagnostics, text=text, labels=where, **more)

    name = objective.name
    params = objective.params
    if objective.axes:
        refuse(f"the objective `{name}` has an axis parameter", "training gives it no axis name")
        return None
    first = params[0].type if params else None
    if not isinstance(first, Params):
        refuse(f"the first parameter of the objective `{name}` must be `θ : params <model>`", "not an objective")
        return None
    values: dict[str, Dim] = {}
    if model is not None and not match_instance(first.instance, model, values, objective.dims):
        refuse(
            f"the objective `{name}` has parameters of another module than the model",
            f"`{name}` takes `{first}`, the model is `{model}`",
        )
        return None
    key = len(params) > 1 and isinstance(params[1].type, Key)
    position = 2 if key else 1
    if len(params) <= position:
        refuse(f"the objective `{name}` takes no batch", "a parameter for the batch is missing behind θ")
        return None
    batch = params[position]
    for extra in params[position + 1 :]:
        if extra.default is None:
            refuse(
                f"the parameter `{extra.name}` of the objective `{name}` has no default",
                "training gives θ, perhaps a key, and the batch",
                mend=f"give `{extra.name}` a default value",
            )
            return None
    if objective.result != Real(SCALAR):
        refuse(f"the objective `{name}` must return `ℝ[]`", f"it returns `{objective.result}`")
        return None
    assert batch.type is not None
    sample = _sample(batch.type)
    if isinstance(sample, str):
        refuse(
            f"the batch `{batch.name} : {batch.type}` of the objective `{name}` cannot be cut into samples",
            sample,
            notes=["every tensor of a batch has an axis named `batch` and no open prefix"],
        )
        return None
    return _Objective(key, batch, sample, values)


def match_instance(pattern: Instance, target: Instance, values: dict[str, Dim], symbols: Sequence[str]) -> bool:
    """Whether `symbols` can be given values (added to `values`) that make the pattern the target."""
    match pattern, target:
        case Named(), Named():
            if pattern.module != target.module or len(pattern.arguments) != len(target.arguments):
                return False
            pairs = [*zip(pattern.arguments, target.arguments, strict=True)]
            hidden = dict(target.hidden)
            pairs += [(value, hidden[name]) for name, value in pattern.hidden if name in hidden]
            return all(_match_dim(one, other, values, symbols) for one, other in pairs)
        case Stacked(), Stacked():
            return _match_dim(pattern.length, target.length, values, symbols) and match_instance(
                pattern.inner, target.inner, values, symbols
            )
        case Composed(), Composed():
            return match_instance(pattern.outer, target.outer, values, symbols) and match_instance(
                pattern.inner, target.inner, values, symbols
            )
        case _:
            return False


def _match_dim(pattern: Dim, target: Dim, values: dict[str, Dim], symbols: Sequence[str]) -> bool:
    form = pattern.substitute(values)
    if form == target:
        for name in form.symbols():
            values.setdefault(name, symbol(name))
        return True
    unknown = [(name, factor) for name, factor in form.terms if name in symbols and name not in values]
    if len(unknown) != 1:
        return False
    ((name, factor),) = unknown
    rest = form.substitute({name: constant(0)})
    values[name] = (target - rest).scaled(1 / factor)
    return True


def _sample(batch: Type) -> Type | str:
    """The batch type without the axis `batch` in every leaf, or why there is no such type."""
    match batch:
        case Real(shape):
            rest = _without_batch(shape)
            return rest if isinstance(rest, str) else Real(rest)
        case Index(bound, shape):
            rest = _without_batch(shape)
            return rest if isinstance(rest, str) else Index(bound, rest)
        case Mask(shape):
            rest = _without_batch(shape)
            return rest if isinstance(rest, str) else Mask(rest)
        case Tuple(items):
            parts = [_sample(item) for item in items]
            wrong = next((part for part in parts if isinstance(part, str)), None)
            if wrong is not None:
                return wrong
            return Tuple(tuple(part for part in parts if not isinstance(part, str)))
        case _:
            return f"`{batch}` is not a tensor"


def _without_batch(shape: Shape) -> Shape | str:
    if shape.prefix is not None:
        return f"`[{shape}]` has an open prefix"
    rest = tuple(axis for axis in shape.axes if axis.name != BATCH_AXIS)
    if len(rest) != len(shape.axes) - 1:
        return f"`[{shape}]` has no axis `batch`"
    return Shape(rest)


def _batch_lengths(batch: Type) -> list[Axis]:
    match batch:
        case Real(shape) | Index(_, shape) | Mask(shape):
            return [axis for axis in shape.axes if axis.name == BATCH_AXIS]
        case Tuple(items):
            return [axis for item in items for axis in _batch_lengths(item)]
        case _:
            return []


def _about_file(pipeline: Value, stream: Data, data: DataInfo | str | None, diagnostics: list[Diagnostic]) -> None:
    reporter = Reporter()
    if data is None:
        reporter.report(
            "W0002",
            pipeline.at,
            f"the data file `{stream.path}` does not exist",
            text="its samples are compared when training begins",
            notes=["the path is relative to the program's file"],
        )
    elif isinstance(data, str):
        reporter.report("E8001", pipeline.at, f"the data file `{stream.path}` cannot be read", text=data)
    diagnostics.extend(located(one, file="", chunk=pipeline.key) for one in reporter.diagnostics())


def _training_record(
    read: Block,
    model: Instance,
    optimizer: str,
    objective: Signature,
    found: _Objective,
    pipeline: Value | None,
    info: DataInfo | None,
    decider: Decider,
    diagnostics: list[Diagnostic],
) -> TrainingRecord | None:
    assert found.batch.type is not None
    values = {name: value for name, value in found.values.items() if value.is_constant()}
    if pipeline is not None:
        problem = _bind_batch(found.batch.type, pipeline.value.batch, values)
        if problem is not None:
            _report(pipeline, "the batch does not fit the objective", diagnostics, text=problem)
            return None
        if info is not None:
            sample = instantiate(found.sample, values)
            matched = match_samples(sample, info.sample)
            if isinstance(matched, Mismatch):
                _report(
                    pipeline,
                    f"the samples of `{pipeline.value.path}` are not those of the objective `{objective.name}`",
                    diagnostics,
                    text=matched.words,
                    notes=[f"the objective's samples are {sample}", f"the file's samples are {info.sample}"],
                )
                return None
            values.update(matched)
        for claim in objective.facts:
            broken = _broken_bound(claim, values, decider)
            if broken is not None:
                _report(pipeline, f"the objective `{objective.name}` asks for {claim}", diagnostics, text=broken)
                return None
    facts = tuple(
        Claim(claim.relation, claim.left.substitute(values), claim.right.substitute(values))
        for claim in objective.facts
    )
    optional = {
        name: read.values[name].value
        for name in ("data", "epochs", "checkpoint", "parallel", "precision")
        if name in read.values
    }
    known: dict[str, Dim] = {}  # the model's own symbols, where the objective's are known
    for name, form in found.values.items():
        solution = solve(form, values[name]) if name in values else None
        if solution is not None:
            known[solution[0]] = solution[1]
    return TrainingRecord(
        map_instance(model, lambda dim: dim.substitute(known)),
        objective.name,
        found.key,
        instantiate(found.batch.type, values),
        instantiate(found.sample, values),
        tuple((name, _number(values[name])) for name in objective.dims if name in values),
        optimizer,
        data_info=info,
        facts=tuple(claim for claim in facts if not (claim.left.is_constant() and claim.right.is_constant())),
        **optional,
    )


def _number(value: Dim) -> int:
    number = value.natural()
    return number if number is not None else 0


def _bind_batch(batch: Type, count: int, values: dict[str, Dim]) -> str | None:
    """Binds the length of every `batch` axis to the batch's size; what is wrong, if something is."""
    for axis in _batch_lengths(batch):
        length = axis.length.substitute(values)
        if length == constant(count):
            continue
        solution = solve(length, constant(count))
        if solution is None:
            return f"`batch(B = {count})`, but the axis `batch` has length {axis.length}"
        values[solution[0]] = solution[1]
    return None


def _broken_bound(claim: Claim, values: Mapping[str, Dim], decider: Decider) -> str | None:
    left, right = claim.left.substitute(values), claim.right.substitute(values)
    if not (left.is_constant() and right.is_constant()):
        return None
    verdict = decider.decide(Claim(claim.relation, left, right), ())
    if not isinstance(verdict, Refuted):
        return None
    return ", ".join(f"{name} = {values[name]}" for name in claim.left.symbols() if name in values)


# --- inference --------------------------------------------------------------------------------------------------------


def resolve_serve(
    block: tree.Block, env: Env, sources: Sources, decider: Decider, whole: bool = True
) -> tuple[ServeRecord | None, tuple[Diagnostic, ...]]:
    """The inference block as a record; None where its model was refused.

    A generation function is a top-level function of the file `(θ : params M, ctx : idx[V][batch: B, seq: T], …) ->
    idx[V][batch: B]` with M the model. One more parameter may be a key, before or behind the context; all others have a
    default. The dimensions may be any; both bounds, and both lengths of `batch`, are the same.
    """
    scope = Scope(env, decider, "inference serve")
    read = read_block(block, scope, whole)
    diagnostics = list(read.diagnostics)
    model = _model(read, scope, diagnostics)
    generation: Generation | None = None
    if "generate" in read.written:
        signature = _function(read, "generate", sources, env, diagnostics)
        if signature is not None and model is not None and signature.complete and not signature.refused:
            found = generation_of(signature, model)
            if isinstance(found, str):
                _report(
                    read.values["generate"],
                    f"`{signature.name}` is not a generation function",
                    diagnostics,
                    text=found,
                    labels=[(Place(*signature.header, signature.chunk, signature.file), "its signature")],
                    notes=[GENERATION_FORM],
                )
            else:
                generation = found
    elif model is not None and whole:
        fitting = (generation_of(signature, model) for signature in sources.functions)
        generation = next((found for found in fitting if isinstance(found, Generation)), None)
        if generation is None:
            reporter = Reporter()
            reporter.report(
                "W0003",
                block.at,
                "no function of the file generates with this model",
                text="there is nothing to serve",
                notes=[GENERATION_FORM],
            )
            diagnostics = [*reporter.diagnostics(), *diagnostics]
    if model is None:
        return None, tuple(diagnostics)
    names = ("weights", "precision", "target", "batching", "cache")
    given = {name: read.values[name].value for name in names if name in read.values}
    return ServeRecord(model, generation, **given), tuple(diagnostics)


GENERATION_FORM: Final = (
    "a generation function is `(θ : params M, ctx : idx[V][batch: B, seq: T]) -> idx[V][batch: B]`, perhaps with a `key` "
    "and with further parameters that have defaults"
)


def generation_of(signature: Signature, model: Instance) -> Generation | str:
    """The signature as a generation function's, or why it is none."""
    if signature.refused or not signature.complete or signature.axes:
        return "its types are not known"
    params = signature.params
    first = params[0].type if params else None
    if not isinstance(first, Params):
        return "its first parameter is not a parameter tree"
    values: dict[str, Dim] = {}
    if not match_instance(first.instance, model, values, signature.dims):
        return f"its first parameter is `{first}`, the model is `{model}`"
    key: str | None = None
    context: Index | None = None
    for param in params[1:]:
        if isinstance(param.type, Key) and key is None and param.default is None:
            key = param.name
        elif isinstance(param.type, Index) and context is None and param.default is None:
            context = param.type
        elif param.default is None or isinstance(param.type, ModuleType):
            return f"the parameter `{param.name}` has no default"
    if context is None:
        return "it takes no context"
    names = [axis.name for axis in context.shape.axes]
    if context.shape.prefix is not None or names != [BATCH_AXIS, SEQUENCE_AXIS]:
        return f"its context is `{context}`, whose axes are not `batch` and `seq`"
    result = signature.result
    expected = Index(context.bound, Shape(context.shape.axes[:1]))
    unnamed = Index(context.bound, Shape((Axis(context.shape.axes[0].length),)))
    if result not in (expected, unnamed):
        return f"it returns `{result}`, not `{expected}`"
    return Generation(signature.name, context, expected, key)
