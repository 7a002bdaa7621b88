"""Proof by counting: everything that was acknowledged is read again, and compared.

Owns: reading whole topics from their beginning to their end, and the comparison. Never knows: what happened to the
cluster meanwhile. Invariant: a record counts as often as it is there, so one that is lost and one that is doubled do
not make up for each other.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import ottla
from ottla.demo.till import fingerprint

_POLL_SECONDS = 1.0
_MOST_EMPTY_POLLS = 30


class Verdict(NamedTuple):
    """What a comparison found."""

    acknowledged: int
    found: int
    lost: int
    doubled: int

    @property
    def whole(self) -> bool:
        return self.lost == 0 and self.doubled == 0


def compare(acknowledged: Counter[bytes], found: Counter[bytes]) -> Verdict:
    return Verdict(acknowledged.total(), found.total(), (acknowledged - found).total(), (found - acknowledged).total())


async def read_everything(topics: Sequence[str], bootstrap: str) -> Counter[bytes]:
    """The fingerprints of all records that these topics hold now."""
    found: Counter[bytes] = Counter()
    async with ottla.Consumer(
        bootstrap_servers=bootstrap, client_id="auditor", auto_offset_reset="earliest"
    ) as consumer:
        places = [
            ottla.TopicPartition(topic, partition.number)
            for topic in topics
            for partition in await consumer.partitions_for(topic)
        ]
        ends = await consumer.end_offsets(places)
        wanted = {place for place, end in ends.items() if end > 0}
        consumer.assign(wanted)
        empty = 0
        while wanted and empty < _MOST_EMPTY_POLLS:
            records = await consumer.poll(_POLL_SECONDS)
            empty = 0 if records else empty + 1
            for record in records:
                found[fingerprint(record.topic, record.key, record.value)] += 1
            wanted = {place for place in wanted if await consumer.position(place) < ends[place]}
    return found
