"""When each group wants to be looked at.

Owns: a queue of groups by time. Never knows: what is due. A group may be looked at too early (its deadline has moved
since) but never too late; so a deadline that moves further away, the usual case, costs nothing.
"""

from heapq import heappop, heappush


class Deadlines:
    """The next deadline of every group."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, str]] = []
        self._earliest: dict[str, int] = {}

    def note(self, group_id: str, when_ms: int | None) -> None:
        """The group wants to be looked at by then."""
        if when_ms is None:
            return
        known = self._earliest.get(group_id)
        if known is None or when_ms < known:
            self._earliest[group_id] = when_ms
            heappush(self._queue, (when_ms, group_id))

    def first(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def take(self, now_ms: int) -> str | None:
        """A group whose time has come; it is forgotten here until it is noted again."""
        while self._queue and self._queue[0][0] <= now_ms:
            when_ms, group_id = heappop(self._queue)
            if self._earliest.get(group_id) == when_ms:
                del self._earliest[group_id]
                return group_id
        return None
