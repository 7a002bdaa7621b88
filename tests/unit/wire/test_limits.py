"""Requests of more elements or tagged fields than Kafka takes are refused, and long ones are read in small steps."""

import struct
from collections.abc import Iterator

import pytest

from ottla.wire import fetch, produce
from ottla.wire.codec import PORTION, decode, decode_in_steps, encode, encode_in_steps
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.list_transactions import ListTransactionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.primitives import (
    MOST_ELEMENTS,
    MOST_TAGS,
    MalformedMessage,
    ManyPartitions,
    skip_tags,
    write_varint,
)


def names(count: int) -> bytes:
    """A Metadata v4 request for so many topics without a name."""
    return struct.pack(">i", count) + b"\0\0" * count + b"\1"


def tags(count: int) -> bytearray:
    out = bytearray()
    write_varint(out, count)
    for tag in range(count):
        write_varint(out, tag + 1000)
        out.append(0)
    return out


def test_an_array_may_have_a_million_elements_and_no_more() -> None:
    request, _ = decode(MetadataRequest, 4, names(MOST_ELEMENTS))
    assert len(request.topics or ()) == MOST_ELEMENTS
    with pytest.raises(MalformedMessage, match="1000001 elements"):
        decode(MetadataRequest, 4, names(MOST_ELEMENTS + 1))
    with pytest.raises(MalformedMessage, match="1000001 elements"):
        list(decode_in_steps(MetadataRequest, 4, names(MOST_ELEMENTS + 1)))


def test_ten_thousand_tagged_fields_may_follow_and_no_more() -> None:
    data = tags(MOST_TAGS)
    assert skip_tags(memoryview(data), 0) == len(data)
    with pytest.raises(MalformedMessage, match="10001 tagged fields"):
        skip_tags(memoryview(tags(MOST_TAGS + 1)), 0)
    plain = encode(MetadataRequest(topics=[]), 12)
    with pytest.raises(MalformedMessage, match="10001 tagged fields"):
        decode(MetadataRequest, 12, bytes(plain[:-1]) + tags(MOST_TAGS + 1))


@pytest.mark.parametrize("version", [9, 8], ids=["flexible", "legacy"])
def test_a_produce_request_names_a_bounded_number_of_partitions(version: int) -> None:
    def of(count: int) -> bytes:
        if version >= produce.FIRST_FLEXIBLE:
            out = bytearray(b"\0\0\1" + struct.pack(">i", 1000) + b"\2\2t")
            write_varint(out, count + 1)
            return bytes(out + (struct.pack(">i", 7) + b"\0\0") * count + b"\0\0")
        head = b"\xff\xff\0\1" + struct.pack(">iih", 1000, 1, 1) + b"t" + struct.pack(">i", count)
        return head + struct.pack(">ii", 7, -1) * count

    ((topic, partitions),) = produce.read_request(memoryview(of(900)), 0, version).topics
    assert (topic, len(partitions)) == ("t", 900)
    with pytest.raises(ManyPartitions):
        produce.read_request(memoryview(of(1000)), 0, version)
    assert len(list(produce.read_in_steps(memoryview(of(19_000)), 0, version))) >= 19_000
    with pytest.raises(MalformedMessage, match="more than"):
        list(produce.read_in_steps(memoryview(of(produce.MOST_PARTITIONS)), 0, version))


def test_a_partition_that_is_named_again_counts_as_it_was_named_last() -> None:
    one, two, three = memoryview(b"1"), memoryview(b"2"), memoryview(b"3")
    request = produce.ProduceRequest(None, 1, 0, [("t", [(0, one), (1, two)]), ("u", [(0, one)]), ("t", [(0, three)])])
    assert produce.only_last(request).topics == [("t", [(0, three), (1, two)]), ("u", [(0, one)])]
    distinct = produce.ProduceRequest(None, 1, 0, [("t", [(0, one), (1, one)]), ("u", [(0, one)])])
    assert produce.only_last(distinct) is distinct


def test_arrays_of_names_and_of_numbers_are_read_in_steps_too() -> None:
    deleted = DeleteTopicsRequest(topic_names=[f"topic-{at}" for at in range(500)])
    assert len(list(decode_in_steps(DeleteTopicsRequest, 5, encode(deleted, 5)))) >= 500
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(10 * PORTION + 1)))]
    asked = OffsetFetchRequest(group_id="g", topics=topics)
    data = encode(asked, 7)
    found: list[OffsetFetchRequest] = []

    def whole() -> Iterator[None]:
        found.append((yield from decode_in_steps(OffsetFetchRequest, 7, data)))

    assert len(list(whole())) > 10
    assert found == [decode(OffsetFetchRequest, 7, data)[0]]


def test_a_fetch_may_be_followed_by_ten_thousand_tagged_fields_and_no_more() -> None:
    head = struct.pack(">iiiib", -1, 0, 1, 1, 0) + struct.pack(">ii", 0, -1) + b"\1\1\1"
    assert fetch.read_request(memoryview(head + tags(MOST_TAGS)), 0, 12).topics == []
    with pytest.raises(MalformedMessage, match="10001 tagged fields"):
        fetch.read_request(memoryview(head + tags(MOST_TAGS + 1)), 0, 12)


def test_arrays_of_names_are_written_in_steps_too() -> None:
    answer = ListTransactionsResponse(unknown_state_filters=["no state"] * 500)
    assert len(list(encode_in_steps(answer, 1))) >= 500
