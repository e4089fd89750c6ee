"""The codes of what is wrong with data; a `presk.exact.faults.Fault` carries one."""

from typing import Final

FORMAT: Final = "E8001"
INDEX: Final = "E8003"
TEXT: Final = "E8004"
CHANGED: Final = "E8005"
