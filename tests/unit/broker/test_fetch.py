"""Fetch on real logs: long polls that wait for enough bytes, and fetches of very many partitions."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from kit.worlds.lone_partitions import lone_partition
from kit.worlds.loop_time import LoopTime
from ottla.base.errors import ErrorCode
from ottla.base.ports import File
from ottla.base.vocabulary import TopicId, TopicPartition
from ottla.broker.fetches.fetch import Fetch
from ottla.broker.handlers import fetch
from ottla.log.cached_reads import CachedReads, NotCached, Reader
from ottla.log.files import StorageFailure, World
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.log.store import LogStore, NewLog
from ottla.net import dispatch
from ottla.net.dispatch import Dispatcher, RequestLimits
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replicas.fetch_sessions import FetchSessions
from ottla.replicas.partitions import Partition, PartitionTable
from ottla.replicas.waits import WaitingRoom
from ottla.runtime.disk import RealDisk
from ottla.runtime.world import RealClock, RealRandom
from ottla.wire.codec import decode, encode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VERSION = 11
TOPIC_ID = bytes(range(16))


class Place:
    def __init__(self, client: "Client") -> None:
        self._client = client

    abandoned: Any = None
    wanted = True

    def complete(self, parts: list[Any]) -> None:
        self._client.waiting -= 1
        self._client.answer(parts)

    def share(self) -> None:
        pass

    def only_waits(self) -> None:
        pass

    def fail(self, reason: str) -> None:
        self._client.dropped = reason


class Client:
    """Stands where a connection stands: keeps the answers it is given."""

    listener = "PLAINTEXT"

    def __init__(self) -> None:
        self.answers: list[FetchResponse] = []
        self.answered = asyncio.Event()
        self.waiting = 0
        self.alone = False
        self.dropped: str | None = None
        self.places: list[Place] = []

    def answer(self, parts: list[Any]) -> None:
        data = b"".join(
            part.file.read_at(part.position, part.length) if hasattr(part, "file") else part for part in parts
        )
        self.answers.append(decode(FetchResponse, VERSION, data[8:])[0])
        self.answered.set()

    def defer(self, alone: bool = False) -> Place:
        self.waiting += 1
        self.alone = alone
        self.places.append(Place(self))
        return self.places[-1]


class ReadingBroker:
    """What a fetch sees of its broker."""

    def __init__(self, world: World, story: "Story") -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = world.clock
        self.partitions = PartitionTable()
        self.waiting = WaitingRoom(self.loop)
        self.fetch_sessions = FetchSessions(10, iter(range(1, 100)).__next__, self.loop.time)
        self.fetch_max_bytes = 1 << 30
        self.cached_reads = CachedReads()
        self.in_thread = story.in_thread
        self.storage_failed = story.storage_failures.append
        self.dispatcher = Dispatcher(cast(Any, self), {}, lambda api: lambda *_: None, RequestLimits(0, 500, 1.0))


class Story:
    def __init__(self, path: Path) -> None:
        world = World(RealDisk(), RealClock(), RealRandom())
        self.store = LogStore([str(path)], world)
        self.store.open(1)
        self.store.load(lambda name: LogSettings())
        self.threads: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.at_work = asyncio.Event()
        self.client = Client()
        self.storage_failures: list[StorageFailure] = []
        self.broker = ReadingBroker(world, self)

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.threads.append((work, done))
        self.at_work.set()

    def run_threads(self) -> None:
        while self.threads:
            work, done = self.threads.pop(0)
            work()
            done(None)

    def topic(self, partitions: int) -> None:
        names = [TopicPartition("topic", number) for number in range(partitions)]
        creation = self.store.begin_creation([NewLog(name, TopicId(TOPIC_ID), LogSettings()) for name in names])
        creation.run()
        for name, log in zip(names, self.store.finish_creation(creation), strict=True):
            self.broker.partitions.add(lone_partition(name, TOPIC_ID, 0, log, self.broker.waiting))

    def append(self, number: int, value: bytes) -> None:
        partition = self.broker.partitions.find("topic", number)
        assert isinstance(partition, Partition)
        assert partition.log is not None
        batch = build_batch([Record(0, 1, b"k", value)])
        assert partition.log.append_as_leader(memoryview(batch), 0, 1).error == ErrorCode.NONE
        partition.log.high_watermark = partition.log.end_offset
        self.broker.waiting.nudge(partition)

    def fetch(self, partitions: int, **fields: Any) -> None:
        request = FetchRequest(
            topics=[
                FetchTopic(
                    topic="topic",
                    partitions=[
                        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                        for number in range(partitions)
                    ],
                )
            ],
            **{"max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1 << 26, "session_epoch": -1, **fields},
        )
        frame = memoryview(encode(request, VERSION))
        fetch.handle(self.broker, self.client, frame, (VERSION, 7, 0))  # type: ignore[arg-type]

    def found(self) -> dict[int, int]:
        """Bytes by partition in the only answer."""
        (answer,) = self.client.answers
        return {
            part.partition_index: len(part.records or b"") for topic in answer.responses for part in topic.partitions
        }


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0)


@pytest.fixture
async def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "AT_ONCE", 10)
    monkeypatch.setattr(dispatch, "_STEPS_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(dispatch, "_STEP_SECONDS", -1.0)


async def test_a_fetch_that_finds_nothing_waits_for_the_first_record(story: Story) -> None:
    story.topic(3)
    story.fetch(3)
    assert story.client.answers == []
    story.append(1, b"value")
    assert story.found()[1] > 0
    assert len(story.broker.waiting) == 0


async def test_a_fetch_waits_until_the_bytes_of_all_its_partitions_are_enough(story: Story) -> None:
    story.topic(3)
    story.fetch(3, min_bytes=400)
    story.append(0, b"x" * 100)
    story.append(2, b"x" * 100)
    assert story.client.answers == []
    story.append(0, b"x" * 100)
    found = story.found()
    assert found[0] > found[2] > 100
    assert sum(found.values()) >= 400


class Forgetful(CachedReads):
    """No page of these partitions is in memory."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self._folders = [f"/topic-{number}/" for number in numbers]

    def reader(self, file: File) -> Reader:
        def absent(_position: int, _length: int) -> bytes:
            raise NotCached

        return absent if any(folder in file.path for folder in self._folders) else super().reader(file)


def fill(story: Story, number: int) -> None:
    """So many batches that the first is no longer known without a look at the file."""
    for _ in range(100):
        story.append(number, b"x" * 100)


@pytest.mark.parametrize("partitions", [3, 25])
async def test_a_look_up_that_would_wait_for_the_disk_is_made_by_a_thread_first(story: Story, partitions: int) -> None:
    story.topic(partitions)
    for number in range(3):
        fill(story, number)
    story.broker.cached_reads = Forgetful(0, 2)
    story.fetch(partitions)
    await asyncio.wait_for(story.at_work.wait(), 60)
    assert story.client.answers == []
    assert story.client.alone
    story.run_threads()
    found = story.found()
    assert min(found[0], found[1], found[2]) > 0
    assert sum(map(bool, found.values())) == 3


async def test_a_cold_fetch_that_finds_too_little_waits_for_the_rest(story: Story) -> None:
    story.topic(2)
    fill(story, 0)
    story.broker.cached_reads = Forgetful(0)
    story.fetch(2, min_bytes=45_000)
    fill(story, 1)
    story.run_threads()
    assert story.client.answers == []
    fill(story, 1)
    assert sum(story.found().values()) >= 45_000
    assert not story.threads


async def test_a_cold_fetch_does_not_wait_when_it_may_not(story: Story) -> None:
    story.topic(1)
    fill(story, 0)
    story.broker.cached_reads = Forgetful(0)
    story.fetch(1, max_wait_ms=0, min_bytes=1 << 20)
    story.run_threads()
    assert story.found()[0] > 0


async def test_without_time_to_wait_a_fetch_answers_what_there_is(story: Story) -> None:
    story.topic(2)
    story.fetch(2, max_wait_ms=0, min_bytes=1000)
    assert story.found() == {0: 0, 1: 0}


async def test_at_its_deadline_a_fetch_answers_what_it_has(story: Story) -> None:
    story.topic(2)
    story.fetch(2, min_bytes=10_000, max_wait_ms=1)
    story.append(1, b"x" * 100)
    await asyncio.wait_for(story.client.answered.wait(), 60)
    assert story.found()[1] > 100


async def test_a_waiting_fetch_hears_that_its_topic_is_gone(story: Story) -> None:
    story.topic(2)
    story.fetch(2)
    for partition in story.broker.partitions.remove_topic(TOPIC_ID):
        story.broker.waiting.nudge(partition)
    (answer,) = story.client.answers
    errors = {part.error_code for topic in answer.responses for part in topic.partitions}
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors
    told = sum(part.error_code != 0 for topic in answer.responses for part in topic.partitions)
    assert sum(story.broker.dispatcher.meter.errors.values()) == told


async def test_a_fetch_that_finds_what_it_wants_counts_no_error(story: Story) -> None:
    story.topic(2)
    story.append(1, b"one")
    story.fetch(2)
    assert story.found()
    assert story.broker.dispatcher.meter.errors == {}


async def test_the_byte_limit_holds_over_all_partitions(story: Story) -> None:
    story.topic(5)
    for number in range(5):
        story.append(number, b"x" * 1000)
    story.fetch(5, max_bytes=2500)
    found = story.found()
    assert sum(found.values()) <= 2500
    assert found[0] > 1000


async def test_the_brokers_own_limit_holds_whatever_the_client_allows(story: Story) -> None:
    story.broker.fetch_max_bytes = 2500
    story.topic(5)
    for number in range(5):
        story.append(number, b"x" * 1000)
    story.fetch(5, max_bytes=2**31 - 1)
    assert sum(story.found().values()) <= 2500


async def test_a_fetch_that_wants_more_than_it_may_get_does_not_wait_for_it(story: Story) -> None:
    story.topic(2)
    for number in range(2):
        story.append(number, b"x" * 1000)
    story.fetch(2, max_bytes=500, min_bytes=50_000)
    assert sum(story.found().values()) > 0


async def test_the_largest_limits_leave_room_for_what_goes_around_the_records(story: Story) -> None:
    story.broker.fetch_max_bytes = 2**31 - 1
    story.topic(1)
    story.append(0, b"x")
    story.fetch(1, max_bytes=2**31 - 1, min_bytes=2**31 - 1)
    wait: Any
    (wait,) = story.broker.waiting._parked
    assert wait._most + 2**26 < 2**31


async def test_a_fetch_whose_client_left_waits_no_longer(story: Story) -> None:
    story.topic(2)
    story.fetch(2)
    (place,) = story.client.places
    place.abandoned()
    assert len(story.broker.waiting) == 0
    story.append(1, b"value")
    assert story.client.answers == []


async def test_behind_a_fetch_that_waits_one_more_is_taken_and_no_further_one(story: Story) -> None:
    story.topic(1)
    story.fetch(1)
    assert not story.client.alone, "its client may send other requests meanwhile"
    story.fetch(1)
    assert story.client.alone


def broken(*_: object) -> NoReturn:
    raise RuntimeError("a bug")


async def test_a_reader_that_cannot_be_served_hears_of_it_and_the_writer_does_not(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.topic(1)
    story.fetch(1, isolation_level=1)
    failure = StorageFailure("/data/topic-0/0.txnindex", errno.EMFILE, "Too many open files")

    def fail(log: PartitionLog, start: int, stop: int, cached: object) -> NoReturn:
        raise failure

    monkeypatch.setattr(PartitionLog, "aborted_transactions", fail)
    story.append(0, b"value")
    (answer,) = story.client.answers
    assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert story.storage_failures == [failure]


async def test_a_fetch_that_breaks_at_its_deadline_ends_its_own_connection(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = LoopTime(monkeypatch)
    story.topic(1)
    story.fetch(1)
    monkeypatch.setattr(Fetch, "_complete", broken)
    time.forward(61)
    await until(lambda: story.client.dropped is not None, "its connection ends")
    assert len(story.broker.waiting) == 0


async def test_a_fetch_of_very_many_partitions_that_breaks_ends_its_own_connection(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.topic(35)
    monkeypatch.setattr(Fetch, "_complete", broken)
    story.fetch(35, max_wait_ms=0)
    await until(lambda: story.client.dropped is not None, "its connection ends")


async def test_a_fetch_of_very_many_partitions_lets_others_have_their_turn(story: Story) -> None:
    story.topic(35)
    story.append(34, b"last")
    story.fetch(35)
    for _ in range(3):
        assert story.client.answers == []
        await asyncio.sleep(0)
    await asyncio.wait_for(story.client.answered.wait(), 60)
    found = story.found()
    assert len(found) == 35
    assert [number for number, size in found.items() if size] == [34]


async def test_a_fetch_of_very_many_partitions_waits_like_any_other(story: Story) -> None:
    story.topic(35)
    story.fetch(35)
    await until(lambda: len(story.broker.waiting) == 1, "it waits")
    assert story.client.answers == []
    story.append(20, b"value")
    assert [number for number, size in story.found().items() if size] == [20]


async def test_a_session_is_told_only_what_is_new(story: Story) -> None:
    story.topic(3)
    story.append(0, b"value")
    story.fetch(3, session_epoch=0)
    session = story.client.answers.pop().session_id
    story.fetch(0, session_id=session, session_epoch=1, max_wait_ms=0)
    assert set(story.found()) == {0}, "its first partition still has records at the offset it asked for"


async def test_what_comes_while_very_many_partitions_are_looked_into_is_not_missed(story: Story) -> None:
    story.topic(35)
    story.fetch(35)
    for _ in range(4):
        await asyncio.sleep(0)
    story.append(3, b"value")  # it was looked into before, and the fetch does not wait yet
    assert len(story.broker.waiting) == 0
    await asyncio.wait_for(story.client.answered.wait(), 30)
    assert [number for number, size in story.found().items() if size] == [3]
    assert len(story.broker.waiting) == 0


async def test_what_comes_to_a_large_session_while_it_is_looked_into_is_not_missed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "NEWS_AT_ONCE", 10)
    monkeypatch.setattr(Fetch, "_complete", lambda each: each.reply.complete(each.answer()))
    story.topic(35)
    story.fetch(35, session_epoch=0, max_wait_ms=0)
    await asyncio.wait_for(story.client.answered.wait(), 30)
    session = story.client.answers.pop().session_id
    story.client.answered.clear()
    story.fetch(0, session_id=session, session_epoch=1)
    for _ in range(4):
        await asyncio.sleep(0)
    story.append(3, b"value")
    assert len(story.broker.waiting) == 0
    await asyncio.wait_for(story.client.answered.wait(), 30)
    assert set(story.found()) == {3}
    assert len(story.broker.waiting) == 0


async def test_a_fetch_of_very_many_partitions_does_not_wait_for_a_client_that_left(story: Story) -> None:
    story.topic(35)
    story.fetch(35)
    (place,) = story.client.places
    place.wanted = False
    await until(lambda: story.broker.dispatcher.in_progress == 0, "it was looked through")
    assert len(story.broker.waiting) == 0
    assert story.client.answers == []
