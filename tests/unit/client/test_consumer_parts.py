"""The pure parts of the consumer: sessions, positions, durations, deserializers, the order of the buffer."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest

from ottla.base.vocabulary import NO_TOPIC_ID, TopicPartition
from ottla.client.consumer.buffer import Buffer, Chunk, FetchedRecords
from ottla.client.consumer.deserializers import Deserialization
from ottla.client.consumer.in_hand import InHand
from ottla.client.consumer.limits import duration_ms, reset_moment
from ottla.client.consumer.positions import Held, Holdings, PositionState
from ottla.client.consumer.sessions import FetchSession, WantedRead
from ottla.client.errors import InvalidSetting, Misuse
from ottla.client.groups.vocabulary import OffsetAndMetadata
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.settings import CONSUMER, load
from ottla.records.builder import build_batch
from ottla.records.record import ConsumedRecord, Record

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


def wanted(offset: int = 0, topic_id: bytes = ID) -> WantedRead:
    return WantedRead(topic_id, offset, 3, 100)


def held_at(position: int, partition: TopicPartition = ZERO) -> Held:
    held = Held(partition)
    held.jump(position)
    return held


def chunk_of(held: Held, offsets: range) -> Chunk:
    rows = [Record(at, 0, None, b"%d" % at) for at in offsets]
    data = build_batch(rows, base_offset=offsets.start)
    held.fetch_offset = offsets.stop
    return Chunk(held, FetchedRecords(data, (), offsets.stop, 0), checked=True)


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_the_first_request_of_a_session_names_everything() -> None:
    told = FetchSession().request({ZERO: wanted(5), ONE: wanted(6)})
    (topic,) = told.topics
    assert (told.session_id, told.session_epoch, topic.topic, topic.topic_id) == (0, 0, "t", ID)
    assert [(row.partition, row.fetch_offset, row.current_leader_epoch) for row in topic.partitions] == [
        (0, 5, 3),
        (1, 6, 3),
    ]


def test_later_ones_name_what_changed_and_what_went() -> None:
    session = FetchSession()
    session.request({ZERO: wanted(5), ONE: wanted(6)})
    session.answered(9)
    told = session.request({ZERO: wanted(7)})
    assert (told.session_id, told.session_epoch) == (9, 1)
    assert [row.fetch_offset for row in told.topics[0].partitions] == [7]
    assert [(row.topic_id, row.partitions) for row in told.forgotten] == [(ID, [1])]
    session.answered(9)
    assert session.request({ZERO: wanted(7)}) == (9, 2, [], [])


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    session = FetchSession()
    session.request({ZERO: wanted(5)})
    session.answered(9)
    told = session.request({ZERO: wanted(5, OTHER_ID)})
    assert [row.topic_id for row in told.forgotten] == [ID]
    assert [row.topic_id for row in told.topics] == [OTHER_ID]
    assert session.name_of(OTHER_ID) == "t"


def test_without_a_session_or_after_its_loss_everything_is_named_again() -> None:
    session = FetchSession()
    session.request({ZERO: wanted(5)})
    session.answered(0)
    assert len(session.request({ZERO: wanted(5)}).topics) == 1
    session.answered(4)
    session.reset()
    told = session.request({ZERO: wanted(5)})
    assert (told.session_id, told.session_epoch, len(told.topics)) == (0, 0, 1)


# --- positions --------------------------------------------------------------------------------------------------------


def test_a_new_epoch_asks_for_a_comparison_only_where_something_was_read() -> None:
    fresh, reader = held_at(5), held_at(5)
    reader.jump(5, epoch=2)
    for held in (fresh, reader):
        assert held.learn_leader(ID, 1, 2)
        assert held.standing is PositionState.READING or held is reader
    reader.standing = PositionState.READING
    for held in (fresh, reader):
        assert held.learn_leader(ID, 2, 3)
    assert (fresh.standing, reader.standing) == (PositionState.READING, PositionState.CHECKING)


def test_older_epochs_are_refused_unless_the_topic_is_another() -> None:
    held = held_at(5)
    assert held.learn_leader(ID, 1, 7)
    assert not held.learn_leader(ID, 2, 6)
    assert held.leader == 1
    assert held.learn_leader(OTHER_ID, 2, 0)
    assert (held.leader, held.leader_epoch, held.fetch_epoch) == (2, 0, -1)


def test_brokers_that_know_no_ids_make_no_topic_another() -> None:
    held = held_at(5)
    assert held.learn_leader(ID, 1, 7)
    assert held.is_other(OTHER_ID)
    assert not held.is_other(NO_TOPIC_ID)


def test_a_partition_that_brought_records_is_asked_for_last() -> None:
    holdings = Holdings()
    zero, one = holdings.add(ZERO), holdings.add(ONE)
    holdings.to_the_end(zero)
    assert list(holdings) == [one, zero]
    holdings.remove(ONE)
    holdings.to_the_end(one)
    assert list(holdings) == [zero]


# --- the buffer -------------------------------------------------------------------------------------------------------


def test_chunks_are_taken_in_parts_and_positions_follow() -> None:
    held = held_at(2)
    chunk = chunk_of(held, range(6))
    assert chunk.load(None)
    assert [record.offset for record in chunk.take(2)] == [2, 3]
    assert held.position == 4
    assert chunk.load(None)
    assert [record.offset for record in chunk.take(10)] == [4, 5]
    assert not chunk.load(None)
    assert held.position == 6


def test_paused_chunks_wait_aside_and_come_first_again() -> None:
    drained: list[int] = []
    buffer = Buffer(lambda: drained.append(1), 1000)
    zero, one = held_at(0), held_at(0, ONE)
    chunks = [chunk_of(zero, range(3)), chunk_of(one, range(3)), chunk_of(zero, range(3, 6))]
    for chunk in chunks:
        buffer.put(chunk)
    zero.paused = True
    assert buffer.first() is chunks[1]
    buffer.remove_first()
    assert buffer.first() is None
    assert buffer.parked == chunks[0].size + chunks[2].size == zero.buffered
    assert buffer.size == 0, "what waits for a partition to go on takes no room from others"
    zero.paused = False
    buffer.resume()
    assert (buffer.first(), buffer.parked) == (chunks[0], 0)
    assert buffer.size == zero.buffered
    assert (one.buffered, len(drained)) == (0, 3)


def test_what_is_set_aside_beyond_a_bound_is_fetched_again() -> None:
    zero, one = held_at(0), held_at(0, ONE)
    chunks = [chunk_of(zero, range(3)), chunk_of(one, range(3)), chunk_of(zero, range(3, 6))]
    buffer = Buffer(lambda: None, 2 * chunks[0].size)
    for chunk in chunks:
        buffer.put(chunk)
    zero.paused = one.paused = True
    zero.standing = PositionState.CHECKING
    assert buffer.first() is None
    assert (buffer.size, buffer.parked) == (0, chunks[1].size)
    assert (zero.fetch_offset, zero.buffered, zero.standing) == (0, 0, PositionState.CHECKING)
    assert (one.fetch_offset, one.buffered) == (3, chunks[1].size)


def test_a_chunk_that_is_set_aside_in_the_middle_goes_on_there() -> None:
    buffer = Buffer(lambda: None, 1000)
    held = held_at(0)
    buffer.put(chunk_of(held, range(5)))
    chunk = buffer.first()
    assert chunk is not None
    assert chunk.load(None)
    assert len(chunk.take(2)) == 2
    held.paused = True
    assert buffer.first() is None
    held.paused = False
    buffer.resume()
    assert chunk.load(None)
    assert [record.offset for record in chunk.take(9)] == [2, 3, 4]


def test_a_jump_makes_what_was_buffered_worthless() -> None:
    buffer = Buffer(lambda: None, 1000)
    held = held_at(0)
    buffer.put(chunk_of(held, range(3)))
    held.jump(100)
    assert buffer.first() is None
    assert (buffer.size, held.buffered, held.position) == (0, 0, 100)


# --- what a program is at work on -------------------------------------------------------------------------------------


def test_what_a_poll_handed_over_is_given_back_to_where_it_began() -> None:
    in_hand, zero, one = InHand(), held_at(2), held_at(7, ONE)
    for held, to in ((zero, 4), (one, 9), (zero, 6)):
        in_hand.part(held)
        held.position = to
    in_hand.give_back()
    assert (zero.position, one.position) == (2, 7)
    in_hand.part(zero)
    zero.position = 6
    in_hand.begin_poll()
    in_hand.give_back()
    assert zero.position == 6, "the next poll was begun: it is finished"


def test_of_an_iteration_only_the_last_record_is_given_back() -> None:
    in_hand, held = InHand(), held_at(2)
    in_hand.one_by_one(held)
    held.position = 5
    in_hand.give_back()
    assert held.position == 4


def test_what_an_iteration_hands_over_after_the_programs_word_is_in_hand_again() -> None:
    for says in (InHand.finished_all, lambda in_hand: in_hand.finished({ZERO: OffsetAndMetadata(5)})):
        in_hand, held = InHand(), held_at(2)
        in_hand.one_by_one(held)
        held.position = 5
        says(in_hand)
        held.position = 9
        in_hand.give_back()
        assert held.position == 8
        in_hand.one_by_one(held)
        in_hand.finished({ZERO: OffsetAndMetadata(8)})
        in_hand.give_back()
        assert held.position == 8, "finished is finished"


@pytest.mark.parametrize("given", [-1, 1 << 63, 1.5, "5", None, OffsetAndMetadata(-2)])
def test_what_is_no_offset_is_told_to_the_program_and_not_to_a_broker(given: Any) -> None:
    with pytest.raises(Misuse, match="an offset is a whole number"):
        OffsetAndMetadata.of(given)


def test_what_the_program_says_is_finished_and_where_it_sought_to_is_left_alone() -> None:
    in_hand, zero, one = InHand(), held_at(2), held_at(2, ONE)
    for held in (zero, one):
        in_hand.part(held)
        held.position = 6
    in_hand.finished({ZERO: OffsetAndMetadata(4, "", 3), ONE: OffsetAndMetadata(6)})
    in_hand.finished({ZERO: OffsetAndMetadata(3)})
    in_hand.give_back()
    assert (zero.position, zero.epoch, one.position) == (4, 3, 6)
    in_hand.one_by_one(zero)
    zero.jump(100)
    in_hand.give_back()
    assert zero.position == 100


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", 0),
        ("PT1.5S", 1500),
        ("P1D", 86_400_000),
        ("p1dt2h3m4.0567s", 93_784_056),
        ("PT90M", 5_400_000),
        ("PT1.S", 1000),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


def test_a_reset_goes_to_an_end_to_a_moment_or_nowhere() -> None:
    moments = [reset_moment(each, lambda: 100_000) for each in ("earliest", "latest", "by_duration:PT40S", "none")]
    assert moments == [EARLIEST, LATEST, 60_000, None]
    assert reset_moment("by_duration:P10D", lambda: 100_000) == 0


def deserialization(**settings: object) -> Deserialization:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Deserialization(load(CONSUMER, {"bootstrap.servers": "x:1", **named}, {}))


def consumed(key: bytes | None, value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("t", 0, 7, 0, 0, key, value, (), -1)


@pytest.mark.parametrize(
    ("word", "data", "expected"),
    [
        ("str", "ä".encode(), "ä"),
        ("json", b'{"a": [1]}', {"a": [1]}),
        ("int", pack(">q", -5), -5),
        ("int32", pack(">i", 5), 5),
        ("float", pack(">d", 0.5), 0.5),
        ("bytes", b"x", b"x"),
        (json.loads, b"[]", []),
    ],
)
def test_words_and_functions_stand_for_deserializers(word: object, data: bytes, expected: object) -> None:
    read = deserialization(value_deserializer=word, key_deserializer="str")
    (record,), failure = read.read([consumed(None, data)])
    assert (record.key, record.value, failure) == (None, expected, None)


def test_an_object_is_configured_called_with_the_topic_and_closed() -> None:
    calls: list[object] = []

    class Own:
        def configure(self, settings: dict[str, object], is_key: bool) -> None:
            calls.append((settings["client.id"], is_key))

        def deserialize(self, topic: str, data: bytes) -> str:
            return f"{topic}:{data.decode()}"

        def close(self) -> None:
            calls.append("closed")

    read = deserialization(key_deserializer=Own, client_id="me")
    (record,), _ = read.read([consumed(b"k", b"v")])
    read.close()
    assert (record.key, record.value, calls) == ("t:k", b"v", [("me", True), "closed"])


def test_numbers_of_the_wrong_size_and_unknown_words_are_refused() -> None:
    records, failure = deserialization(value_deserializer="int").read([consumed(None, b"123")])
    assert records == []
    assert "record 7 of t-0 cannot be read: its value: ValueError: 8 bytes are needed, not 3" in str(failure)
    with pytest.raises(InvalidSetting, match="did you mean 'json'"):
        deserialization(value_deserializer="jsn")
    with pytest.raises(InvalidSetting, match="no deserializer"):
        deserialization(value_deserializer=5)
