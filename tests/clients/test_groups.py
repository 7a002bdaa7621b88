"""Consumer groups as confluent-kafka (librdkafka), kafka-python and aiokafka use them.

It proves that ordinary consumers subscribe, share partitions, commit, and go on where they stopped: after a restart of
their own, of the broker, and when others come, leave, fall silent or restart as static members.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.others.group_members import PARTITIONS, SECONDS, Member, described, fill, members, settled
from kit.wire.raw import RawConnection

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python uses what the standard library deprecates
    import kafka
    import kafka.admin
    from kafka.structs import OffsetAndMetadata

# The clients' own habits are not on trial here.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def committed_of(broker: Broker, group: str, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    answer = asked[group].result(SECONDS)
    return {item.partition: item.offset for item in answer.topic_partitions if item.topic == topic}


# --- confluent-kafka ---


def test_a_consumer_goes_on_where_its_predecessor_committed(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    with members(broker, topic, topic, {}) as (first,):
        until(lambda: first.has(40), "forty records", SECONDS)
        chosen = [TopicPartition(topic, partition, 7) for partition in range(PARTITIONS)]
        first.consumer.commit(offsets=chosen, asynchronous=False)
    with members(broker, topic, topic, {}) as (second,):
        until(lambda: second.has(12), "the rest", SECONDS)
        assert sorted(second.received) == list(range(28, 40))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_anew_when_one_comes_or_leaves(broker: Broker, topic: str, strategy: str) -> None:
    fill(broker, topic)
    own = {"partition_assignment_strategy": strategy}
    with members(broker, topic, topic, own) as (first,):
        until(lambda: settled([first]), "one member with everything", SECONDS)
        with members(broker, topic, topic, own, own) as others:
            until(lambda: settled([first, *others]), "three members", SECONDS)
            until(lambda: described(broker, topic).state.name == "STABLE", "a stable group", SECONDS)
            found = described(broker, topic)
            assert found.partition_assignor == strategy
            assert len(found.members) == 3
        until(lambda: settled([first]), "one member again", SECONDS)
    until(lambda: described(broker, topic).state.name == "EMPTY", "an empty group", SECONDS)


def test_a_static_member_restarts_without_a_rebalance(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    with members(broker, topic, topic, {"group_instance_id": "a"}) as (stays,):
        restarting = Member(broker, topic, topic, group_instance_id="b")
        until(lambda: settled([stays, restarting]), "two members", SECONDS)
        held, before = restarting.partitions, stays.rebalances
        restarting.close()
        restarting = Member(broker, topic, topic, group_instance_id="b")
        until(lambda: settled([stays, restarting]), "two members again", SECONDS)
        assert restarting.partitions == held
        assert stays.rebalances == before
        restarting.close()


def test_a_second_bearer_of_an_instance_id_fences_the_first(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    with members(broker, topic, topic, {"group_instance_id": "a"}) as (first,):
        until(lambda: settled([first]), "the first", SECONDS)
        with members(broker, topic, topic, {"group_instance_id": "a"}) as (second,):
            until(lambda: settled([second]), "the second", SECONDS)

            def fenced() -> bool:
                message = first.consumer.poll(0.05)
                error = None if message is None else message.error()
                return error is not None and error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)

            until(fenced, "the first one's end", SECONDS)


def test_the_partitions_of_a_silent_member_go_to_the_others(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"group.min.session.timeout.ms": "100"}) as broker:
        fill(broker, topic)
        with RawConnection(broker.host, broker.port) as silent:
            fields: dict[str, Any] = {
                "group_id": topic,
                "session_timeout": 1_500,
                "rebalance_timeout": 3_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
            }
            until(lambda: str(silent.ask("find_coordinator", 1, key=topic, key_type=0)["error_code"]) == "none", "it")
            joined = until(
                lambda: (answer := silent.ask("join_group", 2, **fields))["generation_id"] > 0 and answer, "a join"
            )
            assert joined["leader"] == joined["member_id"]
            with members(broker, topic, topic, {}) as (lively,):
                until(lambda: settled([lively]), "everything", SECONDS)
                assert len(described(broker, topic).members) == 1


def test_more_partitions_are_shared_out_too(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    with members(broker, topic, topic, {}, {}) as both:
        until(lambda: settled(both), "two members", SECONDS)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(SECONDS)
        until(lambda: settled(both, PARTITIONS + 2), "the new partitions", SECONDS)


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_groups_and_offsets_survive_the_broker(start_broker: StartBroker, topic: str, crash: bool) -> None:
    with start_broker({}) as broker:
        if not hasattr(broker, "kill"):
            pytest.skip("only a process of our own is killed")
        fill(broker, topic)
        with members(broker, topic, topic, {}) as (member,):
            until(lambda: member.has(40), "forty records", SECONDS)
            member.consumer.commit(asynchronous=False)
            before = member.rebalances
            broker.kill() if crash else broker.stop()
            broker.start()

            def commits_again() -> bool:
                member.poll()
                try:
                    member.consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
                except KafkaException:
                    return False
                return True

            until(commits_again, "a commit after the restart", SECONDS)
            assert member.rebalances == before
            assert committed_of(broker, topic, topic) == {0: 5, 1: 10, 2: 10, 3: 10}
            assert len(described(broker, topic).members) == 1


def test_commits_that_wait_for_the_disk_are_answered(start_broker: StartBroker, topic: str) -> None:
    with start_broker({"log.flush.interval.messages": "1"}) as broker:
        fill(broker, topic)
        with members(broker, topic, topic, {}, {}) as both:
            until(lambda: settled(both), "two members", SECONDS)
            for member in both:
                member.consumer.commit(
                    offsets=[TopicPartition(topic, index, 4) for _, index in member.partitions], asynchronous=False
                )
        assert committed_of(broker, topic, topic) == dict.fromkeys(range(PARTITIONS), 4)


def test_offsets_are_committed_without_joining(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 1, 0)])
    committed = [TopicPartition(topic, 1, 3, metadata="a note", leader_epoch=0)]
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    first, second = other.committed([TopicPartition(topic, 1), TopicPartition(topic, 2)], SECONDS)
    other.close()
    assert (first.offset, first.metadata, first.leader_epoch) == (3, "a note", 0)
    assert second.offset < 0


def test_groups_are_listed_described_reset_and_deleted(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with members(broker, topic, topic, {}) as (member,):
        until(lambda: settled([member]), "a member", SECONDS)
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([topic])[topic].result(SECONDS)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        member.consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    chosen = [TopicPartition(topic, partition, 2) for partition in range(PARTITIONS)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(topic, chosen)])[topic].result(SECONDS)
    assert committed_of(broker, topic, topic) == dict.fromkeys(range(PARTITIONS), 2)
    listed = {item.group_id for item in admin.list_consumer_groups().result(SECONDS).valid}
    assert topic in listed
    admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert topic not in {item.group_id for item in admin.list_consumer_groups().result(SECONDS).valid}
    assert committed_of(broker, topic, topic) == {}


def test_offsets_go_with_their_topic(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS)
    until(lambda: committed_of(broker, topic, topic) == {}, "the end of its offsets", SECONDS)


# --- kafka-python ---


def python_consumer(broker: Broker, group: str, *topics: str) -> Any:
    return kafka.KafkaConsumer(
        *topics,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(SECONDS * 1000),
    )


def test_kafka_python_commits_and_goes_on(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    first = python_consumer(broker, topic, topic)
    received = [int(next(first).value) for _ in range(40)]
    assert sorted(received) == list(range(40))
    first.commit({kafka.TopicPartition(topic, index): OffsetAndMetadata(9, "", -1) for index in range(PARTITIONS)})
    first.close()
    second = python_consumer(broker, topic, topic)
    assert sorted(int(next(second).value) for _ in range(4)) == [36, 37, 38, 39]
    second.close()


def test_kafka_python_administers_groups(broker: Broker, topic: str) -> None:
    fill(broker, topic)
    consumer = python_consumer(broker, topic, topic)
    next(consumer)
    consumer.commit()
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert topic in {listed["group_id"] for listed in admin.list_groups()}
    (member,) = admin.describe_groups([topic])[topic]["members"]
    assert member["member_metadata"]["topics"] == [topic]
    assert member["member_assignment"]["assigned_partitions"][0]["partitions"] == list(range(PARTITIONS))
    first = kafka.TopicPartition(topic, 0)
    assert admin.list_group_offsets(topic)[topic][first].offset in (0, 1, 10)
    assert admin.delete_group_offsets(topic, [first])[first].__name__ == "GroupSubscribedToTopicError"
    consumer.close()
    assert admin.delete_group_offsets(topic, [first])[first].__name__ == "NoError"
    assert first not in admin.list_group_offsets(topic)[topic]
    assert admin.delete_groups([topic]) == {topic: "OK"}
    admin.close()


# --- aiokafka ---


async def test_aiokafka_members_share_commit_and_go_on(broker: Broker, topic: str) -> None:
    fill(broker, topic)

    def consumer() -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    async def shared(*consumers: aiokafka.AIOKafkaConsumer) -> None:
        while sorted(len(one.assignment()) for one in consumers) != [PARTITIONS // len(consumers)] * len(consumers):
            for one in consumers:
                await one.getmany(timeout_ms=50)

    async with asyncio.timeout(SECONDS):
        first = consumer()
        await first.start()
        received = [int((await first.getone()).value or b"") for _ in range(40)]
        assert sorted(received) == list(range(40))
        await first.commit({aiokafka.TopicPartition(topic, index): 8 for index in range(PARTITIONS)})
        second = consumer()
        await second.start()
        await shared(first, second)
        await first.stop()
        await shared(second)
        assert {await second.committed(one) for one in second.assignment()} == {8}
        await second.stop()
