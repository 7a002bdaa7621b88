"""What a broker does on its own."""

import errno
import logging

import pytest

from kit.worlds.broker_worlds import BrokerWorld
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.sim.disk import SimDisk

NAME = TopicPartition("keyed", 0)
SETTINGS = {
    "log.cleanup.policy": "compact",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.dedupe.buffer.size": "1048576",
}


def test_a_compaction_without_room_waits_for_its_next_turn(caplog: pytest.LogCaptureFixture) -> None:
    world = BrokerWorld({"keyed": [[1]]}, brokers=1, settings=SETTINGS)
    node = world.nodes[1]
    log = node.broker.store.logs[NAME]
    disk, now_ms = node.broker.world.disk, node.broker.clock.now_ms()
    for number in range(9):
        batch = build_batch([Record(0, now_ms, b"key", b"%d" % number * 60, ())])
        assert log.append_as_leader(memoryview(batch), 1, now_ms).error is ErrorCode.NONE
        log.roll()
    log.high_watermark = log.end_offset
    assert isinstance(disk, SimDisk)
    disk.fault = lambda operation, path: errno.ENOSPC if ".cleaned" in path else 0
    with caplog.at_level(logging.WARNING):
        world.scheduler.run_for(50.0)
    waits = [record for record in caplog.records if "waits for room" in record.message]
    assert 2 <= len(waits) <= 4, "once every fifteen seconds"
    world.close()
