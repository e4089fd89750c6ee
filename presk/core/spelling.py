"""How names, dimensions and the attributes of primitives are written in the text form of the core."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from presk.core.rigid import RigidTyper
from presk.prims.attrs import Align, Attr, Attrs, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.core_rows import CoreRow
from presk.prims.core_rules import Use
from presk.prims.spelling import (
    AxisPiece,
    DimPiece,
    LengthPiece,
    NamePiece,
    NamesPiece,
    Piece,
    PlacePiece,
    SelectsPiece,
    SizesPiece,
    WordPiece,
)
from presk.prims.surface import Refused
from presk.types.dim import Dim, symbol
from presk.types.type import Index, Mask, Real, Type

NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NAME: Final = re.compile(r"""[^\s(){}\[\]<>,;:=.%"`+*/@|~!&^#?$∘ℝ\\-]+""")
"""A run of characters that may be a name; a name in quotation marks may have any."""
FUNCTION: Final = re.compile(r"""[^\s(){}\[\]<>,;=%"`+*/@|~!&^#?$∘ℝ\\-]+""")
"""A function's name: names, joined by dots, with the axes it was made for."""
KEYWORDS: Final = frozenset(
    "call fold closure grad apply params number axis stack module same no lies at place".split()
)
"""Words with a meaning where a name may stand: a name that is one of them stands in quotation marks."""


def name_text(name: str, pattern: re.Pattern[str] = NAME) -> str:
    """A name, in quotation marks if it would be read as something else."""
    plain = pattern.fullmatch(name) is not None and not name[0].isdigit() and name not in KEYWORDS and "--" not in name
    return name if plain else f"`{quoted(name)[1:-1].replace('`', chr(92) + 'u0060')}`"


def quoted(text: str) -> str:
    """A string in quotation marks; `--` is not in it, since that begins a comment."""
    return json.dumps(text, ensure_ascii=False).replace("--", "-\\u002d")


def word_text(word: str) -> str:
    """A word: a name, a number, or anything in quotation marks."""
    if NUMBER.fullmatch(word) or (NAME.fullmatch(word) and word not in KEYWORDS and not word[0].isdigit()):
        return word
    return quoted(word)


def dim_text(dim: Dim) -> str:
    """A dimension: `4*D`, `T + 1`."""
    quoted = {name: symbol(symbol_text(name)) for name in dim.symbols()}
    # Quotation marks keep the order of symbols only where there are none; where there are, it does not matter to the reader.
    return str(dim.substitute({name: value for name, value in quoted.items() if value != symbol(name)}))


def symbol_text(name: str) -> str:
    """A symbol; an import's is `m.T`."""
    return ".".join(map(name_text, name.split(".")))


def align_text(align: Align) -> str:
    """An alignment in full."""
    return f"lies({', '.join([*(['...'] if align.prefix else []), *map(str, align.axes)])})"


def select_text(select: Select, at: str) -> str:
    """A selector of the axis that is written `at`."""
    return f"{at}: {dim_text(select.lo)}" + (f"..{dim_text(select.hi)}" if select.hi is not None else "")


def full_axis(select: Select) -> str:
    """An axis by its name and its place."""
    return f"{name_text(select.axis) if select.axis is not None else ''}@{select.position}"


def names_text(names: AxisNames) -> str:
    """Axis names in brackets."""
    return f"[{', '.join(map(name_text, names.names))}]"


def attr_text(attr: Attr) -> str:
    """An attribute in full."""
    match attr:
        case Align():
            return align_text(attr)
        case AxisName(name):
            return "axis" if name is None else f"axis {name_text(name)}"
        case AxisNames():
            return names_text(attr)
        case Length(dim, name):
            return dim_text(dim) if name is None else f"{name_text(name)}: {dim_text(dim)}"
        case Select():
            return f"at {select_text(attr, full_axis(attr))}"
        case Word(text):
            return quoted(text)
        case Place(value):
            return f"place {value}"


def piece_text(piece: Piece, attrs: Mapping[str, Attr], types: Sequence[Type | None]) -> str | None:
    """What a piece writes of attributes; None where they do not fit it."""
    match piece:
        case AxisPiece(key):
            match attrs.get(key):
                case AxisName(name):
                    return "" if name is None else f"axis {name_text(name)}"
        case NamePiece(key):
            match attrs.get(key):
                case AxisName(str() as name):
                    return name_text(name)
        case DimPiece(key):
            match attrs.get(key):
                case Length(dim, None):
                    return dim_text(dim)
        case LengthPiece(key):
            match attrs.get(key):
                case Length(dim, str() as name):
                    return f"{name_text(name)}: {dim_text(dim)}"
        case SizesPiece((first, first_name), (second, second_name)):
            match attrs.get(first), attrs.get(second):
                case Length(one, one_name), Length(two, two_name):
                    sizes = one.natural(), two.natural()
                    if (one_name, two_name) == (first_name, second_name) and None not in sizes:
                        return f"{one}x{two}"
        case WordPiece(key, labelled):
            match attrs.get(key):
                case Word(text):
                    return f"{key}={word_text(text)}" if labelled else word_text(text)
        case PlacePiece(key):
            match attrs.get(key):
                case Place(value) if value >= 0:
                    return str(value)
        case SelectsPiece(_, operand):
            found = []
            for attr in attrs.values():
                if not isinstance(attr, Select):
                    return None
                place = axis_position(types[operand] if operand < len(types) else None, attr.axis)
                plain = attr.axis is not None and place == attr.position
                found.append(select_text(attr, name_text(attr.axis or "") if plain else full_axis(attr)))
            return ", ".join(found) or None
        case NamesPiece(out):
            match attrs.get(out):
                case AxisNames() as names:
                    return names_text(names)
    return None


def pieces_text(pieces: Iterable[Piece], attrs: Mapping[str, Attr], types: Sequence[Type | None]) -> str | None:
    """What pieces write between a primitive's name and its operands; None where the attributes do not fit them."""
    found = ""
    for piece in pieces:
        text = piece_text(piece, attrs, types)
        if text is None:
            return None
        if isinstance(piece, NamesPiece) or not text:
            continue
        found += ("" if not found else ", " if isinstance(piece, LengthPiece) and piece.comma else " ") + text
    return found


def axis_position(type_: Type | None, name: str | None) -> int | None:
    """The place, from the last, of a tensor's axis of a name."""
    if isinstance(type_, Real | Index | Mask):
        for place, axis in enumerate(type_.shape.axes, -len(type_.shape.axes)):
            if axis.name == name:
                return place
    return None


def completed(row: CoreRow, types: Sequence[Type | None], written: Attrs, result: Type) -> Attrs | None:
    """The attributes of a use of which `written` are written; None where the types do not imply the others."""
    if not row.spelling.implied:
        return written
    known = [type_ for type_ in types if type_ is not None]
    if len(known) != len(types) or not row.fewest <= len(known) <= row.most:
        return None
    try:
        return row.typing(Use(row.name, tuple(known), dict(written), result), RigidTyper({})).attrs
    except Refused:
        return None


def piece_keys(piece: Piece, count: int) -> list[str]:
    """The attributes that a piece writes, in order; `count` are written in all."""
    match piece:
        case SizesPiece((first, _), (second, _)):
            return [first, second]
        case SelectsPiece():
            return [f"s{place}" for place in range(count)]
        case NamesPiece():
            return []
        case _:
            return [piece.key]


def primitive_name(name: str) -> str:
    """A primitive's name."""
    return name_text(name)


def function_text(name: str) -> str:
    """A function's name."""
    return name_text(name, FUNCTION)
