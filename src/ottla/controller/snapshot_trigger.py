"""When a node writes a snapshot of the metadata.

Owns: `metadata.log.max.record.bytes.between.snapshots` and `metadata.log.max.snapshot.interval.ms`. Never knows: how a
snapshot is stored, nor who leads: every node takes its own. Invariant: a snapshot is of a committed image.
"""

import asyncio

from ottla.base.settings.values import BrokerValues
from ottla.controller.image_loader import ImageLoader
from ottla.controller.ports import Snapshots
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage
from ottla.metadata.snapshot import facts_of


class SnapshotTrigger:
    """Follows the image, and has it written down when enough came in, or long enough ago."""

    def __init__(self, loader: ImageLoader, quorum: Snapshots, values: BrokerValues) -> None:
        self._loader = loader
        self._quorum = quorum
        self._most_bytes = values.integer("metadata.log.max.record.bytes.between.snapshots")
        self._most_seconds = values.integer("metadata.log.max.snapshot.interval.ms") / 1000
        self._begin = 0
        """How large the log was at the last snapshot. Old log goes after one, so this is an upper bound."""
        self._timer: asyncio.TimerHandle | None = None
        loader.subscribe(self._changed)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _changed(self, delta: ClusterDelta, image: ClusterImage) -> None:
        size = self._quorum.log_size
        self._begin = min(self._begin, size)
        if size - self._begin >= self._most_bytes:
            self._take()
        elif self._timer is None and self._most_seconds:
            self._timer = asyncio.get_running_loop().call_later(self._most_seconds, self._take)

    def _take(self) -> None:
        self.stop()
        self._begin = self._quorum.log_size
        image = self._loader.image
        # The image never changes and its facts are made one by one: a thread can take its time with them.
        self._quorum.take_snapshot(facts_of(image), image.offset, image.epoch)
