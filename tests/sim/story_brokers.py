"""Brokers for the stories of the controller: logs that a power cut shortens, images that lag, proposals that come late.

What matters to the controller is modelled as a real broker does it: a follower's fetch says how far it is, a leader
acknowledges what all whom it counts on have, and a set that it has proposed counts on everybody in either set.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kit.machines.clusters import CLUSTER
from ottla.base.errors import ErrorCode
from ottla.metadata import brokers, partitions
from ottla.metadata.brokers import RegisteredProcess
from ottla.metadata.decision import DecisionContext
from ottla.metadata.facts import Fact
from ottla.metadata.features import SUPPORTED
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

Key = tuple[bytes, int]
Record = tuple[int, int]
"""The leader epoch it was written in, and its number."""


class World(Protocol):
    """What a broker's surroundings have to offer."""

    draw: random.Random
    image: ClusterImage
    faulty: bool
    nodes: dict[int, Node]
    proposals: list[Proposal]
    acknowledged: dict[Key, dict[int, Record]]
    stop_offsets: dict[tuple[int, int], int]

    @property
    def place(self) -> DecisionContext: ...

    @property
    def end_offset(self) -> int: ...

    def number(self) -> int: ...

    def least(self, key: Key, partition: PartitionImage, image: ClusterImage | None) -> int: ...

    def commit(self, facts: list[Fact]) -> None: ...

    def led(self, key: Key, leader: Node, partition: PartitionImage) -> None: ...


class SeededRandom:
    """The port on a seeded generator."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def identity(self) -> bytes:
        return self._draw.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._draw.uniform(low, high)


class Proposal(NamedTuple):
    """An AlterPartition on its way."""

    request: AlterPartitionRequest
    key: Key


class Leading:
    """What a leader knows in one leader epoch: how far followers came, and whom it has proposed."""

    def __init__(self, epoch: int, start: int) -> None:
        self.epoch = epoch
        self.start = start
        self.positions: dict[int, tuple[int, int]] = {}
        """End offset and broker epoch of a follower, as its last fetch said."""
        self.proposed: tuple[int, ...] = ()
        self.proposed_at = -1
        self.high_watermark = 0

    def forget(self, leader_epoch: int, partition_epoch: int) -> None:
        """What was proposed about this state does not happen."""
        if (self.epoch, self.proposed_at) == (leader_epoch, partition_epoch):
            self.proposed = ()


class Node:
    """A broker: its disk outlives its process."""

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.logs: dict[Key, list[Record]] = {}
        self.synced: dict[Key, int] = {}
        self.alive = False
        self.stopping = False
        self.epoch = -1
        self.clean_epoch = -1
        self.incarnation = b""
        self.seen: ClusterImage | None = None
        """None until it has caught up with its own registration: before that it acts on nothing."""
        self.leading: dict[Key, Leading] = {}

    def start(self) -> None:
        self.alive, self.stopping, self.epoch, self.seen = True, False, -1, None
        self.leading.clear()
        self.incarnation = self.world.draw.randbytes(16)

    def die(self, *, power_cut: bool) -> None:
        self.alive = False
        self.clean_epoch = -1
        if power_cut:
            for key, log in self.logs.items():
                del log[self.world.draw.randint(min(self.synced.get(key, 0), len(log)), len(log)) :]

    def stop(self) -> None:
        self.alive, self.clean_epoch = False, self.epoch

    def register(self) -> None:
        world = self.world
        broker = world.image.brokers.get(self.id)
        holder = RegisteredProcess.GONE
        if broker is not None and not broker.fenced:
            holder = world.draw.choice(list(RegisteredProcess))
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=CLUSTER,
            incarnation_id=self.incarnation,
            listeners=[Listener("PLAINTEXT", "broker.test", 9000 + self.id, 0)],
            features=[Feature(name, first, last) for name, (first, last) in SUPPORTED.items()],
            rack=None,
            log_dirs=[bytes(15) + bytes([200 + self.id])],
            previous_broker_epoch=self.clean_epoch,
        )
        facts, reply = brokers.register(request, world.place, world.end_offset, holder)
        world.commit(facts)
        if reply.error_code == ErrorCode.NONE:
            self.epoch, self.clean_epoch = reply.broker_epoch, -1
        else:
            assert holder is RegisteredProcess.ALIVE, (
                f"broker {self.id} cannot register: {ErrorCode(reply.error_code).name}"
            )

    def heartbeat(self) -> None:
        world = self.world
        offset = -1 if self.seen is None else self.seen.offset
        request = BrokerHeartbeatRequest(self.id, self.epoch, offset, False, self.stopping)
        active = [
            0 if node.seen is None else node.seen.offset
            for node in world.nodes.values()
            if node is not self and node.id in world.image.brokers and world.image.brokers[node.id].active
        ]
        standing = brokers.HeartbeatState(world.stop_offsets.get((self.id, self.epoch)), min(active, default=1 << 60))
        facts, reply = brokers.heartbeat(request, world.place, standing)
        world.commit(facts)
        if self.stopping and facts and not reply.is_fenced:
            world.stop_offsets[self.id, self.epoch] = world.image.offset
        if reply.should_shut_down:
            assert not partitions.leads_any(self.id, world.image)
            self.stop()

    def catch_up(self) -> None:
        image = self.world.image
        if self.epoch < 0 or image.offset < self.epoch:
            return
        self.seen = image
        for key in [key for key in self.logs if self._partition(key) is None]:
            del self.logs[key]
            self.leading.pop(key, None)
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                key = (topic.topic_id, number)
                if self.id in partition.replicas:
                    self.logs.setdefault(key, [])
                self._follow(key, partition)

    def _partition(self, key: Key) -> PartitionImage | None:
        topic = None if self.seen is None else self.seen.topics_by_id.get(key[0])
        if topic is None or self.id not in topic.partitions[key[1]].replicas:
            return None
        return topic.partitions[key[1]]

    def _follow(self, key: Key, partition: PartitionImage) -> None:
        state = self.leading.get(key)
        if partition.leader != self.id:
            self.leading.pop(key, None)
        elif state is None or state.epoch != partition.leader_epoch:
            self.leading[key] = Leading(partition.leader_epoch, len(self.logs[key]))
            self.world.led(key, self, partition)
        elif state.proposed_at < partition.partition_epoch:
            state.proposed = ()

    # --- a leader's work ---

    def led(self) -> Iterable[tuple[Key, Leading, PartitionImage]]:
        for key, state in self.leading.items():
            partition = self._partition(key)
            if partition is not None:
                yield key, state, partition

    def append(self) -> None:
        for key, state, partition in self.led():
            if len(partition.in_sync) >= self.world.least(key, partition, self.seen):
                self.logs[key].append((state.epoch, self.world.number()))
                self.acknowledge(key)

    def acknowledge(self, key: Key) -> None:
        state, partition = self.leading[key], self._partition(key)
        assert partition is not None
        if len(partition.in_sync) < self.world.least(key, partition, self.seen):
            return
        members = {*partition.in_sync, *state.proposed} - {self.id}
        ends = [state.positions.get(member, (0, 0))[0] for member in members]
        reached = min([len(self.logs[key]), *ends])
        if reached > state.high_watermark:
            self.world.acknowledged.setdefault(key, {}).update(
                (position, self.logs[key][position]) for position in range(state.high_watermark, reached)
            )
            state.high_watermark = reached

    def serve(self, key: Key, follower: Node) -> None:
        """One fetch: what the follower says counts at once, what it gets may be lost on the way."""
        state = self.leading.get(key)
        theirs = follower._partition(key)
        if state is None or theirs is None or theirs.leader != self.id or theirs.leader_epoch != state.epoch:
            return
        log, copy = self.logs[key], follower.logs[key]
        shared = next(
            (at for at, (one, other) in enumerate(zip(log, copy, strict=False)) if one != other),
            min(len(log), len(copy)),
        )
        del copy[shared:]
        follower.synced[key] = min(follower.synced.get(key, 0), shared)
        state.positions[follower.id] = (len(copy), follower.epoch)
        self.acknowledge(key)
        if self.world.draw.random() < 0.9:
            copy.extend(log[len(copy) : len(copy) + self.world.draw.randint(1, 4)])

    def propose(self) -> None:
        """Take in who caught up, put out who does not follow."""
        draw = self.world.draw
        for key, state, partition in self.led():
            if state.proposed:
                continue
            floor = max(state.high_watermark, state.start)
            joining = [
                member
                for member, (end, _) in state.positions.items()
                if member not in partition.in_sync and member in partition.replicas and end >= floor
            ]
            slow = 0.1 if self.world.faulty else 0.0
            leaving = [member for member in partition.in_sync if member != self.id and draw.random() < slow]
            wanted = tuple(member for member in (*partition.in_sync, *joining) if member not in leaving)
            if wanted == partition.in_sync and not partition.recovering:
                continue
            state.proposed = tuple({*partition.in_sync, *wanted})
            state.proposed_at = partition.partition_epoch
            data = PartitionData(
                partition_index=key[1],
                leader_epoch=state.epoch,
                new_isr_with_epochs=[
                    BrokerState(each, self.epoch if each == self.id else state.positions.get(each, (0, -1))[1])
                    for each in wanted
                ],
                partition_epoch=partition.partition_epoch,
            )
            request = AlterPartitionRequest(self.id, self.epoch, [TopicData(key[0], [data])])
            self.world.proposals.append(Proposal(request, key))
