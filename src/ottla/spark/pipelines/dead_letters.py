"""Late and undecodable records, written to a topic of their own.

Owns: which records of a finished batch are dead letters, and writing each of them once. Never knows: how queries run.

Spark drops late rows without a word about which, but a query's checkpoint says what each batch took and the watermark
that counted. So, after a batch in which a stateful operator dropped rows or a record could not be decoded, those ranges
are read once more and the records in question written: a portion of the batch at a time, each in one transaction with a
note of how far that is.

Invariants: a batch's dead letters are in the topic exactly once for readers of committed records, also when the process
dies in between, for the next start looks through the batches that were finished and not yet seen to, and goes on behind
the last portion; memory holds one portion, whatever a batch has; a batch that is not in the checkpoint any more is told
in the log; notes of another query that had the same place count for nothing.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions

from ottla import blocking
from ottla.base.errors import ErrorCode
from ottla.client.errors import BrokerError
from ottla.client.settings import PRODUCER
from ottla.spark.formats.options import SOURCE_FORM_NAMES
from ottla.spark.options import parse_source
from ottla.spark.pipelines.building import Output, Pipeline, corrupt_column
from ottla.spark.pipelines.offset_log import BatchOffsets, OffsetLog, UnknownForm
from ottla.spark.pipelines.registry import NOTES, Document, settings_of
from ottla.spark.pipelines.taken import Portion, Taken, portions, rest_behind, taken_by
from ottla.spark.pipelines.workers import patiently
from ottla.spark.positions import Reached, to_checkpoint
from ottla.spark.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

HEADER = "dead-letter."
LATE, UNDECODABLE = "late", "undecodable"
_PLACE = ["topic", "partition", "offset"]
_MARK = "dead_letter_"
_OF_FORMATS = frozenset(name.lower() for name in SOURCE_FORM_NAMES)
_WHAT = ("subscribe", "subscribePattern", "assign")
_WHENCE = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingOffsets")
_OF_THE_STREAM = frozenset(name.lower() for name in (*_WHAT, *_WHENCE))
_MOST_RECORDS, _MOST_BYTES = 10_000, 32 * 1024 * 1024
"""What is looked at, held and written at a time."""
_SAMPLES = 16


def reply_headers(row: Any, reason: str, pipeline: str, query: str, batch: int) -> list[tuple[str, bytes | None]]:
    """The record's own headers, and why and from where it is here."""
    told = {
        "reason": reason,
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "pipeline": pipeline,
        "query": query,
        "batch": batch,
    }
    own = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return [*own, *((HEADER + name, str(value).encode()) for name, value in told.items())]


class Desk:
    """The dead letters of one query."""

    def __init__(self, pipeline: Pipeline, output: Output, checkpoint: str, undecodable_of: frozenset[str]) -> None:
        self._pipeline = pipeline
        self._query = output.sink.name
        self._sources = [source for name, source in pipeline.sources.items() if name in output.views]
        self._undecodable_of = undecodable_of
        """Sources whose undecodable records this query tells of; another query may read them too."""
        self._log = OffsetLog(pipeline.spark, checkpoint)
        self._key = f"{pipeline.frame.name}/{self._query}"
        self._checkpoint = hashlib.sha256(checkpoint.rstrip("/").encode()).hexdigest()[:24]
        self._seen = -1
        self._stored = -1
        self._within: Document | None = None
        """The batch that the run before has not finished, and how far it came."""
        self.written = 0
        self._producer = blocking.Producer(
            settings_of(PRODUCER, pipeline.frame.client, transactional_id=f"ottla-dead-letters-{self._checkpoint}")
        )
        self._producer.init_transactions()

    def recover(self, known: Document | None) -> None:
        """See to what was finished before this start; `known` is the document under this desk's key."""
        last = self._log.last_committed()
        if known is not None and known.get("checkpoint") == self._checkpoint and self._is_mine(known):
            self._seen = self._stored = min(int(known["batch"]), last)
            self._within = known.get("within")
        self.catch_up()
        self.remember()

    def _is_mine(self, known: Document) -> bool:
        """Whether a note is of this query and not of one whose checkpoint was deleted; earlier versions did not say."""
        mine = self._log.query_id()
        return str(known.get("query", mine)) == mine

    def catch_up(self) -> None:
        """See to every finished batch of which nobody told."""
        for batch in range(self._seen + 1, self._log.last_committed() + 1):
            self.look_at(batch)

    def look_at(self, batch: int) -> None:
        """Write the dead letters of a finished batch, unless that was done."""
        if batch <= self._seen:
            return
        try:
            before = BatchOffsets(0, ()) if batch == 0 else self._log.batch(batch - 1)
            this = self._log.batch(batch)
        except UnknownForm as problem:
            _log.warning("the dead letters of %s, batch %d, cannot be found: %s", self._query, batch, problem)
            self._seen = batch
            return
        if this is None or before is None:
            _log.warning("the dead letters of %s, batch %d, cannot be found any more", self._query, batch)
        else:
            self._see_to(batch, taken_by(self._sources, before, this), before.watermark_ms)
        self._seen = batch

    def _see_to(self, batch: int, taken: list[Taken], watermark_ms: int) -> None:
        """Portion after portion, from where an earlier run was interrupted."""
        within = self._within if self._within is not None and self._within["batch"] == batch else None
        taken = [each for each in taken if self._is_there(each)]
        most = self._most(taken) if within is None else int(within["most"])
        everything = list(portions(taken, most))
        left = everything if within is None else rest_behind(everything, within["last"])
        for number, portion in enumerate(left):
            letters = patiently(lambda portion=portion: list(self._letters(portion, watermark_ms)))  # type: ignore[misc]
            if not letters:
                continue
            if number == len(left) - 1:
                self._write(batch, letters)
            else:
                self._write(batch - 1, letters, {"batch": batch, "most": most, "last": portion.last})

    def _survey(self, taken: Taken) -> Survey:
        return Survey(parse_source(self._pipeline.options(taken.source), streaming=True))

    def _is_there(self, taken: Taken) -> bool:
        """Whether the topics are those that the batch was read from."""
        survey = self._survey(taken)
        try:
            found = survey.topic_ids(survey.partitions())
        except BrokerError as problem:
            if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            found = {}
        gone = [topic for topic, known in taken.ids.items() if found.get(topic) != known]
        if gone:
            _log.warning("topic %s is gone or was made again: so are dead letters of %s", gone[0], self._query)
        return not gone

    def _most(self, taken: Sequence[Taken]) -> int:
        """How many records are a portion, judged by the first ones of the longest ranges."""
        heaviest = 1.0
        for each in taken:
            longest = sorted(each.ranges, key=lambda piece: -piece.size)[:_SAMPLES]
            sizes = self._survey(each).record_bytes({piece.partition: piece.start for piece in longest})
            heaviest = max(heaviest, *sizes.values()) if sizes else heaviest
        return max(1, min(_MOST_RECORDS, int(_MOST_BYTES / heaviest)))

    def hear_of(self, batch: int, letters: bool) -> None:
        """A batch is finished, and Spark has counted whether it has any; of those between nobody told."""
        for each in range(self._seen + 1, batch + letters):
            self.look_at(each)
        self._seen = max(self._seen, batch)

    def remember(self) -> None:
        """Store how far this desk is, so that the next start need not look again."""
        if self._seen > self._stored:
            self._write(self._seen, [])

    def _letters(self, portion: Portion, watermark_ms: int) -> Iterator[tuple[Any, str]]:
        source = portion.source
        typed = self._read(portion, plain=False)
        found: list[tuple[DataFrame, str]] = []
        prefix, corrupt = source.option("recordPrefix"), corrupt_column(source)
        if corrupt in typed.columns:
            if source.name in self._undecodable_of:
                wrong = typed.where(functions.col(corrupt).isNotNull())
                found.append((wrong.selectExpr(*(f"{prefix}{name} AS {name}" for name in _PLACE)), UNDECODABLE))
            typed = typed.where(functions.col(corrupt).isNull()).drop(corrupt)
        if source.watermark is not None and watermark_ms > 0:
            late = f"CAST({source.watermark.until} AS TIMESTAMP) <= timestamp_millis({watermark_ms})"
            # a source's own columns may have such names
            marked = [f"{prefix}{name} AS {_MARK}{name}" for name in _PLACE]
            shape = typed.selectExpr(*marked, *(source.select or ("*",))).where(functions.expr(late))
            found.append((shape.selectExpr(*(f"{_MARK}{name} AS {name}" for name in _PLACE)), LATE))
        for places, reason in found:
            rows = self._read(portion, plain=True).join(functions.broadcast(places), _PLACE, "left_semi")
            yield from ((row, reason) for row in rows.orderBy(*_PLACE).toLocalIterator())

    def _read(self, portion: Portion, *, plain: bool) -> "DataFrame":
        source = portion.source
        passed_over = _OF_THE_STREAM | (_OF_FORMATS if plain else frozenset())
        options = {name: value for name, value in source.options.items() if name.lower() not in passed_over}
        partitions: dict[str, list[int]] = {}
        for piece in portion.ranges:
            partitions.setdefault(piece.partition.topic, []).append(piece.partition.partition)
        return self._pipeline.read(
            source._replace(format="" if plain else source.format, options=options),
            streaming=False,
            assign=json.dumps(partitions),
            startingOffsets=json.dumps(to_checkpoint(Reached({each.partition: each.start for each in portion.ranges}))),
            endingOffsets=json.dumps(to_checkpoint(Reached({each.partition: each.end for each in portion.ranges}))),
            failOnDataLoss="false",
            **({"includeHeaders": "true"} if plain else {}),
        )

    def _write(self, batch: int, letters: list[tuple[Any, str]], within: Document | None = None) -> None:
        """The letters, the last batch that is done, and how far the next one is: all or nothing."""
        name = self._pipeline.frame.name
        written_for = batch if within is None else within["batch"]
        told = {"checkpoint": self._checkpoint, "query": self._log.query_id(), "batch": batch}
        note = json.dumps(told if within is None else {**told, "within": within}).encode()
        with self._producer.transaction():
            for row, reason in letters:
                self._producer.put(
                    self._pipeline.frame.dead_letters,
                    None if row["value"] is None else bytes(row["value"]),
                    None if row["key"] is None else bytes(row["key"]),
                    headers=reply_headers(row, reason, name, self._query, written_for),
                )
            self._producer.put(NOTES, note, self._key.encode())
        self._stored = batch
        self.written += len(letters)

    @property
    def key(self) -> str:
        return self._key

    def close(self) -> None:
        self._producer.close(10.0)
