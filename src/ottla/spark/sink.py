"""`df.write` and `df.writeStream` to topics.

Owns: which rows go where, the steps of a batch on driver and executors, and with exactly-once the protocol of
design/0016. Never knows: requests, the journal's form.

Invariants of exactly-once: no transaction is committed before the decision that names it is durable; no task of a
driver begins before what was decided earlier has been ended; a row is committed by at most one transaction; what was
decided is never aborted; rows are dropped as written only when they are those that were.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import ClientError
from ottla.client.settings import PRODUCER
from ottla.spark import evidence, transactions
from ottla.spark.errors import BadRows, CheckpointMismatch, in_one_sentence
from ottla.spark.evidence import Landed
from ottla.spark.fingerprints import UNKNOWN, Fingerprint, Tally, combined, planned_ranges
from ottla.spark.formats.encoding import Encoder, encode_values, encoder_of
from ottla.spark.journal import Fence, Journal, Part, SinkDecision
from ottla.spark.session import Session, session_for
from ottla.spark.sink_options import SinkOptions
from ottla.spark.transactions import Ending, TransactionIdentity
from ottla.spark.writing import RowWriter

_SWEEP_SECONDS = 10.0
GENERATIONS = 8
"""Transactional ids are used again after so many: few enough not to pile up, and a straggler of the driver before
cannot touch what this one writes."""


class TransactionLost(Exception):
    """A transaction that was to be committed was ended by somebody else or by its time-out."""


class Before(NamedTuple):
    """What a task must know of an earlier decision about its batch, of which something is in the topic."""

    tasks: int
    """How many the batch had."""
    lost: bool
    """Some of its transactions came to nothing."""
    own: Fingerprint
    """Of the rows that the task of this number had then."""
    whole: Fingerprint
    """Of all rows of the batch."""


class Written(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, task: "Task", recovered: "Recovered") -> None:
        self.rows = 0
        self.task = task
        self.fence = recovered.fence
        decision = recovered.decision
        self.doubtful = decision is None or decision.query != task.query or recovered.elsewhere
        """Batches of the query may have been written under other names."""
        self.swept = recovered.swept
        self.ranges = recovered.ranges.get(task.batch, "")
        self.identity: TransactionIdentity | None = None
        self.landed: Landed | None = None
        """Where some of its rows lie."""
        self.fingerprint = Fingerprint()
        """Of its rows, written or dropped."""
        self.dropped = False
        """Its rows are in the topic already."""
        self.before: Before | None = None

    @property
    def part(self) -> Part:
        """What it gave to the batch."""
        return Part(self.identity, self.fingerprint, self.landed)


class Counted(WriterCommitMessage):
    """What a task tells the driver that has nothing to decide."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class Task(NamedTuple):
    """Which part of which batch of which query."""

    query: str
    batch: int
    number: int
    attempt: int


class Recovered(NamedTuple):
    """What a batch's tasks must know of before."""

    fence: Fence
    decision: SinkDecision | None
    lost: frozenset[int]
    """Tasks of that decision whose transactions came to nothing."""
    swept: bool
    """Nothing is open that drivers before began."""
    ranges: dict[int, str]
    """What the newest batch reads, by its number, where the checkpoint can be read."""
    elsewhere: bool
    """The query has gone on under another name since that decision."""

    @property
    def undone(self) -> bool:
        """Nothing of what was decided is in the topic."""
        return self.decision is not None and bool(self.lost) and self.lost == frozenset(self.decision.parts)

    def before(self, task: Task) -> Before | None:
        """What is in the topic of the batch that a task belongs to."""
        decision = self.decision
        if decision is None or self.undone or (task.query, task.batch) != (decision.query, decision.batch):
            return None
        part = decision.parts.get(task.number)
        own = Fingerprint() if part is None else part.fingerprint
        judged = decision.ranges and task.batch in self.ranges  # by what the batch reads, which says more than rows
        whole = UNKNOWN if judged else decision.fingerprint
        return Before(decision.tasks_of_batch, bool(self.lost), own, whole)


class BatchWriter(DataSourceArrowWriter):
    """At least once: a task that runs again writes again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        return Counted(write_rows(_session(self._options), self._options, iterator, None).rows)


class PlainStreamWriter(DataSourceStreamArrowWriter):
    """At least once, for streams."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        return Counted(write_rows(_session(self._options), self._options, iterator, None).rows)


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
        recovered = self._recovered
        assert recovered is not None, "executors get a pickled writer"
        self._refuse_other_plan(task, recovered)
        message = Written(task, recovered)
        message.before = recovered.before(task)
        tally = Tally(looks=self._options.compare_rows and not message.ranges)
        if message.before is not None and task.number not in recovered.lost:
            _hand_over([tally], self._options, iterator)
            message.fingerprint, message.dropped = tally.fingerprint, True
            return message
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            message.fingerprint = tally.fingerprint
            return message  # an empty transaction cannot be ended
        session = _session(self._options)
        identity = session.run(self._begin(session, task, recovered.fence))
        try:
            writer = write_rows(session, self._options, _chain(first, iterator), identity, tally)
        except BaseException:
            with suppress(ClientError):  # the next one under this id does it otherwise
                session.run(transactions.end(session.cluster, identity, False, session.deadline()))
            raise
        message.rows, message.landed = writer.rows, writer.landed
        message.identity, message.fingerprint = identity, tally.fingerprint
        return message

    def _refuse_other_plan(self, task: Task, recovered: Recovered) -> None:
        """A batch that ran before reads what it read then, or its rows are others."""
        decision = recovered.decision
        if decision is None or task.query != decision.query or task.batch > decision.batch:
            return
        ranges = recovered.ranges.get(task.batch, "")
        if task.batch < decision.batch:
            said = f"batch {task.batch} is to be written, and batch {decision.batch} is in the topic"
        elif decision.ranges and ranges and decision.ranges != ranges and not recovered.undone:
            said = f"batch {task.batch} is in the topic, and now reads other offsets"
        else:
            return
        raise _older_checkpoint(said)

    async def _begin(self, session: Session, task: Task, fence: Fence) -> TransactionIdentity:
        timeout = session.settings.integer("transaction.timeout.ms")
        own = _transactional_id(self._options, fence.generation, task)
        return await transactions.init(session.cluster, own, session.deadline(), timeout_ms=timeout, held=True)

    # --- on the driver ------------------------------------------------------------------------------------------------

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 — Spark's name
        written = [message for message in messages if isinstance(message, Written)]
        assert len(written) == len(messages), "a batch is committed when all its tasks have told"
        if not written:
            return
        if self._options.compare_rows:
            _refuse_other_rows(written, batchId)
        _refuse_other_shape(written, batchId)
        if any(message.identity for message in written):
            session = _session(self._options)
            session.run(_decide(session, self._options, written, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [each for each in messages if isinstance(each, Written) and each.identity]
        if written:
            session = _session(self._options)
            with suppress(ClientError):  # whatever stays open is found by the next driver
                session.run(_abort(session, self._options, written))


async def _recover(session: Session, options: SinkOptions) -> Recovered:
    """Keep older drivers from deciding, finish what was decided, and abort what nobody will decide."""
    journal = Journal(session, options.decision_topic, options.sink_id)
    fence = await journal.fence()
    decision, others = await journal.last(fence)
    lost: frozenset[int] = frozenset()
    if decision is not None and not decision.ended:
        endings = await _commit(session, decision.open.values())
        told = zip(decision.open, endings, strict=True)
        lost = frozenset(task for task, ending in told if ending is Ending.LOST)
    swept = decision is not None and decision.swept and decision.fence == (fence.producer_id, fence.generation - 1)
    if not swept:
        await journal.refuse_retention()
        swept = await _sweep(session, options)
    ranges = planned_ranges(options.checkpoint) if options.checkpoint else {}
    elsewhere = any(_same_topic(other, options) for other in others)
    return Recovered(fence, decision, lost, swept, ranges, elsewhere)


async def _decide(session: Session, options: SinkOptions, written: list[Written], batch: int) -> None:
    journal = Journal(session, options.decision_topic, options.sink_id)
    fence, query = written[0].fence, written[0].task.query
    if written[0].doubtful:
        for other in await journal.of_query(query, fence):
            if not options.named:
                _refuse_other_name(other, options, written[0].task)
            if not other.ended:  # nobody else finishes it: the query is called otherwise from now on
                await _commit(session, other.open.values())
    decision = SinkDecision(
        query,
        batch,
        (fence.producer_id, fence.generation),
        {each.task.number: each.part for each in written if each.identity or each.dropped},
        len(written),
        combined(each.fingerprint for each in written),
        written[0].ranges,
        options.topic,
        options.place,
    )
    await journal.decide(fence, decision)
    decided = frozenset(each.identity.transactional_id for each in written if each.identity is not None)
    # beside these, attempts may have left something open whose executors died, or that ran beside the chosen ones, or
    # tasks of the run before that were told to stop and began once more
    endings, swept = await asyncio.gather(
        _commit(session, decision.open.values()),
        _sweep(session, options, decided),
    )
    if Ending.LOST in endings:
        raise TransactionLost(
            f"batch {batch}: {endings.count(Ending.LOST)} of its {len(endings)} transactions had ended already: "
            "they took longer than transaction.timeout.ms, or another driver runs the query; the batch must run again"
        )
    with suppress(ClientError):  # the next driver asks the coordinators otherwise
        await journal.conclude(fence, decision, swept=swept and written[0].swept)


async def _abort(session: Session, options: SinkOptions, written: list[Written]) -> None:
    """Spark gives a batch up, also when its commit failed half-way: what is decided by then stays."""
    journal = Journal(session, options.decision_topic, options.sink_id)
    if await journal.withdraw(written[0].fence):
        identities = [each.identity for each in written if each.identity is not None]
        ends = [transactions.end(session.cluster, each, False, session.deadline()) for each in identities]
        await asyncio.gather(*ends)


async def _commit(session: Session, parts: Iterable[Part]) -> list[Ending]:
    """End what was decided."""
    return list(await asyncio.gather(*(_commit_part(session, part) for part in parts)))


async def _commit_part(session: Session, part: Part) -> Ending:
    """Whoever took the id over did so before the end or after it: the coordinator forgets which, and the log knows."""
    assert part.identity is not None, "what was committed before is not ended again"
    cluster = session.cluster
    ending = await transactions.end(cluster, part.identity, True, session.deadline())
    if ending is Ending.DONE or part.landed is None:
        return ending
    committed = await evidence.is_committed(cluster, part.identity, part.landed, session.deadline())
    return Ending.DONE if committed else Ending.LOST


async def _sweep(session: Session, options: SinkOptions, decided: frozenset[str] = frozenset()) -> bool:
    """Abort what is open under the sink's ids and was not decided; readers would wait for it until its time-out.

    False when not everything could be looked for: that must not hold the batch, and is done with the next.
    """
    cluster = session.cluster
    deadline = min(session.deadline(), cluster.deadline(_SWEEP_SECONDS))
    try:
        found = await transactions.find_open(cluster, f"ottla-spark-{options.sink_id}-", deadline)
        aborts = [transactions.init(cluster, each, deadline) for each in found if each not in decided]
        await asyncio.gather(*aborts)
    except ClientError:
        return False
    return True


def _refuse_other_name(other: SinkDecision, options: SinkOptions, task: Task) -> None:
    """A checkpoint that was moved, or is called otherwise than before, would have its last batch written twice."""
    if _same_topic(other, options) and other.batch >= task.batch:
        raise CheckpointMismatch(
            f"batch {task.batch} is to be written, and batch {other.batch} of this query is in the topic: it was "
            f"written when the checkpoint was called {other.place or 'otherwise'}, not {options.place}. Set the "
            f"option sinkId to {other.place or 'that name'} to go on from there, or to a new name to write the "
            "rows once more."
        )


def _same_topic(other: SinkDecision, options: SinkOptions) -> bool:
    return other.topic == options.topic or not other.topic or not options.topic


def _refuse_other_rows(written: list[Written], batch: int) -> None:
    """Rows are dropped because they are in the topic: that they are the same is judged when all have been seen."""
    before = written[0].before
    if before is None or before.lost:
        return
    found = combined(message.fingerprint for message in written)
    if not before.whole.matches(found):
        said = f"batch {batch} is in the topic with {before.whole.rows} rows, and now has {found.rows}"
        if before.whole.rows == found.rows:
            said = f"batch {batch} is in the topic, and now has other rows"
        raise _older_checkpoint(said, " If rows differ each time a batch runs (random numbers), set compareRows=false.")


def _older_checkpoint(said: str, more: str = "") -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{said}: the checkpoint is not the one that the query last wrote with, perhaps an older one from a backup. "
        "Nothing was written. Bring the newer checkpoint back, or set the option sinkId to a new name to write the "
        f"rows of this checkpoint once more.{more}"
    )


def _refuse_other_shape(written: list[Written], batch: int) -> None:
    """A batch of which some tasks are in the topic must run again with as many tasks, and the same rows in each."""
    for message in written:
        before = message.before
        if before is None or not before.lost:
            continue
        if before.tasks != len(written):
            raise TransactionLost(
                f"batch {batch} had {before.tasks} tasks, of which some were committed, and now has {len(written)}: "
                "what is missing cannot be told; run it with as many tasks as before"
            )
        if not before.own.matches(message.fingerprint):
            raise TransactionLost(
                f"batch {batch} was committed in part, and now its task {message.task.number} has other rows than "
                "then: what is missing cannot be told"
            )


def _transactional_id(options: SinkOptions, generation: int, task: Task) -> str:
    return f"ottla-spark-{options.sink_id}-{generation % GENERATIONS}-{task.number}-{task.attempt}"


def _this_task() -> Task:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    assert query, "Spark says which query a task belongs to"
    assert batch, "and which batch"
    return Task(query, int(batch), context.partitionId(), context.attemptNumber())


def _session(options: SinkOptions) -> Session:
    return session_for(PRODUCER, options.settings)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class Taker(Protocol):
    """Whoever rows are handed to."""

    def write(self, topic: str, rows: pa.RecordBatch) -> None: ...


def write_rows(
    session: Session,
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    identity: TransactionIdentity | None,
    tally: Tally | None = None,
) -> RowWriter:
    """Send all rows and wait until they are acknowledged; who did it knows how many there were."""
    writer = RowWriter(session, identity)
    try:
        _hand_over([writer] if tally is None else [writer, tally], options, batches)
        writer.finish()
    except BaseException:
        writer.give_up()
        raise
    return writer


def _hand_over(takers: Sequence[Taker], options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> None:
    encoder: Encoder | None = None
    for batch in batches:
        columns = {name: batch.column(options.name_of(name)) for name in options.columns if name != "topic"}
        if options.form is not None:
            typed = batch.select(list(options.typed))
            encoder = encoder or encoder_of(options.form, pa.struct(list(typed.schema)))
            columns["value"] = encode_values(options.form, encoder, typed)
        rows = pa.RecordBatch.from_pydict(columns)
        for topic, part in _by_topic(options, batch, rows):
            for taker in takers:
                taker.write(topic, part)


def _by_topic(
    options: SinkOptions, batch: pa.RecordBatch, rows: pa.RecordBatch
) -> Iterator[tuple[str, pa.RecordBatch]]:
    if options.topic:
        yield options.topic, rows
        return
    topics = batch.column(options.name_of("topic"))
    if topics.null_count:
        raise BadRows("a row names no topic: its column topic is null, and the option topic is not set")
    for topic in topics.unique().to_pylist():
        yield topic, rows.filter(pc.equal(topics, topic))
