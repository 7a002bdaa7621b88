"""`ottla group …` on ottla and on a real Kafka: what is shown is so, and a reset leads where it says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla as client
from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla
from kit.brokers.processes import until
from kit.others import java
from ottla import TopicPartition, blocking

HOUR = 3_600_000


@pytest.fixture
def group(topic: str) -> str:
    return f"group-{topic}"


def write(ottla: Ottla, topic: str, partition: int, *ages: int) -> None:
    """Records so many milliseconds old."""
    now = int(time.time() * 1000)
    lines = [json.dumps({"value": "v", "timestamp": now - age}) for age in ages]
    ottla("produce", topic, "--json", "--partition", str(partition), stdin="\n".join(lines).encode())


def offsets(ottla: Ottla, group: str) -> dict[int, Any]:
    (described,) = ottla.json("group", "describe", group)
    return {row["partition"]: row["committed"] for row in described["partitions"]}


@contextmanager
def member(broker: Broker, topic: str, group: str, **settings: Any) -> Iterator[blocking.Consumer]:
    """A consumer that has read, and stays in its group."""
    with blocking.Consumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest", **settings
    ) as consumer:
        until(lambda: consumer.poll(0.2), "a record", 60)
        consumer.commit()
        yield consumer


def test_a_reset_is_rehearsed_then_carried_out_in_every_form(
    ottla: Ottla, made: str, group: str, tmp_path: Path
) -> None:
    write(ottla, made, 0, 3 * HOUR, 2 * HOUR, HOUR)
    write(ottla, made, 1, 3 * HOUR, 3 * HOUR)

    def reset(*arguments: str) -> dict[int, int]:
        """Where the group is afterwards, which must be where the plan said."""
        answer = ottla.json("group", "reset", group, *arguments, "--execute")
        planned = {row["partition"]: row["offset"] for row in answer["partitions"]}
        assert answer["executed"]
        assert planned.items() <= offsets(ottla, group).items()
        return planned

    rehearsed = ottla.lines("group", "reset", group, "--topic", made, "--to-earliest")
    assert rehearsed[0].split() == ["GROUP", "TOPIC", "PARTITION", "NOW", "THEN", "LAG", "THEN"]
    assert [line.split()[3:] for line in rehearsed[1:4]] == [["-", "0", "3"], ["-", "0", "2"], ["-", "0", "0"]]
    assert group not in [row["group"] for row in ottla.json("group", "list")]

    assert reset("--topic", made, "--to-earliest") == {0: 0, 1: 0, 2: 0}
    assert reset("--all-topics", "--to-latest") == {0: 3, 1: 2, 2: 0}
    assert reset("--topic", f"{made}:0", "--to-offset", "1") == {0: 1}
    assert reset("--topic", f"{made}:0,1", "--to-offset", "999") == {0: 3, 1: 2}
    assert reset("--topic", f"{made}:0", "--shift-by", "-2") == {0: 1}
    assert reset("--topic", f"{made}:0", "--shift-by", "-20") == {0: 0}
    assert reset("--all-topics", "--by-duration", "2h30m") == {0: 1, 1: 2, 2: 0}
    assert reset("--all-topics", "--by-duration", "P1D") == {0: 0, 1: 0, 2: 0}
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1.5 * 3600))
    assert reset("--topic", f"{made}:0", "--to-datetime", moment) == {0: 2}

    exported = ottla("group", "reset", group, "--all-topics", "--to-current", "--export")
    assert exported.decode() == f"{made},0,2\n{made},1,0\n{made},2,0\n"
    (tmp_path / "offsets.csv").write_bytes(exported)
    reset("--all-topics", "--to-latest")
    assert reset("--from-file", str(tmp_path / "offsets.csv")) == {0: 2, 1: 0, 2: 0}


def test_several_groups_are_reset_at_once(ottla: Ottla, made: str, group: str, tmp_path: Path) -> None:
    write(ottla, made, 0, 0, 0)
    names = (f"{group}-a", f"{group}-b")
    exported = ottla("group", "reset", *names, "-t", made, "--to-latest", "--export")
    assert exported.decode().splitlines()[0] == f"{names[0]},{made},0,2"
    (tmp_path / "offsets.csv").write_bytes(exported)
    ottla("group", "reset", *names, "--from-file", str(tmp_path / "offsets.csv"), "--execute")
    assert [offsets(ottla, name)[0] for name in names] == [2, 2]
    everybody = ottla.json("group", "reset", "--all-groups", "--all-topics", "--to-earliest")
    assert not everybody["executed"]
    assert {*names} <= {row["group"] for row in everybody["partitions"]}
    assert {*names} <= {row["group"] for row in ottla.json("group", "describe", "--all-groups")}


def test_a_group_is_listed_described_and_deleted(ottla: Ottla, made: str, group: str) -> None:
    write(ottla, made, 1, 0, 0, 0)
    ottla("group", "reset", group, "-t", f"{made}:1", "--to-offset", "1", "--execute")
    (listed,) = [
        row for row in ottla.json("group", "list", "--state", "empty", "--type", "Classic") if row["group"] == group
    ]
    assert (listed["type"], listed["state"], listed["members"]) == ("classic", "Empty", 0)
    assert group not in [row["group"] for row in ottla.json("group", "list", "--state", "Stable")]
    text = ottla("group", "describe", group).decode()
    assert "lag          2\n" in text
    assert text.splitlines()[-1].split() == [made, "1", "1", "3", "2", "-", "-", "-"]
    assert ottla.lines("group", "delete-offsets", group, f"{made}:1") == [
        f"deleted offset '{made}:1' of group {group!r}"
    ]
    assert offsets(ottla, group) == {}
    ottla("group", "reset", group, "-t", f"{made}:1", "--to-offset", "1", "--execute")
    assert ottla.lines("group", "delete", group) == [f"deleted group {group!r}"]
    answer = ottla.attempt("group", "describe", group)
    assert (answer.returncode, answer.stdout) == (1, b"")
    assert answer.stderr.decode() == f"ottla: group {group!r} does not exist; 'ottla group list' shows what there is\n"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_at_work_is_shown_with_its_members_and_left_alone(
    ottla: Ottla, any_broker: Broker, made: str, group: str, protocol: str
) -> None:
    write(ottla, made, 0, 0, 0, 0)
    with member(any_broker, made, group, group_protocol=protocol, client_id="worker"):

        def settled() -> bool:
            """A member reads before its report that it holds what it was given has arrived."""
            return bool(ottla.json("group", "describe", group)[0]["state"] == "Stable")

        until(settled, "the group is stable")
        (described,) = ottla.json("group", "describe", group)
        assert (described["type"], described["lag"]) == (protocol, 0)
        (reader,) = described["members"]
        assert reader["client"] == "worker"
        assert [row["partition"] for row in reader["assignment"]] == [0, 1, 2]
        assert {row["member"] for row in described["partitions"]} == {reader["member"]}
        shown = ottla.lines("group", "describe", group, "--members")[-1].split()
        assert (shown[0], shown[-2:]) == (reader["member"], ["3", f"{made}:0,1,2"])
        refused = ottla.attempt("group", "reset", group, "-t", made, "--to-earliest", "--execute")
        assert refused.returncode == 1
        assert b"is at work (Stable, 1 members)" in refused.stderr
        busy = ottla.attempt("group", "delete", group)
        assert (busy.returncode, b"has members" in busy.stderr) == (1, True)


def test_a_static_member_that_is_gone_is_removed_by_name(
    ottla: Ottla, any_broker: Broker, made: str, group: str
) -> None:
    write(ottla, made, 0, 0)
    with member(any_broker, made, group, group_instance_id="worker-1", group_protocol="classic"):
        pass  # static members do not leave when they stop
    removed = ottla.lines("group", "remove-member", group, "worker-1")
    assert removed == [f"removed member 'worker-1' of group {group!r}"]
    (described,) = ottla.json("group", "describe", group)
    assert described["members"] == []
    again = ottla.attempt("group", "remove-member", group, "worker-1")
    assert (again.returncode, b"is not in the group" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe",),
        ("reset", "g", "--to-earliest"),
        ("reset", "g", "-t", "t"),
        ("reset", "g", "-t", "t", "--to-earliest", "--to-latest"),
        ("reset", "g", "-t", "t", "--all-topics", "--to-latest"),
        ("reset", "g", "-t", "t", "--by-duration", "soon"),
        ("reset", "g", "-t", "t:x", "--to-latest"),
        ("remove-member", "g"),
    ],
)
def test_wrong_usage_is_exit_code_2(broker: Broker, arguments: tuple[str, ...]) -> None:
    assert Ottla(broker.bootstrap).attempt("group", *arguments).returncode == 2


def test_what_cannot_be_reset_is_a_sentence(broker: Broker, topic: str) -> None:
    ottla = Ottla(broker.bootstrap)
    ottla("topic", "create", topic)
    for arguments, sentence in (
        (("-t", topic, "--shift-by", "1"), "no offset in"),
        (("--all-topics", "--to-latest"), "nothing to reset"),
        (("-t", f"{topic}-not", "--to-latest"), "does not exist"),
        (("-t", f"{topic}:7", "--to-latest"), "partition 7"),
        (("--from-file", "no-such-file.csv"), "cannot read no-such-file.csv"),
    ):
        answer = ottla.attempt("group", "reset", f"group-{topic}", *arguments)
        assert (answer.returncode, sentence in answer.stderr.decode()) == (1, True), answer


def test_offsets_that_a_program_committed_are_those_that_are_shown(
    ottla: Ottla, any_broker: Broker, made: str, group: str
) -> None:
    write(ottla, made, 2, 0, 0, 0, 0)
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        note = client.admin.CommittedOffset(3, metadata="by hand")
        admin.alter_group_offsets(group, {TopicPartition(made, 2): note})
    (described,) = ottla.json("group", "describe", group)
    (row,) = described["partitions"]
    assert (row["committed"], row["end"], row["lag"], row["metadata"]) == (3, 4, 1, "by hand")


def test_kafkas_own_tool_reads_an_exported_plan_and_sees_the_same_group(
    broker: Broker, topic: str, group: str, tmp_path: Path
) -> None:
    ottla = Ottla(broker.bootstrap)
    ottla("topic", "create", topic, "--partitions", "2")
    write(ottla, topic, 0, 0, 0, 0)
    plan = tmp_path / "offsets.csv"
    plan.write_bytes(ottla("group", "reset", group, "-t", topic, "--to-offset", "2", "--export"))
    tool = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", broker.bootstrap)
    java.run(*tool, "--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    assert offsets(ottla, group) == {0: 2, 1: 0}
    described = java.run(*tool, "--describe", "--group", group)
    theirs = [line.split()[1:6] for line in described.lines if line.startswith(group)]
    ours = [line.split()[:5] for line in ottla.lines("group", "describe", group) if line.startswith(topic)]
    assert sorted(theirs) == ours == [[topic, "0", "2", "3", "1"], [topic, "1", "0", "0", "0"]]
