"""From what the quorum committed to the image, and to everybody who follows it.

Owns: the committed image of this node and its subscribers. Never knows: who decided, or how agreement was reached.
Invariants: subscribers get every change once, in order, on the loop; nodes at the same offset have equal images.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from ottla.metadata.delta import ClusterDelta, difference
from ottla.metadata.facts import BadFact, Fact
from ottla.metadata.image import ClusterImage
from ottla.metadata.quorum_events import Stored, UnreadableMetadata

logger = logging.getLogger("ottla.controller")

Subscriber = Callable[[ClusterDelta, ClusterImage], None]


class ImageLoader:
    """The image half of what a quorum tells; a node without the controller role needs no other half."""

    def __init__(self, cluster_id: str) -> None:
        self.image = ClusterImage(cluster_id)
        """What is committed, as far as this node knows."""
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hear of every change from here on; `image` is what came before."""
        self._subscribers.append(subscriber)

    def committed(self, batches: Sequence[Stored]) -> None:
        """Decisions of whoever leads; those that arrive together make one change. Raises UnreadableMetadata."""
        if not batches:
            return
        delta = ClusterDelta(self.image)
        for batch in batches:
            _replay(delta, batch.facts, batch.offset)
        last = batches[-1]
        self.publish(delta, delta.apply(last.offset, last.epoch))

    def snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        """The whole state, instead of the decisions that led there. Raises UnreadableMetadata."""
        delta = ClusterDelta(ClusterImage(self.image.cluster_id))
        _replay(delta, facts, offset)
        image = delta.apply(offset, epoch)
        self.publish(difference(self.image, image), image)

    def publish(self, delta: ClusterDelta, image: ClusterImage) -> None:
        """The next image, for those who made it themselves while they decided."""
        self.image = image
        for subscriber in self._subscribers:
            try:
                subscriber(delta, image)
            except Exception:
                # The fact is stored: the others must hear of it, whatever one of them makes of it.
                logger.exception("a subscriber failed at offset %d of the metadata", image.offset)

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """The image does not care who leads."""

    def began_leading(self, epoch: int) -> None:
        """Nor that it is this node."""

    def stopped_leading(self, epoch: int) -> None:
        """Nor that it is no longer."""


def _replay(delta: ClusterDelta, facts: Iterable[Fact], offset: int) -> None:
    try:
        delta.replay_all(facts)
    except BadFact as problem:
        raise UnreadableMetadata(
            f"The metadata log cannot be used: up to offset {offset}, {problem}. Restore it from a copy."
        ) from problem
