"""A small client that asks in raw messages, so that a workload decides itself what is sent, when, and how often.

Owns: one question and its answer each, on the real client's connections and metadata. Never knows: what the answers
prove. Invariants: every question has a deadline; an error code is a `BrokerError`; nothing is repeated here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.address import Address
from ottla.client.cluster import Cluster, ClusterSettings, Partition
from ottla.client.errors import BrokerError, ClientError
from ottla.client.fetched import Aborted, Visible, visible_records
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.sim.world import BIG_BANG_MS, SimRandom
from ottla.wire.messages import add_partitions_to_txn as adding
from ottla.wire.messages import (
    create_topics,
    find_coordinator,
    list_offsets,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.schema import LATEST, Root

R = TypeVar("R", bound=Root)

GROUP, TRANSACTION = 0, 1
NAMED = 12
"""The last version of Produce and Fetch in which topics go by name."""
EXPLICIT = 11
"""The last version of Produce that does not add its partitions to the transaction by itself."""
LATEST_OFFSET = -1
FETCH_BYTES = 64 * 1024


class SimProducer(NamedTuple):
    """Who writes: an idempotent producer, or one of transactions."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    implicit: bool = False
    """Whether a write adds its partition to the transaction by itself (transactions of version 2)."""


class SimMember(NamedTuple):
    """Who commits offsets; nobody in particular by default."""

    member_id: str = ""
    epoch: int = -1


class SimSession:
    """One client on one loop. Everything but the constructor runs on that loop."""

    def __init__(self, addresses: Sequence[Address], random: Random) -> None:
        self.random = random
        settings = ClusterSettings(client_id="sim", connect_seconds=1.0, request_seconds=3.0, in_flight=5)
        self.cluster = Cluster(addresses, settings, SimRandom(random))
        self._coordinators: dict[tuple[int, str], int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._loop = asyncio.get_running_loop()

    def deadline(self, seconds: float) -> float:
        return self._loop.time() + seconds

    async def pause(self) -> None:
        """Before trying again."""
        await asyncio.sleep(self.random.uniform(0.02, 0.3))

    # --- records ------------------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Make a topic; one that is there already is fine."""
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    configs=[create_topics.CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
                )
            ],
            timeout_ms=3000,
        )
        answer = await self.cluster.ask_any(request, create_topics.CreateTopicsResponse, self.deadline(5))
        for topic in answer.topics:
            if topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _check(topic.error_code, name)

    async def produce(
        self, partition: TopicPartition, values: Sequence[bytes], producer: SimProducer, sequence: int, seconds: float
    ) -> int:
        """Write one batch with acks=all; the offset of its first record."""
        now_ms = BIG_BANG_MS + int(self._loop.time() * 1000)
        batch = build_batch(
            [Record(place, now_ms, None, value) for place, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=producer.transactional_id is not None,
        )
        data = PartitionProduceData(index=partition.partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=producer.transactional_id,
            acks=-1,
            timeout_ms=int(seconds * 1000),
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
        )
        highest = NAMED if producer.transactional_id is None or producer.implicit else EXPLICIT
        answer = await self._ask_leader(partition, request, ProduceResponse, seconds, highest)
        result = answer.responses[0].partition_responses[0]
        self._check_leader(result.error_code, partition)
        return result.base_offset

    async def fetch(self, partition: TopicPartition, offset: int, *, committed: bool, wait_ms: int = 100) -> Visible:
        """What a consumer sees from an offset on."""
        # With the epoch: a replica that is not the leader it was taken for says so, instead of what its own log holds.
        leader = await self._leader(partition)
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=1 if committed else 0,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        )
        answer = await self._ask_leader(partition, request, FetchResponse, 3.0, NAMED)
        _check(answer.error_code, "fetch")
        result = answer.responses[0].partitions[0]
        self._check_leader(result.error_code, partition)
        aborted = [Aborted(each.first_offset, each.producer_id) for each in result.aborted_transactions or ()]
        return visible_records(result.records or b"", offset, aborted)

    async def end_offset(self, partition: TopicPartition) -> int:
        """Where the next record that everybody may see will be."""
        leader = await self._leader(partition)
        wanted = list_offsets.ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=leader.leader_epoch, timestamp=LATEST_OFFSET
        )
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=partition.topic, partitions=[wanted])]
        )
        answer = await self._ask_leader(partition, request, list_offsets.ListOffsetsResponse, 3.0, LATEST)
        result = answer.topics[0].partitions[0]
        self._check_leader(result.error_code, partition)
        return result.offset

    async def _leader(self, partition: TopicPartition) -> Partition:
        """As real clients do, word of an older epoch than one heard of before, from a node cut off, is not believed."""
        try:
            found = await self.cluster.leader(partition, self.deadline(3))
            if found.leader_epoch < self._epochs.get(partition, -1):
                raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, str(partition))
        except ClientError:
            self.cluster.forget(partition.topic)
            raise
        self._epochs[partition] = found.leader_epoch
        return found

    async def _ask_leader(
        self, partition: TopicPartition, request: Root, answer: type[R], seconds: float, highest: int
    ) -> R:
        leader = (await self._leader(partition)).leader
        try:
            return await self.cluster.ask_node(leader, request, answer, self.deadline(seconds), highest=highest)
        except ClientError:
            self.cluster.forget(partition.topic)
            raise

    def _check_leader(self, code: int, partition: TopicPartition) -> None:
        if code:
            self.cluster.forget(partition.topic)
            raise BrokerError(code, str(partition))

    # --- producers and transactions -----------------------------------------------------------------------------------

    async def init_producer(
        self, transactional_id: str | None, timeout_ms: int, *, implicit: bool = False
    ) -> SimProducer:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if transactional_id is None:
            answer = await self.cluster.ask_any(request, InitProducerIdResponse, self.deadline(3), highest=5)
        else:
            answer = await self._ask_coordinator(
                TRANSACTION, transactional_id, request, InitProducerIdResponse, highest=5
            )
        self._check_coordinator(answer.error_code, TRANSACTION, transactional_id or "")
        return SimProducer(answer.producer_id, answer.producer_epoch, transactional_id, implicit)

    async def add_partitions(self, producer: SimProducer, partitions: Sequence[TopicPartition]) -> None:
        name = producer.transactional_id
        assert name is not None
        topics = sorted({partition.topic for partition in partitions})
        request = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                adding.AddPartitionsToTxnTopic(
                    name=topic, partitions=[each.partition for each in partitions if each.topic == topic]
                )
                for topic in topics
            ],
        )
        answer = await self._ask_coordinator(TRANSACTION, name, request, adding.AddPartitionsToTxnResponse, highest=3)
        for result in answer.results_by_topic_v3_and_below:
            for part in result.results_by_partition:
                self._check_coordinator(part.partition_error_code, TRANSACTION, name)

    async def add_offsets(self, producer: SimProducer, group: str) -> None:
        name = producer.transactional_id
        assert name is not None
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group
        )
        answer = await self._ask_coordinator(TRANSACTION, name, request, AddOffsetsToTxnResponse, highest=3)
        self._check_coordinator(answer.error_code, TRANSACTION, name)

    async def commit_in_transaction(
        self, producer: SimProducer, group: str, partition: TopicPartition, to: int
    ) -> None:
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id or "",
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=partition.partition, committed_offset=to
                        )
                    ],
                )
            ],
        )
        highest = LATEST if producer.implicit else 4
        answer = await self._ask_coordinator(
            GROUP, group, request, txn_offset_commit.TxnOffsetCommitResponse, highest=highest
        )
        self._check_coordinator(answer.topics[0].partitions[0].error_code, GROUP, group)

    async def end(self, producer: SimProducer, *, commit: bool) -> SimProducer:
        """End the transaction; the producer as it goes on."""
        name = producer.transactional_id
        assert name is not None
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        highest = LATEST if producer.implicit else 4
        answer = await self._ask_coordinator(TRANSACTION, name, request, EndTxnResponse, highest=highest)
        self._check_coordinator(answer.error_code, TRANSACTION, name)
        if producer.implicit and answer.producer_id >= 0:
            return producer._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)
        return producer

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def committed(self, group: str, partitions: Sequence[TopicPartition], member: SimMember) -> dict[int, int]:
        """The committed offsets of one topic's partitions by their number; -1 where there is none."""
        topic = partitions[0].topic
        request = offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=group,
                    member_id=member.member_id or None,
                    member_epoch=member.epoch,
                    topics=[
                        offset_fetch.OffsetFetchRequestTopics(
                            name=topic, partition_indexes=[each.partition for each in partitions]
                        )
                    ],
                )
            ],
            require_stable=True,
        )
        answer = await self._ask_coordinator(GROUP, group, request, offset_fetch.OffsetFetchResponse, highest=9)
        found = answer.groups[0]
        self._check_coordinator(found.error_code, GROUP, group)
        offsets = {}
        for entry in found.topics[0].partitions:
            self._check_coordinator(entry.error_code, GROUP, group)
            offsets[entry.partition_index] = entry.committed_offset
        return offsets

    async def commit(self, group: str, partition: TopicPartition, to: int, member: SimMember) -> None:
        request = offset_commit.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.epoch,
            member_id=member.member_id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=partition.partition, committed_offset=to
                        )
                    ],
                )
            ],
        )
        answer = await self._ask_coordinator(GROUP, group, request, offset_commit.OffsetCommitResponse, highest=9)
        self._check_coordinator(answer.topics[0].partitions[0].error_code, GROUP, group)

    # --- coordinators -------------------------------------------------------------------------------------------------

    async def ask_group(self, group: str, request: Root, answer: type[R]) -> R:
        """Ask a group's coordinator; the caller looks at the error."""
        return await self._ask_coordinator(GROUP, group, request, answer)

    def lost_coordinator(self, group: str) -> None:
        self._coordinators.pop((GROUP, group), None)

    async def _ask_coordinator(
        self, kind: int, key: str, request: Root, answer: type[R], *, highest: int = LATEST
    ) -> R:
        deadline = self.deadline(3)
        try:
            node = self._coordinators.get((kind, key))
            if node is None:
                node = self._coordinators[kind, key] = await self._find_coordinator(kind, key, deadline)
            return await self.cluster.ask_node(node, request, answer, deadline, highest=highest)
        except ClientError:
            self._coordinators.pop((kind, key), None)
            raise

    async def _find_coordinator(self, kind: int, key: str, deadline: float) -> int:
        request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await self.cluster.ask_any(request, find_coordinator.FindCoordinatorResponse, deadline)
        found = answer.coordinators[0]
        _check(found.error_code, f"the coordinator of {key}")
        if found.node_id not in self.cluster.brokers:
            await self.cluster.refresh((), deadline)
        return found.node_id

    def _check_coordinator(self, code: int, kind: int, key: str) -> None:
        if code:
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._coordinators.pop((kind, key), None)
            raise BrokerError(code, key)


def _check(code: int, subject: str) -> None:
    if code:
        raise BrokerError(code, subject)
