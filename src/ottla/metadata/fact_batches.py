"""Facts in record batches: how they travel between nodes and lie in snapshots.

Owns: one batch of facts, both ways. Never knows: what the facts say, where the batch is kept.
Invariant: bytes that are no batch of facts give `CorruptBatch` or `BadFact` and nothing else.
"""

from collections.abc import Iterable, Iterator

from ottla.base.ports import ByteView
from ottla.metadata.facts import Fact, decode_facts, encode_facts
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import CorruptBatch, checksum, iterate_headers
from ottla.records.record import Record

FACTS_IN_BATCH = 1000


def fact_batch(facts: Iterable[Fact], offset: int, now: int, epoch: int) -> bytearray:
    """One batch; the first fact has this offset."""
    records = [Record(at, now, None, value) for at, value in enumerate(encode_facts(facts), offset)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


def fact_batches(facts: Iterable[Fact], offset: int, now: int, epoch: int) -> Iterator[bytearray]:
    """Any number of facts, in batches of a thousand; they are made one by one as they are asked for."""
    gathered: list[Fact] = []
    for fact in facts:
        gathered.append(fact)
        if len(gathered) == FACTS_IN_BATCH:
            yield fact_batch(gathered, offset, now, epoch)
            offset += len(gathered)
            gathered = []
    if gathered:
        yield fact_batch(gathered, offset, now, epoch)


def read_fact_batches(data: ByteView) -> Iterator[tuple[list[Fact], int]]:
    """The facts of each batch, and the offset of the last of them. Raises CorruptBatch, BadFact."""
    view = memoryview(data)
    for position, header in iterate_headers(view):
        batch = view[position : position + header.size]
        if checksum(batch, 0, header.size) != header.crc:
            raise CorruptBatch(position, "the checksum is wrong")
        yield decode_facts(record.value for record in read_records(batch, header)), header.next_offset - 1
