"""The partitions this broker holds, found by topic name or id.

Owns: one `Partition` per replica that lies here, its role (it leads, or it follows another broker) and the look-ups.
Never knows: requests, sockets, how a role was decided. Invariants: a topic is under its name exactly when it is under
its id; the partitions of a topic are in the order of their numbers, with None for those that lie elsewhere.
"""

from bisect import insort
from collections.abc import Callable, Hashable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple, Protocol

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import INTERNAL_TOPICS, NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from ottla.replicas.fetch_sessions import FetchSession, Key
from ottla.replicas.traffic import TopicTraffic, Traffic
from ottla.replicas.waits import WaitingRoom
from ottla.replication.leader import Leading
from ottla.wire.fetch import NO_WATERMARK

OnCommitted = Callable[["Partition", ErrorCode], None]
_offset = itemgetter(0)


class IsrChanges(Protocol):
    """Who asks the controller for other in-sync sets."""

    lag_seconds: float

    def may_join(self, broker_id: int, /) -> bool: ...

    def follower_fetched(self, partition: "Partition", follower: int, /) -> None: ...


class Helpers(NamedTuple):
    """Whom a partition works with."""

    waiting: WaitingRoom
    isr_changes: IsrChanges
    monotonic: Callable[[], float]


class Partition:
    """One replica. It begins as the leader of a partition that has no other; `lead` and `follow` change that."""

    __slots__ = (
        "commits",
        "enough_in_sync",
        "helpers",
        "in_sync",
        "index",
        "internal",
        "leader",
        "leader_epoch",
        "leading",
        "leads",
        "least_in_sync",
        "log",
        "name",
        "partition_epoch",
        "readers",
        "registered",
        "replicas",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        name: TopicPartition,
        topic_id: bytes,
        leader_epoch: int,
        log: PartitionLog | None,
        helpers: Helpers,
    ) -> None:
        self.name = name
        self.index = name.partition
        self.internal = name.topic in INTERNAL_TOPICS
        """Coordinators write it; what clients produce to it is refused."""
        self.helpers = helpers
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = -1
        self.log = log
        """None while the directory that holds it is offline."""
        self.leads = True
        self.leader = NO_LEADER
        self.replicas: tuple[int, ...] = ()
        self.in_sync: tuple[int, ...] = ()
        self.leading: Leading | None = None
        """What is known of the followers; None where there are none, or where this replica is one. Under this key their
        fetches wait that have no session; clients wait under the partition for its watermark."""
        self.least_in_sync = 1
        self.enough_in_sync = True
        """Whether the in-sync set is as large as `min.insync.replicas` wants it (no more than there are replicas)."""
        self.registered = True
        """Whether the broker's registration counts. One whose ended cannot prove that nobody else leads by now."""
        self.readers: dict[int, tuple[FetchSession, Key]] | None = None
        """The fetch sessions of followers, by broker, and what this partition is called there."""
        self.commits: list[tuple[int, OnCommitted]] | None = None
        """Who waits for which watermark, lowest first."""
        self.traffic = TopicTraffic()
        """Of its topic, as soon as it is in the table."""

    def __str__(self) -> str:
        return str(self.name)

    def fence(self, epoch: int) -> ErrorCode:
        """Whether a client that knows `epoch` (-1: none) may talk to this replica."""
        if epoch == -1 or epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    # --- roles ---

    @property
    def has_role(self) -> bool:
        """Whether the image has said what this replica is to do."""
        return self.partition_epoch != -1

    def forget_role(self) -> None:
        """Its log is another one: the role begins anew."""
        self.partition_epoch = -1
        self.leading = None

    def take(self, state: PartitionImage) -> None:
        """What the image says of the partition, whichever role this replica has in it."""
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.in_sync = state.in_sync
        self.count_in_sync()

    def lead(self, state: PartitionImage, node_id: int) -> bool:
        """Lead from here on; says whether that is a new epoch. The log must be there."""
        log = self.log
        assert log is not None, self.name
        new = not (self.leads and self.has_role and self.leader_epoch == state.leader_epoch)
        self.take(state)
        self.leads = True
        if new:
            log.epochs.assign(state.leader_epoch, log.end_offset)
            self.leading = None
        if len(state.replicas) > 1:
            if self.leading is None:
                self.leading = Leading(node_id, log.end_offset)
            self.leading.assign(state.replicas, state.in_sync, state.partition_epoch, self.helpers.monotonic())
        else:
            self.leading = None
        return new

    def follow(self, state: PartitionImage) -> None:
        """Follow the leader named there, or wait for one."""
        self.take(state)
        self.leads = False
        self.leading = None
        self.give_up_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def count_in_sync(self) -> None:
        """The in-sync set, or how large it must be, has changed."""
        copies = len(self.replicas)
        self.enough_in_sync = len(self.in_sync) >= min(self.least_in_sync, copies) and (self.registered or copies == 1)

    # --- the high watermark ---

    def appended(self) -> None:
        """The leader's log has grown: the watermark follows where nobody else counts; those who wait for it wake."""
        self.grow()
        self.wake()

    def grow(self) -> None:
        """The first half of `appended`, for those who append to several partitions before they wake anybody."""
        log, leading = self.log, self.leading
        assert log is not None, self.name
        if leading is None:
            log.high_watermark = log.end_offset
        else:
            leading.grew(log.end_offset, self.helpers.monotonic())

    def wake(self) -> None:
        """The other half."""
        leading = self.leading
        if leading is None:
            self.helpers.waiting.nudge(self)
            return
        if len(leading.maximal) == 1:
            self.advance()
        self.mark_dirty()

    def advance(self) -> None:
        """Move the watermark to where the replicas that count have come, and wake who waited for that."""
        log = self.log
        if log is None or not self.leads:
            return
        leading = self.leading
        if leading is None:
            offset = log.end_offset
        elif not self.enough_in_sync:
            return
        else:
            _, changes, monotonic = self.helpers
            offset = leading.watermark(log.end_offset, changes.may_join, monotonic(), changes.lag_seconds)
        if offset > log.high_watermark:
            log.high_watermark = offset
            self._settle(offset)
            waiting = self.helpers.waiting
            waiting.nudge(self)
            for session, key in tuple((self.readers or {}).values()):
                tracked = session.mark_dirty(key)
                if tracked is not None and tracked.wanted.high_watermark != NO_WATERMARK:
                    waiting.nudge(session)

    def mark_dirty(self) -> None:
        """Something changed that followers must hear of: their fetches look at this partition again."""
        waiting = self.helpers.waiting
        if self.leading is not None:
            waiting.nudge(self.leading)
        for session, key in tuple((self.readers or {}).values()):
            session.mark_dirty(key)
            waiting.nudge(session)

    def read_by(self, follower: int, session: FetchSession, key: Key) -> None:
        """A follower fetches this partition by a session, which is told of all that is new."""
        if self.readers is None:
            self.readers = {}
        self.readers[follower] = (session, key)

    def follower_at(self, follower: int, broker_epoch: int, end_offset: int, start_offset: int) -> ErrorCode:
        """A follower has all before `end_offset`: the watermark may move, and it may join those in sync."""
        leading, log = self.leading, self.log
        assert log is not None, self.name
        progress = None if leading is None else leading.followers.get(follower)
        start_before = -1 if progress is None else progress.start_offset
        now = self.helpers.monotonic()
        if leading is None or not leading.fetched(
            follower, end_offset, start_offset, broker_epoch, log.end_offset, now
        ):
            # The leader may not have heard of this replica yet; the follower asks again.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if follower not in leading.in_sync:
            self.helpers.isr_changes.follower_fetched(self, follower)
        if log.high_watermark < log.end_offset:
            self.advance()
        if start_before != start_offset:
            self.helpers.waiting.nudge(self.starts)
        return ErrorCode.NONE

    @property
    def starts(self) -> Hashable:
        """Under this key requests wait for the logs of followers to begin later."""
        return "starts", self.topic_id, self.index

    def low_watermark(self, brokers: Mapping[int, BrokerImage]) -> int:
        """The lowest start of all living replicas' logs."""
        log, leading = self.log, self.leading
        assert log is not None, self.name
        if leading is None:
            return log.start_offset
        return leading.low_watermark(log.start_offset, lambda each: each in brokers and not brokers[each].fenced)

    def when_committed(self, offset: int, told: OnCommitted) -> None:
        """`told` hears once when the watermark is at `offset`, or that it will not come there under this leader."""
        commits = self.commits
        if commits is None:
            self.commits = [(offset, told)]
        elif commits and commits[-1][0] > offset:
            insort(commits, (offset, told), key=_offset)
        else:
            commits.append((offset, told))

    def forget_commit(self, told: OnCommitted) -> None:
        """It waits no longer."""
        self.commits = [each for each in self.commits or () if each[1] != told]

    def _settle(self, offset: int) -> None:
        commits = self.commits
        if not commits or commits[0][0] > offset:
            return
        count = 1
        while count < len(commits) and commits[count][0] <= offset:
            count += 1
        ready = commits[:count]
        del commits[:count]
        for _, told in ready:
            told(self, ErrorCode.NONE)

    def give_up_commits(self, error: ErrorCode) -> None:
        """Whoever waits for the watermark is told that it will not come."""
        commits, self.commits = self.commits, None
        for _, told in commits or ():
            told(self, error)


class PartitionTable:
    """All partitions of this broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[Partition | None]] = {}
        self.by_id: dict[bytes, list[Partition | None]] = {}
        self.image: ClusterImage | None = None
        """Tells what exists elsewhere from what does not exist."""
        self.traffic = Traffic()
        self.registered = True
        """Whether this broker's registration counts."""

    def add(self, partition: Partition) -> None:
        partitions = self.by_id.get(partition.topic_id)
        if partitions is None:
            partitions = self.by_name[partition.name.topic] = self.by_id[partition.topic_id] = []
        partitions.extend([None] * (partition.index + 1 - len(partitions)))
        assert partitions[partition.index] is None, partition.name
        partitions[partition.index] = partition
        partition.traffic = self.traffic.begin(partition.name.topic, partition.topic_id)
        partition.registered = self.registered

    def remove(self, partition: Partition) -> None:
        """It lies elsewhere from now on."""
        partitions = self.by_id[partition.topic_id]
        partitions[partition.index] = None
        if not any(partitions):
            self._forget(partition.name.topic, partition.topic_id)

    def remove_topic(self, topic_id: bytes) -> list[Partition]:
        going = [partition for partition in self.by_id.get(topic_id, ()) if partition is not None]
        if going:
            self._forget(going[0].name.topic, topic_id)
        return going

    def _forget(self, topic: str, topic_id: bytes) -> None:
        if self.by_name.get(topic) is self.by_id.pop(topic_id):
            del self.by_name[topic]
        self.traffic.end(topic, topic_id)

    def find(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """A partition that is led here, by name or id; the error says what is unknown, or that others lead it."""
        partitions = self.by_name.get(topic) if type(topic) is str else self.by_id.get(topic)  # type: ignore[arg-type]
        if partitions is not None and 0 <= index < len(partitions):
            partition = partitions[index]
            if partition is not None and partition.leads:
                return partition
        return self._absent(topic, index)

    def held(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """A partition that lies here, led or followed."""
        partitions = self.by_name.get(topic) if isinstance(topic, str) else self.by_id.get(topic)
        if partitions is not None and 0 <= index < len(partitions):
            partition = partitions[index]
            if partition is not None:
                return partition
        return self._absent(topic, index)

    def _absent(self, topic: str | bytes, index: int) -> ErrorCode:
        image = self.image
        found = None
        if image is not None:
            found = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
        if found is not None and 0 <= index < len(found.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if found is None and not isinstance(topic, str) and topic not in self.by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def get(self, name: TopicPartition) -> Partition | None:
        """One that lies here, whatever its role."""
        partitions = self.by_name.get(name.topic, ())
        return partitions[name.partition] if name.partition < len(partitions) else None

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_id.values():
            for partition in partitions:
                if partition is not None:
                    yield partition

    def __len__(self) -> int:
        return sum(1 for _ in self)
