"""Where the daemon's files lie, and that they are the caller's own.

The runtime folder is `PRESK_RUNTIME_DIR`, or `run` in `PRESK_HOME`, or `presk` in `XDG_RUNTIME_DIR`, or
`presk/run` in `XDG_STATE_HOME`, or `.local/state/presk/run` in `HOME`: never a name in a folder that others can write
to. It belongs to the caller, with mode 0700, and is no link; who can write there could answer in the daemon's place.

The thin client imports this module: nothing but `os` and `sys` is needed.
"""

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "socket"
LOCK = "lock"
"""Locked by the daemon as long as it takes requests."""
START_LOCK = "start.lock"
"""Locked by a client that starts a daemon."""
INFO = "daemon.json"
LOG = "daemon.log"
TEMPORARY = "tmp"

FOLDER_MODE = 0o700
FILE_MODE = 0o600
MAX_SOCKET_PATH = 100
"""Bytes; the system takes 107 with the byte that ends them (unix(7)), some others 103."""


class NoFolder(OSError):
    """There is no runtime folder, or it is not private; the text says why."""


class OpenFolder(NoFolder):
    """The runtime folder is the caller's own and open to others; it can be closed."""


def runtime_folder(environment: "Mapping[str, str]", directory: str) -> str:
    """The runtime folder of whoever asks, an absolute path; `NoFolder` where the environment names none.

    A variable that is empty counts as unset; XDG's are ignored unless absolute, as that specification asks.
    """
    for name, inner in (("PRESK_RUNTIME_DIR", ""), ("PRESK_HOME", "run")):
        value = environment.get(name, "")
        if value:
            return os.path.normpath(os.path.join(directory, value, inner))
    for name, inner in (
        ("XDG_RUNTIME_DIR", "presk"),
        ("XDG_STATE_HOME", "presk/run"),
        ("HOME", ".local/state/presk/run"),
    ):
        value = environment.get(name, "")
        if value.startswith("/"):
            return os.path.join(value, inner)
    raise NoFolder("no folder for it is known: set PRESK_RUNTIME_DIR or HOME")


def check_folder(folder: str) -> None:
    """`NoFolder` unless the folder is there, no link, the caller's own, and closed to others."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NoFolder(f"{folder} is not a folder")
    if status.st_uid != os.geteuid():
        raise NoFolder(f"{folder} belongs to another user")
    if status.st_mode & 0o077:
        raise OpenFolder(f"{folder} is open to other users")


def make_folder(folder: str) -> None:
    """Makes the runtime folder where it is missing, and checks it; one of the caller's that is open is closed."""
    try:
        os.makedirs(os.path.dirname(folder), FOLDER_MODE, exist_ok=True)
        try:
            os.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            status = os.lstat(folder)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.chmod(folder, FOLDER_MODE)
    except OSError as error:
        raise NoFolder(f"{folder} cannot be made: {error.strerror}") from error
    check_folder(folder)


class SocketAddress:
    """The address of the socket in a runtime folder, within the length that an address may have.

    A longer path is reached through the descriptor of its folder, on systems whose `/proc` shows descriptors.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, SOCKET)
        self._descriptor: int | None = None
        if len(os.fsencode(self.path)) > MAX_SOCKET_PATH:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self.path = f"/proc/self/fd/{self._descriptor}/{SOCKET}"

    def close(self) -> None:
        """Lets go of the folder; to be called when the socket is bound or connected."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def identity() -> bytes:
    """By what an installation is known: interpreter, environment, and where this package lies.

    Whether the sources there have changed is for the daemon to see (`presk.daemon.build`): it looks at them before it
    answers, so that no client has to read them.
    """
    return "\n".join((sys.version, sys.prefix, os.path.dirname(os.path.abspath(__file__)))).encode(
        "utf-8", "surrogateescape"
    )
