"""A member of a group of the consumer protocol (KIP-848): it reports what it wants and has, and the broker says what to
have.

Owns: the member's epoch, which parts of its report the coordinator has not heard yet, and the way from the broker's
assignment to what the member holds. Never knows: time but the one it is told, connections, listeners. See
`client.groups.member`.

Invariants: what is to go is given up, and reported as given up, before or together with what is new; a report without
an answer is repeated in full; a member that was fenced has lost all and starts again at epoch 0 under its own id.
"""

from collections.abc import Mapping
from enum import Enum

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import known_code
from ottla.client.groups.assignors import by_topic
from ottla.client.groups.member import NEVER, Failed, Member
from ottla.client.groups.racks import NO_RACKS, Racks
from ottla.client.groups.vocabulary import Change, GroupMetadata, MemberSettings
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.schema import Root

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_NOW_EPOCH = -2
RESOLVING_SECONDS = 0.1
"""A coordinator finds out what a new pattern stands for after it has answered; so soon it is asked again."""
"""Of a static member: it will be back."""


class Stage(Enum):
    """Where a member is."""

    OUT = "it is not subscribed"
    IDLE = "it left its group because nobody asked it for records"
    JOINING = "it is joining its group"
    JOINED = "joined"


class ModernMember(Member):
    """One member. `member_id` is the member's own choice and unique; `assignor` is the broker's, or its choice."""

    def __init__(self, settings: MemberSettings, member_id: str, assignor: str | None, now: float) -> None:
        super().__init__(settings, now)
        self.stage = Stage.OUT
        self._member_id = member_id
        self._assignor = assignor
        self._epoch = JOINING_EPOCH
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._told: tuple[frozenset[str], str | None] | None = None
        """The subscription the coordinator has heard."""
        self._acknowledged: frozenset[TopicPartition] | None = None
        """What the coordinator has heard that the member holds."""
        self._reported: frozenset[TopicPartition] = frozenset()
        """What the report on its way says of that."""
        self._full = True
        self._introduced = False
        """Whether the coordinator may know of this member."""
        self._beat_at = now
        self._target: Mapping[bytes, tuple[int, ...]] | None = None
        """The newest assignment that is not a change yet, by topic ids."""
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        """Of the topics in the assignments so far; a topic that was made anew has a new one."""

    @property
    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.settings.group_id, self._epoch, self._member_id, self.settings.instance_id)

    @property
    def idle(self) -> str | None:
        if self.stage is not Stage.JOINED:
            return str(self.stage.value)
        if self._target is not None:
            return "the topics of its assignment are not known yet"
        return None if self.change is None else "the group is rebalancing"

    @property
    def joined(self) -> bool:
        return self.stage in (Stage.JOINING, Stage.JOINED)

    @property
    def watched(self) -> frozenset[str]:
        return self._topics | {partition.topic for partition in self.owned}

    @property
    def unknown_ids(self) -> frozenset[bytes]:
        """Topics of the assignment whose names are not known."""
        return frozenset(self._target or ()) - self._names.keys()

    # --- what the consumer says ---

    def subscribe(self, topics: frozenset[str], now: float, pattern: str | None = None) -> None:
        changed = (topics, pattern) != (self._topics, self._pattern)
        self._topics, self._pattern = topics, pattern
        if self.stage is Stage.OUT:
            self._polled_at = now
            self._start(now)
        elif changed:
            self._beat_at = now

    def polled(self, now: float) -> None:
        super().polled(now)
        if self.stage is Stage.IDLE:
            self._start(now)

    def known(self, counts: Mapping[str, int], now: float, racks: Racks = NO_RACKS) -> None:
        """Counting is the broker's part."""

    def named(self, names: Mapping[bytes, str]) -> None:
        """Which topics the ids stand for."""
        self._names.update(names)
        self._reconcile()

    def refused(self, code: ErrorCode, asked_as: GroupMetadata, now: float) -> None:
        if asked_as != self.metadata or self.stage is not Stage.JOINED:
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._fenced(now)
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            self._beat_at = now  # the next answer brings the epoch that holds

    # --- requests ---

    def next_request(self, now: float) -> Root | None:
        if self.stage is Stage.JOINING and self.change is None:
            return self._report(full=True)
        if self.stage is not Stage.JOINED:
            return None
        return self._report(full=self._full) if self._has_news or now >= self._beat_at else None

    @property
    def _has_news(self) -> bool:
        return self.owned != self._acknowledged or (self._topics, self._pattern) != self._told

    def due(self, now: float) -> float:
        if self._asking or self.failure is not None or not self.joined:
            return NEVER
        if self.stage is Stage.JOINING:
            return self._not_before if self.change is None else NEVER
        if self._has_news:
            return self._not_before
        return max(min(self._beat_at, self.poll_deadline), self._not_before)

    def _report(self, *, full: bool) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        self._introduced = True
        request = ConsumerGroupHeartbeatRequest(settings.group_id, self._member_id, self._epoch, settings.instance_id)
        if full:
            request.rack_id = settings.rack or None
            request.rebalance_timeout_ms = round(settings.poll_interval * 1000)
            request.server_assignor = self._assignor
        if full or (self._topics, self._pattern) != self._told:
            request.subscribed_topic_names = sorted(self._topics)
            request.subscribed_topic_regex = self._pattern or ("" if self._told is not None else None)
        if full or self.owned != self._acknowledged:
            self._reported = self.owned
            request.topic_partitions = [
                TopicPartitions(self._ids[topic], numbers) for topic, numbers in by_topic(self.owned).items()
            ]
        return request

    def leave(self) -> Root | None:
        return self._farewell(Stage.OUT)

    def fall_out(self, now: float) -> Root | None:
        return self._farewell(Stage.IDLE)

    def _farewell(self, stage: Stage) -> Root | None:
        introduced = self._introduced
        self.stage = stage
        self._forget()
        if not introduced:
            return None
        settings = self.settings
        epoch = LEAVING_EPOCH if settings.instance_id is None else LEAVING_FOR_NOW_EPOCH
        return ConsumerGroupHeartbeatRequest(settings.group_id, self._member_id, epoch, settings.instance_id)

    # --- answers ---

    def take(self, request: Root, answer: Root, now: float) -> None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if not self.joined or request.member_epoch < 0:
            return
        code = known_code(answer.error_code)
        if code is ErrorCode.NONE:
            self._accepted(request, answer, now)
            return
        self._full = True
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._fenced(now)
        elif not self.troubled(code, now):
            raise Failed(code, answer.error_message)

    def _accepted(
        self, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse, now: float
    ) -> None:
        self.stage = Stage.JOINED
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._beat_at = now + answer.heartbeat_interval_ms / 1000
        if request.subscribed_topic_regex and not (answer.assignment and answer.assignment.topic_partitions):
            self._beat_at = min(self._beat_at, now + RESOLVING_SECONDS)
        self._full = False
        if request.subscribed_topic_names is not None:
            self._told = frozenset(request.subscribed_topic_names), request.subscribed_topic_regex or None
        if request.topic_partitions is not None:
            self._acknowledged = self._reported
        if answer.assignment is not None:
            self._target = {part.topic_id: tuple(part.partitions) for part in answer.assignment.topic_partitions}
            self._reconcile()

    def failed(self, request: Root, now: float) -> None:
        super().failed(request, now)
        self._full = True

    # --- reconciliation ---

    def _reconcile(self) -> None:
        """Make the newest assignment a change, once no other waits and all its topics have names."""
        target = self._target
        if target is None or self.change is not None or self.unknown_ids:
            return
        self._target = None
        mine = frozenset(
            TopicPartition(self._names[topic_id], number) for topic_id, numbers in target.items() for number in numbers
        )
        ids = {self._names[topic_id]: topic_id for topic_id in target}
        if any(self._ids.get(partition.topic) != ids.get(partition.topic) for partition in mine & self.owned):
            self._acknowledged = None  # a topic was made anew: the coordinator must hear of the new one
        self._ids.update(ids)
        if mine != self.owned:
            self.change = Change(self.owned - mine, mine - self.owned)

    def carried_out(self, change: Change, now: float) -> None:
        if self.stage is Stage.JOINED:
            self._beat_at = now
            self._reconcile()

    def _start(self, now: float) -> None:
        self.stage = Stage.JOINING
        self._forget()
        self._beat_at = now

    def _fenced(self, now: float) -> None:
        self._start(now)
        self.lose(now)

    def _forget(self) -> None:
        self._epoch = JOINING_EPOCH
        self._told = None
        self._acknowledged = None
        self._target = None
        self._full = True
        self._introduced = False
