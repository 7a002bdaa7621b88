"""What `ottla group` shows follows from what the cluster told."""

from ottla.base.vocabulary import TopicPartition
from ottla.cli.group_views import (
    SHOWN_PARTITIONS,
    DescribedGroup,
    describe_json,
    describe_summary,
    list_json,
    list_table,
    members_table,
    readings_table,
    total_lag,
)
from ottla.cli.output import plain
from ottla.client.admin.groups import CommittedOffset, GroupDescription, GroupMember, ListedGroup

FIRST, SECOND, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MEMBER = GroupMember("m-1", None, "app", "/10.0.0.1", (FIRST, SECOND), 4)
GROUP = GroupDescription("g", "consumer", "Stable", "uniform", (MEMBER,), 2, 4)
DESCRIBED = DescribedGroup(
    GROUP, {FIRST: CommittedOffset(7, 0, "note"), GONE: CommittedOffset(3)}, {FIRST: 10, SECOND: 5}
)


def test_a_list_shows_what_the_brokers_tell_and_marks_what_they_do_not() -> None:
    listed = [ListedGroup("g", "consumer", "Stable", "Consumer"), ListedGroup("old", "", "", "")]
    assert plain(list_table(listed, {"g": 1})) == (
        "GROUP  TYPE      PROTOCOL  STATE   MEMBERS\n"
        "g      consumer  consumer  Stable        1\n"
        "old    -         -         -             -\n"
    )
    assert list_json(listed, {"g": 1})[1] == {
        "group": "old", "type": None, "protocol": None, "state": None, "members": None,
    }  # fmt: skip


def test_lag_is_the_end_less_the_offset_where_both_are_known() -> None:
    assert plain(readings_table(DESCRIBED)) == (
        "TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  HOST       CLIENT\n"
        "t              0          7   10    3  m-1     /10.0.0.1  app\n"
        "t              1          -    5    -  m-1     /10.0.0.1  app\n"
        "u              0          3    -    -  -       -          -\n"
    )
    assert total_lag(DESCRIBED) == 3


def test_an_offset_beyond_the_end_is_no_lag() -> None:
    ahead = DescribedGroup(GROUP, {FIRST: CommittedOffset(12)}, {FIRST: 10})
    assert total_lag(ahead) == 0


def test_a_summary_says_who_coordinates_and_how_many_there_are() -> None:
    assert describe_summary(DESCRIBED) == (
        "group        g\nstate        Stable\ntype         consumer\nepoch        4\nassignor     uniform\n"
        "coordinator  2\nmembers      1\nlag          3\n"
    )


def test_members_are_shown_with_the_first_of_their_partitions() -> None:
    assert plain(members_table(GROUP)).splitlines()[1].split() == ["m-1", "-", "/10.0.0.1", "app", "2", "t:0,1"]
    many = tuple(TopicPartition("t", number) for number in range(SHOWN_PARTITIONS + 1))
    crowded = GROUP._replace(members=(MEMBER._replace(assignment=many),))
    assert plain(members_table(crowded)).rstrip().endswith("t:0,1,2,3,4,5,6,7 …")


def test_programs_get_every_partition_and_member() -> None:
    document = describe_json(DESCRIBED)
    assert (document["lag"], document["epoch"], document["coordinator"]) == (3, 4, 2)
    assert document["members"][0]["assignment"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
    assert document["partitions"][0] == {
        "topic": "t", "partition": 0, "committed": 7, "end": 10, "lag": 3, "metadata": "note", "member": "m-1",
    }  # fmt: skip
