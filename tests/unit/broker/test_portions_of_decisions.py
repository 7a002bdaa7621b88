"""What a controller would refuse when it sees a request whole, it refuses when it gets it in portions."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from ottla import testing
from ottla.base.errors import ErrorCode
from ottla.broker.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from ottla.metadata.configs import MOST_CONFIGS
from ottla.metadata.decision import MOST_FACTS
from ottla.net.dispatch import Context
from ottla.testing.life import Life
from ottla.wire.messages import alter_configs as full
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

CONTEXT = Context(5, None, "PLAINTEXT", "127.0.0.1")
NAMES = [f"topic-{number}" for number in range(1200)]
SECONDS = 60.0


@pytest.fixture(scope="module")
def life() -> Iterator[Life]:
    with testing.broker() as broker:
        broker.create_topic("orders")
        yield broker._running(1)


def ask(life: Life, handle: Any, request: Any) -> Any:
    answer: Coroutine[Any, Any, Any] = handle(life.broker, request, CONTEXT)
    return life.do(answer).result(SECONDS)


def errors(results: Any) -> dict[str, ErrorCode]:
    return {each.name: ErrorCode(each.error_code) for each in results}


def creation(names: list[str], partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names],
        validate_only=True,
    )


def test_a_topic_that_a_long_request_creates_twice_is_refused(life: Life) -> None:
    found = errors(ask(life, create_topics.handle, creation([*NAMES, NAMES[0]])).topics)
    assert found.pop(NAMES[0]) == ErrorCode.INVALID_REQUEST
    assert set(found.values()) == {ErrorCode.NONE}


def test_a_topic_that_a_long_request_extends_twice_is_refused(life: Life) -> None:
    topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("orders", *NAMES, "orders")]
    request = CreatePartitionsRequest(topics=topics, validate_only=True)
    found = errors(ask(life, create_partitions.handle, request).results)
    assert found.pop("orders") == ErrorCode.INVALID_REQUEST
    assert set(found.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_that_a_long_request_deletes_twice_stays(life: Life) -> None:
    request = DeleteTopicsRequest(topic_names=["orders", *NAMES, "orders"])
    found = errors(ask(life, delete_topics.handle, request).responses)
    assert found.pop("orders") == ErrorCode.INVALID_REQUEST
    assert set(found.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("messages", "request_class", "handler"),
    [
        (full, full.AlterConfigsRequest, alter_configs),
        (incremental, incremental.IncrementalAlterConfigsRequest, incremental_alter_configs),
    ],
    ids=["AlterConfigs", "IncrementalAlterConfigs"],
)
def test_a_resource_that_a_long_request_changes_twice_is_refused(
    life: Life, messages: Any, request_class: Any, handler: Any
) -> None:
    resources = [messages.AlterConfigsResource(2, name, []) for name in ("orders", *NAMES, "orders")]
    answer = ask(life, handler.handle, request_class(resources=resources))
    found = [each.error_code for each in answer.responses if each.resource_name == "orders"]
    assert found == [ErrorCode.INVALID_REQUEST] * 2


def test_more_than_a_controller_does_at_once_is_refused_whole(life: Life) -> None:
    topics = ask(life, create_topics.handle, creation(NAMES, partitions=MOST_FACTS // len(NAMES) + 1)).topics
    assert errors(topics) == dict.fromkeys(NAMES, ErrorCode.POLICY_VIOLATION)
    names = [f"topic-{number}" for number in range(MOST_FACTS + 1)]
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=3) for name in names])
    results = ask(life, create_partitions.handle, request).results
    assert errors(results) == dict.fromkeys(names, ErrorCode.POLICY_VIOLATION)


def test_a_resource_has_a_bounded_number_of_configs(life: Life) -> None:
    configs = [incremental.AlterableConfig(f"my.{number}", 0, "x") for number in range(MOST_CONFIGS + 1)]
    resource = incremental.AlterConfigsResource(4, "", configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    [response] = ask(life, incremental_alter_configs.handle, request).responses
    assert response.error_code == ErrorCode.POLICY_VIOLATION
    resource.configs = configs[:-1]
    [response] = ask(life, incremental_alter_configs.handle, request).responses
    assert response.error_code == ErrorCode.NONE
