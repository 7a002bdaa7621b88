"""The hand-written Produce and Fetch codecs agree with the general one, byte for byte, in every version."""

import random
from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest

from ottla.wire import fetch, produce
from ottla.wire.codec import decode, encode
from ottla.wire.messages import fetch as fetch_messages
from ottla.wire.messages import produce as produce_messages

T = TypeVar("T")


def text(chance: random.Random) -> str:
    return "".join(chance.choice("abcäß€") for _ in range(chance.randrange(1, 12)))


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("seed", range(10))
def test_a_produce_request_is_read_alike(version: int, seed: int) -> None:
    chance = random.Random(seed)
    message = produce_messages.ProduceRequest(
        transactional_id=chance.choice((None, "t")),
        acks=chance.choice((-1, 0, 1)),
        timeout_ms=chance.randrange(100_000),
        topic_data=[
            produce_messages.TopicProduceData(
                name=text(chance) if version < 13 else "",
                topic_id=chance.randbytes(16) if version >= 13 else bytes(16),
                partition_data=[
                    produce_messages.PartitionProduceData(
                        index=chance.randrange(100), records=chance.choice((None, chance.randbytes(200)))
                    )
                    for _ in range(chance.randrange(3))
                ],
            )
            for _ in range(chance.randrange(3))
        ],
    )
    frame = memoryview(b"head" + encode(message, version))
    read = produce.read_request(frame, 4, version)
    assert in_the_end(produce.read_in_steps(frame, 4, version)) == produce.only_last(read)
    assert read.transactional_id == message.transactional_id
    assert (read.acks, read.timeout_ms) == (message.acks, message.timeout_ms)
    assert read.topics == [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(part.index, part.records) for part in topic.partition_data],
        )
        for topic in message.topic_data
    ]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("seed", range(10))
def test_a_produce_response_is_written_alike(version: int, seed: int) -> None:
    chance = random.Random(seed)
    topics: list[tuple[str | bytes, list[produce.PartitionResult]]] = []
    for _ in range(chance.randrange(3)):
        results = []
        for _ in range(chance.randrange(3)):
            error = chance.choice((0, 0, 87))
            results.append(
                produce.PartitionResult(
                    chance.randrange(9),
                    error,
                    chance.randrange(1 << 40),
                    -1,
                    chance.randrange(9),
                    message=chance.choice((None, text(chance))) if error and version >= 8 else None,
                    record_errors=((1, "bad"),) if error and version >= 8 else (),
                    leader=(1, 4) if error and version >= 10 else None,
                )
            )
        topics.append((chance.randbytes(16) if version >= 13 else text(chance), results))
    nodes = ((1, "host", 9092, None), (2, "other", 9093, "rack")) if version >= 10 and chance.random() < 0.5 else ()
    out = bytearray()
    produce.write_response(out, version, topics, nodes)
    read, end = decode(produce_messages.ProduceResponse, version, bytes(out))
    assert end == len(out)
    assert encode(read, version) == out
    assert [
        (
            topic.topic_id if version >= 13 else topic.name,
            [
                (part.index, part.error_code, part.base_offset, part.log_append_time_ms, part.error_message)
                for part in topic.partition_responses
            ],
        )
        for topic in read.responses
    ] == [
        (topic_name, [(part[0], part[1], part[2], part[3], part.message) for part in parts])
        for topic_name, parts in topics
    ]
    assert [node.node_id for node in read.node_endpoints] == [node[0] for node in nodes]


def in_the_end(steps: Generator[None, None, T]) -> T:
    """The value of what is done in steps."""
    found: list[T] = []

    def whole() -> Iterator[None]:
        found.append((yield from steps))

    for _ in whole():
        pass
    return found[0]


def without_repeats(read: fetch.FetchRequest) -> fetch.FetchRequest:
    """A partition that is named again counts as it was named last."""
    return read._replace(
        topics=[(topic, list({part.partition: part for part in parts}.values())) for topic, parts in read.topics]
    )


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("seed", range(10))
def test_a_fetch_request_is_read_alike(version: int, seed: int) -> None:
    chance = random.Random(seed)

    def names() -> dict[str, object]:
        if version >= 13:
            return {"topic_id": chance.randbytes(16)}
        return {"topic": text(chance)}

    message = fetch_messages.FetchRequest(
        replica_id=chance.choice((-1, 3)) if version <= 14 else -1,
        replica_state=fetch_messages.ReplicaState(replica_id=5, replica_epoch=8) if version >= 15 else None,
        max_wait_ms=chance.randrange(1000),
        min_bytes=chance.randrange(1000),
        max_bytes=chance.randrange(1000),
        isolation_level=chance.randrange(2),
        session_id=7 if version >= 7 else 0,
        session_epoch=9 if version >= 7 else -1,
        topics=[
            fetch_messages.FetchTopic(
                **names(),  # type: ignore[arg-type]
                partitions=[
                    fetch_messages.FetchPartition(
                        partition=chance.randrange(9),
                        fetch_offset=chance.randrange(1 << 40),
                        partition_max_bytes=chance.randrange(1 << 20),
                        current_leader_epoch=4 if version >= 9 else -1,
                        last_fetched_epoch=2 if version >= 12 else -1,
                        log_start_offset=6 if version >= 5 else -1,
                        high_watermark=77 if version >= 18 and chance.random() < 0.5 else fetch.NO_WATERMARK,
                    )
                    for _ in range(chance.randrange(4))
                ],
            )
            for _ in range(chance.randrange(4))
        ],
        forgotten_topics_data=[
            fetch_messages.ForgottenTopic(**names(), partitions=[1, 2])  # type: ignore[arg-type]
            for _ in range(chance.randrange(2))
        ]
        if version >= 7
        else (),
        rack_id="somewhere" if version >= 11 else "",
    )
    read = fetch.read_request(memoryview(encode(message, version)), 0, version)
    if len({topic for topic, _ in read.topics}) == len(read.topics):
        assert in_the_end(fetch.read_in_steps(memoryview(encode(message, version)), 0, version)) == without_repeats(
            read
        )
    assert read.replica_id == (message.replica_id if version <= 14 else 5)
    assert read[2:5] == (message.max_wait_ms, message.min_bytes, message.max_bytes)
    assert read.read_committed == bool(message.isolation_level)
    assert (read.session_id, read.session_epoch) == (message.session_id, message.session_epoch)
    assert read.rack == message.rack_id
    assert read.topics == [
        (
            topic.topic_id if version >= 13 else topic.topic,
            [
                (
                    part.partition,
                    part.current_leader_epoch,
                    part.fetch_offset,
                    part.last_fetched_epoch,
                    part.log_start_offset,
                    part.partition_max_bytes,
                    part.high_watermark,
                )
                for part in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    assert read.forgotten == [
        (topic.topic_id if version >= 13 else topic.topic, list(topic.partitions))
        for topic in message.forgotten_topics_data
    ]


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("seed", range(10))
def test_a_fetch_response_is_written_alike(version: int, seed: int) -> None:
    chance = random.Random(seed)
    topics: list[tuple[str | bytes, list[fetch.FetchResult]]] = []
    for _ in range(chance.randrange(4)):
        results = []
        for _ in range(chance.randrange(4)):
            records = chance.choice((b"", chance.randbytes(chance.choice((10, 300)))))
            results.append(
                fetch.FetchResult(
                    chance.randrange(9),
                    chance.choice((0, 1, 6)),
                    chance.randrange(1 << 40),
                    chance.randrange(1 << 40),
                    chance.randrange(9) if version >= 5 else -1,
                    records,
                    len(records),
                    aborted=chance.choice((None, [], [(1, 2), (3, 4)])),
                    diverging=(3, 99) if version >= 12 and chance.random() < 0.3 else None,
                    leader=(2, 5) if version >= 12 and chance.random() < 0.3 else None,
                )
            )
        topics.append((chance.randbytes(16) if version >= 13 else text(chance), results))
    nodes = ((1, "host", 9092, None),) if version >= 16 else ()
    parts = fetch.write_response(bytearray(b"\0\0\0\0HEAD"), version, 0, 5 if version >= 7 else 0, topics, nodes)
    data = b"".join(parts)
    session = 5 if version >= 7 else 0
    steps = fetch.write_in_steps(bytearray(b"\0\0\0\0HEAD"), version, session, topics, nodes)
    assert b"".join(in_the_end(steps)) == data
    assert int.from_bytes(data[:4]) == len(data) - 4
    assert data[4:8] == b"HEAD"
    read, end = decode(fetch_messages.FetchResponse, version, data[8:])
    assert end == len(data) - 8
    assert encode(read, version) == data[8:]
    assert [
        [
            (part.partition_index, part.error_code, part.high_watermark, bytes(part.records or b""))
            for part in t.partitions
        ]
        for t in read.responses
    ] == [[(part[0], part[1], part[2], part.records) for part in results] for _, results in topics]
