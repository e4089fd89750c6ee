"""How the key of an answer is made.

    key = blake3 in the stage's context (canonical (name, codec, fingerprint, inputs, options))

where the inputs are (parameter, codec, digest) in order and the options (name, value), all that are declared: one
that was not given is ``None``, which is a value. So every ingredient has a name, and an explanation can say which one
differs.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from presk.cache.canonical import canonical, encode_plain, plain
from presk.cache.digest import Digest, context, digest_in, value_digest
from presk.cache.fingerprint import Fingerprint
from presk.cache.handles import Handle
from presk.cache.record import Ingredient
from presk.cache.stage import Queries, Stage, signature

T = TypeVar("T")

CODE: Final = "code"
"""The name of the ingredient that is the fingerprint."""


class Prepared(Generic[T]):
    """A stage with what its keys need, computed once per engine.

    ``admitted`` are the names of the stages that it was found to be allowed to ask (``presk.cache.scope``).
    """

    def __init__(self, stage: Stage[T], fingerprint: Fingerprint) -> None:
        self.stage: Final = stage
        self.fingerprint: Final = fingerprint
        self.stored = False
        self.admitted: Final[set[str]] = set()
        self._signature: Final = signature(stage)
        self._context: Final = context(f"key {stage.name}")
        self._options: Final = frozenset(stage.options)
        self._head: Final = (stage.name, stage.codec.name, fingerprint.digest)

    def names(self, inputs: tuple[object, ...]) -> tuple[str, ...]:
        """The parameters that take these inputs; ``TypeError`` where the stage takes another number of them."""
        names = self._signature.names(len(inputs))
        if names is None:
            expected = ", ".join(self._signature.inputs) or "no inputs"
            raise TypeError(f"stage {self.stage.name} takes {expected}; {len(inputs)} inputs were given")
        return names

    def complete(self, options: Mapping[str, object]) -> dict[str, object]:
        """All declared options in order, absent ones as ``None``; ``TypeError`` for one that is not declared."""
        if not self._options.issuperset(options):
            unknown = ", ".join(sorted(options.keys() - self._options))
            raise TypeError(f"stage {self.stage.name} does not declare the option {unknown}")
        return {name: options.get(name) for name in self.stage.options}

    def key(self, names: tuple[str, ...], inputs: tuple[Handle[Any], ...], options: Mapping[str, object]) -> Digest:
        """The key for these inputs and completed options; ``TypeError`` for an option without encoding."""
        parts = (
            *self._head,
            [(name, given.codec_name, given.digest) for name, given in zip(names, inputs, strict=True)],
            [(name, plain(value)) for name, value in options.items()],
        )
        return digest_in(self._context, encode_plain(parts))

    def ingredients(
        self, names: tuple[str, ...], inputs: tuple[Handle[Any], ...], options: Mapping[str, object]
    ) -> tuple[Ingredient, ...]:
        """The named ingredients of that key, as a record holds them."""
        return (
            Ingredient(CODE, "code", "", self.fingerprint.digest),
            *(
                Ingredient(name, given.kind, given.codec_name, given.digest)
                for name, given in zip(names, inputs, strict=True)
            ),
            *(_option(name, value) for name, value in options.items()),
        )


class Call(Generic[T]):
    """A stage asked with inputs and options: all that its answer depends on."""

    __slots__ = ("inputs", "key", "names", "options", "prepared", "subject")

    def __init__(
        self,
        prepared: Prepared[T],
        names: tuple[str, ...],
        inputs: tuple[Handle[Any], ...],
        options: Mapping[str, object],
        subject: str,
        key: Digest,
    ) -> None:
        self.prepared: Final = prepared
        self.names: Final = names
        self.inputs: Final = inputs
        self.options: Final = options
        self.subject: Final = subject
        self.key: Final = key

    def arguments(self, queries: Queries | None) -> list[object]:
        """What the stage's function is called with: the inputs' values, or, if composite, the queries and the inputs."""
        if queries is not None:
            return [queries, *self.inputs]
        return [held.value for held in self.inputs]


def _option(name: str, value: object) -> Ingredient:
    data = canonical(value)
    return Ingredient(name, "option", "", value_digest(data), data)
