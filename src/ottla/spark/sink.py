"""`df.write` and `df.writeStream` to topics.

Owns: which rows go where, the steps of a batch on driver and executors, and with exactly-once the protocol of
docs/design/0016-a-batch-is-decided-before-it-ends.md. Never knows: requests, the journal's form.

Invariants of exactly-once: no transaction is committed before the decision that names it is durable; no task of a
driver begins before what was decided earlier has been ended; a row is committed by at most one transaction.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import ClientError
from ottla.client.settings import PRODUCER
from ottla.spark import transactions
from ottla.spark.errors import BadRows, in_one_sentence
from ottla.spark.formats.encoding import Encoder, encode_values, encoder_of
from ottla.spark.journal import Decision, Fence, Journal
from ottla.spark.session import Session, session_for
from ottla.spark.sink_options import SinkOptions
from ottla.spark.transactions import Ending, Identity
from ottla.spark.writing import RowWriter

GENERATIONS = 8
"""Transactional ids are used again after so many: few enough not to pile up, and a straggler of the driver before
cannot touch what this one writes."""


class TransactionLost(Exception):
    """A transaction that was to be committed was ended by somebody else or by its time-out."""


class Written(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, rows: int, task: "Task | None" = None, fence: Fence | None = None) -> None:
        self.rows = rows
        self.task = task
        self.fence = fence
        self.identity: Identity | None = None
        self.tasks_before = 0
        """How many tasks the batch had when some of them were committed; 0 when none were."""


class Task(NamedTuple):
    """Which part of which batch of which query."""

    query: str
    batch: int
    number: int
    attempt: int


class Recovered(NamedTuple):
    """What a batch's tasks must know of before."""

    fence: Fence
    decision: Decision | None
    lost: frozenset[int]
    """Tasks of that decision whose transactions came to nothing."""
    clean: bool
    """Nothing can be open that the driver before began."""


class BatchWriter(DataSourceArrowWriter):
    """At least once: a task that runs again writes again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(write_rows(_session(self._options), self._options, iterator, None))


class PlainStreamWriter(DataSourceStreamArrowWriter):
    """At least once, for streams."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(write_rows(_session(self._options), self._options, iterator, None))


class ExactStreamWriter(DataSourceStreamArrowWriter):
    """Exactly once.

    Spark makes one on the driver before the tasks, pickles it for them, and makes another to commit: pickling is when a
    batch begins, and what is learned then comes back in the tasks' messages.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._recovered: Recovered | None = None

    @in_one_sentence
    def __getstate__(self) -> dict[str, Any]:
        if self._recovered is None:
            session = _session(self._options)
            self._recovered = session.run(_recover(session, self._options))
        return {"_options": self._options, "_recovered": self._recovered}

    # --- in tasks -----------------------------------------------------------------------------------------------------

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.write_task(_this_task(), iterator)

    def write_task(self, task: Task, iterator: Iterator[pa.RecordBatch]) -> Written:
        """The rows of a task, in a transaction that is left open."""
        assert self._recovered is not None, "executors get a pickled writer"
        fence, decision, lost, clean = self._recovered
        message = Written(0, task, fence)
        if decision is not None and lost and (task.query, task.batch) == (decision.query, decision.batch):
            message.tasks_before = decision.tasks_of_batch
        if decision is not None and _is_written(task, decision, lost):
            for _ in iterator:
                """Spark counts the rows; they are in the topic already."""
            return message
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return message  # an empty transaction cannot be ended
        session = _session(self._options)
        identity = session.run(self._begin(session, task, fence, clean))
        try:
            message.rows = write_rows(session, self._options, _chain(first, iterator), identity)
        except BaseException:
            with suppress(ClientError):  # the next one under this id does it otherwise
                session.run(transactions.end(session.cluster, identity, False, session.deadline()))
            raise
        message.identity = identity
        return message

    async def _begin(self, session: Session, task: Task, fence: Fence, clean: bool) -> Identity:
        timeout = session.settings.integer("transaction.timeout.ms")
        if not clean:
            before = _transactional_id(self._options, fence.generation - 1, task)
            await transactions.init(session.cluster, before, timeout, session.deadline())
        own = _transactional_id(self._options, fence.generation, task)
        return await transactions.init(session.cluster, own, timeout, session.deadline())

    # --- on the driver ------------------------------------------------------------------------------------------------

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 — Spark's name
        written = [message for message in messages if isinstance(message, Written)]
        assert len(written) == len(messages), "a batch is committed when all its tasks have told"
        if any(message.identity for message in written):
            session = _session(self._options)
            session.run(_decide(session, self._options, written, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        identities = [each.identity for each in messages if isinstance(each, Written) and each.identity]
        if identities:
            session = _session(self._options)
            with suppress(ClientError):  # whatever stays open is aborted by its successor or its time-out
                session.run(_end(session, identities, committed=False))


async def _recover(session: Session, options: SinkOptions) -> Recovered:
    """Keep older drivers from deciding, and finish what was decided."""
    journal = Journal(session, options.decision_topic, options.sink_id)
    fence = await journal.fence()
    decision = await journal.last()
    if decision is None:
        return Recovered(fence, None, frozenset(), False)
    endings = await _end(session, list(decision.tasks.values()), committed=True)
    lost = frozenset(task for task, ending in zip(decision.tasks, endings, strict=True) if ending is Ending.LOST)
    return Recovered(fence, decision, lost, decision.generation == fence.generation - 1)


async def _decide(session: Session, options: SinkOptions, written: list[Written], batch: int) -> None:
    journal = Journal(session, options.decision_topic, options.sink_id)
    tasks: dict[int, Identity] = {}
    skipped: set[int] = set()
    task, fence = written[0].task, written[0].fence
    assert task is not None, "tasks of this writer tell which they are"
    assert fence is not None, "and whom they work for"
    _refuse_other_shape(written, batch)
    for message in written:
        assert message.task is not None
        if message.identity is not None:
            tasks[message.task.number] = message.identity
        else:
            skipped.add(message.task.number)  # without rows, or committed before
    decision = Decision(task.query, batch, fence.generation, tasks, frozenset(skipped), len(written))
    await journal.decide(fence, decision)
    endings, _ = await asyncio.gather(
        _end(session, list(tasks.values()), committed=True), _abort_attempts(session, options, written)
    )
    if Ending.LOST in endings:
        raise TransactionLost(
            f"batch {batch}: {endings.count(Ending.LOST)} of its {len(endings)} transactions had ended already: "
            "they took longer than transaction.timeout.ms, or another driver runs the query; the batch must run again"
        )


async def _end(session: Session, identities: Iterable[Identity], *, committed: bool) -> list[Ending]:
    ends = [transactions.end(session.cluster, each, committed, session.deadline()) for each in identities]
    return list(await asyncio.gather(*ends))


async def _abort_attempts(session: Session, options: SinkOptions, written: list[Written]) -> None:
    """What attempts left open whose executor died before they could tell; readers would wait for it until its time-out.

    Only a successor says that there was such an attempt, so one that ran beside the chosen one is left to its time-out.
    """
    told = [(message.task, message.fence.generation) for message in written if message.task and message.fence]
    failed = [
        _transactional_id(options, generation, task._replace(attempt=attempt))
        for task, generation in told
        for attempt in range(task.attempt)
    ]
    timeout = session.settings.integer("transaction.timeout.ms")
    aborts = [transactions.init(session.cluster, each, timeout, session.deadline()) for each in failed]
    with suppress(ClientError):  # the time-out does it otherwise
        await asyncio.gather(*aborts)


def _is_written(task: Task, decision: Decision, lost: frozenset[int]) -> bool:
    """Whether a task runs again whose rows are in the topic."""
    if task.query != decision.query or task.batch > decision.batch:
        return False
    if task.batch < decision.batch or not lost:
        return True
    return task.number not in lost


def _refuse_other_shape(written: list[Written], batch: int) -> None:
    """A batch of which some tasks are in the topic must run again with as many tasks."""
    before = {message.tasks_before for message in written} - {0}
    if before and before != {len(written)}:
        raise TransactionLost(
            f"batch {batch} had {before.pop()} tasks, of which some were committed, and now has {len(written)}: "
            "what is missing cannot be told; run it with as many tasks as before"
        )


def _transactional_id(options: SinkOptions, generation: int, task: Task) -> str:
    return f"ottla-spark-{options.sink_id}-{generation % GENERATIONS}-{task.number}-{task.attempt}"


def _this_task() -> Task:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
    return Task(query, batch, context.partitionId(), context.attemptNumber())


def _session(options: SinkOptions) -> Session:
    return session_for(PRODUCER, options.settings)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def write_rows(
    session: Session, options: SinkOptions, batches: Iterator[pa.RecordBatch], identity: Identity | None
) -> int:
    """Send all rows and wait until they are acknowledged; how many there were."""
    writer = RowWriter(session, identity)
    try:
        _hand_over(writer, options, batches)
        writer.finish()
    except BaseException:
        writer.give_up()
        raise
    return writer.rows


def _hand_over(writer: RowWriter, options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> None:
    encoder: Encoder | None = None
    for batch in batches:
        columns = {name: batch.column(options.name_of(name)) for name in options.columns if name != "topic"}
        if options.form is not None:
            typed = batch.select(list(options.typed))
            encoder = encoder or encoder_of(options.form, pa.struct(list(typed.schema)))
            columns["value"] = encode_values(options.form, encoder, typed)
        rows = pa.RecordBatch.from_pydict(columns)
        if options.topic:
            writer.write(options.topic, rows)
            continue
        topics = batch.column(options.name_of("topic"))
        if topics.null_count:
            raise BadRows("a row names no topic: its column topic is null, and the option topic is not set")
        for topic in topics.unique().to_pylist():
            writer.write(topic, rows.filter(pc.equal(topics, topic)))
