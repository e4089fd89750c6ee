"""The identity of the LLVM that is installed, for keys: the digest of its library, not only a version.

An installation records the SHA-256 of every file (`RECORD`, PyPA "Recording installed projects"). The library has 180 MB, so its
digest is taken from there if the file has the size that is recorded, and computed only where nothing is recorded.
"""

import base64
import csv
import hashlib
import os
import sys
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from presk.cache.packages import installed_versions

PACKAGE: Final = "llvmlite"
LIBRARY: Final = "llvmlite/binding/libllvmlite.so"


def llvm_identity(path: Iterable[str] | None = None) -> str:
    """Version of the package and digest of its library, in the first folder of an import path (None: this process's) that has
    it."""
    for folder in sys.path if path is None else path:
        library = os.path.join(folder, LIBRARY)
        if os.path.isfile(library):
            version = installed_versions((folder,)).get(PACKAGE, "")
            return f"{version} sha256 {_recorded(folder, version, library) or _computed(library)}"
    return "absent"


def _recorded(folder: str, version: str, library: str) -> str | None:
    """The digest in the installation's record, if it is about a file of this size."""
    try:
        with open(
            os.path.join(folder, f"{PACKAGE}-{version}.dist-info", "RECORD"), encoding="utf-8", newline=""
        ) as record:
            for row in csv.reader(record):
                if len(row) == 3 and row[0] == LIBRARY and row[2] == str(os.path.getsize(library)):
                    kind, _, digest = row[1].partition("=")
                    return (
                        base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex() if kind == "sha256" else None
                    )
    except (OSError, ValueError):
        return None
    return None


def _computed(library: str) -> str:
    with open(library, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


IDENTITIES: Final = MappingProxyType({PACKAGE: llvm_identity})
"""For `presk.cache.packages.Packages`."""
