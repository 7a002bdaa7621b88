"""What `ottla cluster status` shows follows from what the cluster told."""

from ottla.cli.cluster_views import (
    Status,
    brokers_table,
    leader_skew,
    status_json,
    summary,
    trouble_table,
    troubles,
)
from ottla.cli.output import plain
from ottla.cli.quorum_views import quorum_table
from ottla.client.address import Address
from ottla.client.admin.brokers import BrokerState, ClusterState, Quorum, QuorumReplica
from ottla.client.cluster import Partition, Topic

WHOLE = Partition(0, 1, 4, (1, 2, 3), (1, 2, 3), ())
LAGGING = Partition(1, 1, 5, (2, 1, 3), (1, 3), (2,))
SCARCE = Partition(2, 1, 5, (1, 2, 3), (1,), (2,))
DARK = Partition(3, -1, 6, (2,), (), (2,))
BROKERS = (
    BrokerState(1, Address("one", 9092), "a", False),
    BrokerState(2, Address("two", 9092), None, True),
    BrokerState(3, Address("three", 9092), "b", False),
)
VOTERS = (QuorumReplica(1, bytes(16), 90, 5_000, 5_000), QuorumReplica(3, bytes(16), 100, 9_000, 9_000))
OBSERVERS = (QuorumReplica(2, bytes(16), 70, -1, -1),)
QUORUM = Quorum(3, 7, 95, VOTERS, OBSERVERS)
STATUS = Status(
    ClusterState("the-id", 1, BROKERS), QUORUM, [Topic("t", bytes(16), False, (WHOLE, LAGGING, SCARCE, DARK))], {"t": 2}
)
HEALTHY = STATUS._replace(topics=[Topic("t", bytes(16), False, (WHOLE,))], quorum=None)


def test_a_summary_counts_trouble_and_names_the_quorums_leader_as_the_controller() -> None:
    assert summary(STATUS) == (
        "cluster      the-id\n"
        "controller   3\n"
        "topics       1\n"
        "partitions   4: 1 offline, 2 under min in-sync, 3 under-replicated\n"
        "leader skew  67%, 1 not led by the first replica\n"
    )


def test_a_cluster_without_trouble_and_without_quorum_says_so() -> None:
    assert "partitions   1: all in sync\n" in summary(HEALTHY)
    assert "controller   1\n" in summary(HEALTHY)
    assert trouble_table(troubles(HEALTHY)).rows == []


def test_brokers_show_what_they_carry_and_whether_they_take_part() -> None:
    assert plain(brokers_table(STATUS)) == (
        "BROKER  ADDRESS     RACK  STATE   LEADS  PREFERRED  REPLICAS  IN SYNC\n"
        "     1  one:9092    a     up          3          2         3        3\n"
        "     2  two:9092    -     fenced      0          2         4        1\n"
        "     3  three:9092  b     up          0          0         3        2\n"
    )


def test_the_quorum_shows_its_leader_and_how_far_the_others_are_behind() -> None:
    assert plain(quorum_table(QUORUM)) == (
        "NODE  QUORUM    END OFFSET  LAG  BEHIND\n"
        "   1  voter             90   10   4.0 s\n"
        "   3  leader           100    0   0.0 s\n"
        "   2  observer          70   30       ?\n"
    )


def test_trouble_is_shown_worst_first() -> None:
    assert [row[1:4] for row in trouble_table(troubles(STATUS)).rows] == [
        ["3", "offline", "none"],
        ["2", "under min in-sync", "1"],
        ["1", "under-replicated", "1"],
    ]


def test_much_trouble_is_cut_short_and_counted() -> None:
    many = Topic("t", bytes(16), False, tuple(DARK._replace(number=number) for number in range(25)))
    rows = trouble_table(troubles(STATUS._replace(topics=[many]))).rows
    assert len(rows) == 21
    assert rows[-1][0] == "… and 5 more"


def test_json_has_every_partition_under_everything_that_is_wrong_with_it() -> None:
    document = status_json(STATUS)
    assert [row["partition"] for row in document["offline"]] == [3]
    assert [row["partition"] for row in document["under_min_in_sync"]] == [2, 3]
    assert [row["partition"] for row in document["under_replicated"]] == [1, 2, 3]
    assert document["offline"][0]["leader"] is None
    assert document["controller"] == 3
    assert {"id": 1, "end_offset": 90, "lag": 10}.items() <= document["quorum"]["voters"][0].items()
    assert document["brokers"][1]["fenced"] is True


def test_a_cluster_that_could_not_be_more_even_is_not_skewed() -> None:
    assert leader_skew(STATUS._replace(topics=[])) == 0.0
    assert leader_skew(HEALTHY) == 0.0
