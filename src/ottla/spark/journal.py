"""What the driver of an exactly-once sink has decided, kept on the target cluster.

Owns: the compacted topic of decisions, its records, and that only the newest driver of a sink can add to it. Never
knows: Spark, rows, how transactions are ended. Invariants: a decision is durable before `decide` returns; after `fence`
no older driver's decision can be added; the last decision of a sink is never compacted away.

A driver is fenced without transactions, which would let an open one of another sink hide decisions: it gets a producer
epoch from the transaction coordinator and writes a record with it, after which the partition refuses older epochs.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.errors import BrokerError, ClientError, known_code
from ottla.client.fetched import visible_records
from ottla.client.offsets import EARLIEST, LATEST, find_offsets, raise_errors
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.spark import transactions
from ottla.spark.session import Session
from ottla.spark.transactions import Identity
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.schema import LATEST as NEWEST
from ottla.wire.schema import Root

R = TypeVar("R", bound=Root)

_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
_LAST_WITH_NAMES = 12
_RECENT = 1000
"""So many offsets before the end are looked at first: a running query's last decision is among them."""
_FETCH_BYTES = 1024 * 1024
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class Superseded(Exception):
    """Another driver runs the same query."""


class Fence(NamedTuple):
    """What the newest driver holds; `generation` differs from that of every driver before."""

    producer_id: int
    generation: int


class Decision(NamedTuple):
    """These transactions of a batch are to be committed, whatever happens."""

    query: str
    batch: int
    generation: int
    tasks: dict[int, Identity]
    done: frozenset[int]
    """Tasks of the batch whose rows were committed under an earlier decision."""
    tasks_of_batch: int

    def encoded(self) -> bytes:
        form = {
            "query": self.query,
            "batch": self.batch,
            "generation": self.generation,
            "tasks": {str(task): list(identity) for task, identity in self.tasks.items()},
            "done": sorted(self.done),
            "tasks_of_batch": self.tasks_of_batch,
        }
        return json.dumps(form, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "Decision":
        form: dict[str, Any] = json.loads(data)
        tasks = {int(task): Identity(*identity) for task, identity in form["tasks"].items()}
        done = frozenset(form["done"])
        return cls(form["query"], form["batch"], form["generation"], tasks, done, form["tasks_of_batch"])


class Journal:
    """One sink's place in the topic of decisions; coroutines, on the session's loop."""

    def __init__(self, session: Session, topic: str, sink_id: str) -> None:
        self._session = session
        self._cluster = session.cluster
        self._partition = TopicPartition(topic, 0)
        self._sink = sink_id

    async def fence(self) -> Fence:
        """Become the newest driver."""
        await self._create()
        identity = await transactions.init(self._cluster, f"ottla-spark-{self._sink}", 60_000, self._session.deadline())
        fence = Fence(identity.producer_id, identity.producer_epoch)
        await self._append(fence, 0, f"{self._sink}/driver", b"%d" % fence.generation)
        return fence

    async def decide(self, fence: Fence, decision: Decision) -> None:
        """Once for a fence; Superseded when a newer driver is there."""
        await self._append(fence, 1, self._sink, decision.encoded())

    async def last(self) -> Decision | None:
        """The decision made last, by whichever driver."""
        first, end = [await self._offset(moment) for moment in (EARLIEST, LATEST)]
        recent = max(first, end - _RECENT)
        found = await self._scan(recent, end)
        return found if found is not None or recent == first else await self._scan(first, recent)

    async def _scan(self, position: int, end: int) -> Decision | None:
        key = self._sink.encode()
        found: Decision | None = None
        while position < end:
            data = await self._cluster.retry(partial(self._fetch, position), self._session.deadline())
            records, following = visible_records(data, position)
            for record in records:
                if record.key == key and record.value is not None and record.offset < end:
                    found = Decision.decoded(bytes(record.value))
            position = following
        return found

    async def _offset(self, moment: int) -> int:
        found = await find_offsets(self._cluster, {self._partition: moment}, self._session.deadline())
        raise_errors(found)
        return found[self._partition].offset

    async def _create(self) -> None:
        deadline = self._session.deadline()
        name = self._partition.topic
        found = await self._cluster.retry(lambda: self._cluster.refresh([name], deadline), deadline)
        if name in found and name in self._cluster.topics:
            return
        configs = [CreatableTopicConfig(key, value) for key, value in _CONFIGS.items()]
        request = CreateTopicsRequest([CreatableTopic(name, 1, -1, configs=configs)], 30_000)

        async def ask() -> None:
            answer = await self._cluster.ask_controller(request, CreateTopicsResponse, deadline)
            code = known_code(answer.topics[0].error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise BrokerError(code, f"topic {name!r}", answer.topics[0].error_message)

        await self._cluster.retry(ask, deadline)
        await self._cluster.topic(name, deadline, create=True)

    async def _append(self, fence: Fence, sequence: int, key: str, value: bytes) -> None:
        data = build_batch(
            [Record(0, self._session.now_ms(), key.encode(), value)],
            producer_id=fence.producer_id,
            producer_epoch=fence.generation,
            base_sequence=sequence,
        )

        async def ask() -> None:
            answer = await self._ask_leader(
                lambda topic_id: ProduceRequest(
                    None,
                    -1,
                    30_000,
                    [TopicProduceData(self._partition.topic, topic_id, [PartitionProduceData(0, data)])],
                ),
                ProduceResponse,
            )
            code = known_code(answer.responses[0].partition_responses[0].error_code)
            if code in _FENCED:
                raise Superseded("another driver runs the same query: this one must not go on")
            if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._cluster.forget(self._partition.topic)
                raise BrokerError(code, f"partition {self._partition}")

        await self._cluster.retry(ask, self._session.deadline())

    async def _fetch(self, position: int) -> bytes:
        row = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=_FETCH_BYTES)
        answer = await self._ask_leader(
            lambda topic_id: FetchRequest(
                max_wait_ms=500, min_bytes=1, topics=[FetchTopic(self._partition.topic, topic_id, [row])]
            ),
            FetchResponse,
        )
        part = answer.responses[0].partitions[0]
        if answer.error_code or part.error_code:
            self._cluster.forget(self._partition.topic)
            raise BrokerError(answer.error_code or part.error_code, f"partition {self._partition}")
        return bytes(part.records or b"")

    async def _ask_leader(self, request: Callable[[bytes], Root], answer: type[R]) -> R:
        """Whoever leads; one that does not answer is not asked again before the cluster has said who leads now."""
        cluster = self._cluster
        leader = await cluster.leader(self._partition, self._session.deadline())
        topic_id = cluster.topics[self._partition.topic].topic_id
        highest = _LAST_WITH_NAMES if topic_id == NO_TOPIC_ID else NEWEST
        deadline = cluster.deadline(cluster.settings.request_seconds)
        try:
            return await cluster.ask_node(leader.leader, request(topic_id), answer, deadline, highest=highest)
        except ClientError:
            cluster.forget(self._partition.topic)
            raise
