"""Group commit: nobody hears of a flush before it is done, and those who ask meanwhile share the next one."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from kit.disks.faulty_disk import FaultyDisk
from kit.worlds.lone_partitions import lone_partition
from ottla.base.errors import ErrorCode
from ottla.base.ports import Disk
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.log.files import StorageFailure, World
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replicas.flusher import Flusher
from ottla.replicas.partitions import Partition
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom


class Thread(Executor):
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Future[Any]]] = []
        self.failure: Exception | None = None

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((work, future))
        return future

    async def run_all(self) -> int:
        """Run what was submitted so far and let the loop hear of it; answers how much that was."""
        now, self.waiting = self.waiting, []
        for work, future in now:
            if self.failure is not None:
                future.set_exception(self.failure)
            else:
                future.set_result(work())
        for _ in range(5):
            await asyncio.sleep(0)
        return len(now)


class Story:
    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        world = World(disk or RealDisk(), RealClock(), RealRandom())
        self.store = LogStore([str(path)], world)
        self.store.open(1)
        self.store.load(lambda name: LogSettings())
        self.thread = Thread()
        self.failures: list[StorageFailure] = []
        self.flusher = Flusher(asyncio.get_running_loop(), self.thread, self.failures.append)
        self.told: list[tuple[str, ErrorCode]] = []

    def partition(self, number: int) -> Partition:
        name = TopicPartition("topic", number)
        log = self.store.create(name, TopicId(bytes(16)), LogSettings(flush_messages=1))
        return lone_partition(name, bytes(16), 0, log)

    def append(self, partition: Partition) -> None:
        assert partition.log is not None
        batch = build_batch([Record(0, 1, b"k", b"v")])
        assert partition.log.append_as_leader(memoryview(batch), 0, 1).error == ErrorCode.NONE

    def ask(self, who: str, *partitions: Partition) -> None:
        for partition in partitions:
            self.append(partition)
        self.flusher.when_flushed(partitions, lambda error: self.told.append((who, error)))


@pytest.fixture
async def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


async def test_nobody_is_told_before_the_flush_is_done(story: Story) -> None:
    partition = story.partition(0)
    story.ask("one", partition)
    assert story.told == []
    assert await story.thread.run_all() == 1
    assert story.told == [("one", ErrorCode.NONE)]
    assert partition.log is not None
    assert partition.log.recovery_point == partition.log.end_offset == 1


async def test_those_who_ask_during_a_flush_share_the_next_one(story: Story) -> None:
    partition = story.partition(0)
    story.ask("one", partition)
    for who in ("two", "three", "four"):
        story.ask(who, partition)
    assert await story.thread.run_all() == 1
    assert [who for who, _ in story.told] == ["one"]
    assert await story.thread.run_all() == 1
    assert [who for who, _ in story.told] == ["one", "two", "three", "four"]
    assert partition.log is not None
    assert partition.log.recovery_point == 4


async def test_an_answer_for_two_partitions_waits_for_both(story: Story) -> None:
    first, second = story.partition(0), story.partition(1)
    story.ask("busy", second)
    story.ask("both", first, second)
    await story.thread.run_all()
    assert [who for who, _ in story.told] == ["busy"]
    await story.thread.run_all()
    assert [who for who, _ in story.told] == ["busy", "both"]


async def test_a_failed_flush_is_told_to_everyone_who_waited(story: Story) -> None:
    partition = story.partition(0)
    story.ask("one", partition)
    story.ask("two", partition)
    story.thread.failure = StorageFailure("somewhere", 5, "Input/output error")
    await story.thread.run_all()
    assert story.told == [("one", ErrorCode.KAFKA_STORAGE_ERROR)]
    await story.thread.run_all()
    assert story.told[1:] == [("two", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert len(story.failures) == 2


async def test_a_partition_whose_directory_is_offline_answers_at_once(story: Story) -> None:
    partition = story.partition(0)
    partition.log = None
    story.flusher.when_flushed([partition], lambda error: story.told.append(("one", error)))
    assert story.told == [("one", ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_a_flush_that_cannot_begin_is_told_to_whoever_waits(tmp_path: Path) -> None:
    disk = FaultyDisk(RealDisk())
    story = Story(tmp_path, disk)
    partition = story.partition(0)
    story.append(partition)
    assert partition.log is not None
    for segment in partition.log.segments:
        segment.close()
    disk.open_errno = errno.EMFILE
    story.flusher.when_flushed([partition], lambda error: story.told.append(("waiter", error)))
    assert story.told == [("waiter", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert [failure.errno for failure in story.failures] == [errno.EMFILE]
    assert not story.flusher.busy
    disk.heal()
    story.flusher.when_flushed([partition], lambda error: story.told.append(("again", error)))
    await story.thread.run_all()
    assert story.told[1:] == [("again", ErrorCode.NONE)]
