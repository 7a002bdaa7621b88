"""Answers in which everything asked for failed."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.apis import SERVED
from ottla.testing.answers import failed_answer
from ottla.wire.apis import Api
from ottla.wire.codec import decode, write
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.schema import Message

ERROR = ErrorCode.REQUEST_TIMED_OUT


def test_an_answer_with_an_error_of_its_own_says_it_there() -> None:
    answer = failed_answer(JoinGroupRequest(group_id="g"), JoinGroupResponse, 9, ERROR)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == ERROR


def test_every_partition_of_a_produce_request_fails() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=i) for i in (0, 3)])]
    )
    answer = failed_answer(request, ProduceResponse, 9, ERROR)
    assert isinstance(answer, ProduceResponse)
    (topic,) = answer.responses
    assert topic.name == "t"
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(0, ERROR), (3, ERROR)]


def test_a_fetch_fails_for_its_partitions_and_keeps_its_session() -> None:
    request = FetchRequest(topics=[FetchTopic(topic_id=b"x" * 16, partitions=[FetchPartition(partition=2)])])
    answer = failed_answer(request, FetchResponse, 13, ERROR)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    assert topic.topic_id == b"x" * 16
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(2, ERROR)]


def test_a_fetch_that_names_no_partition_fails_as_a_whole() -> None:
    answer = failed_answer(FetchRequest(), FetchResponse, 13, ERROR)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ERROR


def test_names_without_more_get_an_element_each() -> None:
    answer = failed_answer(DeleteGroupsRequest(groups_names=["a", "b"]), DeleteGroupsResponse, 2, ERROR)
    assert isinstance(answer, DeleteGroupsResponse)
    assert [(each.group_id, each.error_code) for each in answer.results] == [("a", ERROR), ("b", ERROR)]
    found = failed_answer(FindCoordinatorRequest(coordinator_keys=["a"]), FindCoordinatorResponse, 5, ERROR)
    assert isinstance(found, FindCoordinatorResponse)
    assert [(each.key, each.error_code) for each in found.coordinators] == [("a", ERROR)]


def test_topics_of_metadata_and_partitions_of_commits_fail() -> None:
    metadata = failed_answer(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse, 12, ERROR)
    assert isinstance(metadata, MetadataResponse)
    assert [(each.name, each.error_code) for each in metadata.topics] == [("t", ERROR)]
    request = OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=4)])]
    )
    commit = failed_answer(request, OffsetCommitResponse, 8, ERROR)
    assert isinstance(commit, OffsetCommitResponse)
    assert [(each.partition_index, each.error_code) for each in commit.topics[0].partitions] == [(4, ERROR)]


def test_where_nothing_was_asked_for_there_is_no_place_for_the_error() -> None:
    assert failed_answer(MetadataRequest(topics=None), MetadataResponse, 9, ERROR) is None


PLAIN = {"string": "a", "uuid": b"x" * 16, "bool": False, "bytes": b"", "records": b"", "float64": 0.0}


def one_of_each(kind: type[Message], version: int) -> Any:
    """A message with one element in every list."""
    made = kind()
    for field in kind.FIELDS:
        if field.array and field.first <= version <= field.last:
            element = PLAIN.get(field.kind, 1) if isinstance(field.kind, str) else one_of_each(field.kind, version)
            setattr(made, field.name, [element])
    return made


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_every_version_of_every_api_can_fail(api: Api) -> None:
    for version in range(api.first, api.last + 1):
        answer = failed_answer(one_of_each(api.request_class(), version), api.response_class(), version, ERROR)
        assert answer is not None
        out = bytearray()
        write(out, answer, version)
        read, _ = decode(api.response_class(), version, memoryview(out))
        again = bytearray()
        write(again, read, version)
        assert again == out
        assert f"error_code={int(ERROR)}" in repr(read)
