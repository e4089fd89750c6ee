"""Exit codes."""

from enum import IntEnum


class Exit(IntEnum):
    """What a command leaves with."""

    DONE = 0
    FAILED = 1
    """The program has errors, a golden differs, a regression was found."""
    USAGE = 2
    """The command line is wrong or a file that it names is missing."""
    NOTHING = 3
    """Nothing executable was asked for."""
    RUN_FAILED = 4
    """The run failed (E7xxx, E8xxx)."""
    INTERNAL = 70
    CANCELLED = 130
