"""The metadata log on disk: facts in record batches, in the directory and the formats of Kafka's.

Owns: `__cluster_metadata-0`, the leadership epoch, and how facts become batches and back. Never knows: what the facts
say. Invariants: the facts of one decision are one batch, so a torn write loses all of them or none; an epoch begins
with a LeaderChange record; what `read` gives back is what was whole on disk.
"""

from collections.abc import Iterator
from errno import ENOSPC

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.controller.quorum_ports import Stored, UnreadableMetadata
from ottla.controller.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.log.files import StorageFailure, World
from ottla.log.flushing import FlushTicket
from ottla.log.partition_log import PartitionLog
from ottla.log.properties import PARTITION_FILE, write_topic_id
from ottla.log.recovery import load_log
from ottla.log.settings import LogSettings
from ottla.metadata.facts import BadFact, Fact, decode_facts, encode_facts
from ottla.metadata.names import METADATA_TOPIC
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.control import ElectionVoter, LeaderChange, build_control
from ottla.records.header import CorruptBatch, iterate_headers
from ottla.records.record import Record
from ottla.wire.stored.metadata import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

__all__ = ["MetadataLog", "UnreadableMetadata"]

METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
_LARGEST_INT = 2**31 - 1
_LARGEST_LONG = 2**63 - 1
_SETTINGS = LogSettings(
    retention_ms=-1,
    max_message_bytes=_LARGEST_INT,
    timestamp_after_max_ms=_LARGEST_LONG // 2,
    segment_ms=_LARGEST_LONG,
)


class MetadataLog:
    """The log of one controller; it belongs to the event loop like any other log."""

    def __init__(self, world: World, directory: str, node_id: int) -> None:
        self._world = world
        self._node_id = node_id
        self.directory = directory
        try:
            world.disk.make_directory(directory)
            if not world.disk.exists(f"{directory}/{PARTITION_FILE}"):
                write_topic_id(world.disk, directory, METADATA_TOPIC_ID)
        except OSError as error:
            raise StorageFailure.of(directory, error) from error
        self._log = self._load()
        state = read_quorum_state(world.disk, directory)
        self.epoch = max(state.leader_epoch, self._log.epochs.latest_epoch)
        """The last epoch that anybody led, until `begin_epoch`."""
        self.interrupted = False
        """Whether the log ends inside a transaction of facts, which the next leader has to abort."""

    def _load(self) -> PartitionLog:
        name = TopicPartition(METADATA_TOPIC, 0)
        return load_log(self._world, name, self.directory, _SETTINGS, topic_id=METADATA_TOPIC_ID)

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def read(self) -> Iterator[Stored]:
        """All facts that count, in order; those of a transaction come when it ends. Blocking."""
        transaction: list[Fact] | None = None
        for facts, offset, epoch in self._batches():
            ready: list[Fact] = []
            for fact in facts:
                if isinstance(fact, BeginTransactionRecord):
                    transaction = []
                elif isinstance(fact, EndTransactionRecord):
                    ready += transaction or ()
                    transaction = None
                elif isinstance(fact, AbortTransactionRecord):
                    transaction = None
                else:
                    (ready if transaction is None else transaction).append(fact)
            yield Stored(ready, offset, epoch)
        self.interrupted = transaction is not None

    def _batches(self) -> Iterator[Stored]:
        for segment in self._log.segments:
            if not segment.size:
                continue
            view = segment.file.map()
            try:
                for position, header in iterate_headers(view):
                    records = [] if header.control else read_records(view, header, position)
                    try:
                        facts = decode_facts(record.value for record in records)
                    except BadFact as problem:
                        raise UnreadableMetadata(
                            f"A fact between the offsets {header.base_offset} and {header.last_offset} of "
                            f"{segment.path} cannot be used: {problem}. "
                            "Start the release that wrote it, or restore the log from a copy."
                        ) from problem
                    yield Stored(facts, header.last_offset, header.leader_epoch)
            except CorruptBatch as problem:
                raise UnreadableMetadata(f"{segment.path} is damaged ({problem}); restore it from a copy.") from problem

    def begin_epoch(self) -> None:
        """Lead from here on: remember the epoch, then write it in front of everything that it will bring. Blocking."""
        self.epoch += 1
        try:
            state = QuorumState(self._node_id, self.epoch, (self._node_id,))
            write_quorum_state(self._world.disk, self.directory, state)
        except OSError as error:
            raise StorageFailure.of(self.directory, error) from error
        voters = (ElectionVoter(self._node_id),)
        batch = build_control(
            LeaderChange(self._node_id, voters, voters),
            offset=self.end_offset,
            timestamp=self._world.clock.now_ms(),
            leader_epoch=self.epoch,
        )
        self._append(batch)

    def append(self, facts: list[Fact]) -> int:
        """Write the facts of one decision; answers the offset of the last. On StorageFailure none is there."""
        now = self._world.clock.now_ms()
        base = self.end_offset
        records = [Record(offset, now, None, value) for offset, value in enumerate(encode_facts(facts), base)]
        self._append(build_batch(records, base_offset=base, leader_epoch=self.epoch))
        return self.end_offset - 1

    def _append(self, batch: bytearray) -> None:
        outcome = self._log.append_as_leader(
            memoryview(batch), self.epoch, self._world.clock.now_ms(), origin_client=False
        )
        if outcome.error != ErrorCode.NONE:
            # The log answers, rather than raises, when there is merely no room.
            raise StorageFailure(self.directory, ENOSPC, outcome.message or outcome.error.name)

    def begin_sync(self) -> FlushTicket | None:
        """What to run in an I/O thread so that everything appended lasts."""
        return self._log.begin_flush()

    def finish_sync(self, ticket: FlushTicket | None) -> None:
        """The ticket has run: in a quorum of one, what is stored is agreed on."""
        if ticket is not None:
            self._log.finish_flush(ticket)
            self._log.high_watermark = ticket.offset

    def sync(self) -> None:
        """Both steps at once. Blocking."""
        ticket = self.begin_sync()
        if ticket is not None:
            ticket.run()
        self.finish_sync(ticket)

    def repair(self, end_offset: int) -> None:
        """Open the log anew after a failure and drop everything behind this offset. Blocking; raises StorageFailure."""
        self._log.abandon()
        self._log = self._load()
        self._log.truncate_to(end_offset)
        self._log.high_watermark = end_offset
        if self._log.end_offset != end_offset:
            raise StorageFailure(self.directory, 0, f"facts before offset {end_offset} are missing")

    def close(self) -> None:
        """Blocking."""
        self._log.close()
