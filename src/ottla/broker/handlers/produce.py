"""Produce, v3 to v13.

Stage one runs without an await: look up, check, append the very bytes that were received. Stage two answers at once
when the records are as safe as the client asked, and otherwise when the flush that serves them is done
(`flush.messages`). acks=0 gets no answer; a failed append closes such a connection, as in Kafka, so that the client
notices.
"""

from struct import Struct
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.partitions import Partition
from ottla.log.files import StorageFailure
from ottla.net.connection import Connection, Deferred
from ottla.records.compression import Compression
from ottla.wire.apis import PRODUCE, HotHead, hot_response
from ottla.wire.produce import PartitionResult, ProduceRequest, read_request, write_response

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.transaction_admission import Admission, Refused

_SIZE = Struct(">i")
_new = tuple.__new__  # half the time of a named tuple's own constructor
FIRST_ZSTD = 7
_FLAGS = 22  # the low byte of a batch's attributes
_ODD = [
    ErrorCode.INVALID_TXN_STATE
    if flags & 0x10
    else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if flags & 7 == Compression.ZSTD
    else ErrorCode.NONE
    for flags in range(256)
]
"""What a batch may be refused for before its log sees it, by its attributes: for most of them nothing."""

_ADMIN = b"\0\x0e__admin_client"
"""The client id, with its length, of Kafka's own tools, which alone may write to internal topics."""
_CLIENT_ID = 8
_AFTER_ADMIN = _CLIENT_ID + len(_ADMIN)

Answers = list[tuple[str | bytes, list[PartitionResult]]]


def handle(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> None:
    version, _, position = head
    request = read_request(frame, position, version)
    if request.acks not in (-1, 0, 1):
        answers = refused(request, ErrorCode.INVALID_REQUIRED_ACKS)
        unflushed: list[Partition] = []
    else:
        answers, unflushed = append(broker, request, version, frame)
    if request.acks == 0:
        if any(result.error for _, results in answers for result in results):
            connection.drop("a failed append of a producer that wants no answers")
        elif unflushed:
            broker.flusher.when_flushed(unflushed, lambda error: None)
        return
    if unflushed:
        wait = _FlushAnswer(connection.defer(), head, answers)
        broker.flusher.when_flushed(unflushed, wait.flushed)
        return
    connection.answer([encoded(head, answers)])


def append(
    broker: "Broker", request: ProduceRequest, version: int, frame: memoryview
) -> tuple[Answers, list[Partition]]:
    """Append everything; also tells which partitions must be flushed before the answer."""
    answers: Answers = []
    unflushed: list[Partition] = []
    now_ms = broker.clock.now_ms()
    find = broker.partitions.find
    grown: list[Partition] = []
    admission = None
    if request.transactional_id is not None:
        admission = _admitted(broker, request, version)
        if admission.unflushed is not None:
            unflushed.append(admission.unflushed)
    for topic, parts in request.topics:
        results: list[PartitionResult] = []
        for index, records in parts:
            partition = find(topic, index)
            if isinstance(partition, ErrorCode):
                results.append(PartitionResult(index, partition, -1, -1, -1))
                continue
            if partition.internal and frame[_CLIENT_ID:_AFTER_ADMIN] != _ADMIN:
                results.append(PartitionResult(index, ErrorCode.INVALID_TOPIC_EXCEPTION, -1, -1, -1))
                continue
            if records is None or not len(records):
                results.append(_empty(index))
                continue
            odd = _ODD[records[_FLAGS]] if len(records) > _FLAGS else ErrorCode.NONE
            if odd:
                refusal = _refusal(odd, admission, partition, version)
                if refusal is not None:
                    results.append(PartitionResult(index, refusal[0], -1, -1, -1, refusal[1]))
                    continue
            log = partition.log
            if log is None:
                results.append(_offline(index))
                continue
            try:
                outcome = log.append_as_leader(records, partition.leader_epoch, now_ms)
            except StorageFailure as failure:
                broker.storage_failed(failure)
                results.append(PartitionResult(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(failure)))
                continue
            results.append(_new(PartitionResult, (index, *outcome, None)))
            if outcome[0] == 0:
                log.high_watermark = log.end_offset
                if log.unflushed_messages >= log.settings.flush_messages:
                    unflushed.append(partition)
                grown.append(partition)
        answers.append((topic, results))
    # Only now, so that a reader that waits for several of them gets all in one answer.
    nudge = broker.waiting.nudge
    for partition in grown:
        nudge(partition)
    return answers, unflushed


def _admitted(broker: "Broker", request: ProduceRequest, version: int) -> "Admission":
    from ottla.broker.transaction_admission import admit

    return admit(broker, request, version)


def _refusal(
    odd: ErrorCode, admission: "Admission | None", partition: Partition, version: int
) -> "Refused | tuple[ErrorCode, None] | None":
    """Whether a batch that is compressed by zstd, or part of a transaction, is refused for that."""
    if odd == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        return (odd, None) if version < FIRST_ZSTD else None
    if admission is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
    return admission.refused.get(partition.name)


def _empty(index: int) -> PartitionResult:
    return PartitionResult(
        index,
        ErrorCode.INVALID_RECORD,
        -1,
        -1,
        -1,
        "Produce requests must have exactly one record batch per partition",
    )


def _offline(index: int) -> PartitionResult:
    message = "The directory that holds this partition is offline."
    return PartitionResult(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, message)


def refused(request: ProduceRequest, error: ErrorCode) -> Answers:
    """The same error for everything asked."""
    return [
        (topic, [PartitionResult(index, error, -1, -1, -1) for index, _ in parts]) for topic, parts in request.topics
    ]


def encoded(head: HotHead, answers: Answers) -> bytearray:
    version, correlation_id, _ = head
    out = hot_response(PRODUCE, version, correlation_id)
    write_response(out, version, answers)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out


class _FlushAnswer:
    """An answer that waits until what it acknowledges is on the disk."""

    __slots__ = ("answers", "head", "place")

    def __init__(self, place: Deferred, head: HotHead, answers: Answers) -> None:
        self.place = place
        self.head = head
        self.answers = answers

    def flushed(self, error: ErrorCode) -> None:
        answers = self.answers
        if error != ErrorCode.NONE:
            answers = [
                (
                    topic,
                    [result if result.error else result._replace(error=error, base_offset=-1) for result in results],
                )
                for topic, results in answers
            ]
        self.place.complete([encoded(self.head, answers)])
