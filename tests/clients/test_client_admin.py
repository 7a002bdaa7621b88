"""ottla's own admin client, against whichever broker is under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import ottla
from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from ottla import TopicPartition
from ottla.admin import CommittedOffset, EligibleLeaders, NewTopic, Resource, ResourceKind
from ottla.errors import BrokerError, ErrorCode

SECONDS = 60.0


@pytest.fixture
async def admin(broker: Broker) -> AsyncIterator[ottla.Admin]:
    async with ottla.Admin(bootstrap_servers=broker.bootstrap) as connected:
        yield connected


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Real clusters tell of a change a moment after they have made it."""
    try:
        async with asyncio.timeout(SECONDS):
            while not await condition():  # noqa: ASYNC110 — the change is in another process
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not in time: {what}")


async def partitions_of(admin: ottla.Admin, topic: str) -> list[tuple[int, ...]]:
    """The replicas of each partition."""
    described = (await admin.describe_topics([topic]))[topic]
    return [] if isinstance(described, BrokerError) else [each.replicas for each in described.partitions]


async def created(admin: ottla.Admin, topic: str, partitions: int = 1) -> None:
    outcome = (await admin.create_topics([NewTopic(topic, partitions, 1)]))[topic]
    assert outcome.error == ErrorCode.NONE, outcome


def written(broker: Broker, topic: str, count: int, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(SECONDS) == 0


def reader(broker: Broker, topic: str, group: str, **settings: Any) -> Any:
    """A consumer that has read one record."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", **settings}
    )
    consumer.subscribe([topic])

    def read() -> bool:
        message = consumer.poll(0.2)
        return message is not None and message.error() is None

    until(read, "a record arrives", SECONDS)
    return consumer


async def test_topics_are_created_described_grown_and_deleted(admin: ottla.Admin, topic: str) -> None:
    outcome = await admin.create_topics([NewTopic(topic, 2, 1, {"retention.ms": "1000"})])
    assert outcome[topic].error == ErrorCode.NONE
    again = await admin.create_topics([NewTopic(topic, 2, 1)])
    assert again[topic].error == ErrorCode.TOPIC_ALREADY_EXISTS
    grown = await admin.create_partitions({topic: 3})
    assert grown[topic].error == ErrorCode.NONE

    async def has_three() -> bool:
        return len(await partitions_of(admin, topic)) == 3

    await eventually(has_three, "three partitions")
    configs = {entry.name: entry.value for entry in await admin.describe_configs(Resource(ResourceKind.TOPIC, topic))}
    assert configs["retention.ms"] == "1000"

    async def listed() -> bool:
        return Resource(ResourceKind.TOPIC, topic) in await admin.config_resources([ResourceKind.TOPIC])

    await eventually(listed, "the topic is among what has settings")
    assert (await admin.delete_topics([topic]))[topic].error == ErrorCode.NONE

    async def gone() -> bool:
        return topic not in {each.name for each in await admin.topics()}

    await eventually(gone, "the topic is gone")


async def test_eligible_leaders_are_told_for_every_partition_page_after_page(
    admin: ottla.Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.admin.topics.PARTITIONS_AT_ONCE", 2)
    await created(admin, topic, 5)

    async def all_told() -> bool:
        try:
            told = await admin.eligible_leaders([topic])
        except BrokerError:
            return False
        return told == {TopicPartition(topic, number): EligibleLeaders((), ()) for number in range(5)}

    await eventually(all_told, "five partitions, each with nobody outside its in-sync set")
    with pytest.raises(BrokerError, match="no-such-topic"):
        await admin.eligible_leaders(["no-such-topic"])


async def test_a_topic_can_be_placed_by_hand(admin: ottla.Admin, topic: str) -> None:
    (broker,) = (await admin.describe_cluster()).brokers
    outcome = await admin.create_topics([NewTopic(topic, assignments={0: [broker.node_id], 1: [broker.node_id]})])
    assert outcome[topic].error == ErrorCode.NONE
    await admin.create_partitions({topic: 3}, assignments={topic: [[broker.node_id]]})

    async def placed() -> bool:
        return await partitions_of(admin, topic) == [(broker.node_id,)] * 3

    await eventually(placed, "three partitions on the broker")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_is_listed_and_described_with_its_members(
    admin: ottla.Admin, broker: Broker, topic: str, protocol: str
) -> None:
    await created(admin, topic)
    written(broker, topic, 3)
    group = f"group-{topic}"
    consumer = reader(broker, topic, group, **{"group.protocol": protocol})
    try:
        listed = {each.group_id: each for each in await admin.groups()}
        assert listed[group].kind.lower() == protocol

        async def settled() -> bool:
            """A member reads before its report that it holds what it was given has arrived."""
            found = (await admin.describe_groups([group, "nobody"]))[group]
            return not isinstance(found, BrokerError) and found.state == "Stable"

        await eventually(settled, "the group is stable")
        described = (await admin.describe_groups([group, "nobody"]))[group]
        assert not isinstance(described, BrokerError)
        assert described.kind == protocol
        (member,) = described.members
        assert member.assignment == (ottla.TopicPartition(topic, 0),)
        nobody = (await admin.describe_groups(["nobody"]))["nobody"]
        assert isinstance(nobody, BrokerError)
        assert nobody.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await admin.delete_groups([group]))[group].error == ErrorCode.NON_EMPTY_GROUP
    finally:
        consumer.close()
    assert (await admin.delete_groups([group]))[group].error == ErrorCode.NONE


async def test_offsets_of_a_group_are_read_moved_and_forgotten(admin: ottla.Admin, topic: str) -> None:
    await created(admin, topic, 2)
    group, place = f"group-{topic}", ottla.TopicPartition(topic, 1)
    moved = await admin.alter_group_offsets(group, {place: CommittedOffset(0, metadata="by hand")})
    assert moved[place].error == ErrorCode.NONE
    assert (await admin.group_offsets(group))[place] == CommittedOffset(0, -1, "by hand")
    assert await admin.group_offsets(group, [ottla.TopicPartition(topic, 0)]) == {}
    assert (await admin.delete_group_offsets(group, [place]))[place].error == ErrorCode.NONE
    assert await admin.group_offsets(group) == {}


async def test_static_members_are_removed_by_name(admin: ottla.Admin, broker: Broker, topic: str) -> None:
    await created(admin, topic)
    written(broker, topic, 3)
    group = f"group-{topic}"
    reader(broker, topic, group, **{"group.instance.id": "one"}).close()  # static members do not leave
    assert (await admin.remove_members(group, ["one"]))["one"].error == ErrorCode.NONE
    described = (await admin.describe_groups([group]))[group]
    assert not isinstance(described, BrokerError)
    assert described.members == ()


async def test_a_transaction_is_seen_and_its_producer_fenced(admin: ottla.Admin, broker: Broker, topic: str) -> None:
    await created(admin, topic)
    name, place = f"tx-{topic}", ottla.TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(SECONDS) == 0
    assert name in {each.transactional_id for each in await admin.transactions(["Ongoing"])}
    described = (await admin.describe_transactions([name]))[name]
    assert not isinstance(described, BrokerError)
    assert (described.state, described.partitions) == ("Ongoing", (place,))
    (active,) = (await admin.producers([place]))[place]
    assert (active.producer_id, active.transaction_start) == (described.producer_id, 0)
    assert (await admin.fence_producers([name]))[name].error == ErrorCode.NONE
    after = (await admin.describe_transactions([name]))[name]
    assert not isinstance(after, BrokerError)
    assert after.state != "Ongoing"


async def test_a_hanging_transaction_is_ended_at_its_partition(admin: ottla.Admin, broker: Broker, topic: str) -> None:
    await created(admin, topic)
    place = ottla.TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(SECONDS) == 0
    (active,) = (await admin.producers([place]))[place]
    assert (await admin.abort_transaction(place, active)).error == ErrorCode.NONE
    (active,) = (await admin.producers([place]))[place]
    assert active.transaction_start == -1


async def test_records_and_offsets_by_time(admin: ottla.Admin, broker: Broker, topic: str) -> None:
    await created(admin, topic)
    written(broker, topic, 5)
    place = ottla.TopicPartition(topic, 0)
    assert (await admin.offsets({place: ottla.admin.LATEST}))[place].offset == 5
    outcome, low = (await admin.delete_records({place: 3}))[place]
    assert (outcome.error, low) == (ErrorCode.NONE, 3)
    assert (await admin.offsets({place: ottla.admin.EARLIEST}))[place].offset == 3


async def test_the_nodes_tell_of_themselves(admin: ottla.Admin, broker: Broker, topic: str) -> None:
    await created(admin, topic)
    cluster = await admin.describe_cluster()
    (node,) = cluster.brokers

    async def stored() -> bool:
        directories = (await admin.log_directories())[node.node_id]
        return any(ottla.TopicPartition(topic, 0) in directory.replicas for directory in directories)

    await eventually(stored, "the topic is in a directory")
    features = await admin.features()
    level = features["metadata.version"].level
    assert features["metadata.version"].lowest <= level <= features["metadata.version"].highest
    same = await admin.update_features({"metadata.version": level}, validate_only=True)
    assert same["metadata.version"].error == ErrorCode.NONE
    too_high = await admin.update_features({"metadata.version": 9999}, validate_only=True)
    assert too_high["metadata.version"].error != ErrorCode.NONE
    assert (await admin.describe_quorum()).voters
    assert (await admin.unregister_broker(4711)).error == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_call_after_closing_says_so(broker: Broker) -> None:
    admin = ottla.Admin({"bootstrap.servers": broker.bootstrap}, client_id="short")
    await admin.topics()
    await admin.close()
    await admin.close()
    with pytest.raises(ottla.errors.ClientClosed):
        await admin.topics()


async def test_a_cluster_that_is_not_there_is_named() -> None:
    # The first refusal is told: no pause before another attempt ends in time.
    patience = {"default.api.timeout.ms": 30_000, "retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
    admin = ottla.Admin({"bootstrap.servers": "127.0.0.1:1", **patience})
    with pytest.raises(ottla.errors.ConnectionFailed, match=r"127\.0\.0\.1:1: connection refused"):
        await admin.topics()
    await admin.close()
