"""Questions that are short to ask and long to answer: patterns, and metadata of everything. Others go on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.bystander import Bystander, create_topic
from kit.brokers.processes import OttlaProcess, until
from kit.wire.raw import RawConnection

TOPICS = 10
PARTITIONS = 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaProcess]:
    with OttlaProcess(tmp_path / "data") as running:
        yield running


def heartbeat(connection: RawConnection, pattern: str, member: str) -> str:
    connection.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])
    answer = connection.ask(
        "consumer_group_heartbeat",
        1,
        group_id="g",
        member_id=member,
        member_epoch=0,
        rebalance_timeout=10_000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    return str(answer["error_code"])


@pytest.mark.parametrize(
    "pattern",
    [
        "((((){100}){1000}){1000}){1000}",
        "(.?){1000}(.?){1000}x",
        ".*a.{900}",
        "(((a*)*)*)*(.{0,1000}){3}",
    ],
)
def test_patterns_that_would_take_for_ever_are_refused(broker: OttlaProcess, pattern: str) -> None:
    with (
        RawConnection(broker.host, broker.port) as connection,
        Bystander(broker.host, broker.port) as bystander,
    ):
        until(lambda: heartbeat(connection, "x", "first") == "none", "a coordinator")
        for attempt in range(10):
            assert heartbeat(connection, pattern, f"member-{attempt}") == "invalid_regular_expression"
        listed = connection.ask("list_transactions", 2, transactional_id_pattern=pattern)
        assert listed["error_code"] == "invalid_regular_expression"
        bystander.go_on(20)


def test_everybody_may_ask_for_all_metadata_again_and_again(broker: OttlaProcess) -> None:
    with RawConnection(broker.host, broker.port) as connection, Bystander(broker.host, broker.port) as bystander:
        for number in range(TOPICS):
            create_topic(connection, f"topic-{number}", PARTITIONS)
        storm = [RawConnection(broker.host, broker.port) for _ in range(20)]
        try:
            for each in storm:
                for _ in range(10):
                    each.send("metadata", 9, {"topics": None})
            bystander.go_on(20)
            for each in storm:
                for _ in range(10):
                    assert len(each.receive_frame()) > TOPICS * PARTITIONS
        finally:
            for each in storm:
                each.close()
