"""Reading the text form of the core back: `parse(print_program(program)) == program`.

The text is read by lines: a header up to its `{`, one binding a line, `return`, `}`. All headers are read first, since what a call
leaves out is found from its callee's signature, then bodies, in each of which definitions are read before operations. A line is
read from left to right with one position and no backtracking; the forms are those of `presk.core.text`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from presk.core.ir import (
    Binding,
    Function,
    Literal,
    Param,
    Program,
)
from presk.core.parse_operations import Operations
from presk.core.parse_types import Modules, Types
from presk.core.scan import Scanner, TextError

_MARK: Final = re.compile(r"--\s*%([0-9]+)(?=:|\s*\Z)")


@dataclass(slots=True)
class _Draft:
    """A function whose header is read: its body's lines, of which only the definitions are."""

    function: Function
    variables: dict[str, int]
    lines: list[tuple[Scanner, Binding]]
    returns: Scanner


def parse(text: str) -> Program:
    """The program that a text shows; TextError for one that shows none."""
    modules = Modules()
    drafts: list[_Draft] = []
    lines = enumerate(text.split("\n"), 1)
    for number, content in lines:
        line = Scanner(content, number)
        if line.ended():
            continue
        if line.keyword("module"):
            modules.read(line)
            if not line.ended():
                line.fail("the line goes on")
            continue
        if not line.keyword("fn"):
            line.fail("`fn` is expected")
        while not content.rstrip().endswith("{"):
            try:
                _, more = next(lines)
            except StopIteration:
                raise TextError(number, "the header of a function ends with `{`") from None
            content += f" {more}"
        header = Scanner(content, number)
        header.need("fn")
        drafts.append(_draft(header, lines, modules))
    functions = {draft.function.name: draft.function for draft in drafts}
    return Program(tuple(_finished(draft, functions, modules) for draft in drafts))


def _header(line: Scanner, modules: Modules) -> tuple[Function, dict[str, int]]:
    """A function without its body, and its parameters by what they print as."""
    name = line.function()
    dims: list[str] = []
    if line.touches("{") and line.take("{"):
        while not line.take("}"):
            dims.append(line.symbol())
    line.need("(")
    params: list[Param] = []
    variables: dict[str, int] = {}

    def param() -> Param:
        found = line.name()
        variables.setdefault(found, len(params))
        if line.take("%"):
            line.integer()
        line.need(":")
        params.append(Param(found, Types(line, modules).type()))
        return params[-1]

    line.list(param, ")")
    line.need("->")
    result = Types(line, modules).type()
    line.need("{")
    return Function(name, tuple(dims), tuple(params), result, (), 0), variables


_PLACEHOLDER: Final = Literal("0")


def _draft(header: Scanner, lines: "enumerate[str]", modules: Modules) -> _Draft:
    """A function up to its `}`, with the definitions of its body."""
    function, variables = _header(header, modules)
    found: list[tuple[Scanner, Binding]] = []
    returns: Scanner | None = None
    expected = len(function.params)
    for number, content in lines:
        line = Scanner(content, number)
        if line.ended():
            continue
        if line.take("}"):
            if returns is None:
                line.fail("`return` is expected before")
            bindings = tuple(binding for _, binding in found)
            draft = Function(function.name, function.dims, function.params, function.result, bindings, 0)
            return _Draft(draft, variables, found, returns)
        if line.keyword("return"):
            returns = line
            continue
        var, name = _definition(line, expected)
        if name is not None:
            variables.setdefault(name, var)
        expected = var + 1
        line.need(":")
        type_ = Types(line, modules).type()
        line.need("=")
        found.append((line, Binding(var, name, type_, _PLACEHOLDER)))
    raise TextError(header.number, "the function does not end")


def _definition(line: Scanner, expected: int) -> tuple[int, str | None]:
    """The number and the name of a binding."""
    if line.take("%"):
        return line.integer(), None
    name = line.name()
    if line.touches("%") and line.take("%"):
        return line.integer(), name
    comment = line.text.find("--")
    mark = _MARK.match(line.text, comment) if comment >= 0 else None
    return (int(mark[1]) if mark is not None else expected), name


def _finished(draft: _Draft, functions: Mapping[str, Function], modules: Modules) -> Function:
    """The function with its operations."""
    function = draft.function
    operations = Operations(function, functions, draft.variables, modules)
    bindings = []
    for line, binding in draft.lines:
        op = operations.read(line, binding.type)
        if not line.ended():
            line.fail("the line goes on")
        bindings.append(Binding(binding.var, binding.name, binding.type, op))
    operations.line = draft.returns
    returns = operations.var()
    if not draft.returns.ended():
        draft.returns.fail("the line goes on")
    return Function(function.name, function.dims, function.params, function.result, tuple(bindings), returns)
