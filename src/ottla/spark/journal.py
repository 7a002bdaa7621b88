"""What the driver of an exactly-once sink has decided, kept on the target cluster.

Owns: the compacted topic of decisions, its records, and that only the newest driver of a sink can add to it. Never
knows: Spark, rows, how transactions are ended. Invariants: a decision is durable before `decide` returns; after `fence`
no older driver's decision counts; a fence decides once or withdraws, never both; the last decision of a sink is never
compacted away.

A driver is fenced without transactions, which would let an open one of another sink hide decisions: it gets a producer
epoch from the transaction coordinator and writes a record with it, after which the partition refuses older epochs. When
the epochs of a producer id are used up, or the partition has forgotten them, it cannot; so a decision counts only
if no newer driver's record lies before it, for who made it as for who reads it.
"""

import json
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError, DeadlineExceeded, known_code
from ottla.client.fetched import visible_records
from ottla.client.offsets import EARLIEST, LATEST, find_offsets, raise_errors
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record
from ottla.spark import transactions
from ottla.spark.errors import BadOption
from ottla.spark.evidence import Landed
from ottla.spark.fingerprints import UNKNOWN, Fingerprint
from ottla.spark.leaders import ask_leader, fetch
from ottla.spark.session import Session
from ottla.spark.transactions import TransactionIdentity
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
_RECENT = (50, 1000)
"""So many offsets before the end are looked at first: a running query's last decision is among them."""
_COMPRESSED_FROM = 8 * 1024
"""Bytes of a decision: that of ten thousands of tasks is longer than a broker takes, and their names are much alike."""
_TOPIC = 2
"""What DescribeConfigs calls a topic."""
_NO_IDENTITY = (None,) * len(TransactionIdentity._fields)
_NOWHERE = (None,) * len(Landed._fields)
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class Superseded(Exception):
    """Another driver runs the same query."""


class Fence(NamedTuple):
    """What the newest driver holds; producer id and generation together differ from those of every driver before."""

    producer_id: int
    generation: int
    offset: int
    """Where it is written in the topic of decisions."""

    def encoded(self) -> bytes:
        return json.dumps({"producer_id": self.producer_id, "generation": self.generation}).encode()


class Part(NamedTuple):
    """What a task gave to a batch."""

    identity: TransactionIdentity | None
    """Its transaction; None when that was committed under an earlier decision."""
    fingerprint: Fingerprint
    landed: Landed | None = None
    """Where some of its rows lie, to prove what became of them."""

    def row(self) -> tuple[Any, ...]:
        """As many values whatever is known."""
        return (*self.fingerprint, *(self.identity or _NO_IDENTITY), *(self.landed or _NOWHERE))

    @classmethod
    def of_row(cls, rows: int, content: int | None, *rest: Any) -> "Part":
        identity, landed = rest[: len(_NO_IDENTITY)], rest[len(_NO_IDENTITY) :]
        return cls(
            None if identity == _NO_IDENTITY else TransactionIdentity(*identity),
            Fingerprint(rows, content),
            None if landed == _NOWHERE else Landed(*landed),
        )


# The record that decides a batch before its transactions end: design/0016.
class SinkDecision(NamedTuple):
    """These transactions of a batch are to be committed, whatever happens."""

    query: str
    batch: int
    fence: tuple[int, int]
    """Producer id and generation of who decided."""
    parts: dict[int, Part]
    """By the task's number, of those with rows; empty when all are known to be committed."""
    tasks_of_batch: int
    fingerprint: Fingerprint
    """Of all rows of the batch."""
    ranges: str = ""
    """The fingerprint of what the batch reads; empty where it is not known."""
    topic: str = ""
    place: str = ""
    """What the sink is called by who wrote this."""
    ended: bool = False
    """Every transaction is known to be committed."""
    swept: bool = False
    """And none is open that the sink began otherwise."""

    @property
    def open(self) -> dict[int, Part]:
        """What was not committed under an earlier decision, by task."""
        return {task: part for task, part in self.parts.items() if part.identity is not None}

    def encoded(self) -> bytes:
        form = self._asdict()
        # column by column: values that are much alike lie together, which makes a large decision a third smaller
        form["parts"] = list(zip(*((task, *part.row()) for task, part in self.parts.items()), strict=True))
        return json.dumps(form, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "SinkDecision":
        form: dict[str, Any] = json.loads(data)
        if "parts" not in form:
            return _of_first_release(form)
        parts = {task: Part.of_row(*row) for task, *row in zip(*form["parts"], strict=True)}
        fence, fingerprint = (form["fence"][0], form["fence"][1]), Fingerprint(*form["fingerprint"])
        return cls(**(form | {"parts": parts, "fence": fence, "fingerprint": fingerprint}))


def _of_first_release(form: dict[str, Any]) -> SinkDecision:
    """Written before an upgrade: neither rows nor ranges were noted, nor whose transactions were without rows."""
    parts = {int(task): Part(TransactionIdentity(*identity), UNKNOWN) for task, identity in form["tasks"].items()}
    parts |= {task: Part(None, UNKNOWN) for task in form["done"]}
    fence = (-1, form["generation"])
    return SinkDecision(form["query"], form["batch"], fence, parts, form["tasks_of_batch"], UNKNOWN)


class JournalReading:
    """What a stretch of the topic says: for every sink its last driver and the last of its decisions that counts.

    With an `own` sink, of others only what the same query decided under their names since.
    """

    def __init__(self, own: str | None = None) -> None:
        self.decisions: dict[str, SinkDecision] = {}
        self.drivers: dict[str, tuple[int, int]] = {}
        self.vouched = False
        """Whether the own sink's last decision comes after the record of the driver that made it."""
        self._own = own
        self._query = b""
        """Of the own sink's last decision, as it stands in the record of every other."""

    def take(self, key: bytes, value: bytes) -> None:
        """A record; nobody else's is decoded without need, nor has to be what is expected."""
        sink, _, kind = key.decode(errors="replace").partition("/")
        if sink == self._own:
            self._note(sink, bool(kind), value)
        elif self._own is None or (self._query and self._query in value):
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                self._note(sink, bool(kind), value)

    def _note(self, sink: str, of_driver: bool, value: bytes) -> None:
        if of_driver:
            said = json.loads(value)
            if isinstance(said, dict):  # the first release wrote a number here
                self.drivers[sink] = said["producer_id"], said["generation"]
            return
        decision = SinkDecision.decoded(value)
        if self.drivers.get(sink, decision.fence) != decision.fence:
            return
        if sink == self._own:
            self.decisions.clear()  # what others decided before is behind this one
            self.vouched = sink in self.drivers
            self._query = json.dumps(decision.query).encode()
        self.decisions[sink] = decision


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
        identity = await transactions.init(self._cluster, f"ottla-spark-{self._sink}", self._session.deadline())
        fence = Fence(identity.producer_id, identity.producer_epoch, -1)
        return fence._replace(offset=await self._append(fence, 0, self._driver_key, fence.encoded()))

    async def decide(self, fence: Fence, decision: SinkDecision) -> None:
        """Once for a fence; Superseded when a newer driver is there."""
        offset = await self._append(fence, 1, self._sink, decision.encoded())
        if not await self._counts(fence, offset + 1):
            raise _superseded()

    async def conclude(self, fence: Fence, decision: SinkDecision, *, swept: bool) -> None:
        """Note that everything which was decided is done: nobody needs to ask the coordinators again."""
        ended = decision._replace(ended=True, swept=swept, parts={})
        await self._append(fence, 2, self._sink, ended.encoded())

    async def withdraw(self, fence: Fence) -> bool:
        """Give up the right to decide; False when a decision was made with it.

        The record takes the place in the sequence that the decision has: of the two, the partition keeps the one that
        came first, also when the other is still on its way.
        """
        with suppress(Superseded):
            await self._append(fence, 1, self._driver_key, fence.encoded())
        return not await self._counts(fence, await self._offset(LATEST))

    async def last(self, fence: Fence) -> tuple[SinkDecision | None, list[SinkDecision]]:
        """The decision made last before the fence, by whichever driver; and what the same query decided since under
        other names, the last of each."""
        first = await self._offset(EARLIEST)
        for start in (*(max(first, fence.offset - recent) for recent in _RECENT), first):
            reading = await self._read(start, fence.offset, self._sink)
            own = reading.decisions.pop(self._sink, None)
            if own is not None and (reading.vouched or start == first):  # else a newer driver may be further back
                return own, list(reading.decisions.values())
        return None, []

    async def of_query(self, query: str, fence: Fence) -> list[SinkDecision]:
        """The last decisions of other sinks that the same query made."""
        reading = await self._read(await self._offset(EARLIEST), fence.offset)
        return [
            decision for sink, decision in reading.decisions.items() if decision.query == query and sink != self._sink
        ]

    async def refuse_retention(self) -> None:
        """Decisions that are deleted by age would be forgotten: say so before that happens."""
        name = self._partition.topic
        request = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, name, ["cleanup.policy"])])
        deadline = self._session.deadline()

        async def ask() -> DescribeConfigsResponse:
            return await self._cluster.ask_any(request, DescribeConfigsResponse, deadline)

        answer = await self._cluster.retry(ask, deadline)
        policies = {each.value for result in answer.results for each in result.configs if each.name == "cleanup.policy"}
        if policies and policies != {"compact"}:  # nothing is said to who may not look
            raise BadOption(
                f"decisionTopic cannot be {name}: its cleanup.policy is {policies.pop()}, by which decisions would be "
                "deleted; it must be compact"
            )

    async def _counts(self, fence: Fence, end: int) -> bool:
        """Whether a decision of this fence lies before `end`, and no newer driver's record before that."""
        decision = (await self._read(fence.offset, end, self._sink)).decisions.get(self._sink)
        return decision is not None and decision.fence == (fence.producer_id, fence.generation)

    async def _read(self, position: int, end: int, only: str | None = None) -> JournalReading:
        reading = JournalReading(only)
        deadline = self._session.deadline()
        while position < end:
            part = await self._cluster.retry(partial(self._fetch, position), self._session.deadline())
            records, following = visible_records(part.records or b"", position)
            if following > position:
                deadline = self._session.deadline()
            elif self._session.time() > deadline:
                raise DeadlineExceeded(f"{self._partition} does not give offset {position}, which was acknowledged")
            for record in records:
                if record.key is not None and record.value is not None and record.offset < end:
                    reading.take(bytes(record.key), bytes(record.value))
            position = following
        return reading

    async def _fetch(self, position: int) -> PartitionData:
        return await fetch(self._cluster, self._partition, position, self._session.deadline())

    @property
    def _driver_key(self) -> str:
        return f"{self._sink}/driver"

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

    async def _append(self, fence: Fence, sequence: int, key: str, value: bytes) -> int:
        """At which offset it is; that of the first record with this sequence number, if there was one."""
        data = build_batch(
            [Record(0, self._session.now_ms(), key.encode(), value)],
            compression=Compression.GZIP if len(value) > _COMPRESSED_FROM else Compression.NONE,
            producer_id=fence.producer_id,
            producer_epoch=fence.generation,
            base_sequence=sequence,
        )

        async def ask() -> int:
            answer = await ask_leader(
                self._cluster,
                self._partition,
                lambda topic_id: ProduceRequest(
                    None,
                    -1,
                    30_000,
                    [TopicProduceData(self._partition.topic, topic_id, [PartitionProduceData(0, data)])],
                ),
                ProduceResponse,
                self._session.deadline(),
            )
            part = answer.responses[0].partition_responses[0]
            code = known_code(part.error_code)
            if code in _FENCED:
                raise _superseded()
            if code != ErrorCode.NONE:
                self._cluster.forget(self._partition.topic)
                raise BrokerError(code, f"partition {self._partition}")
            return part.base_offset

        return await self._cluster.retry(ask, self._session.deadline())


def _superseded() -> Superseded:
    return Superseded("another driver runs the same query: this one must not go on")
