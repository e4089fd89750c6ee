"""The stage that types a function: its tree, its signature and its environment."""

from collections.abc import Mapping
from typing import Final

from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Stage
from presk.elab.codecs import PACKAGES
from presk.elab.entities import Elaborated, Signature
from presk.elab.environment import env_of
from presk.syntax import tree
from presk.types.decide import Decider
from presk.typing.function import type_function
from presk.typing.typed import TypedFunction

TYPED_FUNCTION: Final[Codec[TypedFunction]] = struct_codec(TypedFunction)


def _typing(
    function: tree.Fn, signature: Elaborated, env: Mapping[str, Elaborated | str], *, axes: tuple[str, ...]
) -> TypedFunction:
    entity = signature.entity
    assert isinstance(entity, Signature)  # a signature that was refused altogether has no body to check
    names = dict(zip(entity.axes, axes, strict=True)) if axes else None
    return type_function(function, entity, env_of(env), Decider(), names)


TYPING: Final = Stage("typing", __name__, ("axes",), _typing, TYPED_FUNCTION, PACKAGES)
