"""Options of the source: what is understood, and what is said about the rest."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.spark.errors import BadOption, CheckpointMismatch, DataLoss, each_in_one_sentence, in_one_sentence
from ottla.spark.options import parse_source
from ottla.spark.positions import BoundKind, Reached, from_checkpoint, parse_offsets, plain, to_checkpoint
from ottla.spark.source import OttlaDataSource

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_the_options_of_sparks_kafka_source_are_understood_in_any_case() -> None:
    options = parse_source({**SERVERS, "SUBSCRIBE": "a, b,a", "MinPartitions": "8"}, streaming=False)
    assert options.topics.names == ("a", "b")
    assert options.min_partitions == 8
    assert options.settings["bootstrap.servers"] == "localhost:9092"


def test_client_settings_need_no_prefix() -> None:
    options = parse_source(
        {"bootstrap.servers": "x:1", "subscribe": "a", "isolation.level": "read_committed"}, streaming=True
    )
    assert options.committed_only


def test_parsed_options_travel_to_tasks() -> None:
    options = parse_source({**SERVERS, "assign": '{"a": [1, 0]}'}, streaming=False)
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.topics.assigned == (TopicPartition("a", 0), TopicPartition("a", 1))


@pytest.mark.parametrize(
    ("options", "streaming", "said"),
    [
        ({"subscrieb": "a"}, False, "did you mean subscribe?"),
        ({"subscribe": "a", "maxOffsetPerTrigger": "5"}, True, "did you mean maxOffsetsPerTrigger?"),
        ({"subscribe": "a", "kafka.isolaton.level": "x"}, False, "did you mean isolation.level?"),
        ({"subscribe": "a", "kafka.isolation.level": "none"}, False, "isolation.level cannot be"),
        ({}, False, "one of subscribe, subscribePattern and assign"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, False, "not subscribe and assign"),
        ({"subscribe": " , "}, False, "subscribe names no topic"),
        ({"subscribePattern": "("}, False, "subscribePattern cannot be"),
        ({"assign": '{"a": 3}'}, False, "assign cannot be"),
        ({"subscribe": "a", "startingOffsets": "latest"}, False, "cannot be latest in a batch read"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, False, "cannot be latest in a batch read"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, False, "cannot be earliest"),
        ({"subscribe": "a", "endingOffsets": "latest"}, True, "for batch reads only"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, False, "for stream reads only"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, True, "a whole number above 0"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, True, "is above"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, True, "a time like"),
        ({"subscribe": "a", "startingOffsets": "group:"}, False, "names no group"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, False, "allowed is JSON like"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, False, "milliseconds since 1970"),
        ({"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": -2}}'}, False, "allowed is JSON like"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, False, "allowed is true or false"),
        ({"subscribe": "a", "path": "/data"}, True, "spark.read, not spark.readStream"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(BadOption) as failure:
        parse_source(SERVERS | options, streaming=streaming)
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_missing_address_is_said_on_the_driver() -> None:
    with pytest.raises(BadOption, match=r"bootstrap\.servers is missing"):
        parse_source({"subscribe": "a"}, streaming=False)


def test_a_path_needs_neither_topic_nor_address() -> None:
    assert parse_source({"path": "/data"}, streaming=False).path == "/data"


@pytest.mark.parametrize(("text", "seconds"), [("1500", 1.5), ("500ms", 0.5), ("30s", 30), ("15m", 900), ("2 h", 7200)])
def test_times_are_written_as_in_spark(text: str, seconds: float) -> None:
    options = parse_source({**SERVERS, "subscribe": "a", "maxTriggerDelay": text}, streaming=True)
    assert options.limits.max_delay == pytest.approx(seconds)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    given = {**SERVERS, "subscribe": "a"}
    assert parse_source(given, streaming=True).starting.everywhere == -1
    assert parse_source(given, streaming=False).starting.everywhere == -2


def test_a_time_for_all_partitions_wins_over_offsets() -> None:
    given = {**SERVERS, "subscribe": "a", "startingTimestamp": "5", "startingOffsets": "earliest"}
    bound = parse_source(given, streaming=False).starting
    assert (bound.kind, bound.everywhere) == (BoundKind.MOMENTS, 5)


def test_offsets_by_partition_must_name_them_all() -> None:
    given = {**SERVERS, "subscribe": "a", "startingOffsets": '{"a": {"0": 7}}'}
    bound = parse_source(given, streaming=False).starting
    assert bound.of([TopicPartition("a", 0)]) == {TopicPartition("a", 0): 7}
    with pytest.raises(BadOption, match="startingOffsets says nothing about a-1"):
        bound.of([TopicPartition("a", 0), TopicPartition("a", 1)])


def test_checkpoints_have_the_form_of_sparks_kafka_source() -> None:
    offsets = {TopicPartition("a", 10): 3, TopicPartition("a", 2): 4, TopicPartition("b", 0): 0}
    assert to_checkpoint(Reached(offsets)) == {"a": {"2": 4, "10": 3}, "b": {"0": 0}}
    assert from_checkpoint({"a": {"2": 4, "10": 3}, "b": {"0": 0}}) == Reached(offsets)
    more = Reached(offsets, {"a": "x"}, {TopicPartition("a", 2): 1}, initial=True)
    assert plain(to_checkpoint(more)) == to_checkpoint(Reached(offsets))
    assert from_checkpoint(to_checkpoint(more)) == more


@pytest.mark.parametrize(
    "form",
    [
        5,
        None,
        {"logOffset": 5},
        {"t": {"0": "5"}},
        {"t": {"0": 1.5}},
        {"t": {"0": -1}},
        {"t": {"0": 1 << 63}},
        {"t": {"zero": 1}},
        {"": 5, "t": {"0": 1}},
        {"": {"ids": 5}, "t": {"0": 1}},
        {"": {"begun": {"t": {"0": -5}}}, "t": {"0": 1}},
    ],
)
def test_a_checkpoint_of_another_source_is_told_in_a_sentence(form: Any) -> None:
    with pytest.raises(CheckpointMismatch, match="no offsets of topics"):
        from_checkpoint(form)


def test_offsets_that_are_nested_without_end_are_told_in_a_sentence() -> None:
    for deep in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(BadOption, match="startingOffsets cannot be"):
            parse_offsets("startingOffsets", deep)


def test_spark_is_shown_what_is_wrong_and_not_the_way_it_came_about() -> None:
    with pytest.raises(BadOption) as failure:
        OttlaDataSource({**SERVERS, "subscrieb": "a"}).schema()
    assert [step.name for step in failure.traceback][1:] == ["stepping"]

    def batches() -> Iterator[int]:
        yield 1
        raise DataLoss("offsets 3 to 5 of a-0 are gone")

    with pytest.raises(DataLoss) as lost:
        list(each_in_one_sentence(batches()))
    assert [step.name for step in lost.traceback][1:] == ["each_in_one_sentence"]
    with pytest.raises(ZeroDivisionError) as bug:
        in_one_sentence(lambda: 1 // 0)()
    assert len(bug.traceback) > 2  # what nobody expected is shown with all its steps
