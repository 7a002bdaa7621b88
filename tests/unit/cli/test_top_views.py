"""What two looks at a cluster say of what happened between them."""

from ottla.base.vocabulary import TopicPartition
from ottla.cli.cluster_views import Status
from ottla.cli.output import plain
from ottla.cli.top_looks import GroupLook, Look
from ottla.cli.top_views import (
    brokers_table,
    frame,
    frame_json,
    groups_table,
    heading,
    rows_that_fit,
    tables,
    topics_table,
)
from ottla.client.address import Address
from ottla.client.admin.brokers import BrokerState, ClusterState
from ottla.client.cluster import Partition, Topic

FIRST, SECOND, OWN = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("__own", 0)
BROKERS = (BrokerState(1, Address("one", 9092), None, False), BrokerState(2, Address("two", 9092), None, True))
TOPICS = [
    Topic("__own", bytes(16), True, (Partition(0, 1, 0, (1,), (1,), ()),)),
    Topic("t", bytes(16), False, (Partition(0, 1, 0, (1, 2), (1,), (2,)), Partition(1, -1, 0, (2,), (2,), (2,)))),
]
STATUS = Status(ClusterState("abc", 1, BROKERS), None, TOPICS, {})
BEFORE = Look(
    10.0, STATUS, {FIRST: 1000, SECOND: 7, OWN: 5}, {1: {FIRST: 10_000, OWN: 100}, 2: {FIRST: 9_000}},
    {"g": GroupLook("Stable", 2, {FIRST: 100}), "gone": GroupLook("Empty", 0, {FIRST: 1})},
)  # fmt: skip
AFTER = Look(
    12.0, STATUS, {FIRST: 1200, SECOND: 3, OWN: 5}, {1: {FIRST: 12_048, OWN: 100}},
    {
        "g": GroupLook("Stable", 2, {FIRST: 700, SECOND: 1}),
        "new": GroupLook("Empty", None, {FIRST: 1200}),
    },
)  # fmt: skip


def test_rates_are_what_was_gained_in_the_seconds_between() -> None:
    shown = frame(BEFORE, AFTER, internal=False)
    (topic,) = shown.topics
    assert (topic.records_in, topic.bytes_in, topic.records_out) == (100.0, 1024.0, 300.0)
    assert (topic.under_replicated, topic.offline) == (1, 1)
    one, two = shown.brokers
    assert (one.records_in, one.leaders, one.size) == (100.0, 2, 12_148)
    assert (two.fenced, two.records_in, two.size) == (True, 0.0, 0)


def test_what_went_backwards_is_nothing() -> None:
    shown = frame(AFTER, BEFORE._replace(moment=14.0), internal=False)
    assert shown.topics[0].records_in == 2.0
    assert shown.topics[0].bytes_in == 0.0
    assert all(group.records_out == 0.0 for group in shown.groups)


def test_a_group_that_gains_on_the_end_catches_up() -> None:
    shown = frame(BEFORE, AFTER, internal=False)
    behind, level = shown.groups
    assert (behind.name, behind.lag, behind.records_out) == ("g", 502, 300.0)
    assert behind.catch_up == 502 / ((900 - 502) / 2)
    assert (level.name, level.lag, level.catch_up, level.records_out) == ("new", 0, None, 0.0)
    rows = [line.split() for line in plain(groups_table(shown, 10)).splitlines()[1:]]
    assert rows[0][-2:] == ["2", "s"]
    assert rows[1][2:] == ["?", "0", "0", "-"]
    losing = frame(AFTER, AFTER._replace(moment=14.0, ends={FIRST: 9000, SECOND: 3}), internal=False)
    assert plain(groups_table(losing, 10)).splitlines()[1].split()[-1] == "never"


def test_the_heading_tells_what_is_wrong() -> None:
    assert heading(frame(BEFORE, AFTER, internal=False)) == (
        "cluster abc  controller 1  brokers 1/2  in 100 records/s, 1.0 KiB/s  1 offline, 1 under-replicated  "
        "leader skew 0%"
    )


def test_tables_show_the_busiest_and_say_how_many_are_left_out() -> None:
    shown = frame(BEFORE, AFTER, internal=True)
    assert [topic.name for topic in shown.topics] == ["t", "__own"]
    assert plain(topics_table(shown, 1)).splitlines()[-1] == "… and 1 more"
    assert plain(brokers_table(shown)).splitlines()[2].split()[2] == "fenced"
    assert len(tables(shown, 5)) == 4
    assert len(tables(shown._replace(groups=()), 5)) == 3
    assert len(tables(shown._replace(groups=(), troubles=()), 5)) == 2


def test_partitions_in_trouble_are_named() -> None:
    _, trouble, *_ = tables(frame(BEFORE, AFTER, internal=False), 5)
    assert [line.split()[:3] for line in plain(trouble).splitlines()[1:]] == [
        ["t", "1", "offline"],
        ["t", "0", "under-replicated"],
    ]


def test_a_screen_shows_as_many_rows_as_it_has_room_for() -> None:
    shown = frame(BEFORE, AFTER, internal=True)
    crowded = shown._replace(topics=shown.topics * 50, groups=shown.groups * 50)
    quiet = crowded._replace(troubles=())
    for height, each in ((24, quiet), (40, quiet), (40, crowded), (60, crowded)):
        rows = rows_that_fit(each, height)
        drawn = sum(len(plain(table).splitlines()) + 3 for table in tables(each, rows))
        assert height - 8 < drawn + 2 <= height
    assert rows_that_fit(crowded._replace(groups=()), 40) > rows_that_fit(crowded, 40)
    assert rows_that_fit(crowded, 5) == 1


def test_programs_get_all_of_it() -> None:
    document = frame_json(frame(BEFORE, AFTER, internal=True))
    assert document["under_replicated"] == 1
    assert [row["partition"] for row in document["troubles"]] == [0, 1]
    assert [group["name"] for group in document["groups"]] == ["g", "new"]
    assert document["brokers"][0]["records_in"] == 100.0
