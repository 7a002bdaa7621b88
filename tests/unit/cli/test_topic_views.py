"""What `ottla topic` shows follows from what the cluster told."""

from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import plain
from ottla.cli.topic_views import (
    Described,
    describe_json,
    describe_summary,
    describe_table,
    list_json,
    list_table,
)
from ottla.client.admin.topics import Config, ConfigSource
from ottla.client.cluster import Partition, Topic

HEALTHY = Partition(0, 1, 4, (1, 2), (1, 2), ())
LAGGING = Partition(1, 2, 5, (2, 1), (2,), ())
LEADERLESS = Partition(2, -1, 6, (1,), (), (1,))
ORDERS = Topic("orders", bytes(range(16)), False, (HEALTHY, LAGGING, LEADERLESS))
OTHER = Topic("other", bytes(16), True, (HEALTHY,))
SIZES = {TopicPartition("orders", 0): 1024, TopicPartition("orders", 1): 1024, TopicPartition("x", 0): 5}
SETTING = Config("retention.ms", "1000", ConfigSource.TOPIC, False, False, None)
SECRET = Config("secret", None, ConfigSource.TOPIC, False, True, None)
DESCRIBED = Described(ORDERS, {0: 3, 1: 0}, {0: 10, 1: 5}, {0: 1024}, [SETTING, SECRET])


def test_a_list_names_trouble_and_the_smallest_replication() -> None:
    assert plain(list_table([ORDERS, OTHER], SIZES)) == (
        "TOPIC   PARTITIONS  REPLICATION     SIZE  STATE\n"
        "orders           3            1  2.0 KiB  1 without leader, 1 under-replicated\n"
        "other            1            2      0 B  ok\n"
    )


def test_a_list_without_sizes_has_no_column_for_them() -> None:
    assert "SIZE" not in plain(list_table([OTHER], None))
    assert list_json([OTHER], None) == [
        {
            "name": "other",
            "id": None,
            "internal": True,
            "partitions": 1,
            "replication_factor": 2,
            "size": None,
            "state": "ok",
        }
    ]


def test_a_description_counts_records_only_where_all_offsets_are_known() -> None:
    summary = describe_summary(DESCRIBED)
    assert "records" not in summary
    assert "setting      retention.ms=1000\n" in summary
    assert "setting      secret=(secret)\n" in summary
    complete = DESCRIBED._replace(topic=ORDERS._replace(partitions=(HEALTHY, LAGGING)))
    assert "records      12\n" in describe_summary(complete)


def test_partitions_show_what_is_known_and_a_question_mark_for_the_rest() -> None:
    assert plain(describe_table(DESCRIBED)) == (
        "PARTITION  LEADER  REPLICAS  IN SYNC  FIRST  NEXT  RECORDS     SIZE\n"
        "        0       1  1,2       1,2          3    10        7  1.0 KiB\n"
        "        1       2  2,1       2            0     5        5        ?\n"
        "        2    none  1                      ?     ?        ?        ?\n"
    )


def test_the_json_of_a_description_has_null_where_nothing_is_known() -> None:
    content = describe_json(DESCRIBED)
    assert content["id"] == "AAECAwQFBgcICQoLDA0ODw"
    assert content["configs"] == {"retention.ms": "1000", "secret": None}
    assert content["partitions"][2] == {
        "partition": 2,
        "leader": None,
        "leader_epoch": 6,
        "replicas": [1],
        "in_sync": [],
        "earliest_offset": None,
        "latest_offset": None,
        "size": None,
    }
