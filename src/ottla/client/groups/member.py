"""What members of both protocols have in common: polls, changes of the assignment, pauses and fatal errors.

Owns: what the member holds, the change that waits to be carried out, and when the member was last seen to be alive.
Never knows: connections, listeners, which protocol. A member is a machine: `step` says what to ask the coordinator now,
`answered` and `failed` say what came of it, `begin` and `done` are around the carrying out of a change.

Invariants: one request is on its way at a time; one change waits at a time, and what a member holds changes only when
the change is done; what is lost while a change is carried out is lost right after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.groups.racks import NO_RACKS, Racks
from ottla.client.groups.vocabulary import Change, GroupMetadata, MemberSettings
from ottla.wire.schema import Root

NEVER = float("inf")

ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The coordinator is to be found anew."""
LATER = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS})
"""The same may succeed after a pause."""


class Failed(Exception):
    """The member cannot go on: the code and what the coordinator said with it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


# Members are machines, whose changes are carried out while the program polls: design/0014.
class Member(ABC):
    """The common part; see the module."""

    def __init__(self, settings: MemberSettings, now: float) -> None:
        self.settings = settings
        self.owned: frozenset[TopicPartition] = frozenset()
        self.change: Change | None = None
        self.failure: Failed | None = None
        self.moved = False
        """The coordinator is somewhere else; whoever finds it takes this back."""
        self._asking = False
        self._doing = False
        self._lose_next = False
        self._not_before = now
        self._pauses = 0
        """How many there were since something last went well."""
        self._polled_at = now

    # --- what the protocols give ---

    @property
    @abstractmethod
    def metadata(self) -> GroupMetadata: ...

    @property
    @abstractmethod
    def idle(self) -> str | None:
        """Why no records come, in a clause; None when the member has its assignment."""

    @property
    def wanted(self) -> frozenset[str]:
        """Topics whose partitions must be known before the member can go on."""
        return frozenset()

    @property
    @abstractmethod
    def watched(self) -> frozenset[str]:
        """Topics whose changes concern the member."""

    @abstractmethod
    def subscribe(self, topics: frozenset[str], now: float, pattern: str | None = None) -> None:
        """These topics from now on, or those that match the pattern on the broker."""

    @abstractmethod
    def known(self, counts: Mapping[str, int], now: float, racks: Racks = NO_RACKS) -> None:
        """How many partitions the topics have, as far as they exist, and the racks where their replicas are."""

    @abstractmethod
    def next_request(self, now: float) -> Root | None: ...

    @abstractmethod
    def take(self, request: Root, answer: Root, now: float) -> None: ...

    @abstractmethod
    def due(self, now: float) -> float:
        """When `step` has something to say next, if nothing happens before."""

    @abstractmethod
    def leave(self) -> Root | None:
        """What to tell the coordinator on the way out, if anything; the member is out then."""

    @abstractmethod
    def fall_out(self, now: float) -> Root | None:
        """The consumer polls no more: what to tell the coordinator, if anything. The next poll joins again."""

    @abstractmethod
    def refused(self, code: ErrorCode, asked_as: GroupMetadata, now: float) -> None:
        """A commit under this identity was turned away."""

    @abstractmethod
    def carried_out(self, change: Change, now: float) -> None:
        """A change is done."""

    # --- requests ---

    def step(self, now: float) -> Root | None:
        """The request to send now, if any."""
        if self._asking or self.failure is not None or now < self._not_before:
            return None
        if now >= self.poll_deadline:
            request = self.fall_out(now)
            self.lose(now)
        else:
            request = self.next_request(now)
        self._asking = request is not None
        return request

    def answered(self, request: Root, answer: Root, now: float) -> None:
        self._asking = False
        pauses = self._pauses
        try:
            self.take(request, answer, now)
        except Failed as failure:
            self.failure = failure
        if pauses == self._pauses:
            self._pauses = 0

    def failed(self, request: Root, now: float) -> None:
        """No answer came; the coordinator may be gone."""
        self._asking = False
        self.moved = True
        self.pause(now)

    def troubled(self, code: ErrorCode, now: float) -> bool:
        """Whether the code only says to try again, here or elsewhere, after a pause."""
        if code in ELSEWHERE:
            self.moved = True
        elif code not in LATER:
            return False
        self.pause(now)
        return True

    def pause(self, now: float) -> None:
        self._not_before = now + min(self.settings.longest_retry, self.settings.retry * 2.0 ** min(self._pauses, 16))
        self._pauses += 1

    # --- polls ---

    @property
    @abstractmethod
    def joined(self) -> bool:
        """Whether the coordinator counts on this member."""

    @property
    def poll_deadline(self) -> float:
        return self._polled_at + self.settings.poll_interval if self.joined else NEVER

    def polled(self, now: float) -> None:
        self._polled_at = now

    @property
    def between_generations(self) -> bool:
        """Whether the group is about to have another generation, in which what is committed now does not count."""
        return False

    # --- changes ---

    def begin(self) -> Change:
        """The change that waits; it is being carried out from now on."""
        assert self.change is not None
        assert not self._doing
        self._doing = True
        return self.change

    def done(self, now: float) -> None:
        change = self.change
        assert change is not None
        assert self._doing
        self._doing = False
        self.change = None
        self.owned = self.owned - change.revoked | (change.assigned or frozenset())
        if self._lose_next:
            self._lose_next = False
            if self.owned:
                self.change = Change(self.owned, lost=True)
                return
        self.carried_out(change, now)

    def lose(self, now: float) -> None:
        """Others may have this member's partitions already."""
        if self._doing:
            self._lose_next = True
        else:
            self.change = Change(self.owned, lost=True) if self.owned else None
