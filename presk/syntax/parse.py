"""Parsing one chunk, and putting the parsed chunks of a file together.

The parser is a loop over the tables that lark made of `presk.lark` (`grammar_tables`). It calls the functions of `build` as it
reduces, so that nodes are made once and nothing lies between tokens and tree; and a reduction of a production with one
symbol and no action only changes a state. It counts the nesting of what it builds and stops at the first level too many.

A chunk with an error gives no node, with one exception: a missing closing brace of a module or block. Behind an error, the
remaining lines of a body are read one by one, so that the errors of different lines are found in one run.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.diagnostics.value import Diagnostic, Label, Place, located
from presk.syntax import messages
from presk.syntax.build import ACTIONS as BUILD
from presk.syntax.build import Action, Refused
from presk.syntax.grammar_tables import ACTIONS, GOTOS, RULES, START, UNIT_STEPS, UNITS
from presk.syntax.messages import Failure
from presk.syntax.tokens import (
    BAD_CHARACTER,
    BAD_CONTROL,
    BAD_ESCAPE,
    BAD_KINDS,
    BAD_LAMBDA,
    BAD_NAME,
    BAD_NUMBER,
    BAD_STRING,
    BAD_UNIT,
    DECLARATION,
    HEADER,
    ITEM,
    MAX_NESTING,
    NAME,
    NAT,
    NEWLINE,
    OPERAND_ENDS,
    RESERVED,
    STRING,
    Chunk,
    FileTokens,
    Token,
)
from presk.syntax.tree import (
    Block,
    Checkpoint,
    Const,
    DeclChunk,
    DimDecl,
    Effect,
    Fn,
    Import,
    Item,
    ItemChunk,
    MemberChunk,
    Model,
    Module,
    ParamMember,
    SourceFile,
    StaticAssert,
    TypeAlias,
    UseMember,
)

# No production that nests holds more symbols than this before the part nested in it, so a longer stack is too deep already.
_MAX_STACK: Final = 8 * MAX_NESTING
MAX_ERRORS: Final = 20  # of one chunk

# Names behind which, as a colon's right side, a type is read (beside the reserved words of types).
TYPE_NAMES: Final = frozenset(("bool", "nat", "int", "rat", "f64", "key"))
TYPE_WORDS: Final = frozenset(("ℝ", "idx", "param", "params"))

ChunkNode = (
    Import
    | Const
    | StaticAssert
    | DimDecl
    | TypeAlias
    | Effect
    | Model
    | Module
    | Fn
    | Block
    | ParamMember
    | UseMember
    | Item
    | Checkpoint
)


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of a chunk. Places are relative to it, with empty chunk and file names."""

    node: ChunkNode | None
    diagnostics: tuple[Diagnostic, ...]


def _rules() -> tuple[tuple[str, int, Action | None, int], ...]:
    """Per production: left side, length, what to do (None: pass the one symbol on), levels of nesting."""
    return tuple((left, size, *(BUILD[action] if action else (None, 0))) for left, size, action in RULES)


_RULES: Final = _rules()

# What a bad token is taken for, where it stands for something.
_STAND_INS: Final = MappingProxyType(
    {BAD_NAME: NAME, BAD_LAMBDA: NAME, BAD_NUMBER: NAT, BAD_UNIT: NAT, BAD_STRING: STRING, BAD_ESCAPE: STRING,
     BAD_CONTROL: STRING}
)  # fmt: skip


_ACCEPTING: Final = frozenset(accepting for _, accepting in START.values())


class _Stop(Exception):
    """The parser cannot go on at a token; caught in this module."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _TooDeep(Exception):
    """The tree would be nested too deeply; caught in this module."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def _drive(tokens: tuple[Token, ...], kinds: list[str], start: str, first: int, stop: int) -> Any:
    """Parses the tokens from number `first` up to, not including, `stop`; the value of the start symbol.

    Raises _Stop at a token that cannot stand there, _TooDeep, and what actions raise (Refused).
    """
    state, accepting = START[start]
    states = [state]
    values: list[Any] = []
    begins: list[int] = []  # per value, the number of its first token
    depths: list[int] = []  # per value, the levels of nesting in it
    i = first
    kind = kinds[i] if i < stop else "end"
    while True:
        action = ACTIONS[state].get(kind)
        if action is None:
            raise _Stop(i)
        if action >= 0:
            state = action
            states.append(state)
            values.append(i)
            begins.append(i)
            depths.append(0)
            if len(states) > _MAX_STACK:
                raise _TooDeep(i)
            i += 1
            kind = kinds[i] if i < stop else "end"
            continue
        left, size, build, levels = _RULES[~action]
        if build is None:
            state = GOTOS[states[-2]][left]
            states[-1] = state
        elif size == 0:
            state = GOTOS[state][left]
            states.append(state)
            values.append(build(tokens, (i, i - 1), values))
            begins.append(i)
            depths.append(0)
        else:
            begin = begins[-size]
            depth = max(depths[-size:]) + levels
            if depth > MAX_NESTING:
                raise _TooDeep(i - 1)
            value = build(tokens, (begin, i - 1), values[-size:])
            del states[-size:], values[-size:], begins[-size:], depths[-size:]
            state = states[-1]
            steps = UNITS[state].get(left)
            if steps is not None:
                left = UNIT_STEPS[steps].get(kind, left)
            state = GOTOS[state][left]
            states.append(state)
            values.append(value)
            begins.append(begin)
            depths.append(depth)
        if state == accepting and kind == "end":
            return values[-1]


def _expected(kinds: list[str], start: str, first: int, index: int) -> frozenset[str]:
    """The token kinds with which the tokens from number `first` up to, not including, `index` could go on.

    The parser finds an error only after reductions that the offending token allowed; so the states are found again, as they
    were before it. Of what a state's row holds, some kinds lead to reductions after which they cannot stand either.
    """
    states = [START[start][0]]
    for i in range(first, index):
        _advance(states, kinds[i])
    return frozenset(kind for kind in ACTIONS[states[-1]] if _advance(list(states), kind))


def _advance(states: list[int], kind: str) -> bool:
    """Reduces and shifts a token; false if it cannot stand there. `end` is only looked at."""
    while True:
        action = ACTIONS[states[-1]].get(kind)
        if action is None:
            return False
        if action >= 0:
            states.append(action)
            return True
        left, size, _, _ = _RULES[~action]
        if size:
            del states[-size:]
        states.append(GOTOS[states[-1]][left])
        if kind == "end" and states[-1] in _ACCEPTING:
            return True


# --- look-ahead -------------------------------------------------------------------------------------------------------


def retag(chunk_kind: str, tokens: tuple[Token, ...]) -> list[str]:
    """The kinds of the tokens as the grammar wants them: words that are special by position, and colons before types."""
    kinds = [token.kind for token in tokens]
    if chunk_kind == ITEM:
        _retag_item(tokens, kinds)
    elif chunk_kind == DECLARATION and len(kinds) > 1 and kinds[0] == kinds[1] == NAME and tokens[0].text == "model":
        kinds[0] = "model"
    calls: list[bool | None] = []  # per open bracket: call parentheses, other parentheses, neither
    before = ""  # the kind of the token before
    for i, kind in enumerate(kinds):
        if kind == ":":
            call = calls[-1] if calls else None
            if call is False:
                kinds[i] = "tcolon"
            elif call:
                # `name : T` behind the beginning of an argument names an axis, unless a type word follows.
                name = before == NAME and kinds[i - 2] in ("(", ",")
                if not name or (i + 1 < len(kinds) and _begins_type(tokens[i + 1])):
                    kinds[i] = "tcolon"
        elif kind == "(":
            calls.append(before in OPERAND_ENDS)
        elif kind in ("[", "{"):
            calls.append(None)
        elif kind in (")", "]", "}"):
            if calls:
                calls.pop()
        elif kind == STRING and before == NAME and tokens[i - 1].text == "stream":
            kinds[i - 1] = "stream"
        elif kind == "init" and before == ".":
            kinds[i] = NAME  # `M.init(key)`: the one reserved word that is also the name of a function
        before = kind
    return kinds


def _begins_type(token: Token) -> bool:
    return token.kind in TYPE_WORDS or (token.kind == NAME and token.text in TYPE_NAMES)


def _retag_item(tokens: tuple[Token, ...], kinds: list[str]) -> None:
    if len(kinds) >= 2 and kinds[1] in ("=", ":") and (kinds[0] == NAME or kinds[0] in RESERVED):
        kinds[0] = "field"
        if kinds[1] == ":" and _equals_follows(kinds):
            kinds[1] = "tcolon"
    elif (
        len(kinds) >= 2
        and kinds[0] == kinds[1] == NAME
        and tokens[0].text == "checkpoint"
        and tokens[1].text == "every"
    ):
        kinds[0], kinds[1] = "checkpoint", "every"
        for i in range(len(kinds) - 1, 2, -1):
            if kinds[i] == NAME and tokens[i].text == "to":
                kinds[i] = "to"
                break


def _equals_follows(kinds: list[str]) -> bool:
    """Whether `=` follows outside brackets, before anything that only an expression holds: then a type stands before it."""
    depth = 0
    for kind in kinds:
        if kind in ("(", "[", "{"):
            depth += 1
        elif kind in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and kind in ("let", "λ", NEWLINE):
            return False
        elif depth == 0 and kind == "=":
            return True
    return False


# --- chunks -----------------------------------------------------------------------------------------------------------


def parse_chunk(chunk: Chunk) -> Outcome:
    """The declaration, member, item or header that a chunk holds. Depends on the chunk's kind and tokens, not on its key."""
    tokens = chunk.tokens
    unpaired, deep = messages.brackets(tokens, MAX_NESTING, MAX_ERRORS)
    kinds = [token.kind for token in tokens]
    lexical = [] if BAD_KINDS.isdisjoint(kinds) else messages.lexical(tokens, MAX_ERRORS)
    problems = [*lexical, *unpaired]
    if deep:
        return Outcome(None, _sorted(problems))
    stop: _Stop | _TooDeep | Refused | None = None
    if not problems:
        try:
            return Outcome(_drive(tokens, retag(chunk.kind, tokens), chunk.kind, 0, len(tokens)), ())
        except (_Stop, _TooDeep, Refused) as error:
            stop = error
        if isinstance(stop, _TooDeep):
            return Outcome(None, (messages.too_deep(stop.index, MAX_NESTING),))
    elif chunk.kind == HEADER and len(problems) == 1:
        mended = _with_braces(tokens, problems[0])
        if mended is not None:
            closed, diagnostic = mended
            try:
                return Outcome(_drive(closed, retag(HEADER, closed), HEADER, 0, len(closed)), (diagnostic,))
            except (_Stop, _TooDeep, Refused):
                pass  # there is more wrong with it than the brace
    return Outcome(None, _diagnose(chunk, problems, stop))


def _with_braces(
    tokens: tuple[Token, ...], problem: tuple[int, Diagnostic]
) -> tuple[tuple[Token, ...], Diagnostic] | None:
    """A header with the brace that it lacks, if that is its problem, and what is said of it."""
    index, diagnostic = problem
    last = len(tokens) - 1
    if index != last or last == 0:
        return None
    if tokens[last].kind == "{":
        return (*tokens, Token("}", "}")), diagnostic
    if tokens[last].kind == "}":
        return (*tokens[:last], Token("{", "{"), tokens[last]), messages.missing_brace(last)
    return None


def _sorted(problems: list[tuple[int, Diagnostic]]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for _, diagnostic in sorted(problems, key=lambda problem: problem[0]))


def _diagnose(
    chunk: Chunk, problems: list[tuple[int, Diagnostic]], stop: _Stop | _TooDeep | Refused | None
) -> tuple[Diagnostic, ...]:
    """Every independent error of a chunk: those known already, where the parser stops, and those of further lines.

    A line with an error is not looked at again; what else the parser says of it may only follow from that error.
    """
    numbers = [i for i, token in enumerate(chunk.tokens) if token.kind != BAD_CHARACTER]
    tokens = tuple(_stand_in(chunk.tokens[i]) for i in numbers)
    kinds = retag(chunk.kind, tokens)
    spans = messages.lines(kinds)
    back = {number: i for i, number in enumerate(numbers)}
    spoiled = messages.lines_of(spans, (_nearest(back, number) for number, _ in problems))
    found = list(problems)
    numbers.append(len(chunk.tokens))  # the place behind the last token

    def look(start: str, first: int, end: int) -> tuple[int, Diagnostic] | None:
        """The first error in a range of tokens, by token number, if there is one."""
        try:
            _drive(tokens, kinds, start, first, end)
        except (_Stop, _TooDeep, Refused) as error:
            return described(error, start, first, end)
        return None

    def described(error: _Stop | _TooDeep | Refused, start: str, first: int, end: int) -> tuple[int, Diagnostic]:
        """What the parser stopped with, as the number of a token and a diagnostic."""
        if isinstance(error, Refused):
            return error.diagnostic.primary.place.first, error.diagnostic
        if isinstance(error, _TooDeep):
            return error.index, messages.too_deep(error.index, MAX_NESTING)
        expected = _expected(kinds, start, first, error.index)
        return error.index, messages.unexpected(Failure(chunk.kind, tokens, kinds, error.index, end, expected))

    error = look(chunk.kind, 0, len(kinds)) if stop is None else described(stop, chunk.kind, 0, len(kinds))
    line = len(spans)
    if error is not None:
        (line,) = messages.lines_of(spans, (error[0],))
        follows = None
        if error[0] < len(kinds) and kinds[error[0]] == NEWLINE and line + 1 < len(spans):
            # What is wrong is as well the line behind the break, unless that is a binding by itself.
            begin, end = spans[line + 1]
            follows = None if begin < end and kinds[begin] == "let" else line + 1
        if not spoiled or (line < min(spoiled) and follows not in spoiled):
            found.append(_renumbered(error, numbers))
        if error[1].code == "E0007":
            return _sorted(found)
        if follows is not None:
            spoiled.add(follows)
        line = min(line, *spoiled) if spoiled else line
    for k in range(line + 1, len(spans)):
        if len(found) >= MAX_ERRORS:
            break
        first, end = spans[k]
        if k in spoiled or first == end:
            continue
        error = look("line", first, end)
        last = k == len(spans) - 1
        if error is None and last and kinds[first] == "let":
            # A binding where the body should be: the parser stopped before it could say so.
            error = (end, messages.missing_body(first, end))
        elif error is not None and error[1].code == "E0013" and not last:
            continue  # a `let` in a lambda at the end of a line: its body is the next line
        if error is not None:
            found.append(_renumbered(error, numbers))
    return _sorted(found)


def _stand_in(token: Token) -> Token:
    kind = _STAND_INS.get(token.kind)
    return token if kind is None else Token(kind, token.text)


def _nearest(back: dict[int, int], number: int) -> int:
    """The number, among the tokens that remain, of a token or of the first behind it."""
    while number not in back and back and number <= max(back):
        number += 1
    return back.get(number, len(back))


def _renumbered(problem: tuple[int, Diagnostic], numbers: list[int]) -> tuple[int, Diagnostic]:
    """A problem whose places count the tokens that were parsed, with places that count all tokens of the chunk."""

    def label(old: Label) -> Label:
        first, last = old.place.first, old.place.last
        if first > last:
            return Label(Place(numbers[first], numbers[first] - 1), old.text)
        return Label(Place(numbers[first], numbers[last]), old.text)

    index, diagnostic = problem
    return numbers[index], msgspec.structs.replace(
        diagnostic, primary=label(diagnostic.primary), labels=tuple(label(old) for old in diagnostic.labels)
    )


# --- files ------------------------------------------------------------------------------------------------------------


def assemble(file: FileTokens, outcomes: Mapping[str, Outcome]) -> SourceFile:
    """The file's tree, from the outcome of each chunk by key. What did not parse is left out."""
    declarations: list[DeclChunk] = []
    for unit in file.units:
        node = outcomes[unit.chunk.key].node
        if isinstance(node, Module):
            members = tuple(
                MemberChunk(part.key, member)
                for part in unit.parts
                if isinstance(member := outcomes[part.key].node, ParamMember | UseMember | Fn)
            )
            node = msgspec.structs.replace(node, members=members)
        elif isinstance(node, Block):
            items = tuple(
                ItemChunk(part.key, item)
                for part in unit.parts
                if isinstance(item := outcomes[part.key].node, Item | Checkpoint)
            )
            node = msgspec.structs.replace(node, items=items)
        if node is not None:
            assert not isinstance(node, ParamMember | UseMember | Item | Checkpoint)  # never at the top of a file
            declarations.append(DeclChunk(unit.chunk.key, node))
    return SourceFile(tuple(declarations))


def diagnostics(file: FileTokens, outcomes: Mapping[str, Outcome], name: str) -> tuple[Diagnostic, ...]:
    """The syntax errors of a file in the order of its text, with their places filled in."""
    return tuple(
        located(diagnostic, file=name, chunk=chunk.key)
        for chunk in file.chunks()
        for diagnostic in outcomes[chunk.key].diagnostics
    )
