"""Members of a consumer group: they share partitions, read, and commit how far they came.

Owns: how a member behaves in the consumer protocol (KIP-848). Never knows: faults, nodes. Invariants: it reads and
commits only what it was told to own, lets go of a partition before it says so, and after losing its membership holds
nothing; so two owners of a partition in one epoch, or a committed offset that goes back, are the cluster's fault.
"""

from collections.abc import Sequence
from random import Random

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.errors import ClientError
from ottla.sim.client import SimMember as Credentials
from ottla.sim.client import SimSession
from ottla.sim.history import History
from ottla.sim.loop import SimLoop
from ottla.sim.workload import Actor
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "readers"
REBALANCE_MS = 300_000
"""So long that within a universe nobody is put out for not letting go: whoever owns a partition knows that it does."""
_LEAVING = -1

_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""The coordinator does not know this member as it is: it begins anew."""


class GroupReader(Actor):
    """One member; it leaves and joins again from time to time."""

    def __init__(
        self,
        loop: SimLoop,
        addresses: Sequence[Address],
        random: Random,
        history: History,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(loop, addresses, random, history)
        self._partitions = partitions
        self._topic = partitions[0].topic
        self._joins = 0
        self._credentials = Credentials()
        self._positions: dict[TopicPartition, int] = {}
        """Where it is in each partition that it owns."""
        self._owned: list[TopicPartition] = []
        self._topic_id = bytes(16)

    async def run(self, session: SimSession) -> None:
        while not self.stopping:
            try:
                await self._take_part(session)
            except ClientError as problem:
                self.history.note(f"{self.name} joins anew: {problem}")
                await session.pause()

    async def _take_part(self, session: SimSession) -> None:
        """Join, then read, commit and send heartbeats until this membership ends."""
        self._joins += 1
        self._owned = []
        self._positions = {}
        self._credentials = Credentials(f"{self.name}.{self._joins}", 0)
        leave_after = self.random.randint(5, 60)
        turns = 0
        while not self.stopping and turns < leave_after:
            turns += 1
            if not await self._beat(session):
                return
            await self._read(session)
            await self.rest()
        await self._leave(session)

    # --- membership ---

    async def _beat(self, session: SimSession) -> bool:
        """Say what is owned, hear what is to be; False when this membership is over."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._credentials.member_id,
            member_epoch=self._credentials.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self._topic],
            server_assignor="uniform",
            topic_partitions=[TopicPartitions(self._topic_id, [each.partition for each in self._owned])]
            if self._owned
            else [],
        )
        try:
            answer = await session.ask_group(GROUP, request, ConsumerGroupHeartbeatResponse)
        except ClientError:
            await session.pause()
            return True  # nobody answered: the next heartbeat says the same
        code = ErrorCode(answer.error_code)
        if code in _GONE:
            self._release(self._owned)
            return False
        if code != ErrorCode.NONE:
            session.lost_coordinator(GROUP)
            await session.pause()
            return True
        self._credentials = self._credentials._replace(epoch=answer.member_epoch)
        if answer.assignment is not None:
            self._adopt(answer.assignment)
        return True

    def _adopt(self, assignment: Assignment) -> None:
        wanted: list[TopicPartition] = []
        for entry in assignment.topic_partitions:
            self._topic_id = entry.topic_id
            wanted += [TopicPartition(self._topic, number) for number in entry.partitions]
        self._release([each for each in self._owned if each not in wanted])
        for partition in wanted:
            if partition not in self._owned:
                self.history.own(GROUP, partition, self._credentials.member_id)
        self._owned = wanted

    def _release(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
            self.history.disown(GROUP, partition, self._credentials.member_id)
        self._owned = [each for each in self._owned if each not in partitions]

    async def _leave(self, session: SimSession) -> None:
        self._release(self._owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self._credentials.member_id, member_epoch=_LEAVING
        )
        await session.ask_group(GROUP, request, ConsumerGroupHeartbeatResponse)

    # --- reading ---

    async def _read(self, session: SimSession) -> None:
        if not self._owned:
            return
        partition = self.random.choice(self._owned)
        try:
            if partition not in self._positions:
                await self._find_position(session, partition)
            position = self._positions[partition]
            found = await session.fetch(partition, position, committed=True, wait_ms=20)
            self.history.see(self.name, partition, found.records, committed=True)
            if found.next_offset > position:
                self._positions[partition] = found.next_offset
                await self._commit(session, partition, found.next_offset)
        except ClientError as problem:
            # What was not committed is read again, by this member or by another.
            self._positions.pop(partition, None)
            self.history.note(f"{self.name} looks again where it is in {partition}: {problem}")
            await session.pause()

    async def _find_position(self, session: SimSession, partition: TopicPartition) -> None:
        least = self.history.commits.get((GROUP, partition), -1)
        offsets = await session.committed(GROUP, [partition], self._credentials)
        found = offsets[partition.partition]
        self.history.expect_committed(self.name, GROUP, partition, found, least)
        self._positions[partition] = max(0, found)

    async def _commit(self, session: SimSession, partition: TopicPartition, offset: int) -> None:
        try:
            await session.commit(GROUP, partition, offset, self._credentials)
        except ClientError:
            self.history.doubt_commit(GROUP, partition, offset)
            raise
        self.history.commit(GROUP, partition, offset)
