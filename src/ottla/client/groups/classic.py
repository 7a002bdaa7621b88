"""A member of a group of the classic protocol: it joins, learns its assignment, reports, and joins again.

Owns: where the member is between joining and leaving, its id and generation, and, when it leads the group, the decision
who gets what. Never knows: time but the one it is told, connections, listeners. See `client.groups.member`.

Invariants: an eager member holds nothing while it joins; a cooperative one gives up only what its new assignment does
not have, and joins again right after, so that others can have it; an assignment of an older generation is never taken.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import known_code
from ottla.client.groups.assignors import Assignor, GroupMember, by_topic, flat
from ottla.client.groups.member import NEVER, Failed, Member
from ottla.client.groups.racks import NO_RACKS, Racks
from ottla.client.groups.vocabulary import NO_GENERATION, Change, GroupMetadata, MemberSettings
from ottla.groups.embedded import (
    NEWEST,
    BadFormat,
    Embedded,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.schema import Root

PROTOCOL_TYPE = "consumer"


class Stage(Enum):
    """Where a member is."""

    OUT = "it is not subscribed"
    IDLE = "it left its group because nobody asked it for records"
    PREPARING = "the group is rebalancing, and the next poll gives up partitions for that"
    JOINING = "the group is rebalancing, and waits for all members to join"
    ASSIGNING = "the group is rebalancing, and this member, its leader, looks at the topics"
    SYNCING = "the group is rebalancing, and waits for its leader's decision"
    JOINED = "joined"


class ClassicMember(Member):
    """One member. Of several assignors the group uses the first that all members have."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor], now: float) -> None:
        super().__init__(settings, now)
        self.stage = Stage.OUT
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._topics: frozenset[str] = frozenset()
        self._joined_for: frozenset[str] = frozenset()
        """The topics the last join spoke of."""
        self._member_id = ""
        self._generation = NO_GENERATION
        self._protocol = ""
        self._beat_at = NEVER
        self._rejoin: str | None = None
        """Why to join again as soon as no change waits."""
        self._roll: list[GroupMember] | None = None
        """All members, when this one leads."""
        self._decided_on: tuple[Mapping[str, int], Racks] = ({}, NO_RACKS)
        """The topics as they were when this member, the leader, decided."""
        self._decision: list[SyncGroupRequestAssignment] = []

    @property
    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.settings.group_id, self._generation, self._member_id, self.settings.instance_id)

    @property
    def idle(self) -> str | None:
        return None if self.stage is Stage.JOINED and self.change is None else self.stage.value

    @property
    def joined(self) -> bool:
        return self.stage not in (Stage.OUT, Stage.IDLE)

    @property
    def between_generations(self) -> bool:
        return self.stage in (Stage.JOINING, Stage.ASSIGNING, Stage.SYNCING)

    @property
    def wanted(self) -> frozenset[str]:
        return self.watched if self.stage is Stage.ASSIGNING else frozenset()

    @property
    def watched(self) -> frozenset[str]:
        return self._topics.union(*(member.topics for member in self._roll or ()))

    # --- what the consumer says ---

    def subscribe(self, topics: frozenset[str], now: float, pattern: str | None = None) -> None:
        if pattern is not None:
            raise Failed(ErrorCode.UNSUPPORTED_VERSION, "only group.protocol=consumer has patterns for the broker")
        changed = topics != self._topics
        self._topics = topics
        if self.stage is Stage.OUT:
            self._polled_at = now
            self._prepare(now)
        elif changed:
            self._join_again("the subscription changed", now)

    def polled(self, now: float) -> None:
        super().polled(now)
        if self.stage is Stage.IDLE:
            self._prepare(now)

    def known(self, counts: Mapping[str, int], now: float, racks: Racks = NO_RACKS) -> None:
        seen = {topic: counts[topic] for topic in self.watched if topic in counts}
        if self.stage is Stage.ASSIGNING:
            self._decide(seen, racks)
        elif self.stage is Stage.JOINED and self._roll is not None and self._basis(seen, racks) != self._decided_on:
            self._join_again("the topics changed", now)

    def _basis(self, counts: Mapping[str, int], racks: Racks) -> tuple[Mapping[str, int], Racks]:
        """What a decision holds for; as in Kafka's consumers, a leader without a rack of its own follows no racks."""
        return counts, {topic: racks[topic] for topic in counts if topic in racks} if self.settings.rack else NO_RACKS

    def refused(self, code: ErrorCode, asked_as: GroupMetadata, now: float) -> None:
        if asked_as != self.metadata or self.stage is not Stage.JOINED:
            return  # a newer join says more
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.failure = Failed(code)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("a commit met a rebalance", now)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(code, now)

    # --- requests ---

    def next_request(self, now: float) -> Root | None:
        if self.stage is Stage.JOINED and self._rejoin is not None and self.change is None:
            self._prepare(now)
        if self.stage is Stage.PREPARING and self.change is None:
            self.stage = Stage.JOINING
        if self.stage is Stage.JOINING:
            return self._join()
        if self.stage is Stage.SYNCING:
            return SyncGroupRequest(
                self.settings.group_id,
                self._generation,
                self._member_id,
                self.settings.instance_id,
                PROTOCOL_TYPE,
                self._protocol,
                self._decision,
            )
        if self._generation != NO_GENERATION and now >= self._beat_at:
            return HeartbeatRequest(
                self.settings.group_id, self._generation, self._member_id, self.settings.instance_id
            )
        return None

    def due(self, now: float) -> float:
        if self._asking or self.failure is not None or self.stage in (Stage.OUT, Stage.IDLE):
            return NEVER
        if self.stage in (Stage.JOINING, Stage.SYNCING):
            return self._not_before
        if self.change is None and (self.stage is Stage.PREPARING or self._rejoin is not None):
            return self._not_before
        beat = self._beat_at if self._generation != NO_GENERATION else NEVER
        return max(min(beat, self.poll_deadline), self._not_before)

    def leave(self) -> Root | None:
        request = self._farewell("the consumer is being closed")
        self.stage = Stage.OUT
        self._forget(and_id=True)
        return request

    def fall_out(self, now: float) -> Root | None:
        request = self._farewell("the consumer asked for no records for max.poll.interval.ms")
        self.stage = Stage.IDLE
        self._forget(and_id=True)
        return request

    def _farewell(self, reason: str) -> LeaveGroupRequest | None:
        """A static member says nothing: it will be back, or its session ends."""
        if not self._member_id or self.settings.instance_id is not None:
            return None
        identity = MemberIdentity(self._member_id, None, reason)
        return LeaveGroupRequest(self.settings.group_id, self._member_id, [identity])

    def _join(self) -> JoinGroupRequest:
        settings = self.settings
        owned = by_topic(self.owned)
        self._joined_for = self._topics
        topics = tuple(sorted(self._topics))
        protocols = []
        for name, assignor in self._assignors.items():
            data = assignor.user_data(self._topics)
            words = Embedded(NEWEST, topics, owned, settings.rack, self._generation, data)
            protocols.append(JoinGroupRequestProtocol(name, write_subscription(words)))
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=round(settings.session * 1000),
            rebalance_timeout_ms=round(settings.poll_interval * 1000),
            member_id=self._member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._rejoin,
        )

    # --- answers ---

    def take(self, request: Root, answer: Root, now: float) -> None:
        if isinstance(answer, JoinGroupResponse):
            self._take_join(answer, now)
        elif isinstance(answer, SyncGroupResponse):
            self._take_sync(answer, now)
        elif isinstance(answer, HeartbeatResponse):
            self._take_heartbeat(answer, now)

    def _take_join(self, answer: JoinGroupResponse, now: float) -> None:
        code = known_code(answer.error_code)
        if self.stage is not Stage.JOINING:
            return
        if code is ErrorCode.NONE:
            self._member_id = answer.member_id
            self._generation = answer.generation_id
            self._protocol = answer.protocol_name or ""
            self._beat_at = now + self.settings.heartbeat
            self._rejoin = None
            self._decision = []
            self._roll = _roll(answer) if answer.leader == answer.member_id else None
            self.stage = Stage.SYNCING if self._roll is None or answer.skip_assignment else Stage.ASSIGNING
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(code, now)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.pause(now)
        elif not self.troubled(code, now):
            raise Failed(code)

    def _take_sync(self, answer: SyncGroupResponse, now: float) -> None:
        code = known_code(answer.error_code)
        if self.stage is not Stage.SYNCING:
            return
        if code is ErrorCode.NONE:
            self._adopt(bytes(answer.assignment), now)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = "the group rebalances again"
            self.stage = Stage.PREPARING
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(code, now)
        elif not self.troubled(code, now):
            raise Failed(code)

    def _take_heartbeat(self, answer: HeartbeatResponse, now: float) -> None:
        code = known_code(answer.error_code)
        self._beat_at = now + self.settings.heartbeat
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances", now)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._reset(code, now)
        elif code is not ErrorCode.NONE:
            self._beat_at = now
            if not self.troubled(code, now):
                raise Failed(code)

    def _adopt(self, data: bytes, now: float) -> None:
        try:
            mine = flat(read_assignment(data))
        except BadFormat as problem:
            raise Failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {problem}") from None
        self.stage = Stage.JOINED
        if self._joined_for != self._topics or any(partition.topic not in self._topics for partition in mine):
            # Decided before the leader knew what this member subscribes to now.
            self._join_again("the assignment is for an older subscription", now)
            return
        assignor = self._assignors.get(self._protocol)
        if assignor is not None:
            assignor.assigned(mine, self._generation)
        self.change = Change(self.owned - mine, mine - self.owned)

    def carried_out(self, change: Change, now: float) -> None:
        if self.stage is not Stage.JOINED:
            return
        if change.revoked and change.assigned is not None:
            self._join_again("partitions were given up for others", now)
        elif self._rejoin is not None:
            self._join_again(self._rejoin, now)

    # --- joining again ---

    def _join_again(self, reason: str, now: float) -> None:
        if self._rejoin is None:
            self._rejoin = reason
        if self.stage is Stage.JOINED and self.change is None:
            self._prepare(now)

    def _prepare(self, now: float) -> None:
        """What must be given up before joining: an eager member's all, a cooperative one's what it no longer wants."""
        self.stage = Stage.PREPARING
        if self.change is not None:
            return
        kept: frozenset[TopicPartition] = frozenset()
        if self._cooperative:
            kept = frozenset(partition for partition in self.owned if partition.topic in self._topics)
        if self.owned - kept:
            self.change = Change(self.owned - kept)

    def _reset(self, code: ErrorCode, now: float) -> None:
        """The group does not know this member any more: whatever it holds is lost."""
        self._forget(and_id=code is ErrorCode.UNKNOWN_MEMBER_ID)
        self._rejoin = f"the member was unknown: {code.name}"
        self.stage = Stage.PREPARING
        self.lose(now)

    def _forget(self, *, and_id: bool) -> None:
        self._generation = NO_GENERATION
        self._beat_at = NEVER
        self._roll = None
        self._rejoin = None
        if and_id:
            self._member_id = ""

    # --- the leader's part ---

    def _decide(self, counts: Mapping[str, int], racks: Racks) -> None:
        assert self._roll is not None
        assignor = self._assignors.get(self._protocol)
        if assignor is None:
            self.failure = Failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"no assignor {self._protocol!r} here")
            return
        self._decided_on = self._basis(counts, racks)
        given = assignor.assign_near(self._roll, counts, racks)
        self._decision = [
            SyncGroupRequestAssignment(
                member.member_id, write_assignment(by_topic(given.get(member.member_id, ())), NEWEST)
            )
            for member in self._roll
        ]
        self.stage = Stage.SYNCING


def _roll(answer: JoinGroupResponse) -> list[GroupMember]:
    found = []
    for entry in answer.members:
        try:
            words = read_subscription(bytes(entry.metadata))
        except BadFormat as problem:
            message = f"member {entry.member_id} sent a subscription that cannot be read: {problem}"
            raise Failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from None
        found.append(
            GroupMember(
                entry.member_id,
                frozenset(words.topics),
                entry.group_instance_id,
                flat(words.owned),
                words.generation,
                words.rack_id,
                words.user_data,
            )
        )
    return found
