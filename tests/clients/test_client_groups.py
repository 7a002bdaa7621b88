"""The client's groups on a real broker: both protocols, every assignor, listeners, commits, silence and crashes."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import ottla.testing
from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.topics import create_topic
from kit.others.group_program import SECONDS, GroupProgram, eventually, shared
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import BrokerError, CommitFailed, MemberFenced
from ottla.client.groups.assignors import Assignor, GroupMember
from ottla.client.groups.vocabulary import BrokerPattern, OffsetAndMetadata
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.schema import LATEST, Root

CLASSIC = [{"partition_assignment_strategy": name} for name in ("range", "roundrobin", "sticky", "cooperative-sticky")]
MODERN: dict[str, Any] = {"group_protocol": "consumer"}
EVERY = [*CLASSIC, MODERN]
BOTH = [CLASSIC[0], MODERN]
PATIENCE = 90.0
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that allows short sessions and wants frequent reports."""
    with broker_under_test(tmp_path_factory.mktemp("groups") / "data", SETTINGS) as running:
        yield running


def name_of(settings: dict[str, Any]) -> str:
    return str(settings.get("partition_assignment_strategy", "consumer"))


@pytest.fixture
async def members() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


class Programs:
    """Starts members of one group that are closed when the test ends."""

    def __init__(self, stack: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]) -> None:
        self._stack = stack
        self._broker = broker
        self._topic = topic
        self._settings = settings

    async def __call__(self, topics: Any = None, listener: Any = None, **more: Any) -> GroupProgram:
        program = GroupProgram(self._broker.bootstrap, self._topic, **{**self._settings, **more})
        await self._stack.enter_async_context(program)
        return await program.start(topics or [self._topic], listener)


@pytest.mark.parametrize("settings", EVERY, ids=name_of)
async def test_members_share_the_partitions_when_one_comes_and_when_one_leaves(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 6)
    start = Programs(members, broker, topic, settings)
    first = await start()
    await eventually(lambda: len(first.held) == 6, "all partitions for one")
    second, third = await start(), await start()
    await eventually(lambda: shared([first, second, third], 6), "two partitions each", PATIENCE)
    assert {len(one.held) for one in (first, second, third)} == {2}
    await third.close()
    await eventually(lambda: shared([first, second], 6), "three partitions each", PATIENCE)
    assert "lost" not in first.kinds + second.kinds


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_positions_are_committed_when_partitions_go_and_found_again(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 2)
    start = Programs(members, broker, topic, settings)
    first = await start()
    await eventually(lambda: len(first.held) == 2, "both partitions")
    first.where = {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 9}
    await first.close()
    second = await start()
    await eventually(lambda: len(second.held) == 2, "both partitions", PATIENCE)
    found = await second.group.committed(second.held, second.cluster.deadline(SECONDS))
    assert {each.partition: position.offset for each, position in found.items()} == {0: 7, 1: 9}
    assert all(position.leader_epoch == -1 for position in found.values())


async def test_positions_are_committed_by_themselves_at_intervals(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 1)
    program = await Programs(members, broker, topic, CLASSIC[0])(auto_commit_interval_ms=100)
    await eventually(lambda: program.held, "the partition")
    program.where = {TopicPartition(topic, 0): 5}
    await eventually(lambda: "committed" in program.kinds, "an automatic commit")
    found = await program.group.committed(program.held, program.cluster.deadline(SECONDS))
    assert found == {TopicPartition(topic, 0): OffsetAndMetadata(5)}


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_member_whose_program_falls_silent_leaves_and_comes_back_with_the_next_poll(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 4)
    start = Programs(members, broker, topic, settings)
    lazy = await start(max_poll_interval_ms=1_500, enable_auto_commit=False)
    awake = await start()
    await eventually(lambda: shared([lazy, awake], 4), "two partitions each", PATIENCE)
    lazy.silent = True
    held = lazy.held
    await eventually(lambda: len(awake.held) == 4, "all partitions for the other", PATIENCE)
    assert lazy.held == held, "nothing happens to a program that does not poll"
    stale = {each: OffsetAndMetadata(3) for each in held}
    with pytest.raises(CommitFailed):
        await lazy.group.commit(stale, lazy.cluster.deadline(SECONDS))
    lazy.silent = False
    await eventually(lambda: shared([lazy, awake], 4), "two partitions each again", PATIENCE)
    assert ("lost", held) in lazy.events


async def test_reports_go_on_while_the_program_is_busy_and_a_rebalance_waits_for_its_poll(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 2)
    start = Programs(members, broker, topic, CLASSIC[0])
    session = 5.0
    busy = await start(session_timeout_ms=int(session * 1000))
    await eventually(lambda: len(busy.held) == 2, "both partitions")
    busy.silent = True
    other = await start()
    loop = asyncio.get_running_loop()
    session_is_over = loop.time() + 1.3 * session
    await eventually(lambda: loop.time() > session_is_over, "more than a session's time")
    assert len(busy.held) == 2
    assert not other.held
    await eventually(lambda: "rebalancing" in (other.group.why_idle() or ""), "the other waits for it")
    busy.silent = False
    await eventually(lambda: shared([busy, other], 2), "one partition each")
    assert "lost" not in busy.kinds


class Listener:
    """Remembers what it was told, slowly; fails when asked to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[int]]] = []
        self.fail = False

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.told.append(("assigned", {each.partition for each in partitions}))
        if self.fail:
            raise RuntimeError("the listener's own")

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", {each.partition for each in partitions}))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", {each.partition for each in partitions}))


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_listeners_hear_of_partitions_that_come_and_go(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 2)
    start = Programs(members, broker, topic, settings)
    listener = Listener()
    first = await start(listener=listener)
    await eventually(lambda: listener.told == [("assigned", {0, 1})], "both partitions")
    await first.close()
    assert listener.told[1:] == [("revoked", {0, 1})]
    listener.fail = True
    second = await start(listener=listener)
    await eventually(lambda: second.failure is not None, "the listener's error in the program", PATIENCE)
    assert str(second.failure) == "the listener's own"
    assert len(second.held) == 2


@pytest.mark.parametrize("settings", EVERY, ids=name_of)
async def test_partitions_that_are_added_are_shared(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 2)
    start = Programs(members, broker, topic, settings)
    first, second = await start(), await start()
    await eventually(lambda: shared([first, second], 2), "one partition each", PATIENCE)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(SECONDS)
    await eventually(lambda: shared([first, second], 4), "two partitions each", PATIENCE)


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_pattern_finds_the_topics_that_match_and_those_made_later(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, f"{topic}-a", 1)
    start = Programs(members, broker, topic, settings)
    program = await start(re.compile(re.escape(topic) + "-[ab]"))
    await eventually(lambda: {each.topic for each in program.held} == {f"{topic}-a"}, "the first topic", PATIENCE)
    create_topic(broker, f"{topic}-b", 1)
    create_topic(broker, f"{topic}-c", 1)
    await eventually(lambda: len(program.held) == 2, "the second topic", PATIENCE)
    assert {each.topic for each in program.held} == {f"{topic}-a", f"{topic}-b"}


async def test_a_pattern_is_matched_by_the_broker(members: AsyncExitStack, broker: Broker, topic: str) -> None:
    create_topic(broker, f"{topic}-a", 1)
    program = await Programs(members, broker, topic, MODERN)(BrokerPattern(f"{topic}-[ab]"))
    await eventually(lambda: {each.topic for each in program.held} == {f"{topic}-a"}, "the topic", PATIENCE)


async def test_a_pattern_for_the_broker_needs_the_consumer_protocol(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    program = await Programs(members, broker, topic, CLASSIC[0])(BrokerPattern("a.*"))
    await eventually(lambda: program.failure is not None, "an error")
    assert isinstance(program.failure, BrokerError)
    assert program.failure.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("settings", [CLASSIC[0], CLASSIC[3], MODERN], ids=name_of)
async def test_a_static_member_that_restarts_moves_nothing(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 4)
    start = Programs(members, broker, topic, settings)
    first, second = await start(group_instance_id="one"), await start(group_instance_id="two")
    await eventually(lambda: shared([first, second], 4), "two partitions each", PATIENCE)
    held, events = second.held, len(first.events)
    await second.close()
    again = await start(group_instance_id="two")
    await eventually(lambda: again.held == held, "the same partitions")
    assert [event for event in first.events[events:] if event[0] != "committed"] == []


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_two_members_cannot_have_one_name(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 1)
    start = Programs(members, broker, topic, settings)
    first = await start(group_instance_id="one")
    await eventually(lambda: first.held, "the partition")
    second = await start(group_instance_id="one")
    await eventually(lambda: first.failure or second.failure, "an error in one of them", PATIENCE)
    assert isinstance(first.failure or second.failure, MemberFenced)


async def test_a_member_can_change_what_it_subscribes_to(members: AsyncExitStack, broker: Broker, topic: str) -> None:
    for name in ("a", "b"):
        create_topic(broker, f"{topic}-{name}", 1)
    program = await Programs(members, broker, topic, CLASSIC[3])([f"{topic}-a"])
    await eventually(lambda: {each.topic for each in program.held} == {f"{topic}-a"}, "the first topic")
    program.group.subscribe([f"{topic}-b"], None)
    await eventually(lambda: {each.topic for each in program.held} == {f"{topic}-b"}, "the other topic")
    await program.group.unsubscribe(program.cluster.deadline(SECONDS))
    assert not program.held


async def test_a_topic_that_is_not_there_is_named(members: AsyncExitStack, broker: Broker, topic: str) -> None:
    program = await Programs(members, broker, topic, CLASSIC[0])(allow_auto_create_topics=False)
    await eventually(lambda: program.group.why_idle() == f"no such topic: {topic}", "the reason")
    create_topic(broker, topic, 1)
    await eventually(lambda: program.held and program.group.why_idle() is None, "the partition")


@pytest.mark.parametrize("settings", EVERY, ids=name_of)
async def test_a_storm_of_members_never_gives_a_partition_to_two(
    members: AsyncExitStack, broker: Broker, topic: str, settings: dict[str, Any]
) -> None:
    create_topic(broker, topic, 12)
    start = Programs(members, broker, topic, settings)
    chance = random.Random(6)
    present = [await start() for _ in range(3)]

    async def watch() -> None:
        while True:
            held = [partition for program in present for partition in program.held]
            assert len(held) == len(set(held)), sorted(held)
            await asyncio.sleep(0.002)

    watching = asyncio.create_task(watch())
    for _ in range(14):
        if len(present) < 3 or (len(present) < 8 and chance.random() < 0.55):
            present.append(await start())
        else:
            await present.pop(chance.randrange(len(present))).close()
        changed = asyncio.get_running_loop().time() + chance.choice((0.0, 0.05, 0.4))
        await eventually(lambda at=changed: asyncio.get_running_loop().time() >= at, "the next blow")  # type: ignore[misc]
    await eventually(lambda: watching.done() or shared(present, 12), "everybody has a share", PATIENCE)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert [program.failure for program in present if program.failure] == []


async def test_a_group_changes_to_the_consumer_protocol_member_by_member(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 4)
    old = await Programs(members, broker, topic, CLASSIC[0])(enable_auto_commit=False)
    other = await Programs(members, broker, topic, CLASSIC[0])(enable_auto_commit=False)
    await eventually(lambda: shared([old, other], 4), "two members of the classic protocol")
    await old.group.commit({each: OffsetAndMetadata(4) for each in old.held}, old.cluster.deadline(SECONDS))
    committed = old.held
    await old.close()
    new = await Programs(members, broker, topic, MODERN)(enable_auto_commit=False)
    await eventually(lambda: shared([new, other], 4), "one of each protocol", PATIENCE)
    await other.close()
    await eventually(lambda: len(new.held) == 4, "the consumer protocol alone", PATIENCE)
    found = await new.group.committed(committed, new.cluster.deadline(SECONDS))
    assert {position.offset for position in found.values()} == {4}


async def test_a_member_that_leaves_in_the_middle_of_a_rebalance_commits_what_it_has_read(
    members: AsyncExitStack,
) -> None:
    """A cooperative member holds partitions while it joins: its last commit counts in the generation it joins."""
    with ottla.testing.broker() as broker:
        topic = broker.create_topic("shared", partitions=6)
        programs = [GroupProgram(broker.bootstrap, "group", **CLASSIC[3]) for _ in range(3)]
        for program in programs:
            await members.enter_async_context(program)
        leaves, busy, new = programs
        for program in (leaves, busy):
            await program.start([topic])
        await eventually(lambda: shared([leaves, busy], 6), "three partitions each", PATIENCE)
        busy.silent = True
        await new.start([topic])  # so that each of the others gives up a partition, of which the busy one does not hear
        await eventually(lambda: len(leaves.held) == 2, "one given up", PATIENCE)
        await eventually(lambda: "waits for all members" in (leaves.group.why_idle() or ""), "a join", PATIENCE)
        leaves.where = dict.fromkeys(leaves.held, 7)
        broker.delay("OffsetCommit", 0.5)  # the rebalance is over before a commit is looked at
        leaving = asyncio.create_task(leaves.close())
        await asyncio.sleep(0)
        busy.silent = False
        await leaving
        broker.delay("OffsetCommit", 0)
        await eventually(lambda: shared([busy, new], 6), "three partitions each", PATIENCE)
        found = await busy.group.committed(list(leaves.where), busy.cluster.deadline(SECONDS))
        assert {each: found[each].offset for each in leaves.where if each in found} == leaves.where


async def test_a_poll_that_is_cancelled_in_the_middle_of_a_change_loses_nothing_of_it(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 2)

    class Slow(Listener):
        async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            await asyncio.sleep(0.3)
            await super().on_partitions_assigned(partitions)

    listener = Slow()
    program = GroupProgram(broker.bootstrap, topic, **CLASSIC[0])
    await members.enter_async_context(program)
    program.silent = True
    await program.start([topic], listener)
    while not listener.told:
        try:
            async with asyncio.timeout(0.05):
                await program.group.poll(program.cluster.deadline(1))
        except TimeoutError:
            pass
        await asyncio.sleep(0.01)
    assert listener.told == [("assigned", {0, 1})]
    assert len(program.held) == 2


async def test_an_assignor_of_the_programs_own_decides_and_its_errors_reach_the_program(
    members: AsyncExitStack, broker: Broker, topic: str
) -> None:
    class Greedy(Assignor):
        """Everything to the first."""

        name = "greedy"
        fail = False

        def assign(self, group: Sequence[GroupMember], counts: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
            if self.fail:
                raise ValueError("the assignor's own")
            first, *others = sorted(member.member_id for member in group)
            every = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
            return {first: every, **{other: [] for other in others}}

    create_topic(broker, topic, 3)
    assignor = Greedy()
    start = Programs(members, broker, topic, {"partition_assignment_strategy": [assignor]})
    program = await start()
    await eventually(lambda: len(program.held) == 3, "everything")
    assignor.fail = True
    await start()
    await eventually(lambda: program.failure is not None, "the assignor's error in the program")
    assert str(program.failure) == "the assignor's own"


OLD_BROKER: dict[type[Root], int] = {
    MetadataRequest: 7,
    FindCoordinatorRequest: 2,
    JoinGroupRequest: 3,
    SyncGroupRequest: 2,
    HeartbeatRequest: 2,
    LeaveGroupRequest: 2,
    OffsetCommitRequest: 6,
    OffsetFetchRequest: 5,
}
"""What Kafka 2.1 speaks."""


async def test_members_share_the_partitions_of_an_old_broker(
    members: AsyncExitStack, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = Connection.version_for

    def old(connection: Connection, request: type[Root], highest: int = LATEST) -> int:
        return newest(connection, request, min(highest, OLD_BROKER.get(request, highest)))

    monkeypatch.setattr(Connection, "version_for", old)
    create_topic(broker, topic, 4)
    start = Programs(members, broker, topic, CLASSIC[3])
    first, second = await start(), await start()
    await eventually(lambda: shared([first, second], 4), "two partitions each")
    first.where = dict.fromkeys(first.held, 8)
    committed = first.held
    await first.close()
    await eventually(lambda: len(second.held) == 4, "all for one")
    found = await second.group.committed(second.held, second.cluster.deadline(SECONDS))
    assert found == {each: OffsetAndMetadata(8) for each in committed}
