"""Where errors stand in answers, and that all of them are found."""

import pytest

from ottla.wire.answer_errors import PORTION, errors_in, errors_in_portions
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from ottla.wire.schema import Root


def all_ways(message: Root, version: int) -> list[int]:
    """What is found at once, which must be what is found in steps."""
    found = errors_in(message, version)
    portions = list(errors_in_portions(message, version))
    assert sorted(code for portion in portions for code in portion) == sorted(found)
    assert max(map(len, portions)) <= PORTION
    return found


@pytest.mark.parametrize("code", [0, 27, -1])
def test_the_only_error_of_an_answer(code: int) -> None:
    assert all_ways(HeartbeatResponse(error_code=code), 4) == [code] * (code != 0)


def test_errors_of_topics_and_of_their_partitions_are_all_found() -> None:
    partitions = [MetadataResponsePartition(error_code=code) for code in (0, 5, 5, 0)]
    topics = [
        MetadataResponseTopic(partitions=partitions),
        MetadataResponseTopic(error_code=3),
        MetadataResponseTopic(partitions=[MetadataResponsePartition()]),
    ]
    assert all_ways(MetadataResponse(topics=topics), 9) == [5, 5, 3]


def test_a_code_that_a_version_lacks_is_not_counted() -> None:
    """An answer with an error in the place of old versions and in that of new ones sends one of them."""
    answer = OffsetFetchResponse(error_code=15, groups=[OffsetFetchResponseGroup(error_code=15)])
    assert all_ways(answer, 7) == [15]
    assert all_ways(answer, 9) == [15]


def test_a_code_with_a_longer_name_is_one_too() -> None:
    parts = [AddPartitionsToTxnPartitionResult(partition_error_code=code) for code in (48, 0)]
    topics = [AddPartitionsToTxnTopicResult(results_by_partition=parts)]
    assert all_ways(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics), 3) == [48]
    results = [AddPartitionsToTxnResult(topic_results=topics)]
    assert all_ways(AddPartitionsToTxnResponse(results_by_transaction=results), 4) == [48]


def test_parts_without_errors_are_passed_over() -> None:
    assert all_ways(ListGroupsResponse(groups=[ListedGroup()] * 3), 4) == []


def test_errors_of_very_many_partitions_of_one_topic_are_found_some_at_a_time() -> None:
    partitions = [MetadataResponsePartition(error_code=5) for _ in range(10 * PORTION)]
    answer = MetadataResponse(topics=[MetadataResponseTopic(error_code=0, name="t", partitions=partitions)])
    assert all_ways(answer, 4) == [5] * 10 * PORTION
