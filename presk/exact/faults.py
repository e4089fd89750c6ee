"""What ends a run that no diagnostic of the program foresaw: raised where it is found, made a diagnostic where the run ends."""

from typing import Final

DIVISION: Final = "E7001"
UNDEFINED: Final = "E7003"
EMPTY_ROW: Final = "E7004"
DOMAIN: Final = "E7005"
RANGE: Final = "E7006"
UNDECIDED: Final = "E7007"
UNBOUND: Final = "E7008"
RATE: Final = "E7009"
DATA: Final = "E8002"
MISFIT: Final = "E8007"
COMMAND: Final = "E9003"


class Fault(Exception):
    """An error of the run.

    `index` is the element at which it happened, by its place along each axis of the operation's value, or along axes of the names
    `axes`; None where it concerns the whole. Whoever evaluates the operation says where in the program that is.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        index: tuple[int, ...] | None = None,
        notes: tuple[str, ...] = (),
        mend: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.index = index
        self.axes: tuple[str | None, ...] | None = None
        self.notes = notes
        self.mend = mend
