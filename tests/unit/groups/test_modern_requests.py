"""Heartbeats of the consumer protocol that are refused, in Kafka's words."""

from __future__ import annotations

from typing import Any

import pytest

from kit.machines.consumer_groups import ModernCoordinator
from ottla.base.errors import ErrorCode
from ottla.groups.decision import Caller
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

JOIN: dict[str, Any] = {
    "group_id": "group",
    "member_id": "a",
    "rebalance_timeout_ms": 1,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@pytest.mark.parametrize(
    ("fields", "version", "message"),
    [
        ({"group_id": ""}, 1, "GroupId can't be empty."),
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 1}, 0, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, 0, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -2}, 0, "MemberId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": ""}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": [TopicPartitions()]}, 1, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            1,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, 1, "InstanceId can't be null."),
        ({"member_epoch": -3}, 1, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_is_not_in_order_is_refused(fields: dict[str, Any], version: int, message: str) -> None:
    answer = ask({**JOIN, **fields}, version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_assignor_nobody_knows_is_refused() -> None:
    answer = ask({**JOIN, "server_assignor": "nix"}, 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == "ServerAssignor nix is not supported. Supported assignors: uniform, range."


@pytest.mark.parametrize(("epoch", "message"), [(5, "Consumer group group not found."), (-1, "Group group not found.")])
def test_a_group_that_is_not_there_is_not_found(epoch: int, message: str) -> None:
    answer = ask({**JOIN, "member_epoch": epoch}, 1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


def ask(fields: dict[str, Any], version: int) -> Any:
    coordinator = ModernCoordinator()
    request = ConsumerGroupHeartbeatRequest(**fields)
    decision = coordinator.machine.decide_consumer_heartbeat(
        request, Caller(None, "client", "/host", version), coordinator.now
    )
    assert not decision.facts
    return decision.reply
