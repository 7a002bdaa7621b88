"""Fetch sessions (KIP-227): what a client reads is remembered, so that it asks, and is answered, only what changed.

Owns: the sessions, their epochs and who makes room for whom. Never knows: logs or bytes. Invariants: at most `slots`
sessions, of a bounded number of partitions each and together; a session's epoch grows by one with each request and
wraps past 2**31-1 to 1; a session is evicted only when it is idle for long or smaller than the one that wants its slot.
"""

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.wire.fetch import FetchRequest, FetchResult, WantedPartition

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EVICTION_SECONDS = 120.0
_LARGEST = 2**31 - 1
MOST_PARTITIONS = 100_000
"""Who reads more partitions than this gets no session, and names them all with every fetch."""
MOST_TRACKED = 1_000_000
"""Partitions of all sessions together; each takes some hundred bytes."""
AT_ONCE = 500
"""Partitions that are taken into a session in one step."""

Key = tuple[str | bytes, int]
Topics = list[tuple[str | bytes, list[WantedPartition]]]


class Tracked:
    """One partition of a session: what is wanted, and what the client was last told."""

    __slots__ = ("high_watermark", "log_start_offset", "settled", "wanted")

    def __init__(self, wanted: WantedPartition) -> None:
        self.wanted = wanted
        self.settled: WantedPartition | None = None
        """What a follower wanted when its progress was noted and its history found to be its leader's."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_tell(self, result: FetchResult) -> bool:
        """Whether this result is news for the client."""
        news = (
            result.length > 0
            or result.error != 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.preferred_replica >= 0
            or result.diverging is not None
        )
        if news:
            # After an error the watermark is told again, as the client may have forgotten it.
            self.high_watermark = result.high_watermark if result.error == 0 else -1
            self.log_start_offset = result.log_start_offset
        return news


class FetchSession:
    """What one client reads."""

    __slots__ = ("by_id", "created_at", "dirty", "epoch", "id", "partitions", "privileged", "used_at")

    def __init__(self, session_id: int, by_id: bool, privileged: bool, now: float) -> None:
        self.id = session_id
        self.by_id = by_id
        self.privileged = privileged
        self.epoch = INITIAL_EPOCH
        self.created_at = self.used_at = now
        self.partitions: dict[Key, Tracked] = {}
        self.dirty: dict[Key, None] | None = {} if privileged else None
        """Of a follower: the partitions that must be looked into. The others have told it all, and say when they have
        more; so a fetch costs what it brings, not what it could bring."""

    # A follower's fetch looks only at partitions that have something for it: design/0010.
    def mark_dirty(self, key: Key) -> Tracked | None:
        """A partition of a follower's session has news; answers it, if it is still part of the session."""
        tracked = self.partitions.get(key)
        if tracked is not None and self.dirty is not None:
            self.dirty[key] = None
        return tracked

    def take_dirty(self) -> list[tuple[str | bytes, WantedPartition, Tracked]]:
        """The dirty ones, to be looked into; they are clean until they are marked again."""
        dirty, self.dirty = self.dirty or (), {}
        partitions = self.partitions
        return [(key[0], partitions[key].wanted, partitions[key]) for key in dirty if key in partitions]

    def update(self, request: FetchRequest) -> None:
        self.want(request.topics)
        partitions = self.partitions
        for topic, numbers in request.forgotten:
            for number in numbers:
                partitions.pop((topic, number), None)

    def want(self, topics: Topics) -> None:
        partitions = self.partitions
        for topic, wanteds in topics:
            for wanted in wanteds:
                tracked = partitions.get((topic, wanted.partition))
                if tracked is None:
                    partitions[topic, wanted.partition] = Tracked(wanted)
                else:
                    tracked.wanted = wanted
                if self.dirty is not None:
                    self.dirty[topic, wanted.partition] = None

    def advance(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < _LARGEST else 1

    def to_the_end(self, keys: Iterable[Key]) -> None:
        """Partitions that gave data go to the end of the line, so that none starves behind a busy one."""
        for key in keys:
            self.partitions[key] = self.partitions.pop(key)


class FetchPlan(NamedTuple):
    """What one request comes to: an error, or the partitions to read and the session they belong to."""

    error: ErrorCode
    wanted: list[tuple[str | bytes, WantedPartition, Tracked | None]]
    session: FetchSession | None = None
    full: bool = True
    """Answer every partition, not only what is news."""


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots: int, random_id: Callable[[], int], now: Callable[[], float]) -> None:
        self._slots = slots
        self._random_id = random_id
        self._now = now
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, by_id: bool) -> FetchPlan:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wanted: list[tuple[str | bytes, WantedPartition, Tracked | None]]
            wanted = [(topic, part, None) for topic, parts in request.topics for part in parts]
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(ErrorCode.NONE, wanted)
            return FetchPlan(ErrorCode.NONE, wanted, self._create(request, by_id))
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        if session.epoch != request.session_epoch:
            return FetchPlan(ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        if session.by_id != by_id:
            return FetchPlan(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
        session.update(request)
        session.used_at = self._now()
        if not session.partitions:
            del self._sessions[session.id]
            return FetchPlan(ErrorCode.NONE, [])
        if len(session.partitions) > MOST_PARTITIONS:
            del self._sessions[session.id]
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        session.advance()
        if session.dirty is not None:
            return FetchPlan(ErrorCode.NONE, list(session.take_dirty()), session, full=False)
        known: list[tuple[str | bytes, WantedPartition, Tracked | None]]
        known = [(topic, tracked.wanted, tracked) for (topic, _), tracked in session.partitions.items()]
        return FetchPlan(ErrorCode.NONE, known, session, full=False)

    def plan_in_steps(self, request: FetchRequest, by_id: bool) -> Generator[None, None, FetchPlan]:
        """The same for a request that names very many partitions: pauses when some of them are taken in."""
        whole = request._replace(topics=[])
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            size = 0
            for _, parts in request.topics:
                size += len(parts)
                yield
            plan = self.plan(whole, by_id)
            if request.session_epoch == INITIAL_EPOCH:
                plan = plan._replace(session=self._create(whole, by_id, size))
        else:
            session = self._sessions.get(request.session_id)
            if session is None or session.epoch != request.session_epoch or session.by_id != by_id:
                return self.plan(whole, by_id)
            plan = FetchPlan(ErrorCode.NONE, [], session, full=False)
        for topic, parts in request.topics:
            for start in range(0, len(parts), AT_ONCE):
                some = parts[start : start + AT_ONCE]
                if plan.full:
                    plan.wanted.extend([(topic, part, None) for part in some])
                if plan.session is not None:
                    plan.session.want([(topic, some)])
                yield
        return plan if plan.full else self.plan(whole, by_id)

    def _create(self, request: FetchRequest, by_id: bool, size: int | None = None) -> FetchSession | None:
        """A new session, or None when there is no room for it; of `size` partitions, where not all are named yet."""
        if size is None:
            size = sum(len(parts) for _, parts in request.topics)
        if not 0 < size <= MOST_PARTITIONS:
            return None
        if sum(len(session.partitions) for session in self._sessions.values()) + size > MOST_TRACKED:
            return None
        now = self._now()
        privileged = request.replica_id >= 0
        if len(self._sessions) >= self._slots and not self._evict(size, privileged, now):
            return None
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        session = self._sessions[session_id] = FetchSession(session_id, by_id, privileged, now)
        session.update(request)
        session.advance()
        return session

    def _evict(self, size: int, privileged: bool, now: float) -> bool:
        if self._slots == 0:
            return False
        stalest = min(self._sessions.values(), key=lambda session: session.used_at)
        if now - stalest.used_at > EVICTION_SECONDS:
            del self._sessions[stalest.id]
            return True
        candidates = [
            session
            for session in self._sessions.values()
            if now - session.created_at > EVICTION_SECONDS and (privileged or not session.privileged)
        ]
        if not candidates:
            return False
        smallest = min(candidates, key=lambda session: (session.privileged, len(session.partitions)))
        if len(smallest.partitions) < size or (privileged and not smallest.privileged):
            del self._sessions[smallest.id]
            return True
        return False
