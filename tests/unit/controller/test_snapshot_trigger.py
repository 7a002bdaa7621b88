"""When snapshots are taken: after so many bytes, or so long after the first fact that is in none."""

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from kit.machines.clusters import CLUSTER
from ottla.base.settings.values import BrokerValues
from ottla.controller.image_loader import ImageLoader
from ottla.controller.snapshot_trigger import SnapshotTrigger
from ottla.metadata.facts import Fact
from ottla.metadata.quorum_events import Stored, UnreadableMetadata
from ottla.sim.loop import Scheduler, SimLoop
from ottla.wire.stored.metadata import FeatureLevelRecord, RemoveTopicRecord


class Desk:
    """Facts come in one by one; snapshots are kept."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(Random(1))
        self.loop = SimLoop(self.scheduler, "node")
        self.loader = ImageLoader(CLUSTER)
        self.log_size = 0
        self.taken: list[tuple[int, int]] = []
        values = BrokerValues(
            {
                "metadata.log.max.record.bytes.between.snapshots": "1000",
                "metadata.log.max.snapshot.interval.ms": "60000",
            }
        )
        self.trigger = SnapshotTrigger(self.loader, self, values)

    def take_snapshot(self, facts: Iterable[Fact], offset: int, epoch: int) -> None:
        self.taken.append((offset, len(list(facts))))

    def store(self, size: int) -> None:
        async def commit() -> None:
            self.log_size += size
            offset = self.loader.image.offset + 1
            self.loader.committed([Stored([FeatureLevelRecord(f"f{offset}", 1)], offset, 1)])

        self.scheduler.complete(self.loop, commit(), 1)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.scheduler.close()


def test_enough_bytes_bring_a_snapshot_of_the_image(desk: Desk) -> None:
    for _ in range(4):
        desk.store(300)
    assert desk.taken == [(3, 4)]

    desk.store(300)
    assert desk.taken == [(3, 4)]


def test_a_log_that_was_shortened_counts_from_what_is_left(desk: Desk) -> None:
    desk.store(5000)
    desk.log_size = 100
    desk.store(100)
    desk.store(1000)

    assert [offset for offset, _ in desk.taken] == [0, 2]


def test_a_fact_is_in_a_snapshot_before_too_long(desk: Desk) -> None:
    desk.store(10)
    desk.scheduler.run_for(59)
    assert desk.taken == []
    desk.scheduler.run_for(2)
    assert desk.taken == [(0, 1)]

    desk.scheduler.run_for(3600)
    assert desk.taken == [(0, 1)]


def test_a_node_that_stops_takes_none(desk: Desk) -> None:
    desk.store(10)
    desk.trigger.stop()
    desk.scheduler.run_for(3600)

    assert desk.taken == []


def test_a_fact_that_contradicts_the_image_is_told_with_its_place(desk: Desk) -> None:
    with pytest.raises(UnreadableMetadata, match="up to offset 8, it removes a topic that is not there"):
        desk.loader.committed([Stored([RemoveTopicRecord(topic_id=b"x" * 16)], 8, 1)])
