"""Where a consumer stands in each partition it holds.

Owns: one `Held` a partition: what was handed over, what was fetched, who leads, what keeps it from being read. Pure:
never knows connections, requests or tasks.

Invariants: `position <= fetch_offset`; whenever a position jumps (seek, reset, truncation, loss) `turn` grows, and
whatever was fetched in an older turn is thrown away by whoever comes upon it; offsets between `position` and
`fetch_offset` are in the buffer, each once.
"""

from collections.abc import Iterator
from enum import Enum

from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.errors import ClientError

NOWHERE = -1


class PositionState(Enum):
    """What is known about where to read."""

    UNKNOWN = "where to start is being asked of the group"
    RESETTING = "an offset is being looked up"
    CHECKING = "the position is being compared with the new leader's history"
    READING = "reading"


class Held:
    """One partition that a consumer holds."""

    __slots__ = (
        "attempts",
        "buffered",
        "due",
        "epoch",
        "failure",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "moment",
        "partition",
        "paused",
        "position",
        "replica",
        "replica_until",
        "standing",
        "topic_id",
        "turn",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.standing = PositionState.UNKNOWN
        self.position = NOWHERE
        """The offset of the next record to hand over."""
        self.epoch = -1
        """The leader epoch of the record before it, as far as that is known."""
        self.fetch_offset = NOWHERE
        self.fetch_epoch = -1
        self.moment = 0
        """When resetting: the time, or the name of an end, that an offset is looked up for."""
        self.turn = 0
        self.leader = -1
        self.leader_epoch = -1
        self.topic_id: bytes = NO_TOPIC_ID
        self.replica = -1
        """A replica that the leader sent this consumer to."""
        self.replica_until = 0.0
        self.paused = False
        self.buffered = 0
        """Bytes in the buffer."""
        self.high_watermark = NOWHERE
        self.last_stable_offset = NOWHERE
        self.log_start_offset = NOWHERE
        self.attempts = 0
        self.due = 0.0
        """Not to be tried before, in the event loop's time."""
        self.failure: ClientError | None = None
        """Why the last try failed; None when it did not."""

    def jump(self, offset: int, epoch: int = -1) -> None:
        """Go on from here, whatever is buffered."""
        self.turn += 1
        self.buffered = 0
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.standing = PositionState.READING
        self.works()

    def look_up(self, moment: int) -> None:
        """Go on from the first record at a time, or from an end of the log, once its offset is known."""
        self.jump(NOWHERE)
        self.standing = PositionState.RESETTING
        self.moment = moment

    def forget_buffered(self) -> None:
        """What was fetched but not handed over is to be fetched again."""
        self.jump(self.position, self.epoch)

    def fetch_again(self) -> None:
        """As `forget_buffered`, while it may be unknown whether the position still is in the log."""
        standing = self.standing
        self.forget_buffered()
        self.standing = standing

    def drop(self) -> None:
        """No longer held."""
        self.turn += 1
        self.buffered = 0

    def works(self) -> None:
        self.attempts = 0
        self.due = 0.0
        self.failure = None

    def source(self, now: float) -> int:
        """The broker to read from."""
        return self.replica if self.replica >= 0 and now < self.replica_until else self.leader

    def is_other(self, topic_id: bytes) -> bool:
        """Whether this is the id of a topic that was made again: positions in the one before mean nothing in it."""
        return topic_id != NO_TOPIC_ID and self.topic_id not in (NO_TOPIC_ID, topic_id)

    def learn_leader(self, topic_id: bytes, leader: int, epoch: int) -> bool:
        """What metadata says; False for word that is older than what is known."""
        recreated = self.is_other(topic_id)
        if not recreated and epoch >= 0 and epoch < self.leader_epoch:
            return False
        if recreated:
            self.epoch = self.fetch_epoch = -1  # epochs of a topic that is gone say nothing about this one
        newer = epoch > self.leader_epoch and not recreated
        self.topic_id = topic_id
        if (leader, epoch) != (self.leader, self.leader_epoch):
            self.leader, self.leader_epoch = leader, epoch
            self.replica = -1
        if newer and self.standing is PositionState.READING and self.fetch_epoch >= 0:
            self.standing = PositionState.CHECKING
        return True

    def end(self, committed_only: bool) -> int:
        """Where this consumer's records end, as of the last answer; NOWHERE before the first."""
        return self.last_stable_offset if committed_only else self.high_watermark


class Holdings:
    """All partitions a consumer holds, in the order in which they are asked for."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[TopicPartition, Held] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._held

    def get(self, partition: TopicPartition) -> Held | None:
        return self._held.get(partition)

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._held)

    def topics(self) -> set[str]:
        return {partition.topic for partition in self._held}

    def add(self, partition: TopicPartition) -> Held:
        held = self._held[partition] = Held(partition)
        return held

    def remove(self, partition: TopicPartition) -> None:
        held = self._held.pop(partition, None)
        if held is not None:
            held.drop()

    def to_the_end(self, held: Held) -> None:
        """It brought records: the others are asked for before it, so that none starves."""
        if self._held.pop(held.partition, None) is held:
            self._held[held.partition] = held
