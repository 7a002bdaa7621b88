"""The producer's parts by themselves: queues, sequence numbers, choices, serializers."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random
from typing import Any

import pytest

from ottla.base.settings.kinds import ValueKind
from ottla.client.cluster import Partition, Topic
from ottla.client.errors import InvalidSetting
from ottla.client.producer import Producer
from ottla.client.producer.accumulator import NO_IDENTITY, Accumulator, BufferLimits, PartitionQueue
from ottla.client.producer.delivery import NO_SEQUENCE, ProducerBatch
from ottla.client.producer.partitioners import Chance, KeyOrChance, weighted
from ottla.client.producer.routes import Choice, Route
from ottla.client.producer.sequences import Sequences
from ottla.client.producer.serializers import WORDS, Avro, Protobuf, Serialization
from ottla.client.settings import PRODUCER
from ottla.records.header import MAX_SEQUENCE

LIMITS = BufferLimits(batch_bytes=100, buffer_bytes=10_000, linger=5.0, delivery=120.0)


class Drawn:
    """Chance with a seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def identity(self) -> bytes:
        return self._random.randbytes(16)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


def filled(accumulator: Accumulator, queue: PartitionQueue, now: float, count: int = 1) -> ProducerBatch:
    batch = accumulator.begin(queue, now)
    for number in range(count):
        batch.rows.append((number, 1000 + number, None, b"v", ()))
        batch.size += 13
        accumulator.free -= 13
    return batch


def topic(partitions: int, leaders: dict[int, int] | None = None, topic_id: bytes = bytes(16)) -> Topic:
    led = leaders or {}
    parts = tuple(Partition(number, led.get(number, 1), 0, (1,), (1,), ()) for number in range(partitions))
    return Topic("t", topic_id, False, parts)


def test_a_batch_leaves_when_it_lingered_or_is_followed_or_in_a_hurry() -> None:
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    filled(accumulator, queue, now=10.0)
    assert accumulator.leaves_at(queue, hurry=False) == 15.0
    assert accumulator.leaves_at(queue, hurry=True) == 0.0
    filled(accumulator, queue, now=11.0)
    assert accumulator.leaves_at(queue, hurry=False) == 0.0


def test_batches_that_come_back_stand_in_the_order_of_their_records() -> None:
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    batches = [filled(accumulator, queue, now=0.0) for _ in range(4)]
    taken = [accumulator.take(queue) for _ in range(3)]
    assert taken == batches[:3]
    for batch in (taken[1], taken[2], taken[0]):
        accumulator.put_back(batch)
    assert list(queue.waiting) == batches


def test_the_parts_of_a_batch_stand_where_it_stood_and_keep_its_numbers() -> None:
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    large, behind = filled(accumulator, queue, now=0.0, count=5), filled(accumulator, queue, now=0.0)
    free = accumulator.free
    accumulator.take(queue)
    large.identity, large.base_sequence = (7, 0), MAX_SEQUENCE - 1
    left, right = accumulator.split(large, large.rows)
    assert list(queue.waiting) == [left, right, behind]
    assert [(half.count, half.base_sequence) for half in (left, right)] == [(2, MAX_SEQUENCE - 1), (3, 0)]
    assert large.moved == [(left, 0), (left, 1), (right, 0), (right, 1), (right, 2)]
    accumulator.take(queue)
    accumulator.put_back(left)
    assert list(queue.waiting) == [left, right, behind]
    for batch in (left, right, behind):
        accumulator.settled(batch)
    assert (accumulator.free, accumulator.unsettled) == (free + 6 * 13, 0)


def test_numbers_wrap_after_the_largest() -> None:
    sequences = Sequences(idempotent=True, transactional=False)
    sequences.identity = (7, 0)
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    filled(accumulator, queue, 0.0, count=3)
    assert sequences.may_leave(queue)
    queue.next_sequence = MAX_SEQUENCE
    batch = accumulator.take(queue)
    assert sequences.number(batch)
    assert (batch.base_sequence, queue.next_sequence) == (MAX_SEQUENCE, 2)
    sequences.acknowledged(batch)
    assert queue.last_acked == 1


def test_after_the_last_epoch_another_producer_id_is_needed() -> None:
    sequences = Sequences(idempotent=True, transactional=False)
    sequences.identity = (7, 32765)
    sequences.bump()
    assert sequences.identity == (7, 32766)
    sequences.bump()
    assert sequences.identity == NO_IDENTITY
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    filled(accumulator, queue, 0.0)
    assert not sequences.may_leave(queue)


def test_of_batches_that_are_repeated_only_the_oldest_may_leave() -> None:
    sequences = Sequences(idempotent=True, transactional=False)
    sequences.identity = (7, 0)
    accumulator, queue = Accumulator(LIMITS), PartitionQueue("t", 0)
    first, second = filled(accumulator, queue, 0.0), filled(accumulator, queue, 0.0)
    for batch in (first, second):
        assert sequences.may_leave(queue)
        queue.flying.append(accumulator.take(queue))
        sequences.number(batch)
    queue.flying.remove(second)
    accumulator.put_back(second)
    assert not sequences.may_leave(queue)
    queue.flying.remove(first)
    assert sequences.may_leave(queue)
    assert second.base_sequence == 1


def test_a_topic_of_the_same_name_begins_with_new_numbers() -> None:
    route = Route("t", Choice(Drawn()))
    route.learn(topic(2, topic_id=b"a" * 16))
    assert not any(queue.restart for queue in route.queues)
    route.learn(topic(3, topic_id=b"b" * 16))
    assert [queue.restart for queue in route.queues] == [True, True, False]
    assert route.count == 3


def test_records_without_key_avoid_partitions_without_leader_and_those_in_which_much_waits() -> None:
    route = Route("t", Choice(Drawn()))
    route.learn(topic(3, leaders={1: -1}))
    accumulator = Accumulator(LIMITS)
    for _ in range(9):
        filled(accumulator, route.queues[0], 0.0)
    chosen = Counter(route.switch(0.0).number for _ in range(1000))
    assert chosen[1] == 0
    assert chosen[0] < 200 < chosen[2]


def test_records_without_key_avoid_partitions_whose_broker_takes_nothing() -> None:
    route = Route("t", Choice(Drawn(), available_seconds=2.0))
    route.learn(topic(2))
    route.queues[0].stuck_since = 10.0
    assert {route.switch(11.0).number for _ in range(100)} == {0, 1}
    assert {route.switch(13.0).number for _ in range(100)} == {1}


def test_chance_is_even_and_weights_weigh() -> None:
    drawn = Drawn()
    by_chance = Counter(Chance(drawn).partition("t", b"k", None, 4, [0, 2, 3]) for _ in range(3000))
    assert set(by_chance) == {0, 2, 3}
    assert min(by_chance.values()) > 800
    assert KeyOrChance(drawn).partition("t", b"21", None, 4, [0]) == (-973932308 & 0x7FFFFFFF) % 4
    weights = Counter(weighted(drawn, [1, 0, 3]) for _ in range(4000))
    assert weights[1] == 0
    assert 2 < weights[2] / weights[0] < 4


def test_words_write_as_javas_serializers_do() -> None:
    assert WORDS["int"](-2) == struct.pack(">q", -2)
    assert WORDS["int32"](7) == b"\0\0\0\7"
    assert WORDS["float"](0.5) == struct.pack(">d", 0.5)
    assert WORDS["str"]("é") == "é".encode()
    assert WORDS["json"]({"é": [1]}) == '{"é":[1]}'.encode()
    with pytest.raises(TypeError, match="text is needed"):
        WORDS["str"](b"bytes")


def test_a_serializer_may_be_a_class_that_wants_to_know_its_settings() -> None:
    told: list[Any] = []

    class Shouting:
        def configure(self, settings: Any, is_key: bool) -> None:
            told.append((settings["client.id"], is_key))

        def serialize(self, topic: str, value: str) -> bytes:
            return f"{topic}: {value.upper()}".encode()

        def close(self) -> None:
            told.append("closed")

    serialization = Serialization("key.serializer", Shouting, {"client.id": "me"})
    assert serialization.turn("t", "a") == b"t: A"
    serialization.close()
    assert told == [("me", True), "closed"]
    with pytest.raises(InvalidSetting, match="no serializer"):
        Serialization("key.serializer", 7, {})


def test_messages_that_serialize_themselves_do() -> None:
    class Message:
        def SerializeToString(self) -> bytes:  # noqa: N802  # protobuf's name
            return b"\x08\x01"

    assert Protobuf().serialize("t", Message()) == b"\x08\x01"


def test_avro_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(ImportError, match=r"ottla\[avro\]"):
        Avro({"type": "string"})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("partitioner_class", "rond_robin"),
        ("value_serializer", "jsn"),
        ("partitioner_class", 5),
        ("interceptor_classes", "SomeJavaClass"),
    ],
)
def test_what_is_no_part_is_refused_by_name(name: str, given: Any) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": "x:1", name: given}
    with pytest.raises(InvalidSetting) as caught:
        Producer(**settings)
    assert caught.value.name == name.replace("_", ".")


def test_every_class_of_the_table_is_one_the_producer_looks_at() -> None:
    classes = {name for name, setting in PRODUCER.settings.items() if setting.kind is ValueKind.CLASS}
    own = {name for name in classes if not name.startswith(("sasl.", "ssl."))}
    assert own == {"key.serializer", "value.serializer", "partitioner.class"}
    assert NO_SEQUENCE == -1
