"""From a decision to the quorum and back: what is decided, what is committed, and who waits for it.

Owns: the image that decisions are made on while this node leads. Never knows: how to decide.
Invariants: every decision sees the facts of all decisions before it; whoever waits is told when the facts it rests on
are committed, its own and those it merely saw, or that this node leads no longer; without leadership there is no image
to decide on.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ottla.controller.image_loader import ImageLoader
from ottla.controller.ports import MetadataQuorum
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage
from ottla.metadata.quorum_events import Stored


class _PendingDecision(NamedTuple):
    """A decision on its way; `committed` becomes True when it is committed, False when somebody else leads."""

    offset: int
    delta: ClusterDelta
    image: ClusterImage
    committed: "asyncio.Future[bool]"


class Ledger:
    """Decisions of one node while it leads."""

    def __init__(self, loader: ImageLoader, quorum: MetadataQuorum) -> None:
        self._loader = loader
        self._quorum = quorum
        self._pending: deque[_PendingDecision] = deque()
        self.latest: ClusterImage | None = None
        """What is committed and what is on its way; None while another node decides."""

    def begin(self) -> None:
        """This node leads, and everything before its epoch is in the image."""
        assert not self._pending
        self.latest = self._loader.image

    def end(self) -> None:
        """Another node leads, or nobody. What is on its way may come or not; those who wait are told at once."""
        self.latest = None
        pending = list(self._pending)
        self._pending.clear()
        for each in pending:
            each.committed.set_result(False)

    def append(self, facts: list[Fact]) -> int:
        """Hand the facts of one decision to the quorum; where they end. On NotLeader and StorageFailure none counts."""
        assert self.latest is not None
        delta = ClusterDelta(self.latest)
        delta.replay_all(facts)
        offset = self._quorum.end_offset + len(facts) - 1
        image = delta.apply(offset, self._quorum.epoch)
        # Before the append: a quorum of one may commit within the call.
        self._pending.append(_PendingDecision(offset, delta, image, asyncio.get_running_loop().create_future()))
        before, self.latest = self.latest, image
        try:
            end = self._quorum.append(facts)
        except Exception:
            if self.latest is image:
                self._pending.pop()
                self.latest = before
            raise
        assert end == offset, "the facts went elsewhere than foreseen"
        return offset

    def committed(self, batches: Sequence[Stored]) -> None:
        """First everybody sees the new image, then those who wait are told."""
        foreign: list[Stored] = []
        for batch in batches:
            if not self._pending or batch.offset != self._pending[0].offset:
                foreign.append(batch)
                continue
            self._loader.committed(foreign)
            foreign = []
            _, delta, image, committed = self._pending.popleft()
            self._loader.publish(delta, image)
            committed.set_result(True)
        self._loader.committed(foreign)

    async def settled(self) -> bool:
        """Wait for everything decided so far; False when this node leads no longer."""
        if not self._pending:
            return self.latest is not None
        return await asyncio.shield(self._pending[-1].committed)
