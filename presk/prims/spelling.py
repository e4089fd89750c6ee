"""How the text form of the core writes the attributes of a primitive.

    mean axis model x          axis(axis)            softmax axis seq2 s, m      axis(axis), and the mask's alignment is implied
    concat pair x, y           name(axis)            index seq: -1 x             selects
    split_heads 12x64 x        sizes(heads, hd)      normal std=0.02 key         word(std)

A piece says which attribute is written and in which form; pieces stand between the name and the operands, in order. What is
`implied` is not written: the typing rule finds it from the types. A use whose attributes do not fit its row is written in full,
`add {left = …, right = …} x, y`, so that every program has a text.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AxisPiece:
    """`axis model`; nothing at all where the axis is "over everything"."""

    key: str


@dataclass(frozen=True, slots=True)
class NamePiece:
    """An axis name: `pair`."""

    key: str


@dataclass(frozen=True, slots=True)
class DimPiece:
    """A dimension without a name: `3`."""

    key: str


@dataclass(frozen=True, slots=True)
class LengthPiece:
    """An axis that is made: `seq: T`; a comma stands before it if `comma`."""

    key: str
    comma: bool = False


@dataclass(frozen=True, slots=True)
class SizesPiece:
    """Two constants: `12x64`; the axes they are the lengths of have fixed names."""

    first: tuple[str, str]
    second: tuple[str, str]


@dataclass(frozen=True, slots=True)
class WordPiece:
    """A word: `b`; `std=0.02` if it is `labelled`."""

    key: str
    labelled: bool = False


@dataclass(frozen=True, slots=True)
class PlacePiece:
    """A number: `0`."""

    key: str


@dataclass(frozen=True, slots=True)
class SelectsPiece:
    """`seq: 0..T, pair: 1..2`, or without `..` what drops its axis. An axis without a name is written by its place, `@-1: 0`.

    The attributes are s0, s1, …; `operand` is the one whose axes they select.
    """

    ranges: bool
    operand: int = 0


@dataclass(frozen=True, slots=True)
class NamesPiece:
    """Of `ein`: `[out]` before the operands and `[in0]`, `[in1]`, … behind each."""

    out: str
    operand: str


Piece = AxisPiece | NamePiece | DimPiece | LengthPiece | SizesPiece | WordPiece | PlacePiece | SelectsPiece | NamesPiece


@dataclass(frozen=True, slots=True)
class Spelling:
    """The pieces, and the attributes that the typing rule implies."""

    pieces: tuple[Piece, ...] = ()
    implied: tuple[str, ...] = field(default=())


PLAIN = Spelling()
"""No attributes."""
