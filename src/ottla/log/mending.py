"""Telling a wrong index from damaged batches.

Owns: the look at a whole segment that decides it. Never knows: what becomes of the segment; its log adopts the indexes.
Invariant: the segment itself is not touched; a twin of it is, in any thread.
"""

from contextlib import suppress

from ottla.log.files import StorageFailure
from ottla.log.segment import Segment, SegmentTwin


class Mending:
    """The one look at all batches of a segment that is taken when its index seems wrong: is it that, or are they?"""

    __slots__ = ("_twin", "found", "ran")

    def __init__(self, twin: SegmentTwin) -> None:
        self._twin = twin
        self.ran = False
        self.found: Segment | None = None
        """The segment with indexes told anew; None before, where the batches are damaged, and once it was used."""

    def run(self) -> None:
        """Blocking, for any thread. What cannot be read now is met again by those who look next."""
        with suppress(OSError, StorageFailure):
            segment = self._twin.load()
            self.found = segment if segment.reindex() else None
            self.ran = True
