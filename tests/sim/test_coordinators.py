"""Coordinators over internal partitions that are replicated and move: nothing that was answered is lost by a move.

Three brokers as real nodes run them, on a seeded world; the test decides who leads what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kit.worlds.broker_worlds import BrokerWorld, patiently, read_committed
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError, ClientError
from ottla.coordinator.transactions.markers import write_marker
from ottla.coordinator.transactions.verification import Errors
from ottla.log import partition_log
from ottla.log.producers import EndMarker
from ottla.records.check import LABORIOUS, BatchRefusal, Checked, Rules, check
from ottla.sim.client import SimMember, SimProducer, SimSession
from ottla.transactions.state import TransactionState
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

STATE = TopicPartition("__transaction_state", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
DATA = [TopicPartition("topic", index) for index in range(3)]
LAYOUT = {
    "__transaction_state": [[1, 2, 3]],
    "__consumer_offsets": [[2, 3, 1]],
    "topic": [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
}
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "min.insync.replicas": "2"}
NOBODY = SimMember("", -1)


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    made = BrokerWorld(LAYOUT, settings=SETTINGS)
    yield made
    made.close()


async def expect(session: SimSession, *values: bytes) -> None:
    """Readers of every partition come to see exactly these."""
    for name in DATA:
        for _ in range(200):
            seen = await read_committed(session, name)
            if len(seen) >= len(values):
                break
            await asyncio.sleep(0.05)
        assert seen == list(values), name


async def write(session: SimSession, producer: SimProducer, *values: bytes, sequence: int = 0) -> None:
    """The same values to every partition, in the producer's transaction."""
    if not producer.implicit:
        await patiently(session.add_partitions, producer, DATA)
    for name in DATA:
        await patiently(session.produce, name, values, producer, sequence, 3.0)


def open_anywhere(world: BrokerWorld) -> bool:
    """Whether a leader still knows of an open transaction."""
    for name in DATA:
        leader = world.nodes[world.image.topics[name.topic].partitions[name.partition].leader]
        partition = leader.broker.partitions.get(name)
        assert partition is not None
        assert partition.log is not None
        if not partition.log.producers.stable:
            return True
    return False


def joining(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )


@pytest.mark.parametrize("implicit", [False, True])
def test_a_transaction_ends_in_partitions_of_all_brokers(world: BrokerWorld, implicit: bool) -> None:
    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=implicit)
        await write(session, producer, b"a", b"b")
        if not implicit:
            await session.add_offsets(producer, "group")
        await patiently(session.commit_in_transaction, producer, "group", DATA[0], 7)
        assert await read_committed(session, DATA[1]) == []
        await session.end(producer, commit=True)
        await expect(session, b"a", b"b")
        found = await patiently(session.committed, "group", DATA[:1], NOBODY)
        assert found == {0: 7}

    world.run(story)
    assert not open_anywhere(world)


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_transaction_goes_on_with_the_next_coordinator(world: BrokerWorld, implicit: bool, commit: bool) -> None:
    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=implicit)
        await write(session, producer, b"a")
        world.move(STATE, 2)
        await write(session, producer, b"b", sequence=1)
        world.move(STATE, 3)
        await patiently(session.end, producer, commit=commit)
        await expect(session, *([b"a", b"b"] if commit else []))

    world.run(story)
    world.scheduler.run_for(5.0)
    assert not open_anywhere(world)


def test_the_next_transaction_begins_while_the_one_before_still_ends(world: BrokerWorld) -> None:
    """Nobody is sent away for that, as long as it is a moment."""

    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=True)
        await write(session, producer, b"0")
        for number in range(1, 6):
            producer = await session.end(producer, commit=True)
            # Each time another partition is the first, to which the marker may still be under way.
            for turn in range(len(DATA)):
                name = DATA[(number + turn) % len(DATA)]
                await session.produce(name, [b"%d" % number], producer, 0, 3.0)
        await session.end(producer, commit=True)
        await expect(session, *(b"%d" % number for number in range(6)))

    world.run(story)


def test_an_end_that_was_answered_is_told_by_the_next_coordinator(world: BrokerWorld) -> None:
    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=True)
        await write(session, producer, b"a")
        for name in DATA:
            world.move(name, -1)
        await patiently(session.end, producer, commit=True)
        world.move(STATE, 2)
        await asyncio.sleep(1.0)
        for name, leader in zip(DATA, (3, 1, 2), strict=True):
            world.move(name, leader)
        assert open_anywhere(world)
        await expect(session, b"a")

    world.run(story)
    assert not open_anywhere(world)
    shard = world.nodes[2].broker.transactions.shard("id")
    assert not isinstance(shard, ErrorCode)
    assert shard.machine.transactions["id"].state is TransactionState.COMPLETE_COMMIT


def test_markers_follow_a_partition_to_its_next_leader(world: BrokerWorld) -> None:
    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=True)
        await write(session, producer, b"a")
        world.move(DATA[1], -1)
        await patiently(session.end, producer, commit=True)
        # The others have their markers; the transaction is not over.
        await asyncio.sleep(2.0)
        shard = world.nodes[1].broker.transactions.shard("id")
        assert not isinstance(shard, ErrorCode)
        assert shard.machine.transactions["id"].state is TransactionState.PREPARE_COMMIT
        world.move(DATA[1], 3)
        await expect(session, b"a")

    world.run(story)


def test_a_coordinator_that_is_not_told_of_its_end_answers_nothing_that_is_lost(world: BrokerWorld) -> None:
    """Its followers follow another by then, so what it decides is never committed."""

    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000, implicit=True)
        await write(session, producer, b"a")
        world.move(STATE, 2, late={1: 8.0})
        await asyncio.sleep(0.5)
        old = world.nodes[1].broker.transactions.shard("id")
        assert not isinstance(old, ErrorCode), "it still believes that it leads"
        with pytest.raises(ClientError):
            await session.end(producer, commit=False)
        await asyncio.sleep(9.0)
        # The new coordinator knows nothing of the abort: the transaction is open and can be committed.
        await patiently(session.end, producer, commit=True)
        await expect(session, b"a")

    world.run(story)


def test_an_append_that_the_end_of_its_transaction_overtakes_is_refused(world: BrokerWorld) -> None:
    """Otherwise it would begin a transaction that nobody ends."""

    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000)
        await patiently(session.add_partitions, producer, DATA)
        broker = world.nodes[2].broker
        verdict: asyncio.Future[Errors] = broker.loop.create_future()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker.transactions.remote_coordinators, "ask", lambda *asked: verdict)
            writing = asyncio.ensure_future(session.produce(DATA[1], [b"late"], producer, 0, 3.0))
            await asyncio.sleep(0.5)
            await patiently(session.end, producer, commit=False)
            await asyncio.sleep(0.5)
            broker.loop.call_soon(verdict.set_result, {})
            with pytest.raises(BrokerError) as refused:
                await writing
        assert refused.value.code == ErrorCode.INVALID_TXN_STATE

    world.run(story)
    assert not open_anywhere(world)


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(world: BrokerWorld) -> None:
    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "id", 60_000)
        for leader in (2, 3):
            world.move(STATE, leader)
        await write(session, producer, b"a")
        await patiently(session.end, producer, commit=True)
        await expect(session, b"a")
        await write(session, producer, b"b", sequence=1)
        world.move(DATA[1], 1)
        await asyncio.sleep(0.5)
        stale = EndMarker(producer.producer_id, producer.epoch, 1, False)
        assert (
            write_marker(world.nodes[1].broker.transactions, DATA[1], stale) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
        await patiently(session.end, producer, commit=True)
        await expect(session, b"a", b"b")

    world.run(story)


def test_offsets_that_were_acknowledged_are_there_after_a_move(world: BrokerWorld) -> None:
    async def story(session: SimSession) -> None:
        for leader in (3, 1, 2, 3):
            await patiently(session.commit, "group", DATA[0], leader, NOBODY)
            world.move(OFFSETS, leader)
            found = await patiently(session.committed, "group", DATA[:1], NOBODY)
            assert found == {0: leader}

    world.run(story)


def test_an_offset_is_not_acknowledged_before_a_second_broker_has_it(world: BrokerWorld) -> None:
    for other in (1, 3):
        world.network.cut(f"node-{other}", "node-2")

    async def story(session: SimSession) -> None:
        with pytest.raises(ClientError):
            await session.commit("group", DATA[0], 5, NOBODY)
        # Nor is it told to readers.
        with pytest.raises(ClientError):
            await session.committed("group", DATA[:1], NOBODY)

    world.run(story)


def test_members_that_wait_for_a_rebalance_are_sent_to_the_next_coordinator(world: BrokerWorld) -> None:
    async def story(session: SimSession) -> None:
        first = await patiently(joined, session)
        assert first.leader == first.member_id
        waiting = asyncio.ensure_future(session.ask_group("group", joining(), JoinGroupResponse))
        second = await waiting
        assert second.error_code == ErrorCode.MEMBER_ID_REQUIRED
        waiting = asyncio.ensure_future(session.ask_group("group", joining(second.member_id), JoinGroupResponse))
        await asyncio.sleep(1.0)
        assert not waiting.done(), "the first member has not joined again"
        world.move(OFFSETS, 3)
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        session.lost_coordinator("group")
        again = await patiently(joined, session)
        assert again.error_code == ErrorCode.NONE

    world.run(story)


async def joined(session: SimSession) -> JoinGroupResponse:
    """A new member, through both steps of it."""
    answer = await session.ask_group("group", joining(), JoinGroupResponse)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await session.ask_group("group", joining(answer.member_id), JoinGroupResponse)
    if answer.error_code:
        session.lost_coordinator("group")
        raise BrokerError(answer.error_code, "group")
    return answer


@pytest.mark.parametrize("implicit", [False, True])
def test_a_batch_that_is_checked_while_its_transaction_ends_is_not_appended_behind_the_end(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, implicit: bool
) -> None:
    held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
    broker = world.nodes[1].broker
    monkeypatch.setattr(partition_log, "check", impatient)
    monkeypatch.setattr(broker.record_checks, "_in_thread", lambda work, done: held.append((work, done)))

    async def story(session: SimSession) -> None:
        producer = await patiently(session.init_producer, "copier", 60_000, implicit=implicit)
        if not implicit:
            await patiently(session.add_partitions, producer, DATA[:1])
        late = asyncio.ensure_future(world.session().produce(DATA[0], [b"late"], producer, 0, 30.0))
        for _ in range(1000):
            if held:
                break
            await asyncio.sleep(0.01)
        await patiently(session.end, producer, commit=False)
        await asyncio.sleep(1)
        work, done = held.pop()
        work()
        broker.loop.call_soon(done, None)
        with pytest.raises(BrokerError):
            await late

    world.run(story)
    assert not open_anywhere(world)


def impatient(
    data: memoryview, rules: Rules, now_ms: int, name: object, from_client: bool = True, patient: bool = True
) -> Checked | BatchRefusal:
    """Everything takes long to check."""
    return check(data, rules, now_ms, name, from_client=from_client) if patient else LABORIOUS
