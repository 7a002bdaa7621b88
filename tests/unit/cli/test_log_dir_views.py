"""What the brokers' directories hold, in sums and one by one."""

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.cli.log_dir_views import directories_json, directories_table, of_topics, replicas_table, topics_table
from ottla.cli.output import plain
from ottla.client.admin.nodes import LogDirectory, StoredReplica
from ottla.client.admin.part import Outcome

FINE = Outcome(ErrorCode.NONE)
DIRECTORIES = {
    1: (
        LogDirectory(
            "/a", FINE,
            {
                TopicPartition("t", 0): StoredReplica(1024, 0, False),
                TopicPartition("u", 0): StoredReplica(4096, 2, True),
            },
            8192, 2048,
        ),
        LogDirectory("/b", Outcome(ErrorCode.KAFKA_STORAGE_ERROR), {}, -1, -1),
    ),
    2: (LogDirectory("/a", FINE, {TopicPartition("t", 0): StoredReplica(1024, 5, False)}, 8192, 2048),),
}  # fmt: skip


def test_directories_are_shown_with_what_is_free_and_which_are_offline() -> None:
    assert plain(directories_table(DIRECTORIES)) == (
        "BROKER  DIRECTORY  STATE    REPLICAS     SIZE     FREE       OF\n"
        "     1  /a         online          2  5.0 KiB  2.0 KiB  8.0 KiB\n"
        "     1  /b         offline         0      0 B        ?        ?\n"
        "     2  /a         online          1  1.0 KiB  2.0 KiB  8.0 KiB\n"
    )


def test_topics_are_shown_by_broker_the_largest_first() -> None:
    assert [line.split()[:2] for line in plain(topics_table(DIRECTORIES)).splitlines()[1:]] == [
        ["u", "1"],
        ["t", "1"],
        ["t", "2"],
    ]


def test_replicas_are_shown_with_lag_and_those_that_move() -> None:
    rows = [line.split() for line in plain(replicas_table(DIRECTORIES)).splitlines()[1:]]
    assert rows[1] == ["t", "0", "2", "/a", "1.0", "KiB", "5", "current"]
    assert rows[2][-2:] == ["moving", "here"]


def test_some_topics_are_shown_alone() -> None:
    only = of_topics(DIRECTORIES, ["u"])
    assert [len(directory["replicas"]) for directory in directories_json(only)] == [1, 0, 0]
    assert directories_json(of_topics(DIRECTORIES, ()))[1]["error"] == "KAFKA_STORAGE_ERROR"
