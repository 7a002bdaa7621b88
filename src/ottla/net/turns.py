"""How long those who are heard in one turn of the loop may be worked for.

Owns: what is left of a turn. Never knows: who is heard, what for. Invariants: the share of a turn is that of all
connections together, however many there are; a new turn begins with all of it.
"""

from asyncio import AbstractEventLoop

# What others may have to wait for one client: design/0025.
TURN_SECONDS = 0.004
"""How long requests that came together may be worked on before others get their turn."""
NOTABLE_SECONDS = 0.0002
"""What takes less is not worth counting: every connection that is heard takes about this long."""


class Turns:
    """One for all connections of a loop."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._counting = False
        self.left = TURN_SECONDS
        """Seconds; at 0 each that is heard still does one thing, and the rest in a later turn."""

    def used(self, seconds: float) -> None:
        """A connection was worked on for this long."""
        if seconds < NOTABLE_SECONDS:
            return
        self.left = max(0.0, self.left - seconds)
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._counting = False
        self.left = TURN_SECONDS
