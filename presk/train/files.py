"""Files that a run writes beside its checkpoints: whole, or as they were."""

import io
import os
import tempfile
from pathlib import Path
from typing import Final

from presk.exact.faults import Fault

UNWRITABLE: Final = "E9002"
"""A file of the command line that cannot be read or written, found before a step is done."""

_MODE: Final = 0o644


def reason(error: OSError | ValueError) -> str:
    """Why a file cannot be opened, in words."""
    # ValueError: a NUL in the name.
    return ((error.strerror if isinstance(error, OSError) else None) or "its name is not a file name").lower()


def replace(path: Path, data: bytes) -> io.FileIO:
    """Writes a file under a temporary name in its folder and renames it, an old file's mode kept; gives it, open for appending.

    A crash leaves the old file or the new one. OSError where it cannot be written, ValueError for a name that is none.
    """
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode & 0o7777 if real.exists() else _MODE
    handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    file = io.FileIO(handle, "ab")
    try:
        write(file, data)
        os.fsync(handle)
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except BaseException:
        file.close()
        os.unlink(temporary)
        raise
    return file


def write(file: io.FileIO, data: bytes) -> None:
    """Writes all of it: the system may take a part at a time."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def refuse_irregular(path: Path, shown: str) -> None:
    """E9002 for what exists and is no file: a folder, a pipe, a device."""
    if path.is_dir():
        raise Fault(UNWRITABLE, f"`{shown}` cannot be written: it is a folder")
    if path.exists() and not path.is_file():
        raise Fault(UNWRITABLE, f"`{shown}` cannot be written: it is a pipe or a device", mend="name a file")
