"""`ottla topic` and every way to fail, on ottla and on a real Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.brokers.command_line import Ottla
from kit.brokers.processes import until


def test_a_topic_is_created_listed_described_altered_and_deleted(ottla: Ottla, topic: str) -> None:
    said = ottla.lines(
        "topic", "create", topic, "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=3600000"
    )
    assert said == [f"created topic {topic!r}: 2 partitions, replication factor 1"]

    (listed,) = until(lambda: ottla.json("topic", "list", topic), "the new topic is listed")
    assert (listed["partitions"], listed["replication_factor"], listed["state"]) == (2, 1, "ok")
    assert listed["size"] == 0

    altered = ("--partitions", "4", "--config", "max.message.bytes=2000", "--delete-config", "retention.ms")
    ottla("topic", "alter", topic, *altered)

    def grown() -> Any:
        (found,) = ottla.json("topic", "describe", topic)
        return found if len(found["partitions"]) == 4 and "max.message.bytes" in found["configs"] else None

    described = until(grown, "four partitions and the new setting")
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2, 3]

    assert ottla.lines("topic", "delete", topic) == [f"deleted topic {topic!r}"]
    until(lambda: topic not in [entry["name"] for entry in ottla.json("topic", "list")], "the topic is gone")


def test_a_description_shows_offsets_and_settings_of_each_partition(ottla: Ottla, made: str) -> None:
    ottla("produce", made, "--partition", "1", stdin=b"a\nb\n")
    text = ottla("topic", "describe", made).decode()
    assert text.startswith(f"topic        {made}\n")
    assert "records      2\n" in text
    rows = [line.split() for line in text[text.index("PARTITION") :].splitlines()[1:]]
    assert [(row[0], row[4], row[5], row[6]) for row in rows] == [
        ("0", "0", "0", "0"),
        ("1", "0", "2", "2"),
        ("2", "0", "0", "0"),
    ]
    (described,) = ottla.json("topic", "describe", made)
    assert [(part["earliest_offset"], part["latest_offset"]) for part in described["partitions"]] == [
        (0, 0),
        (0, 2),
        (0, 0),
    ]
    assert described["partitions"][1]["size"] > 0


def test_a_list_for_programs_is_aligned_text_with_a_heading(ottla: Ottla, made: str) -> None:
    heading, *rows = ottla.lines("topic", "list")
    assert heading.split() == ["TOPIC", "PARTITIONS", "REPLICATION", "RECORDS", "SIZE", "STATE"]
    (mine,) = [row for row in rows if row.split()[0] == made]
    assert mine.split()[1:4] == ["3", "1", "0"]
    assert mine.endswith("  ok")


def test_a_list_counts_records_and_takes_patterns(ottla: Ottla, made: str) -> None:
    ottla("produce", made, "-q", stdin=b"a\nb\nc\n")
    (listed,) = ottla.json("topic", "list", f"{made[:-2]}*")
    assert (listed["name"], listed["records"]) == (made, 3)
    assert ottla.json("topic", "list", "no-such-topic-*") == []


def test_several_topics_are_made_alike_or_only_rehearsed(ottla: Ottla, topic: str) -> None:
    names = [f"{topic}-1", f"{topic}-2"]
    said = ottla.lines("topic", "create", *names, "--replicas", "1", "--replicas", "1", "--dry-run")
    assert said == [f"would create topic {name!r}: 2 partitions, replication factor 1" for name in names]
    assert ottla.json("topic", "list", f"{topic}*") == []
    made = ottla.json("topic", "create", *names, "-p", "2")
    assert [(row["topic"], row["partitions"], row["error"]) for row in made] == [(name, 2, None) for name in names]
    twice = ottla.attempt("topic", "create", *names, f"{topic}-3", "--json")
    assert twice.returncode == 1
    assert [row["error"] for row in json.loads(twice.stdout)] == ["TOPIC_ALREADY_EXISTS"] * 2 + [None]
    gone = ottla.json("topic", "delete", *names, f"{topic}-3")
    assert [row["deleted"] for row in gone] == [True] * 3


def test_partitions_are_added_to_those_there_are(ottla: Ottla, made: str) -> None:
    assert ottla.lines("topic", "add-partitions", made, "2", "--dry-run") == [f"topic {made!r} would have 5 partitions"]
    assert ottla.json("topic", "add-partitions", made, "1", "--replicas", "1")["partitions"] == 4
    until(lambda: len(ottla.json("topic", "offsets", made)) == 4, "four partitions")
    altered = ottla.json("topic", "alter", made, "-c", "retention.ms=3600000")
    assert altered == {"topic": made, "partitions": None, "set": {"retention.ms": "3600000"}, "back_to_default": []}


def test_offsets_are_those_of_the_ends_of_a_time_or_of_the_largest_timestamp(ottla: Ottla, made: str) -> None:
    stamps = (5_000, 9_000, 7_000)
    lines = "".join(json.dumps({"value": "x", "timestamp": stamp}) + "\n" for stamp in stamps)
    ottla("produce", made, "--json", "-p", "1", "-q", stdin=lines.encode())
    rows = ottla.json("topic", "offsets", made)
    assert [(row["partition"], row["earliest_offset"], row["latest_offset"]) for row in rows] == [
        (0, 0, 0),
        (1, 0, 3),
        (2, 0, 0),
    ]

    def at(where: str) -> list[tuple[int | None, int | None]]:
        found = ottla.json("topic", "offsets", f"{made}:0,1", "--at", where)
        return [(row["offset"], row["timestamp"]) for row in found]

    assert at("@6000") == [(None, None), (1, 9_000)]
    assert at("max-timestamp") == [(None, None), (1, 9_000)]
    assert [offset for offset, _ in at("end")] == [0, 3]
    assert [offset for offset, _ in at("1h")] == [None, None]
    assert [row.split() for row in ottla.lines("topic", "offsets", f"{made}:1", "--at", "@9000")[1:]] == [
        [made, "1", "1", "1970-01-01T00:00:09.000Z"]
    ]


def test_old_records_are_deleted_after_a_rehearsal(ottla: Ottla, made: str, tmp_path: Path) -> None:
    ottla("produce", made, "-p", "0", "-q", stdin=b"".join(b"%d\n" % number for number in range(10)))

    def begins(*arguments: str) -> list[int]:
        return [row["begins_at"] for row in ottla.json("topic", "delete-records", *arguments)]

    assert begins(f"{made}:0", "--before", "-3", "--dry-run") == [7]
    assert ottla.lines("consume", made, "-e", "-n", "1") == ["0"]
    assert begins(f"{made}:0", "--before", "4") == [4]
    assert ottla.lines("topic", "delete-records", f"{made}:0", "--before", "-3")[1].split() == [
        made,
        *("0", "4", "7", "3"),
    ]
    assert ottla.lines("consume", made, "-e") == ["7", "8", "9"]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": made, "partition": 0, "offset": 8}], "version": 1}))
    assert begins("--from-file", str(file)) == [8]
    assert begins(made, "--before", "end") == [10, 0, 0]
    beyond = ottla.attempt("topic", "delete-records", f"{made}:0", "--before", "99")
    assert beyond.returncode == 1
    assert b"has no such offset" in beyond.stderr


def test_what_is_there_already_or_not_there_can_be_fine(ottla: Ottla, made: str) -> None:
    assert ottla.lines("topic", "create", made, "--if-not-exists") == [f"topic {made!r} exists already"]
    assert ottla("topic", "delete", f"{made}-missing", "--if-exists") == b""


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("topic", "describe", "MISSING"), ["topic 'MISSING' does not exist", "topic list"], id="describe"),
        pytest.param(("topic", "delete", "MISSING"), ["topic 'MISSING' does not exist"], id="delete"),
        pytest.param(("topic", "alter", "MISSING", "-p", "9"), ["'MISSING' does not exist"], id="more partitions"),
        pytest.param(("topic", "alter", "MISSING", "-c", "retention.ms=1"), ["'MISSING'", "exist"], id="a setting"),
        pytest.param(("consume", "MISSING"), ["topic 'MISSING' does not exist"], id="consume"),
        pytest.param(("topic", "create", "MADE"), ["topic 'MADE' exists already", "--if-not-exists"], id="twice"),
        pytest.param(("topic", "create", "no such name"), ["not a valid topic name"], id="bad name"),
        pytest.param(("topic", "create", "MISSING", "-r", "9"), ["replication factor"], id="too many copies"),
        pytest.param(("topic", "create", "MISSING", "-c", "no.such=1"), ["not valid", "no.such"], id="bad setting"),
        pytest.param(("topic", "alter", "MADE", "-p", "2"), ["number of partitions"], id="fewer partitions"),
        pytest.param(("consume", "MADE", "-p", "7"), ["no partition 7", "0 to 2"], id="no such partition"),
        pytest.param(("consume", "MADE", "--from", "5"), ["offset 5", "not in the log"], id="no such offset"),
        pytest.param(("produce", "MADE", "-p", "7"), ["partition 7", "3 partitions"], id="produce elsewhere"),
        pytest.param(("produce", "MADE", "-K", ":"), ["line 1 of standard input", "separator ':'"], id="no separator"),
        pytest.param(("produce", "MADE", "--json"), ["line 1 of standard input is not JSON"], id="no JSON"),
        pytest.param(("produce", "MADE", "/no/such/file"), ["cannot read /no/such/file"], id="no file"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_1(
    ottla: Ottla, made: str, arguments: tuple[str, ...], words: list[str]
) -> None:
    def named(text: str) -> str:
        return text.replace("MISSING", f"{made}-missing").replace("MADE", made)

    answer = ottla.attempt(*map(named, arguments), stdin=b"a line\n")
    said = [line for line in answer.stderr.decode().splitlines() if not line.startswith("sent 0 records")]
    assert answer.returncode == 1
    assert len(said) == 1
    assert said[0].startswith("ottla: ")
    for word in map(named, words):
        assert word in said[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topic", "create"),
        ("topic", "create", "x", "--partitions", "0"),
        ("topic", "create", "x", "--config", "novalue"),
        ("topic", "alter", "x"),
        ("consume", "x", "--from", "someday"),
        ("consume", "x", "--json", "--format", "{value}"),
        ("consume", "x", "--format", "{nothing}"),
        ("consume", "x", "--where", "a b"),
        ("consume", "x", "--until-end", "--until", "5"),
        ("consume", "x", "--group", "g", "--from", "5"),
        ("consume", "x", "--set", "value.deserializer=json"),
        ("produce", "x", "--set", "value.serializer=json"),
        ("produce", "x", "--csv", "--raw"),
        ("produce", "x", "--key-column", "id"),
        ("topic", "delete-records", "x"),
        ("produce", "x", "--compression", "rar"),
        ("produce", "x", "--json", "--key-separator", ":"),
        ("produce", "x", "--header", "novalue"),
        ("topic", "list", "--bootstrap", "host:port"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    answer = ottla.attempt(*arguments)
    assert answer.returncode == 2
    assert b"Usage: ottla" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_a_record_the_topic_does_not_take_is_named_with_its_reason(ottla: Ottla, topic: str) -> None:
    ottla("topic", "create", topic, "-p", "1", "-c", "cleanup.policy=compact", "-c", "max.message.bytes=1000")
    keyless = ottla.attempt("produce", topic, stdin=b"no key\n")
    assert keyless.returncode == 1
    assert b"a record the topic does not take" in keyless.stderr
    large = ottla.attempt("produce", topic, "-K", ":", stdin=b"k:" + b"x" * 5000)
    assert large.returncode == 1
    assert b"too large" in large.stderr
    assert b"max.message.bytes" in large.stderr
    many = b"".join(b"k%d:%d\n" % (number, number) for number in range(500))
    ottla("produce", topic, "-K", ":", stdin=many)
    assert len(ottla.lines("consume", topic, "-e")) == 500


def test_the_shell_offers_topics_and_groups_of_the_cluster_that_is_meant(ottla: Ottla, made: str) -> None:
    ottla("consume", made, "--group", made, "--until-end")

    def offered(line: str) -> list[str]:
        asked = {"_OTTLA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return Ottla(ottla.environment["OTTLA_BOOTSTRAP"], asked).lines()

    start = made[:-4]
    # a busy machine may take longer than somebody who pressed TAB is kept waiting: then nothing is offered
    until(lambda: offered(f"ottla topic describe {start}") == [made], "the topic is offered", 60)
    until(lambda: offered(f"ottla consume x --group {start}") == [made], "the group is offered", 60)
    until(lambda: offered(f"ottla group describe {start}") == [made], "the group is offered", 60)
