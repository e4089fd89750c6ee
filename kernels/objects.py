"""Object code as a blob: one run of bytes that works wherever it is copied, checked before anybody runs it.

A compiled module is an ELF object with a few sections and relocations between them. It needs nothing from outside, so its
sections are laid out once, its relocations, which are all relative to the place they stand at, are applied, and what remains is a
*blob*: loading is a copy. Everything that is not of this kind is refused with the name of what is not: an undefined symbol (a
call into a library, which would be arithmetic that the project does not define), a relocation that depends on the address, a
section that could be written."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from presk.cache.digest import Digest, value_digest

ALIGNMENT: Final = 64
"""Where a blob may stand: at multiples of this, which is the widest vector register."""


class ObjectError(Exception):
    """An object that is not of the kind that the compiler makes, or a blob that is damaged: an internal error."""


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Position-independent code for a level; `entry` is the function's offset, `digest` that of all the rest."""

    level: str
    entry: int
    code: bytes
    digest: Digest


class Routines(msgspec.Struct, frozen=True, array_like=True):
    """The native routines that run tables of launches: what walks a table, and what a further thread does."""

    run: Blob
    work: Blob


def blob(level: str, entry: int, code: bytes) -> Blob:
    """A blob with its digest."""
    return Blob(level, entry, code, _digest(level, entry, code))


def check(one: Blob) -> None:
    """`ObjectError` for a blob that is not as it was made."""
    if not 0 <= one.entry < len(one.code) or one.digest != _digest(one.level, one.entry, one.code):
        raise ObjectError("a blob of native code is damaged")


def _digest(level: str, entry: int, code: bytes) -> Digest:
    return value_digest(b"%s\0%d\0" % (level.encode(), entry) + code)


# --- ELF (System V ABI; the numbers are those of its tables) ----------------------------------------------------------------------

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")

_RELOCATABLE: Final = 1
_X86_64: Final = 62
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _REL = 1, 2, 3, 4, 8, 9
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
_RELATIVE: Final = {2: "R_X86_64_PC32", 4: "R_X86_64_PLT32"}
"""Relocations that do not depend on where the code stands."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class _Object:
    """An ELF object, read with every bound checked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < _HEADER.size:
            raise ObjectError("an object is shorter than its header")
        header = _HEADER.unpack_from(data)
        if header[0][:7] != b"\x7fELF\x02\x01\x01" or header[1:3] != (_RELOCATABLE, _X86_64):
            raise ObjectError("an object is no relocatable ELF file for x86-64")
        at, size, count, names = header[6], header[11], header[12], header[13]
        if size != _SECTION.size or at + size * count > len(data) or names >= count:
            raise ObjectError("the section table of an object lies outside of it")
        self.sections = [_Section(*_SECTION.unpack_from(data, at + size * i)) for i in range(count)]
        for section in self.sections:
            if section.kind != _NOBITS and section.offset + section.size > len(data):
                raise ObjectError("a section of an object lies outside of it")
        self._names = names
        tables = [section for section in self.sections if section.kind == _SYMTAB]
        if len(tables) != 1 or tables[0].link >= count:
            raise ObjectError("an object has no symbol table")
        self._strings = tables[0].link
        self.symbols = [_Symbol(*row) for row in self.rows(tables[0], _SYMBOL)]

    def rows(self, section: _Section, row: struct.Struct) -> Iterator[tuple[int, ...]]:
        """The entries of a table."""
        if section.size % row.size:
            raise ObjectError("a table of an object ends within a row")
        return row.iter_unpack(self.bytes(section))

    def bytes(self, section: _Section) -> bytes:
        """A section's content."""
        return self.data[section.offset : section.offset + section.size]

    def section_name(self, section: _Section) -> str:
        """A section's name."""
        return self._string(self._names, section.name)

    def symbol_name(self, symbol: _Symbol) -> str:
        """A symbol's name; that of its section where it has none."""
        if symbol.name == 0 and 0 < symbol.section < len(self.sections):
            return self.section_name(self.sections[symbol.section])
        return self._string(self._strings, symbol.name)

    def _string(self, table: int, offset: int) -> str:
        data = self.bytes(self.sections[table])
        end = data.find(b"\0", offset)
        if not 0 <= offset < len(data) or end < 0:
            raise ObjectError("a name in an object lies outside of its table")
        return data[offset:end].decode("utf-8", "replace")


def flatten(data: bytes, level: str, entry: str) -> Blob:
    """The blob of an object whose function `entry` is called. `ObjectError` for an object that needs anything from outside."""
    elf = _Object(data)
    for symbol in elf.symbols[1:]:
        if symbol.section == 0:
            raise ObjectError(f"compiled code refers to the symbol {elf.symbol_name(symbol)}, which it does not define")
    code = bytearray()
    places: dict[int, int] = {}
    kept = [i for i, section in enumerate(elf.sections) if section.flags & _ALLOC and section.size]
    for number in sorted(kept, key=lambda i: (not elf.sections[i].flags & _EXECUTE, i)):
        section = elf.sections[number]
        if section.flags & (_WRITE | _TLS) or section.kind != _PROGBITS:
            raise ObjectError(f"compiled code has the section {elf.section_name(section)}, which is not constant")
        align = max(section.align, 1)
        if align > ALIGNMENT or align & (align - 1):
            raise ObjectError(f"the section {elf.section_name(section)} of compiled code asks for alignment {align}")
        code += b"\xcc" * (-len(code) % align)
        places[number] = len(code)
        code += elf.bytes(section)
    for section in elf.sections:
        if section.kind == _REL and section.info in places:
            raise ObjectError("compiled code has relocations without addends")
        if section.kind == _RELA and section.info in places:
            _relocate(elf, section, places, code)
    starts = [
        places[symbol.section] + symbol.value
        for symbol in elf.symbols
        if symbol.section in places
        and elf.sections[symbol.section].flags & _EXECUTE
        and symbol.info >> 4 == 1  # global
        and symbol.value < elf.sections[symbol.section].size
        and elf.symbol_name(symbol) == entry
    ]
    if len(starts) != 1:
        raise ObjectError(f"compiled code does not define the function {entry}")
    return blob(level, starts[0], bytes(code))


def _relocate(elf: _Object, table: _Section, places: dict[int, int], code: bytearray) -> None:
    """Applies the relocations of a section that is kept."""
    base = places[table.info]
    size = elf.sections[table.info].size
    for offset, info, addend in elf.rows(table, _RELOCATION):
        kind, number = info & 0xFFFF_FFFF, info >> 32
        if number >= len(elf.symbols):
            raise ObjectError("a relocation of an object names no symbol")
        symbol = elf.symbols[number]
        if kind not in _RELATIVE or symbol.section not in places:
            raise ObjectError(
                f"compiled code has a relocation of type {kind} to {elf.symbol_name(symbol)}, which depends on where it is loaded"
            )
        if offset + 4 > size:
            raise ObjectError("a relocation of an object lies outside of its section")
        value = places[symbol.section] + symbol.value + addend - (base + offset)
        if not -(1 << 31) <= value < 1 << 31:
            raise ObjectError(f"a relocation of compiled code to {elf.symbol_name(symbol)} does not fit")
        struct.pack_into("<i", code, base + offset, value)
