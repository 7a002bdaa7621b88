"""A broker for the producer's tests that keeps a log as a real one does, and fails as it is told.

It enforces sequence numbers per producer id and epoch, so that what lands in `logs` is what a real broker would hold.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

from kit.wire.scripted_broker import SILENCE, ScriptedBroker
from ottla.base.errors import RETRIABLE, ErrorCode
from ottla.client.producer import Producer
from ottla.records.batch import read_records
from ottla.records.header import BatchHeader, next_sequence, read_header
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_ID = bytes(range(16))
REMEMBERED = 5


class Fault(Enum):
    """What happens to a whole request instead of an ordinary answer."""

    LOST_BEFORE = "the connection ends before anything is written"
    LOST_AFTER = "everything is written, then the connection ends"
    SILENT_BEFORE = "nothing is written and nothing is answered"
    SILENT_AFTER = "everything is written and nothing is answered"


Act = Fault | ErrorCode | None
"""A fault, an error code for every partition of the request, or None for an ordinary answer."""


class LogBroker:
    """The behaviour; `acts` are used up one a request, then everything is ordinary."""

    def __init__(self, acts: Iterable[Act] = (), largest: int = 1 << 30) -> None:
        self.acts = deque(acts)
        self.largest = largest
        self.logs: dict[int, list[bytes | None]] = defaultdict(list)
        self.headers: dict[int, list[BatchHeader]] = defaultdict(list)
        self.requests: list[ProduceRequest] = []
        self.most_at_once = 0
        self.broker: ScriptedBroker | None = None
        self._forget: Callable[[], bool] | None = None
        self._written: dict[tuple[int, int], deque[tuple[int, int, int, int]]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED)
        )

    def forget(self, when: Callable[[], bool]) -> None:
        """Once, at the first request after `when` holds: of each producer only the last number is remembered."""
        self._forget = when

    def produce(self, request: Any) -> ProduceResponse | None:
        self.requests.append(request)
        if self._forget is not None and self._forget():
            self._forget = None
            for written in self._written.values():
                epoch, first, count, offset = written[-1]
                written.clear()
                written.append((epoch, next_sequence(first, count), 0, offset))
        act = self.acts.popleft() if self.acts else None
        refused = act if isinstance(act, ErrorCode) else None
        topics = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                if act in (Fault.LOST_BEFORE, Fault.SILENT_BEFORE):
                    continue
                parts.append(self._part(part.index, bytes(part.records or b""), refused))
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, parts))
        if act in (Fault.LOST_BEFORE, Fault.LOST_AFTER):
            assert self.broker is not None
            self.broker.hang_up()
        if isinstance(act, Fault) or request.acks == 0:
            return SILENCE
        return ProduceResponse(topics)

    def _part(self, index: int, data: bytes, refused: ErrorCode | None) -> PartitionProduceResponse:
        if refused in RETRIABLE:
            return PartitionProduceResponse(index, refused, -1)
        if len(data) > self.largest:
            return PartitionProduceResponse(index, ErrorCode.MESSAGE_TOO_LARGE, -1)
        header = read_header(data)
        log = self.logs[index]
        if header.producer_id >= 0:
            written = self._written[index, header.producer_id]
            for epoch, first, count, offset in written:
                if (epoch, first, count) == (header.producer_epoch, header.base_sequence, header.records_count):
                    return PartitionProduceResponse(index, 0, offset)
            if refused is not None:  # for good, and so never said of what was written before
                return PartitionProduceResponse(index, refused, -1)
            expected = 0
            if written and written[-1][0] == header.producer_epoch:
                expected = next_sequence(written[-1][1], written[-1][2])
            if written and written[-1][0] > header.producer_epoch:
                return PartitionProduceResponse(index, ErrorCode.INVALID_PRODUCER_EPOCH, -1)
            if header.base_sequence != expected:
                return PartitionProduceResponse(index, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
            written.append((header.producer_epoch, header.base_sequence, header.records_count, len(log)))
        offset = len(log)
        log.extend(record.value for record in read_records(data, header))
        self.headers[index].append(header)
        return PartitionProduceResponse(index, 0, offset)


@asynccontextmanager
async def producing(
    log: LogBroker | None = None,
    partitions: int = 1,
    versions: Mapping[int, tuple[int, int]] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[LogBroker, Producer]]:
    """A producer that is started, and the broker it writes to."""
    behaviour = log or LogBroker()
    async with ScriptedBroker({ProduceRequest: behaviour.produce}, versions) as broker:
        behaviour.broker = broker
        host, port = broker.address
        parts = [MetadataResponsePartition(0, number, 1) for number in range(partitions)]
        metadata = MetadataResponse(
            brokers=[MetadataResponseBroker(1, host, port)],
            controller_id=1,
            topics=[MetadataResponseTopic(0, "t", TOPIC_ID, partitions=parts)],
        )
        broker.answers[MetadataRequest] = lambda _: metadata
        broker.answers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=77, producer_epoch=3)
        quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0}
        settled: dict[str, Any] = {**quick, "bootstrap_servers": f"{host}:{port}", **settings}
        async with Producer(**settled) as producer:
            yield behaviour, producer
