"""Groups of the consumer protocol (KIP-848) as confluent-kafka and Kafka's Java client and tools use them.

It proves that members with `group.protocol=consumer` subscribe by name and by pattern, share partitions when others
come, leave, fall silent or when a topic grows, restart as static members without a rebalance, outlive the broker, and
share a group with members of the classic protocol while it changes over and back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.command_line import Ottla
from kit.brokers.processes import OttlaProcess, until
from kit.others import group_members, java
from kit.others.group_members import PARTITIONS, SECONDS, Member, described, fill, settled

# The clients' own habits are not on trial here.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

# Clients heartbeat when the broker tells them to: often, so that tests are quick. Sessions are long: a machine that
# stands still for some seconds is no reason to lose partitions.
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.assignment.interval.ms": "100",
}
GROUPS = f"{java.TOOLS}.consumer.group.ConsumerGroupCommand"
CONSOLE = f"{java.TOOLS}.consumer.ConsoleConsumer"
StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose groups of the consumer protocol are in a hurry."""
    with broker_under_test(tmp_path_factory.mktemp("quick") / "data", QUICK) as running:
        yield running


members = partial(group_members.members, protocol="consumer")
ModernMember = partial(Member, protocol="consumer")


def stable(broker: Broker, group: str) -> bool:
    """Whether the group knows that every member has what it was given, which a member tells after it has it."""
    return bool(described(broker, group).state == ConsumerGroupState.STABLE)


def test_a_consumer_reads_commits_and_another_goes_on(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    with members(quick, topic, topic, {}) as (member,):
        until(lambda: member.has(40), "all records", SECONDS)
        assert sorted(member.received) == list(range(40))
        offsets = [TopicPartition(topic, index, 9) for index in range(PARTITIONS)]
        member.consumer.commit(offsets=offsets, asynchronous=False)
    with members(quick, topic, topic, {}) as (member,):
        until(lambda: member.has(4), "the rest", SECONDS)
        assert sorted(member.received) == [36, 37, 38, 39]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_anew_when_one_comes_or_leaves(quick: Broker, topic: str, assignor: str) -> None:
    fill(quick, topic)
    wish = {"group_remote_assignor": assignor}
    with members(quick, topic, topic, wish) as (first,):
        until(lambda: settled([first]), "one member", SECONDS)
        with members(quick, topic, topic, wish) as (second,):
            until(lambda: settled([first, second]), "two members", SECONDS)
            if assignor == "range":
                assert {number for _, number in first.partitions} in ({0, 1}, {2, 3})
        until(lambda: settled([first]), "one member again", SECONDS)


def test_a_static_member_restarts_without_a_rebalance(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    with members(quick, topic, topic, {}) as (other,):
        first = ModernMember(quick, topic, topic, group_instance_id="steady")
        until(lambda: settled([other, first]) and stable(quick, topic), "two members", SECONDS)
        mine, changes = first.partitions, other.rebalances
        first.close()
        again = ModernMember(quick, topic, topic, group_instance_id="steady")
        until(lambda: settled([other, again]), "it to be back", SECONDS)
        assert again.partitions == mine
        assert other.rebalances == changes
        again.close()


def test_the_partitions_of_a_silent_member_go_to_the_others(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    Ottla(quick.bootstrap)("config", "alter", "group", topic, "consumer.session.timeout.ms=2500")
    script = (
        "from confluent_kafka import Consumer\n"
        f"where = {{'bootstrap.servers': '{quick.bootstrap}'}}\n"
        f"c = Consumer({{**where, 'group.id': '{topic}', 'group.protocol': 'consumer'}})\n"
        f"c.subscribe(['{topic}'])\n"
        "while not c.assignment(): c.poll(0.1)\n"
        "print('mine', flush=True)\n"
        "while True: c.poll(0.1)\n"
    )
    silent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert silent.stdout is not None
        assert silent.stdout.readline() == "mine\n"
        with members(quick, topic, topic, {}) as (member,):
            until(lambda: settled([member], 2), "a share", SECONDS)
            silent.kill()
            until(lambda: settled([member]), "everything", SECONDS)
    finally:
        silent.kill()
        silent.communicate()


def test_more_partitions_are_shared_out_too(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    with members(quick, topic, topic, {}, {}) as made:
        until(lambda: settled(made), "two members", SECONDS)
        admin = AdminClient({"bootstrap.servers": quick.bootstrap})
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(SECONDS)
        until(lambda: settled(made, 6), "the new partitions", SECONDS)


def test_a_pattern_finds_topics_of_now_and_later(quick: Broker, topic: str) -> None:
    fill(quick, f"{topic}-first")
    with members(quick, topic, f"^{topic}-(first|second)$", {}) as (member,):
        until(lambda: settled([member]), "the first topic", SECONDS)
        fill(quick, f"{topic}-second")
        until(lambda: settled([member], 2 * PARTITIONS), "the second topic", SECONDS)
    (listed,) = [found for found in listed_groups(quick) if found.group_id == topic]
    assert listed.type == ConsumerGroupType.CONSUMER


def listed_groups(broker: Broker) -> list[Any]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return list(admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(SECONDS).valid)


@pytest.mark.parametrize("crash", [False, True])
def test_a_group_outlives_the_broker(start_broker: StartBroker, topic: str, crash: bool) -> None:
    with start_broker(QUICK) as broker:
        if not isinstance(broker, OttlaProcess):
            pytest.skip("the real Kafka of the tests begins anew with every start")
        fill(broker, topic)
        with members(broker, topic, topic, {}, {}) as made:
            until(lambda: settled(made) and stable(broker, topic), "two members", SECONDS)
            before = [member.partitions for member in made]
            made[0].consumer.commit(offsets=[TopicPartition(*sorted(before[0])[0], 3)], asynchronous=False)
            (broker.kill if crash else broker.stop)()
            broker.start()
            until(lambda: settled(made), "the same members", SECONDS)
            assert [member.partitions for member in made] == before
            until(lambda: stable(broker, topic), "a stable group", SECONDS)
            assert [member.partitions for member in made] == before
            place = TopicPartition(*sorted(before[0])[0])
            until(lambda: made[0].consumer.committed([place], SECONDS)[0].offset == 3, "its offset", SECONDS)


def test_a_group_is_described_and_deleted(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    admin = AdminClient({"bootstrap.servers": quick.bootstrap})
    with members(quick, topic, topic, {"client_id": "somebody"}) as (member,):
        until(lambda: settled([member]), "a member", SECONDS)
        until(lambda: stable(quick, topic), "a stable group", SECONDS)
        found = described(quick, topic)
        assert found.type == ConsumerGroupType.CONSUMER
        assert found.partition_assignor == "uniform"
        assert [(one.client_id, len(one.assignment.topic_partitions)) for one in found.members] == [("somebody", 4)]
        assert len(found.members[0].target_assignment.topic_partitions) == 4
        with pytest.raises(KafkaException):
            admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert topic not in [one.group_id for one in listed_groups(quick)]


def test_members_of_both_protocols_share_a_group_on_its_way_there_and_back(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    old = Member(quick, topic, topic, partition_assignment_strategy="cooperative-sticky")
    until(lambda: settled([old]), "a classic member", SECONDS)
    assert described(quick, topic).type == ConsumerGroupType.CLASSIC
    new = ModernMember(quick, topic, topic)
    until(lambda: settled([old, new]) and stable(quick, topic), "one of each", SECONDS)
    assert described(quick, topic).type == ConsumerGroupType.CONSUMER
    place = TopicPartition(*sorted(old.partitions)[0], 2)
    old.consumer.commit(offsets=[place], asynchronous=False)
    new.close()
    until(lambda: settled([old]), "the classic member alone", SECONDS)
    assert described(quick, topic).type == ConsumerGroupType.CLASSIC
    old.consumer.commit(offsets=[place], asynchronous=False)
    old.close()
    with members(quick, topic, topic, {}) as (member,):
        until(lambda: settled([member]), "a member of the new protocol in the empty group", SECONDS)
    assert described(quick, topic).type == ConsumerGroupType.CONSUMER


def test_javas_consumer_and_tools_know_both_kinds_of_groups(quick: Broker, topic: str) -> None:
    fill(quick, topic)
    where = ("--bootstrap-server", quick.bootstrap)
    for protocol in ("consumer", "classic"):
        group = f"{topic}-{protocol}"
        printed = java.run(
            CONSOLE, *where, "--topic", topic, "--group", group, "--from-beginning",
            "--max-messages", "40", "--timeout-ms", "60000",
            "--command-property", f"group.protocol={protocol}",
        )  # fmt: skip
        assert sorted(map(int, printed.output.split())) == list(range(40))
    listed = java.run(GROUPS, *where, "--list", "--type").output
    assert [line.split()[1] for line in listed.splitlines() if f"{topic}-consumer" in line] == ["Consumer"]
    assert [line.split()[1] for line in listed.splitlines() if f"{topic}-classic" in line] == ["Classic"]
    with members(quick, f"{topic}-consumer", topic, {}) as (member,):
        until(lambda: settled([member]), "a member", SECONDS)
        until(lambda: stable(quick, f"{topic}-consumer"), "stable", SECONDS)
        state = java.run(GROUPS, *where, "--describe", "--group", f"{topic}-consumer", "--state", "--verbose").output
        assert "Stable" in state
        shown = java.run(GROUPS, *where, "--describe", "--group", f"{topic}-consumer", "--members", "--verbose").output
        assert f"{topic}:0,1,2,3" in shown
        refused = java.attempt(GROUPS, *where, "--delete", "--group", f"{topic}-consumer")
        assert "not empty" in refused.output + refused.errors
    for group, forms in ((f"{topic}-consumer", RESETS), (f"{topic}-classic", RESETS[:1])):
        _offsets_are_reset(where, group, topic, forms)
        java.run(GROUPS, *where, "--delete", "--group", group)
    assert topic not in java.run(GROUPS, *where, "--list").output


Resets = tuple[tuple[tuple[str, ...], str], ...]
RESETS: Resets = (
    (("--to-earliest",), "0"),
    (("--to-offset", "4"), "4"),
    (("--shift-by", "2"), "6"),
    (("--to-latest",), "10"),
    (("--to-datetime", "2000-01-01T00:00:00.000"), "0"),
    (("--by-duration", "PT0S"), "10"),
    (("--to-current",), "10"),
)
"""Forms of resetting offsets, one after another, and where each leads in a partition of ten records."""


def _offsets_are_reset(where: tuple[str, str], group: str, topic: str, forms: Resets) -> None:
    shown = java.run(GROUPS, *where, "--describe", "--group", group, "--offsets").output
    assert [line.split()[3] for line in shown.splitlines() if topic in line and group in line] == ["10"] * PARTITIONS
    for form, expected in forms:
        reset = java.run(GROUPS, *where, "--reset-offsets", "--group", group, "--topic", topic, "--execute", *form)
        rows = [line.split() for line in reset.output.splitlines() if line.startswith(group)]
        assert [row[3] for row in rows] == [expected] * PARTITIONS, (form, reset.output)
