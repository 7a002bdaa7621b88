"""Produce, v3 to v13: records are appended to the logs of their partitions.

Stage one runs without an await: look up, check, append the very bytes that were received; a batch that takes long to
check is looked into by a thread first (`replicas/record_checks.py`), and comes again. Stage two answers at once when
the records are as safe as the client asked, and otherwise when the replicas that count have them (acks=all) and the
flush that serves them is done (`flush.messages`). acks=0 gets no answer; a failed append closes such a connection, as
in Kafka, so that the client notices.

KIP-98 (v3: transactions), KIP-110 (v7: zstd), KIP-467 (v8: errors of records), KIP-951 (v10: hints at the new leader),
KIP-890 (v12: a transaction's partitions are added), KIP-516 (v13: topic ids).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.leader_hints import leader_of, nodes_of
from ottla.log.files import StorageFailure
from ottla.log.partition_log import UNCHECKED
from ottla.net.connection import Connection, Deferred
from ottla.records.compression import Compression
from ottla.records.header import MAGIC, MAGIC_POSITION
from ottla.replicas.commits import Errors, await_commits, missing
from ottla.replicas.partitions import Partition
from ottla.replicas.record_checks import Verdict
from ottla.wire.apis import PRODUCE, HotHead, hot_response
from ottla.wire.primitives import ManyPartitions
from ottla.wire.produce import (
    AT_ONCE,
    PartitionResult,
    ProduceRequest,
    only_last,
    portions,
    read_in_steps,
    read_request,
    write_response,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.transactions.admission import Admission, AppendRefusal, Postponed

logger = logging.getLogger("ottla.broker")

_SIZE = Struct(">i")
_new = tuple.__new__  # half the time of a named tuple's own constructor
FIRST_ZSTD = 7
_FLAGS = 22  # the low byte of a batch's attributes
_PRECHECK = [
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

ALL = -1
Answers = list[tuple[str | bytes, list[PartitionResult]]]
Written = tuple[Partition, int, list[PartitionResult], int]
"""A partition, the end of its log after the append, and where its result stands."""
Unchecked = tuple[str | bytes, int, memoryview, Callable[[], Verdict], list[PartitionResult], int]
"""A topic, a partition's index, a copy of its batch, what checks it, and where its result stands."""
Waits = tuple[list[Written], list[Partition], list[Unchecked]]
"""What has to be replicated, what to be flushed and what to be checked before the answer."""


def handle(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> None:
    version, _, position = head
    try:
        request = _read(frame, position, version)
    except ManyPartitions:
        _handle_long(broker, connection, frame, head)
        return
    admission = None
    if request.transactional_id is not None:
        granted = _admitted(broker, request, version)
        if not isinstance(granted, tuple):
            _postpone(broker, connection, frame, head, granted)
            return
        admission = granted
    append_and_answer(broker, connection, request, frame, head, admission)


def _handle_long(broker: "Broker", connection: Connection, frame: memoryview, head: HotHead) -> None:
    """Write to very many partitions a portion at a time; nothing else is taken from the connection meanwhile."""
    version, _, position = head
    kept = connection.keep(frame)
    reply = connection.defer(alone=True)

    async def append_in_steps() -> None:
        request = await broker.dispatcher.in_steps(read_in_steps(kept, position, version), bounded=True)
        if request.transactional_id is not None:
            # What is admitted is to be written at that moment, however much it is.
            _append_admitted(broker, connection, request, kept, head, reply)
            return
        unchecked: list[Unchecked] = []
        waits: Waits = ([], [], unchecked)
        answers: Answers = []
        if request.acks not in (ALL, 0, 1):
            answers = refused(request, ErrorCode.INVALID_REQUIRED_ACKS)
        else:
            for portion in portions(request):
                await broker.dispatcher.turn()
                answers += append(broker, portion, version, kept, None, waits)
        if not connection.open:
            return
        if unchecked:
            _check_rest(broker, connection, request, kept, head, answers, waits, reply)
        else:
            _answer(broker, connection, request, head, answers, waits, reply)

    broker.dispatcher.take_time(reply, AT_ONCE, append_in_steps)


def _append_admitted(
    broker: "Broker",
    connection: Connection,
    request: ProduceRequest,
    frame: memoryview,
    head: HotHead,
    reply: Deferred,
) -> None:
    def go_on(granted: "Admission") -> None:
        append_and_answer(broker, connection, request, frame, head, granted, reply)

    version, _, _ = head
    admission = _admitted(broker, request, version)
    if isinstance(admission, tuple):
        go_on(admission)
    else:
        _when_admitted(connection, admission, go_on)


def _read(frame: memoryview, position: int, version: int) -> ProduceRequest:
    request = read_request(frame, position, version)
    topics = request.topics
    return request if len(topics) == 1 and len(topics[0][1]) == 1 else only_last(request)


def append_and_answer(
    broker: "Broker",
    connection: Connection,
    request: ProduceRequest,
    frame: memoryview,
    head: HotHead,
    admission: "Admission | None",
    reply: Deferred | None = None,
) -> None:
    """Append and answer; by `reply` where one was promised already."""
    unchecked: list[Unchecked] = []
    waits: Waits = ([], [], unchecked)
    if request.acks not in (ALL, 0, 1):
        answers = refused(request, ErrorCode.INVALID_REQUIRED_ACKS)
        _count_errors(broker, [result for _, results in answers for result in results])
    else:
        version, _, _ = head
        answers = append(broker, request, version, frame, admission, waits)
        if unchecked:
            _check_rest(broker, connection, request, frame, head, answers, waits, reply)
            return
    _answer(broker, connection, request, head, answers, waits, reply)


def _answer(
    broker: "Broker",
    connection: Connection,
    request: ProduceRequest,
    head: HotHead,
    answers: Answers,
    waits: Waits,
    reply: Deferred | None,
) -> None:
    """Answer at once, or when what was appended is as safe as the client asked."""
    uncommitted, unflushed, _ = waits
    if request.acks == 0:
        if any(result.error for _, results in answers for result in results):
            connection.drop("a failed append of a producer that wants no answers")
        elif unflushed:
            broker.flusher.when_flushed(unflushed, lambda error: None)
        if reply is not None:
            reply.complete([])
        return
    if uncommitted or unflushed:
        pending = _PendingAck(broker, connection, head, answers)
        if pending.wait(uncommitted, unflushed, request.timeout_ms / 1000, reply):
            return
    answer = encoded(broker, connection, head, answers)
    if reply is None:
        connection.answer([answer])
    else:
        reply.complete([answer])


def _postpone(
    broker: "Broker", connection: Connection, frame: memoryview, head: HotHead, admission: "Postponed"
) -> None:
    """The coordinator of the transaction is asked first. Nothing else is taken from the connection until then, as
    sequence numbers must arrive in their order; the frame's own bytes are used again meanwhile."""
    reply = connection.defer(alone=True)
    kept = memoryview(bytearray(frame))

    version, _, position = head

    def go_on(granted: "Admission") -> None:
        append_and_answer(broker, connection, _read(kept, position, version), kept, head, granted, reply)

    _when_admitted(connection, admission, go_on)


def _when_admitted(connection: Connection, admission: "Postponed", go_on: Callable[["Admission"], None]) -> None:
    def admitted(granted: "Admission") -> None:
        if not connection.open:
            return
        try:
            go_on(granted)
        except Exception:
            logger.exception("a transactional request of %s failed", connection.peer)
            connection.drop("an internal error")

    admission.then(admitted)


def append(
    broker: "Broker",
    request: ProduceRequest,
    version: int,
    frame: memoryview,
    admission: "Admission | None",
    waits: Waits,
    verdicts: Mapping[int, Verdict] | None = None,
) -> Answers:
    """Append everything; what must be replicated, flushed or checked before the answer is added to `waits`.

    Of what was checked before, `verdicts` says what was found, by the identity of the records' buffer.
    """
    answers: Answers = []
    uncommitted, unflushed, unchecked = waits
    acks_all = request.acks == ALL
    now_ms = broker.clock.now_ms()
    find = broker.partitions.find
    grown: list[Partition] = []
    asked = 0
    for topic, parts in request.topics:
        asked += len(parts)
        results: list[PartitionResult] = []
        for index, records in parts:
            partition = find(topic, index)
            log = None if isinstance(partition, ErrorCode) else partition.log
            if (
                log is None
                or records is None
                or isinstance(partition, ErrorCode)
                or partition.internal
                or len(records) <= _FLAGS
                or _PRECHECK[records[_FLAGS]]
                or (acks_all and not partition.enough_in_sync)
            ):
                problem = _problem(broker, (topic, index), partition, records, version, frame, admission, acks_all)
                if problem is not None:
                    results.append(problem)
                    continue
                assert isinstance(partition, Partition)
                assert log is not None
                assert records is not None
            before = log.end_offset
            checked = None if verdicts is None else verdicts[id(records)]
            try:
                outcome = log.append_as_leader(records, partition.leader_epoch, now_ms, checked=checked)
            except StorageFailure as failure:
                broker.storage_failed(failure)
                results.append(PartitionResult(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(failure)))
                continue
            if outcome is UNCHECKED:
                copied = memoryview(bytearray(records))
                unchecked.append((topic, index, copied, log.checker(copied, now_ms), results, len(results)))
                results.append(PartitionResult(index, ErrorCode.NONE, -1, -1, -1))
                continue
            results.append(_new(PartitionResult, (index, *outcome, None)))
            if not outcome.error:
                partition.grow()
                if acks_all and partition.leading is not None:
                    uncommitted.append((partition, log.end_offset, results, len(results) - 1))
                if log.unflushed_messages >= log.settings.flush_messages:
                    unflushed.append(partition)
                grown.append(partition)
                traffic = partition.traffic
                traffic.produces += 1
                traffic.bytes_in += len(records)
                traffic.messages_in += log.end_offset - before
        answers.append((topic, results))
    _wake_readers(grown)
    if len(grown) < asked:
        _count_failed(broker, answers)
    return answers


def _check_rest(
    broker: "Broker",
    connection: Connection,
    request: ProduceRequest,
    frame: memoryview,
    head: HotHead,
    answers: Answers,
    waits: Waits,
    reply: Deferred | None,
) -> None:
    """What takes long to check is looked into by a thread, and then goes through stage one again, for meanwhile the
    partition may be led elsewhere. Nothing else is taken from the connection until then, as sequence numbers must
    arrive in their order."""
    uncommitted, unflushed, unchecked = waits
    version, _, _ = head
    reply = connection.defer(alone=True) if reply is None else reply
    begin = memoryview(bytes(frame[:_AFTER_ADMIN]))
    rest = request._replace(topics=[(topic, [(index, records)]) for topic, index, records, _, _, _ in unchecked])

    def write(verdicts: Mapping[int, Verdict], granted: "Admission | None") -> None:
        written: list[Written] = []
        again = append(broker, rest, version, begin, granted, (written, unflushed, []), verdicts)
        places = {}
        for (_, [result]), (_, _, _, _, results, slot) in zip(again, unchecked, strict=True):
            results[slot] = result
            places[id(result)] = (results, slot)
        for partition, end, [result], _ in written:
            uncommitted.append((partition, end, *places[id(result)]))
        _answer(broker, connection, request, head, answers, waits, reply)

    def checked(found: Sequence[Verdict]) -> None:
        if not connection.open:
            return
        try:
            verdicts = {id(records): verdict for (_, _, records, *_), verdict in zip(unchecked, found, strict=True)}
            # What was admitted was so at that moment: the transaction may have ended since.
            admission = None if request.transactional_id is None else _admitted(broker, rest, version)
            if admission is None or isinstance(admission, tuple):
                write(verdicts, admission)
            else:
                _when_admitted(connection, admission, lambda granted: write(verdicts, granted))
        except Exception:
            logger.exception("a request of %s failed", connection.peer)
            connection.drop("an internal error")

    broker.record_checks.run([check for _, _, _, check, _, _ in unchecked], checked)


def _count_failed(broker: "Broker", answers: Answers) -> None:
    for topic, results in answers:
        failed = [result for result in results if result.error]
        traffic = broker.partitions.traffic.of(topic)
        traffic.produces += len(failed)
        traffic.failed_produces += len(failed)
        _count_errors(broker, failed)


def _count_errors(broker: "Broker", failed: list[PartitionResult]) -> None:
    broker.dispatcher.meter.refused("Produce", [result.error for result in failed])


def _problem(
    broker: "Broker",
    name: tuple[str | bytes, int],
    partition: Partition | ErrorCode,
    records: memoryview | None,
    version: int,
    frame: memoryview,
    admission: "Admission | None",
    acks_all: bool,
) -> PartitionResult | None:
    """Why records are not even shown to the log, if they are not."""
    topic, index = name
    if isinstance(partition, ErrorCode):
        return _absent(broker, topic, index, partition)
    if partition.internal and frame[_CLIENT_ID:_AFTER_ADMIN] != _ADMIN:
        return PartitionResult(index, ErrorCode.INVALID_TOPIC_EXCEPTION, -1, -1, -1)
    if records is None or not len(records):
        return _empty(index)
    odd = _PRECHECK[records[_FLAGS]] if len(records) > _FLAGS else ErrorCode.NONE
    if odd and records[MAGIC_POSITION] == MAGIC:
        refusal = _refusal(odd, admission, partition, version)
        if refusal is not None:
            return PartitionResult(index, refusal[0], -1, -1, -1, refusal[1])
    if partition.log is None:
        return _offline(index)
    if acks_all and not partition.enough_in_sync:
        return PartitionResult(index, ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1, -1)
    return None


def _wake_readers(grown: list[Partition]) -> None:
    """After all appends, so that a reader that waits for several of these partitions gets all in one answer."""
    for partition in grown:
        partition.wake()


def _admitted(broker: "Broker", request: ProduceRequest, version: int) -> "Admission | Postponed":
    from ottla.coordinator.transactions.admission import admit

    return admit(broker.transactions, request, version)


def _refusal(
    odd: ErrorCode, admission: "Admission | None", partition: Partition, version: int
) -> "AppendRefusal | tuple[ErrorCode, None] | None":
    """Whether a batch that is compressed by zstd, or part of a transaction, is refused for that."""
    if odd == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        return (odd, None) if version < FIRST_ZSTD else None
    if admission is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
    return admission.refused.get(partition.name)


def _absent(broker: "Broker", topic: str | bytes, index: int, error: ErrorCode) -> PartitionResult:
    leader = leader_of(broker, topic, index) if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
    return PartitionResult(index, error, -1, -1, -1, leader=leader)


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


def encoded(broker: "Broker", connection: Connection, head: HotHead, answers: Answers) -> bytearray:
    version, correlation_id, _ = head
    out = hot_response(PRODUCE, version, correlation_id)
    leaders = [result.leader for _, results in answers for result in results if result.leader is not None]
    nodes = nodes_of(broker, leaders, connection.listener) if leaders else ()
    write_response(out, version, answers, nodes)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out


class _PendingAck:
    """An answer that waits until what it acknowledges is replicated and on the disk."""

    __slots__ = ("_answers", "_broker", "_connection", "_head", "_missing", "_reply", "_written")

    def __init__(self, broker: "Broker", connection: Connection, head: HotHead, answers: Answers) -> None:
        self._broker = broker
        self._connection = connection
        self._head = head
        self._answers = answers
        self._written: list[Written] = []
        self._missing = 0
        self._reply: Deferred | None = None

    def wait(
        self, uncommitted: list[Written], unflushed: list[Partition], seconds: float, reply: Deferred | None
    ) -> bool:
        """Whether there is anything to wait for."""
        waiting = missing([(partition, end) for partition, end, _, _ in uncommitted]) if uncommitted else []
        if not waiting and not unflushed:
            return False
        self._reply = self._connection.defer() if reply is None else reply
        self._written = uncommitted
        self._missing = bool(waiting) + bool(unflushed)
        if waiting:
            commit = await_commits(self._broker.loop, waiting, self._committed, seconds)
            self._reply.abandoned = commit.forget
        if unflushed:
            self._broker.flusher.when_flushed(unflushed, self._flushed)
        return True

    def _committed(self, errors: Errors) -> None:
        if errors:
            for partition, _, results, slot in self._written:
                error = errors.get(partition)
                if error is not None:
                    results[slot] = results[slot]._replace(error=error, base_offset=-1, log_append_time=-1)
                    _count_errors(self._broker, [results[slot]])
        self._one_done()

    def _flushed(self, error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            for _, results in self._answers:
                for slot, result in enumerate(results):
                    if not result.error:
                        results[slot] = result._replace(error=error, base_offset=-1)
                        _count_errors(self._broker, [results[slot]])
        self._one_done()

    def _one_done(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            assert self._reply is not None
            self._reply.complete([encoded(self._broker, self._connection, self._head, self._answers)])
