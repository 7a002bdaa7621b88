"""When each broker was last heard of, and what it said.

Owns: sessions of brokers, how far each has applied the metadata, and where a broker that stops may stop. Never knows:
the image, timers. Invariants: a session belongs to one registration (broker id and epoch); time comes in with every
call and never goes back.
"""

from collections.abc import Iterable

from ottla.metadata.brokers import HeartbeatState, RegisteredProcess

NO_LIMIT = 1 << 62


class _Session:
    __slots__ = ("epoch", "heard", "offset", "shutdown_offset")

    def __init__(self, epoch: int, heard: float) -> None:
        self.epoch = epoch
        self.heard = heard
        self.offset = -1
        self.shutdown_offset: int | None = None


class Heartbeats:
    """The sessions of all brokers that take part, or try to. A broker that is fenced needs none to stay so."""

    def __init__(self, session_seconds: float) -> None:
        self._seconds = session_seconds
        self._sessions: dict[int, _Session] = {}

    def begin(self, broker_id: int, epoch: int, now: float) -> None:
        """A registration, or one that a new controller finds: it has a whole session before it."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, now)
        else:
            session.heard = now

    def hear(self, broker_id: int, epoch: int, offset: int, now: float) -> None:
        """A heartbeat came: the broker has applied the metadata up to `offset`."""
        self.begin(broker_id, epoch, now)
        self._sessions[broker_id].offset = offset

    def forget(self, broker_id: int) -> None:
        """It is certainly gone, or fenced: another process may take the id at once."""
        self._sessions.pop(broker_id, None)

    def clear(self) -> None:
        self._sessions.clear()

    def holder(self, broker_id: int, now: float) -> RegisteredProcess:
        """What is known of the process that has this id."""
        session = self._sessions.get(broker_id)
        if session is None or now - session.heard >= self._seconds:
            return RegisteredProcess.GONE
        return RegisteredProcess.UNHEARD if session.offset < 0 else RegisteredProcess.ALIVE

    def expired(self, now: float) -> list[int]:
        """Brokers whose sessions ended."""
        return [broker_id for broker_id, session in self._sessions.items() if now - session.heard >= self._seconds]

    def next_expiry(self) -> float | None:
        """When the first session ends if nothing more is heard."""
        if not self._sessions:
            return None
        return min(session.heard for session in self._sessions.values()) + self._seconds

    def stops(self, broker_id: int, offset: int) -> None:
        """A broker shuts down; it may stop when the others have applied the facts up to `offset`."""
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset is None:
            session.shutdown_offset = offset

    def standing(self, broker_id: int, active: Iterable[int]) -> HeartbeatState:
        """What is known of a broker beyond the image; `active` are all brokers that take part."""
        session = self._sessions.get(broker_id)
        others = [self._sessions[each].offset for each in active if each != broker_id and each in self._sessions]
        return HeartbeatState(None if session is None else session.shutdown_offset, min(others, default=NO_LIMIT))
