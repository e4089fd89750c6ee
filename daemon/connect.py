"""How a client comes to a daemon: connecting, and starting one where there is none, once however many clients ask.

Who starts a daemon holds the lock of `start.lock` while it does; the others wait, and find the daemon. Whether a daemon
is alive is not asked of a process number but of its socket, and of the lock that it holds (`is_locked`).

`_socket` is what `socket` is made of; the latter takes six milliseconds to import, a fifth of a client's life.
"""

import _socket
import fcntl
import os
import sys
import time

from presk.daemon import places, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

START_SECONDS = 30.0
"""How long a client waits for a daemon to start, by itself or another client."""
ANSWER_SECONDS = 10.0
"""How long the daemon may take to say that it is there; it does so at once, whatever its workers do."""

_PASSED_ON = frozenset(("HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ"))
_PASSED_ON_PREFIXES = ("PYTHON", "PRESK_FAULT", "PRESK_DAEMON_")


class NoDaemon(OSError):
    """No daemon can be had; the text says why."""


class Connection:
    """A connection on which frames go both ways."""

    def __init__(self, channel: "_socket.socket") -> None:
        self.channel = channel
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        """Sends bytes, all of them."""
        self.channel.sendall(data)

    def deliver(self, data: bytes) -> bool:
        """Sends bytes; false where the other side has gone. `NoDaemon` where it takes none for long."""
        try:
            self.channel.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        except TimeoutError as error:
            self.close()
            raise NoDaemon("it does not answer") from error
        return True

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame; None where the other side has gone."""
        try:
            return protocol.read_frame(self.channel.recv, self._buffer)
        except ConnectionResetError:
            return None

    def pending(self) -> bool:
        """Whether a frame, or the beginning of one, has been taken from the socket already."""
        return bool(self._buffer)

    def close(self) -> None:
        """Ends the connection."""
        self.channel.close()


def connect(folder: str) -> Connection | None:
    """A connection to whoever listens in a runtime folder; None where nobody does."""
    try:
        places.check_folder(folder)
        address = places.SocketAddress(folder)
    except (FileNotFoundError, places.OpenFolder):
        return None
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    deadline = time.monotonic() + ANSWER_SECONDS
    try:
        channel.settimeout(ANSWER_SECONDS)
        while True:
            try:
                channel.connect(address.path)
                break
            except BlockingIOError:
                # More clients came at once than the system lets wait: a socket of this kind then says so instead of waiting.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        channel.close()
        return None
    except OSError as error:
        channel.close()
        raise NoDaemon(f"its socket cannot be used ({error.strerror or error})") from error
    finally:
        address.close()
    if peer(channel) not in (None, os.geteuid()):
        channel.close()
        raise NoDaemon("its socket belongs to another user")
    return Connection(channel)


def peer(channel: "_socket.socket") -> int | None:
    """The user at the other end of a socket; None on systems that do not tell this way."""
    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return None
    credentials = channel.getsockopt(_socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def welcomed(connection: Connection) -> bool:
    """Whether the daemon takes the request; if not, it is leaving. `NoDaemon` where it says nothing for long."""
    try:
        answer = connection.receive()
    except TimeoutError as error:
        connection.close()
        raise NoDaemon("it does not answer") from error
    if answer is None or answer[0] != protocol.WELCOME:
        connection.close()
        return False
    connection.channel.settimeout(None)
    return True


def attempt(folder: str, intent: int) -> Connection | None:
    """A connection to a daemon that takes requests of this build; None where there is none, or one that leaves."""
    connection = connect(folder)
    if connection is None:
        return None
    if not connection.deliver(protocol.hello(intent, places.identity())):
        connection.close()
        return None
    return connection if welcomed(connection) else None


def obtain(folder: str, environment: "Mapping[str, str]") -> Connection:
    """A connection to the daemon, which is started where there is none; `NoDaemon` where that fails."""
    deadline = time.monotonic() + START_SECONDS
    try:
        places.make_folder(folder)
        lock = os.open(
            os.path.join(folder, places.START_LOCK),
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            places.FILE_MODE,
        )
    except OSError as error:
        raise NoDaemon(str(error)) from error
    try:
        while True:
            connection = attempt(folder, protocol.REQUEST)
            if connection is not None:
                return connection
            if try_lock(lock):
                # Whoever held the lock before may have started one.
                connection = attempt(folder, protocol.REQUEST)
                if connection is None:
                    start(folder, environment, deadline)
                    connection = attempt(folder, protocol.REQUEST)
                if connection is not None:
                    return connection
                fcntl.flock(lock, fcntl.LOCK_UN)
            if time.monotonic() > deadline:
                raise NoDaemon("none came up in time")
            time.sleep(0.02)
    finally:
        os.close(lock)


def try_lock(descriptor: int) -> bool:
    """Takes the lock on a file, unless somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_locked(folder: str) -> bool:
    """Whether a daemon lives in a runtime folder."""
    try:
        descriptor = os.open(os.path.join(folder, places.LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def start(folder: str, environment: "Mapping[str, str]", deadline: float) -> None:
    """Starts a daemon and waits until it listens; the caller holds the lock. `NoDaemon` where it does not come up."""
    reading, writing = os.pipe()
    try:
        log = os.open(
            os.path.join(folder, places.LOG),
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            places.FILE_MODE,
        )
        try:
            _spawn(folder, environment, writing, log)
        finally:
            os.close(log)
            os.close(writing)
        said = _last_words(reading, deadline)
    except OSError as error:
        raise NoDaemon(f"it cannot be started: {error.strerror or error}") from error
    finally:
        os.close(reading)
    if said != "ready":
        raise NoDaemon(said or f"it ended while it started; {os.path.join(folder, places.LOG)} may say why")


def _spawn(folder: str, environment: "Mapping[str, str]", writing: int, log: int) -> None:
    """Runs the daemon in a session of its own: it is nobody's child, and holds nothing of this process open.

    Who reads this process's output to its end (`$(presk …)`, a pipe) must not wait for the daemon. This process has one
    thread, and what it forks does nothing but become another program.
    """
    chosen = {
        name: value for name, value in environment.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        # Out of the way first: the numbers from 0 to 3 may be any of these, or free.
        nothing = os.open(os.devnull, os.O_RDWR)
        numbers = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in (nothing, log, log, writing)]
        for target, number in enumerate(numbers):
            os.dup2(number, target)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        program = [sys.executable, "-P", "-m", "presk.daemon", folder]
        os.execve(sys.executable, program, chosen)  # noqa: S606 (a list of arguments, no shell)
    finally:
        os._exit(127)


def _last_words(reading: int, deadline: float) -> str:
    """What the daemon says of its start; nothing if it ended, or says nothing in time."""
    # Only who starts a daemon needs this module.
    import select

    said = b""
    while True:
        if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return "it did not start in time"
        data = os.read(reading, 4096)
        if not data:
            return said.decode("utf-8", "replace").strip()
        said += data


def wait_until_gone(folder: str, seconds: float) -> bool:
    """Waits until no daemon has its place in a runtime folder; whether that came true in time."""
    return _until(lambda: not is_locked(folder), seconds)


class LifeLock:
    """The lock that a daemon holds until its process has ended, by its folder for temporary files."""

    def __init__(self, temporary: str) -> None:
        path = os.path.join(temporary, places.LOCK)
        try:
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            self._descriptor = None  # it has removed the folder already

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended; whether it did in time."""
        lock = self._descriptor
        return lock is None or _until(lambda: try_lock(lock), seconds)

    def close(self) -> None:
        """Lets go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _until(done: "Callable[[], bool]", seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
