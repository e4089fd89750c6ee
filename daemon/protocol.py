"""The wire between client and daemon, and between daemon and worker: frames over a Unix socket.

A frame is the length of its payload (four bytes, little-endian), one byte that says its kind, and the payload. The
first frame of a connection is `HELLO`; its form never changes, whatever else does, so that any client and any daemon
find out that they do not fit: six bytes of magic, the protocol's version (two bytes), the intent (one byte), and the
bytes by which an installation is known. The daemon answers `WELCOME`, or `LEAVE` with a reason and goes.

Payloads of what the thin client sends and reads are fields with their lengths, made here by hand: importing msgspec
takes as long as starting Python (33 ms of processor time beside 32), and `struct` and `socket` are not needed either.
Reports and states, which only the daemon's side and the commands on the daemon read, are msgspec's JSON
(`presk.daemon.messages`).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # the name that type checkers know, without the millisecond that `typing` takes
    from collections.abc import Callable, Iterable, Mapping, Sequence

VERSION = 1
MAGIC = b"presk\0"
HEAD = 5
"""Bytes before a payload."""
MAX_REQUEST = 16 << 20
"""The longest frame that the daemon takes from a client; arguments and environments are shorter by their nature."""

# What a connection is for: a request, which the daemon answers only if it is of the client's build; or looking after the
# daemon, which works across builds.
REQUEST = 1
MANAGE = 2

# From a client.
HELLO = 1
RUN = 2
CANCEL = 3
STATUS = 4
STOP = 5
WATCH = 6

# From the daemon.
WELCOME = 17
LEAVE = 18
OUT = 19
ERR = 20
PROGRESS = 21
EXIT = 22
STATE = 23
CHANGED = 24
REPORT = 25

# Between the daemon and a worker, beside RUN, CANCEL, OUT, ERR and EXIT.
READY = 33
RECHECK = 34
RECHECKED = 35


class Malformed(ValueError):
    """Bytes that are no frame of this protocol."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return len(payload).to_bytes(4, "little") + bytes((kind,)) + payload


def head(data: bytes) -> tuple[int, int]:
    """Kind and length in bytes of the payload, from a frame's first `HEAD` bytes."""
    return data[4], int.from_bytes(data[:4], "little")


def pack(fields: "Iterable[bytes]") -> bytes:
    """Fields as one payload."""
    return b"".join([part for field in fields for part in (len(field).to_bytes(4, "little"), field)])


def unpack(data: bytes) -> list[bytes]:
    """The fields of a payload; `Malformed` where it is cut short."""
    fields = []
    at = 0
    while at < len(data):
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        if at > len(data) or start > len(data):
            raise Malformed("a field is longer than its frame")
        fields.append(data[start:at])
    return fields


def hello(intent: int, identity: bytes) -> bytes:
    """The first frame of a client."""
    return frame(HELLO, MAGIC + VERSION.to_bytes(2, "little") + bytes((intent,)) + identity)


def read_hello(payload: bytes) -> tuple[int, int, bytes]:
    """Version, intent and installation of a client; `Malformed` for anything else."""
    if payload[:6] != MAGIC or len(payload) < 9:
        raise Malformed("not a client of Presk")
    return int.from_bytes(payload[6:8], "little"), payload[8], payload[9:]


def request(
    arguments: "Sequence[str]",
    directory: str,
    terminal: bool,
    columns: int,
    environment: "Mapping[str, str]",
    mask: int,
    report: bool = False,
) -> bytes:
    """The payload of `RUN`: a command line, from where, and what it may know of the terminal and the environment.

    `mask` is what `umask` says: files that are made for the client have the modes that the client's would have. With
    `report` a `REPORT` comes before the last frame.
    """
    encode = encoded
    variables = [part for name, value in environment.items() for part in (encode(name), encode(value))]
    facts = b"%d %d %d %d" % (terminal, columns, mask, report)
    return pack((encode(directory), facts, pack([encode(one) for one in arguments]), pack(variables)))


class Request:
    """What a `RUN` frame asks; see `request`."""

    def __init__(self, payload: bytes) -> None:
        """`Malformed` where the payload is none."""
        fields = unpack(payload)
        if len(fields) != 4:
            raise Malformed("not a request")
        directory, facts, arguments, variables = fields
        numbers = facts.split(b" ")
        if len(numbers) != 4 or not all(number.isdigit() for number in numbers):
            raise Malformed("not facts of a client")
        pairs = [decoded(part) for part in unpack(variables)]
        if len(pairs) % 2:
            raise Malformed("a variable without a value")
        self.arguments = [decoded(one) for one in unpack(arguments)]
        self.directory = decoded(directory)
        self.terminal, self.columns, self.mask = numbers[0] == b"1", int(numbers[1]), int(numbers[2])
        self.report = numbers[3] == b"1"
        self.environment = dict(zip(pairs[::2], pairs[1::2], strict=True))


def encoded(text: str) -> bytes:
    """Text of the command line or the environment as its bytes."""
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    """The inverse of `encoded`."""
    return data.decode("utf-8", "surrogateescape")


def exit_frame(code: int) -> bytes:
    """The last frame to a client."""
    return frame(EXIT, bytes((code,)))


def chosen(environment: "Mapping[str, str]") -> dict[str, str]:
    """The variables that a request carries: what the command line documents, and what completion needs."""
    return {
        name: value for name, value in environment.items() if name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES)
    }


_VARIABLES = frozenset(("HOME", "NO_COLOR", "TERM", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"))
_VARIABLE_PREFIXES = ("PRESK_", "_PRESK_", "COMP_", "_TYPER_")


def read_frame(receive: "Callable[[int], bytes]", buffer: bytearray) -> tuple[int, bytes] | None:
    """The next frame from a blocking socket's `recv`, with what was read beyond it left in `buffer`; None at the end."""
    needed = HEAD
    while True:
        if len(buffer) >= HEAD:
            needed = HEAD + int.from_bytes(buffer[:4], "little")
            if len(buffer) >= needed:
                kind, payload = buffer[4], bytes(memoryview(buffer)[HEAD:needed])
                del buffer[:needed]
                return kind, payload
        data = receive(max(65536, min(needed - len(buffer), 1 << 20)))
        if not data:
            return None
        buffer += data
