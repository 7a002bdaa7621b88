"""A range of offsets as Arrow batches, in a task.

Owns: fetching ahead of decoding, what gaps and lost records mean. Never knows: Spark, how ranges came about.
Invariants: each record of the range comes once, in order; the next fetch leaves before the last one is decoded, so
memory holds two answers and what is being gathered; a range that cannot be finished ends in an error, never in silence.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future

import pyarrow as pa

from ottla.base.errors import ErrorCode
from ottla.client.errors import BrokerError, ProtocolViolation
from ottla.client.offsets import EARLIEST, LATEST, find_offsets, raise_errors
from ottla.client.settings import CONSUMER
from ottla.records.header import CorruptBatch
from ottla.spark.columns import Gatherer
from ottla.spark.errors import DataLoss
from ottla.spark.fetching import FetchedRows, Fetcher, OutOfRange, Remade
from ottla.spark.options import SourceOptions
from ottla.spark.plan import Range
from ottla.spark.session import Session, session_for

_log = logging.getLogger(__name__)
_NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def read_range(
    options: SourceOptions, wanted: Range, gathering: Gatherer, topic_id: str = ""
) -> Iterator[pa.RecordBatch]:
    """The records of the range, as `gathering` takes them; with an id, of that topic and no other of its name."""
    session = session_for(CONSUMER, options.settings)
    size = session.settings.integer("max.partition.fetch.bytes")
    fetcher = Fetcher(session, wanted.partition, options.committed_only, size, topic_id)
    position = wanted.start
    waited = 0.0  # for records that do not come; how long Spark takes for those that came does not count
    pending: Future[FetchedRows] = session.begin(fetcher.fetch(position))
    try:
        while True:
            since = session.time()
            try:
                fetched = pending.result()
            except Remade:
                _judge(options, _gone(wanted, position, "the topic was made again"))
                break
            except BrokerError as problem:
                if problem.code not in _NO_TOPIC:
                    raise
                _judge(options, _gone(wanted, position, "there is no such partition any more"))
                break
            except OutOfRange:
                position = _after_loss(session, options, wanted, position)
                if position >= wanted.end:
                    break
                pending = session.begin(fetcher.fetch(position))
                continue
            waited = 0.0 if fetched.next_offset > position else waited + session.time() - since
            if waited > options.patience_seconds:
                _judge(options, _never_came(wanted, position, fetched))
                break
            following = max(fetched.next_offset, position)
            if following < wanted.end:
                pending = session.begin(fetcher.fetch(following))
            full = True
            while full:
                position, full = _gather(gathering, fetched, position, wanted)
                if full or gathering.enough:
                    yield gathering.take()
            if position >= wanted.end:
                break
            if position != following:  # damaged bytes behind good ones: they come first next time, and say so
                pending.cancel()
                pending = session.begin(fetcher.fetch(position))
    finally:
        pending.cancel()
    if gathering.reader.rows:
        yield gathering.take()


def _gather(gathering: Gatherer, fetched: FetchedRows, position: int, wanted: Range) -> tuple[int, bool]:
    """How far the answer was decoded, and whether the columns could not hold all of it."""
    topic, partition = wanted.partition
    try:
        _, position, _, full = gathering.reader.add(
            fetched.data,
            position,
            topic=topic,
            partition=partition,
            aborted=fetched.aborted,
            end_offset=wanted.end,
        )
    except CorruptBatch as problem:
        reason = f"what was fetched is damaged: {problem}"
        raise ProtocolViolation(f"partition {wanted.partition}", reason) from None
    return position, full


def _after_loss(session: Session, options: SourceOptions, wanted: Range, position: int) -> int:
    """Where to go on when the log no longer has the position."""
    bounds = []
    for moment in (EARLIEST, LATEST):
        found = session.run(find_offsets(session.cluster, {wanted.partition: moment}, session.deadline()))
        raise_errors(found)
        bounds.append(found[wanted.partition].offset)
    first, last = bounds
    _judge(
        options,
        f"offsets {position} to {min(first, wanted.end) - 1 if first > position else wanted.end - 1} of "
        f"{wanted.partition} are gone: the log begins at {first} and ends at {last}",
    )
    return first if first > position else wanted.end


def _never_came(wanted: Range, position: int, fetched: FetchedRows) -> str:
    return (
        f"offsets {position} to {wanted.end - 1} of {wanted.partition} cannot be read: "
        f"the partition ends at {fetched.end_offset}"
    )


def _gone(wanted: Range, position: int, why: str) -> str:
    return f"offsets {position} to {wanted.end - 1} of {wanted.partition} are gone: {why}"


def _judge(options: SourceOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(what)
    _log.warning("%s", what)
