"""Who wins when several say something about one setting."""

import pytest

from ottla.base.settings import TOPIC_SETTINGS, BrokerValues, InvalidSetting

HOUR = 3_600_000


def test_an_untouched_broker_has_the_defaults() -> None:
    values = BrokerValues()
    assert values.integer("num.partitions") == 1
    assert values.real("log.cleaner.min.cleanable.ratio") == 0.5
    assert values.boolean("auto.create.topics.enable") is True
    assert values.text("compression.type") == "producer"
    assert values.listing("process.roles") == ("broker", "controller")
    assert values.get("broker.rack") is None
    assert values.integer("node.id") == values.integer("broker.id") == 1


def test_this_brokers_dynamic_value_beats_the_clusters_beats_the_file_beats_the_default() -> None:
    static, cluster, own = (
        {"log.segment.bytes": "1048577"},
        {"log.segment.bytes": "1048578"},
        {"log.segment.bytes": "1048579"},
    )
    assert BrokerValues().integer("log.segment.bytes") == 1 << 30
    assert BrokerValues(static).integer("log.segment.bytes") == 1048577
    assert BrokerValues(static, {}, cluster).integer("log.segment.bytes") == 1048578
    assert BrokerValues(static, own, cluster).integer("log.segment.bytes") == 1048579
    assert BrokerValues(static).with_dynamic(own, cluster).integer("log.segment.bytes") == 1048579


@pytest.mark.parametrize(
    ("static", "expected"),
    [
        ({}, 168 * HOUR),
        ({"log.retention.hours": "2"}, 2 * HOUR),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_the_finest_retention_time_given_counts(static: dict[str, str], expected: int) -> None:
    values = BrokerValues(static)
    assert values.get("log.retention.ms") == expected
    assert values.topic_values()["retention.ms"] == expected


def test_segments_roll_and_flush_by_the_finest_time_given() -> None:
    values = BrokerValues({"log.roll.hours": "5", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9"})
    topic = values.topic_values()
    assert (topic["segment.ms"], topic["segment.jitter.ms"], topic["flush.ms"]) == (5 * HOUR, HOUR, 9)
    finer = BrokerValues({"log.roll.ms": "7", "log.roll.hours": "5", "log.flush.interval.ms": "8"}).topic_values()
    assert (finer["segment.ms"], finer["flush.ms"]) == (7, 8)


def test_a_dynamic_time_puts_the_coarser_static_ones_out_of_force() -> None:
    values = BrokerValues({"log.retention.minutes": "30"}, {"log.retention.ms": "5"})
    assert values.own_text("log.retention.minutes") is None
    assert values.get("log.retention.ms") == 5


def test_a_topic_takes_from_the_broker_what_it_does_not_override() -> None:
    values = BrokerValues({"message.max.bytes": "100", "log.cleanup.policy": "compact"})
    topic = values.topic_values({"max.message.bytes": "200", "preallocate": "true"})
    assert set(topic) == set(TOPIC_SETTINGS)
    assert (topic["max.message.bytes"], topic["cleanup.policy"], topic["preallocate"]) == (200, ("compact",), True)
    assert values.topic_values()["max.message.bytes"] == 100


def test_the_segment_size_for_tests_replaces_the_usual_one() -> None:
    assert BrokerValues().topic_values({"internal.segment.bytes": "100"})["segment.bytes"] == 100


def test_a_stored_override_of_an_unknown_name_is_left_aside() -> None:
    assert "message.format.version" not in BrokerValues().topic_values({"message.format.version": "3.0"})


def test_topics_without_overrides_share_one_mapping() -> None:
    values = BrokerValues()
    assert values.topic_values() is values.topic_values({})


def test_either_name_of_the_nodes_number_sets_both() -> None:
    assert BrokerValues({"broker.id": "4"}).integer("node.id") == 4
    assert BrokerValues({"node.id": "4"}).integer("broker.id") == 4


def test_a_number_can_come_later() -> None:
    for static in ({}, {"broker.id": "-1"}):
        values = BrokerValues(static, {"log.cleaner.threads": "2"})
        assert not values.is_numbered
        later = values.numbered(1001)
        assert later.is_numbered
        assert later.integer("node.id") == later.integer("broker.id") == 1001
        assert later.integer("log.cleaner.threads") == 2
    assert BrokerValues({"node.id": "0"}).is_numbered
    assert BrokerValues({"broker.id": "1"}).is_numbered


def test_what_is_not_set_follows_what_it_depends_on() -> None:
    values = BrokerValues({"log.dir": "/a", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"})
    assert values.listing("log.dirs") == ("/a",)
    assert values.text("metadata.log.dir") == "/a"
    assert values.integer("num.replica.alter.log.dirs.threads") == 1
    assert values.listing("advertised.listeners") == ("PLAINTEXT://:1",)
    assert BrokerValues({"log.dirs": "/b,/c", "log.dir": "/a"}).listing("log.dirs") == ("/b", "/c")


def test_a_wrong_text_is_told_when_it_is_asked_for() -> None:
    with pytest.raises(InvalidSetting, match="Not a number of type INT"):
        BrokerValues({"num.partitions": "many"}).integer("num.partitions")


def test_a_name_outside_the_table_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        BrokerValues().get("no.such.setting")
