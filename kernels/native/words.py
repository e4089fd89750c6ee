"""Numbers that the native routines and those who fill their memory agree on: the words of a table and of the driver's state.

A table is a header, the number of rows, and rows of four words. The state is some words of its own, and a line for every helper.
"""

from typing import Final

# --- Tables: bytes, and the kinds of rows ---
HEADER_BYTES: Final = 8
ROW_BYTES: Final = 32
SINGLE, FORK, TIMED, LOOP = 1, 2, 3, 4

# --- The state, in bytes ---
SYSCALL, SPIN, THREADS, STOP, FAILED = 0, 8, 16, 24, 32
FUNCTION, ARGUMENTS, SHARES = 64, 72, 80
LINES, LINE_BYTES = 128, 128

# --- A helper's line: what it is given on the first half, what it answers on the second ---
JOB, ASLEEP, STATE, NUMBER = 0, 4, 8, 16
DONE, WAITING = 64, 68

CONTROL: Final = 0x1F80
"""The control word: round to nearest, ties to even; subnormals are operands and results; nothing traps; no flag is up."""

REFUSED: Final = 1
"""What `run` returns where the control word did not take."""

# --- The system (Linux on x86-64) ---
FUTEX: Final = 202
FUTEX_WAIT: Final = 0 | 128
FUTEX_WAKE: Final = 1 | 128
"""Both for words that are private to the process."""
