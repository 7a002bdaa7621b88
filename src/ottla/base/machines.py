"""What every decide-and-apply machine is told beside its requests, whatever it decides about.

Owns: the shapes only.
"""

from typing import NamedTuple, TypeAlias

Token: TypeAlias = object
"""What a caller that can wait hands in to know its answer by; the machine only keeps it and gives it back."""


class Now(NamedTuple):
    """The time of a decision: deadlines count on `steady_ms`, which never jumps; what is stored says `wall_ms`."""

    steady_ms: int
    wall_ms: int
