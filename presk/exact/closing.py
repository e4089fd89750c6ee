"""Dimensions of the file that a body uses and its function's signature does not mention: they become the function's own.

    fn total() -> ℝ[] {                          fn total{T}() -> ℝ[] {
      %0 : ℝ[seq: T] = call ramp{T = T}()   ⟶      %0 : ℝ[seq: T] = call ramp{T = T}()
      %1 : ℝ[] = sum %0                            %1 : ℝ[] = sum %0
      return %1                                    return %1
    }                                            }

A caller hands on its own dimension of the name. So one value reaches every use, whether the command line gives it or an argument
of the entry determines it; where neither does, the dimension stays open and its use is E7008.
"""

from collections.abc import Iterator

import msgspec

from presk.core.ir import Binding, Call, Closure, Fold, Function, Operation, Prim, Program
from presk.prims.attrs import Length, Select
from presk.types.dim import Dim, symbol
from presk.types.type import Shape, Type, type_dims


def closed(program: Program) -> Program:
    """The program whose functions mention their own dimensions only; one in which they do already comes back as it is."""
    functions = {function.name: function for function in program.functions}
    needs = _needs(functions)
    if not any(needs.values()):
        return program
    return Program(tuple(_closed(function, needs) for function in program.functions))


def _needs(functions: dict[str, Function]) -> dict[str, tuple[str, ...]]:
    """The dimensions that each function lacks: of its own body, and of those it calls."""
    needs = {name: _mentioned(function) - set(function.dims) for name, function in functions.items()}
    callers: dict[str, set[str]] = {name: set() for name in functions}
    for name, function in functions.items():
        for binding in function.bindings:
            if isinstance(binding.op, Call | Fold | Closure):
                callers[binding.op.function].add(name)
    waiting = [name for name, lacking in needs.items() if lacking]
    while waiting:
        name = waiting.pop()
        for caller in callers[name]:
            more = needs[name] - needs[caller] - set(functions[caller].dims)
            if more:
                needs[caller] |= more
                waiting.append(caller)
    return {name: tuple(sorted(lacking)) for name, lacking in needs.items()}


def _mentioned(function: Function) -> set[str]:
    types = [*(param.type for param in function.params), function.result]
    found = {name for type_ in types for name in _symbols(type_)}
    for binding in function.bindings:
        found.update(_symbols(binding.type))
        found.update(name for dim in _dims(binding.op) for name in dim.symbols())
    return found


def _symbols(type_: Type) -> Iterator[str]:
    for dim in type_dims(type_):
        yield from dim.symbols()


def _dims(op: Operation) -> Iterator[Dim]:
    """The dimensions that an operation mentions."""
    match op:
        case Prim(attrs=attrs):
            for _, attr in attrs:
                match attr:
                    case Length(dim):
                        yield dim
                    case Select(lo=lo, hi=hi):
                        yield lo
                        if hi is not None:
                            yield hi
                    case _:
                        pass
        case Call(dims=dims, prefix=prefix) | Closure(dims=dims, prefix=prefix):
            yield from (value for _, value in dims)
            yield from _lengths(prefix)
        case Fold(count=count, dims=dims, prefix=prefix):
            yield count
            yield from (value for _, value in dims)
            yield from _lengths(prefix)
        case _:
            pass


def _lengths(prefix: Shape | None) -> Iterator[Dim]:
    if prefix is not None:
        yield from (axis.length for axis in prefix.axes)


def _closed(function: Function, needs: dict[str, tuple[str, ...]]) -> Function:
    bindings = tuple(_handing_on(binding, needs) for binding in function.bindings)
    return msgspec.structs.replace(function, dims=(*function.dims, *needs[function.name]), bindings=bindings)


def _handing_on(binding: Binding, needs: dict[str, tuple[str, ...]]) -> Binding:
    op = binding.op
    if not isinstance(op, Call | Fold | Closure) or not needs[op.function]:
        return binding
    dims = (*op.dims, *((name, symbol(name)) for name in needs[op.function]))
    return msgspec.structs.replace(binding, op=msgspec.structs.replace(op, dims=dims))
