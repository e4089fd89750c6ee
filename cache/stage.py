"""What a stage is.

A stage is a pure function with a name, the module that it lives in, the options that it may read, and a codec for its
value. The engine (``presk.cache.engine``) makes the key of an answer from all of them. A module that declares stages
imports this module and ``presk.cache.codec``, nothing else of the package:

    def _parse(source: bytes, *, ascii: bool | None) -> Outcome: ...

    PARSE: Final = Stage("parse", __name__, ("ascii",), _parse, struct_codec(Outcome), packages=("lark",))

The function's parameters that are not options are its inputs, in order; their names are the names of the ingredients.
A final ``*parts`` takes any number of inputs. The function must be a plain function without captured variables: what
it captured would be an ingredient that no key holds.

A *composite* stage asks for other stages. Its function's first parameter is a ``Queries`` object (it is no
ingredient); the key of its answer holds the fingerprint of everything that its module reaches by import, which must
include the modules of the stages that it asks for, and ``packages`` must include theirs. The engine checks both.

Errors of the user are values of a stage and are kept like any other. An exception means a bug; nothing is kept. An
outcome that need not be the same next time (a time-out, a vanished file) is returned inside ``Transient``: it is used
now and not kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, Generic, Protocol, TypeVar

from presk.cache.codec import Codec
from presk.cache.digest import Digest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08


# Generic dataclasses are frozen without slots: with both, `Stage[X](...)` fails.
@dataclass(frozen=True)
class Transient(Generic[T]):
    """A result that is used by whoever asked and kept nowhere."""

    value: T


class Result(Protocol[T_co]):
    """A value with its digest: an input that was given, or the answer of a stage.

    ``value`` is decoded when it is first read; an answer from the disk that nobody reads is never decoded.
    """

    @property
    def digest(self) -> Digest:
        """The digest of the encoded value; equal values have equal digests."""

    @property
    def value(self) -> T_co:
        """The value."""


@dataclass(frozen=True, eq=False)
class Stage(Generic[T]):
    """A pure keyed query; see the module's text. Making one that breaks the rules is a ``TypeError``."""

    name: str
    module: str
    options: tuple[str, ...]
    run: Callable[..., T | Transient[T]]
    codec: Codec[T]
    packages: tuple[str, ...] = ()
    composite: bool = False

    def __post_init__(self) -> None:
        signature(self)


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs of a stage's function: their names, and the name of the parameter that takes the rest."""

    inputs: tuple[str, ...]
    rest: str | None

    def names(self, count: int) -> tuple[str, ...] | None:
        """The names of ``count`` inputs, or nothing where the function does not take so many."""
        if count == len(self.inputs):
            return self.inputs
        if self.rest is None or count < len(self.inputs):
            return None
        return (*self.inputs, *(f"{self.rest}[{i}]" for i in range(count - len(self.inputs))))


def signature(stage: Stage[Any]) -> Signature:
    """The inputs of a stage, read off its function; ``TypeError`` where the stage is not well formed."""
    run = stage.run
    if not isinstance(run, FunctionType):
        raise TypeError(f"stage {stage.name}: run must be a plain function, not {type(run).__qualname__}")
    code = run.__code__
    if code.co_freevars:
        captured = ", ".join(code.co_freevars)
        raise TypeError(
            f"stage {stage.name}: the function captures {captured}, which would be in no key; make it an input"
        )
    if code.co_flags & _VARKEYWORDS:
        raise TypeError(f"stage {stage.name}: the function takes any keyword; name the options")
    parameters = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & _VARARGS else None
    if stage.composite:
        if not parameters:
            raise TypeError(f"stage {stage.name}: the function of a composite stage takes a Queries object first")
        parameters = parameters[1:]
    declared = stage.options
    if len(set(declared)) != len(declared):
        raise TypeError(f"stage {stage.name}: an option is declared twice")
    if "subject" in declared:
        raise TypeError(f"stage {stage.name}: an option cannot be named subject")
    for name in declared:
        if name not in parameters and name not in keywords:
            raise TypeError(f"stage {stage.name}: the function has no parameter for the option {name}")
    for name in keywords:
        if name not in declared:
            raise TypeError(f"stage {stage.name}: the keyword parameter {name} is not a declared option")
    inputs = tuple(name for name in parameters if name not in declared)
    if parameters[: len(inputs)] != inputs:
        raise TypeError(f"stage {stage.name}: an option stands before an input")
    if rest is not None and len(inputs) != len(parameters):
        raise TypeError(f"stage {stage.name}: an option stands before *{rest}")
    return Signature(inputs, rest)


class Queries(Protocol):
    """What a composite stage may ask: the engine, seen from inside one of its stages."""

    @property
    def subject(self) -> str:
        """What the stage's answer is about, for the subjects of what it asks. It is in no key: no value may depend on it."""

    def get(self, stage: Stage[T], /, *inputs: Result[Any], subject: str = "", **options: object) -> Result[T]:
        """The answer of ``stage``; see ``Engine.get``."""

    def leaf(self, name: str, value: T, codec: Codec[T]) -> Result[T]:
        """A given value as an input; see ``Engine.leaf``."""

    def bytes(self, name: str, data: bytes) -> Result[bytes]:
        """Given bytes as an input; see ``Engine.bytes``."""

    def group(self, name: str, entries: Mapping[str, Result[T]]) -> Result[Mapping[str, T]]:
        """Results by name as one input; see ``Engine.group``."""


class StageError(Exception):
    """A stage broke a rule that keys rest on. This is a bug in the compiler; no program and no damaged file causes it.

    StageError
    ├── NotDeterministic     the same key gave two values
    ├── NotFaithful          a value did not survive its codec
    ├── StageCycle           a stage asked for its own answer
    └── FingerprintError     the code of a stage cannot be determined
    """


class NotDeterministic(StageError):
    """The same stage with the same ingredients gave two different values."""


class NotFaithful(StageError):
    """A value that was encoded and decoded is encoded otherwise."""


class StageCycle(StageError):
    """The answer of a stage depends on itself."""


class FingerprintError(StageError):
    """The source of a stage cannot be found or followed."""
