"""The versions of installed packages, as they go into fingerprints.

``importlib.metadata`` takes some 30 ms to import; the name of a ``.dist-info`` folder holds the version ("Recording
installed projects", PyPA specifications), so the folders of the import path are listed first (0.2 ms) and the library
asked for what is not found that way.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

_SUFFIX = ".dist-info"


def installed_versions(path: Iterable[str]) -> Mapping[str, str]:
    """Normalized project name → version for every package that is recorded on an import path; the first folder wins."""
    versions: dict[str, str] = {}
    for folder in path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(_SUFFIX):
                project, _, version = name[: -len(_SUFFIX)].partition("-")
                if version:
                    versions.setdefault(normalized(project), version)
    return MappingProxyType(versions)


def normalized(project: str) -> str:
    """A project's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


class Packages:
    """Identities of third-party packages: versions, or what the caller says (a library's digest).

    ``identities`` maps a package's name to a function that gives its identity; it is called once, when a stage asks.
    """

    def __init__(self, identities: Mapping[str, Callable[[], str]] = MappingProxyType({})) -> None:
        self._identities = dict(identities)
        self._known: dict[str, str] = {}
        self._installed: Mapping[str, str] | None = None

    def identity(self, name: str) -> str:
        """The identity of a package; a package that is not installed has the identity ``absent``."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._find(name)
        return known

    def _find(self, name: str) -> str:
        given = self._identities.get(name)
        if given is not None:
            return given()
        if self._installed is None:
            self._installed = installed_versions(sys.path)
        version = self._installed.get(normalized(name))
        if version is not None:
            return version
        # At an edge on purpose: see the module's text.
        from importlib import metadata

        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "absent"
