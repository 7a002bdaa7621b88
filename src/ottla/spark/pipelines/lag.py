"""How old the oldest record is that a query has not taken yet.

Owns: one look at the first waiting record of each partition. Never knows: queries. Invariant: it asks only where
records wait, and an unanswered question is None, never 0.
"""

from collections.abc import Mapping, Sequence

from ottla import blocking
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import ClientError
from ottla.client.settings import CONSUMER
from ottla.runtime.world import RealClock
from ottla.spark.pipelines.progress import Behind
from ottla.spark.pipelines.registry import settings_of

_BYTES = "4096"
_SECONDS = 2.0


class Ages:
    """Looks at topics for a running pipeline."""

    def __init__(self, client: Mapping[str, str]) -> None:
        limits = {"max.partition.fetch.bytes": _BYTES, "auto.offset.reset": "earliest"}
        self._consumer = blocking.Consumer(settings_of(CONSUMER, client) | limits)

    def oldest_seconds(self, waiting: Sequence[Behind]) -> float | None:
        """Seconds since the oldest of the first waiting records."""
        if not waiting:
            return 0.0
        clock = RealClock()
        try:
            self._consumer.assign([each.partition for each in waiting])
            for each in waiting:
                self._consumer.seek(each.partition, each.position)
            oldest: int | None = None
            asked = {each.partition for each in waiting}
            deadline = clock.monotonic() + _SECONDS
            while asked and (left := deadline - clock.monotonic()) > 0:
                for record in self._consumer.poll(left):
                    asked.discard(TopicPartition(record.topic, record.partition))
                    oldest = record.timestamp if oldest is None else min(oldest, record.timestamp)
            self._consumer.assign([])
        except ClientError:
            return None
        return None if oldest is None else round(max(0, clock.now_ms() - oldest) / 1000, 3)

    def close(self) -> None:
        self._consumer.close()
