"""What `ottla topic` shows follows from what the cluster told."""

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import plain
from ottla.cli.topic_views import (
    Deletion,
    Described,
    Listed,
    OffsetRange,
    created_json,
    created_text,
    deletion_json,
    deletion_table,
    describe_json,
    describe_summary,
    describe_table,
    found_json,
    found_table,
    list_json,
    list_table,
    reach_json,
    reach_table,
)
from ottla.client.admin.part import Outcome
from ottla.client.admin.topics import Config, ConfigSource, Created
from ottla.client.cluster import Partition, Topic
from ottla.client.offsets import FoundOffset

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
    assert plain(list_table(Listed([ORDERS, OTHER], SIZES, {TopicPartition("other", 0): 7}))) == (
        "TOPIC   PARTITIONS  REPLICATION  RECORDS     SIZE  STATE\n"
        "orders           3            1        ?  2.0 KiB  1 without leader, 1 under-replicated\n"
        "other            1            2        7      0 B  ok\n"
    )


def test_a_list_without_sizes_has_no_column_for_them() -> None:
    unknown = Listed([OTHER], None, None)
    assert plain(list_table(unknown)).splitlines()[0].split() == ["TOPIC", "PARTITIONS", "REPLICATION", "STATE"]
    assert list_json(unknown) == [
        {
            "name": "other",
            "id": None,
            "internal": True,
            "partitions": 1,
            "replication_factor": 2,
            "records": None,
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


def test_what_was_created_is_said_with_its_numbers_where_the_broker_tells_them() -> None:
    made = Created(ErrorCode.NONE, None, bytes(range(16)), 1, 3)
    assert created_text("t", made, dry_run=False) == "created topic 't': 1 partition, replication factor 3\n"
    assert created_text("t", made._replace(partitions=-1), dry_run=True) == "would create topic 't'\n"
    there = Created(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there", bytes(16), -1, -1)
    assert created_text("t", there, dry_run=False) == "topic 't' exists already\n"
    assert created_json("t", there) == {
        "topic": "t",
        "id": None,
        "partitions": None,
        "replication_factor": None,
        "error": "TOPIC_ALREADY_EXISTS",
        "message": "it is there",
    }


def test_offsets_are_told_as_a_reach_or_as_what_a_moment_falls_on() -> None:
    place = TopicPartition("t", 1)
    assert plain(reach_table([OffsetRange(place, 5, 12)])).split()[-5:] == ["t", "1", "5", "12", "7"]
    assert reach_json([OffsetRange(place, 5, 12)]) == [
        {"topic": "t", "partition": 1, "earliest_offset": 5, "latest_offset": 12}
    ]
    found = {place: FoundOffset(7, 1000, 0), TopicPartition("t", 2): FoundOffset(-1, -1, -1)}
    rows = plain(found_table(found)).splitlines()[1:]
    assert [row.split() for row in rows] == [["t", "1", "7", "1970-01-01T00:00:01.000Z"], ["t", "2", "none", "-"]]
    assert found_json(found)[1] == {"topic": "t", "partition": 2, "offset": None, "timestamp": None}


def test_deleted_records_are_counted_where_the_deletion_was_not_refused() -> None:
    done = Deletion(TopicPartition("t", 0), 5, 9, Outcome(ErrorCode.NONE))
    refused = Deletion(TopicPartition("t", 1), 5, -1, Outcome(ErrorCode.OFFSET_OUT_OF_RANGE))
    (row,) = plain(deletion_table([done, refused])).splitlines()[1:]
    assert row.split() == ["t", "0", "5", "9", "4"]
    assert deletion_json(refused) == {
        "topic": "t",
        "partition": 1,
        "began_at": 5,
        "begins_at": None,
        "error": "OFFSET_OUT_OF_RANGE",
    }
