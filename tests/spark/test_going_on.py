"""Streams that go on from a checkpoint after the log has changed, without Spark: driven in its order."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import ottla.blocking
from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, delete_before, delete_topic, fill, grow, make_again
from kit.wire.batches import Rec
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError
from ottla.spark.errors import DataLoss
from ottla.spark.options import parse_source
from ottla.spark.positions import plain
from ottla.spark.stream_reader import StreamReader

Checkpoint = dict[str, Any]


def reader(broker: Broker, topic: str, **given: str) -> StreamReader:
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}", "startingOffsets": "earliest"}
    return StreamReader(parse_source({"subscribe": topic, **servers, **given}, streaming=True))


def stored(offset: Checkpoint) -> Checkpoint:
    """As it comes out of a checkpoint."""
    again: Checkpoint = json.loads(json.dumps(offset))
    return again


def step(stream: StreamReader, start: Checkpoint) -> Checkpoint:
    return stored(stream.latestOffset(start, ReadAllAvailable()))


def values(stream: StreamReader, start: Checkpoint, end: Checkpoint) -> list[bytes]:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def put(broker: Broker, topic: str, *names: bytes, partition: int = 0) -> None:
    fill(broker, topic, [Rec(name) for name in names], partition)


# --- a batch that is run again ----------------------------------------------------------------------------------------


def test_the_first_batch_run_again_says_that_its_records_are_gone(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, *[b"%d" % each for each in range(10)])
    first = reader(broker, topic)
    end = step(first, first.initialOffset())
    delete_before(broker, topic, 5)
    again = reader(broker, topic)
    start = again.initialOffset()  # Spark asks for it anew: no checkpoint of its own has it
    with pytest.raises(DataLoss, match=f"offsets 0 to 4 of {topic}-0 are gone: the log begins at 5"):
        values(again, start, end)
    allowed = reader(broker, topic, failOnDataLoss="false")
    assert values(allowed, start, end) == [b"%d" % each for each in range(5, 10)]


@pytest.mark.parametrize("starting", ["group:{}", "latest"])
def test_the_first_batch_run_again_begins_where_it_began(broker: Broker, topic: str, starting: str) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, b"before")
    given = {"startingOffsets": starting.format(topic)}
    with ottla.blocking.Consumer(bootstrap_servers=f"{broker.host}:{broker.port}", group_id=topic) as consumer:
        consumer.commit({TopicPartition(topic, 0): 1})
        first = reader(broker, topic, **given)
        start = first.initialOffset()
        put(broker, topic, b"a", b"b")
        end = step(first, start)
        consumer.commit({TopicPartition(topic, 0): 3})
        again = reader(broker, topic, **given)
        assert values(again, again.initialOffset(), end) == [b"a", b"b"]


def test_a_first_batch_of_nothing_stays_one(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    first = reader(broker, topic, startingOffsets="latest")
    start = stored(first.initialOffset())
    assert step(first, start) == start
    put(broker, topic, b"a")
    end = step(first, start)
    assert values(reader(broker, topic), start, end) == [b"a"]
    assert step(first, end) == end, "nothing new is no new batch"


def test_a_new_partition_begins_where_it_began_also_when_its_batch_is_run_again(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    stream = reader(broker, topic)
    start = step(stream, stream.initialOffset())
    grow(broker, topic, 2)
    put(broker, topic, b"a", b"b", b"c", partition=1)
    end = stored(stream.latestOffset(start, ReadMaxRows(2)))
    assert values(stream, start, end) == [b"a", b"b"]
    with ottla.blocking.Admin(bootstrap_servers=f"{broker.host}:{broker.port}") as admin:
        admin.delete_records({TopicPartition(topic, 1): 1})
    with pytest.raises(DataLoss, match=f"offsets 0 to 0 of {topic}-1 are gone"):
        values(reader(broker, topic), start, end)


def test_a_new_partition_that_has_lost_records_already_is_data_loss(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, b"a", b"b", b"c")
    delete_before(broker, topic, 2)
    with pytest.raises(DataLoss, match=f"partition {topic}-0 is new and begins at 2 instead of 0"):
        step(reader(broker, topic), {})
    allowed = reader(broker, topic, failOnDataLoss="false")
    assert values(allowed, {}, step(allowed, {})) == [b"c"]


# --- a log that is not the one that was read --------------------------------------------------------------------------


def read_ten(broker: Broker, topic: str) -> Checkpoint:
    create_topic(broker, topic, 1)
    put(broker, topic, *[b"old%d" % each for each in range(10)])
    stream = reader(broker, topic)
    return step(stream, stream.initialOffset())


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("count", [4, 14])
def test_a_topic_made_again_is_noticed_by_every_trigger_also_when_it_has_overtaken(
    broker: Broker, topic: str, once: bool, count: int
) -> None:
    start = read_ten(broker, topic)
    make_again(broker, topic)
    new = [b"new%d" % each for each in range(count)]
    put(broker, topic, *new)
    strict = reader(broker, topic)
    if once:
        strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"topic {topic} was made again, or the checkpoint is of another cluster"):
        step(strict, start)
    allowed = reader(broker, topic, failOnDataLoss="false")
    if once:
        allowed.prepareForTriggerAvailableNow()
    end = step(allowed, start)
    assert values(allowed, start, end) == new
    assert step(allowed, end) == end
    if not once:
        put(broker, topic, b"more")
        assert values(allowed, end, step(allowed, end)) == [b"more"]


@pytest.mark.parametrize("chosen", ["subscribe", "assign"])
def test_a_topic_that_is_gone_is_waited_for_where_loss_is_allowed(broker: Broker, topic: str, chosen: str) -> None:
    start = read_ten(broker, topic)
    put(broker, topic, b"last")
    given = {"assign": json.dumps({topic: [0]})} if chosen == "assign" else {"subscribe": topic}
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}", "default.api.timeout.ms": "3000"}
    strict = StreamReader(parse_source({**given, **servers}, streaming=True))
    allowed = StreamReader(parse_source({**given, **servers, "failOnDataLoss": "false"}, streaming=True))
    planned = step(allowed, start)
    delete_topic(broker, topic)
    with pytest.raises(BrokerError, match="there is no such topic"):
        step(strict, start)
    with pytest.raises(DataLoss, match=f"offsets 10 to 10 of {topic}-0 are gone: there is no such partition"):
        values(strict, start, planned)
    assert values(allowed, start, planned) == []
    assert step(allowed, planned) == planned
    create_topic(broker, topic, 1)
    put(broker, topic, b"new")
    end = step(allowed, planned)
    assert values(allowed, planned, end) == [b"new"]


def test_a_batch_planned_for_a_topic_is_not_read_from_another_of_its_name(broker: Broker, topic: str) -> None:
    start = {topic: {"0": 0}}
    end = read_ten(broker, topic)
    make_again(broker, topic)
    put(broker, topic, *[b"new%d" % each for each in range(14)])
    with pytest.raises(DataLoss, match=f"offsets 0 to 9 of {topic}-0 are gone: the topic was made again"):
        values(reader(broker, topic), start, end)
    assert values(reader(broker, topic, failOnDataLoss="false"), start, end) == []


@pytest.mark.parametrize("once", [False, True])
def test_a_partition_that_is_gone_is_noticed_by_every_trigger(
    broker: Broker, topic: str, once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, b"a")
    start = {topic: {"0": 0, "1": 50}}
    strict, allowed = reader(broker, topic), reader(broker, topic, failOnDataLoss="false")
    if once:
        strict.prepareForTriggerAvailableNow()
        allowed.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"partition {topic}-1 is gone, or no longer chosen; it was read up to 50"):
        step(strict, start)
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        end = step(allowed, start)
        step(allowed, end)
    assert plain(end) == {topic: {"0": 1, "1": 50}}
    assert len(caplog.records) == 1, "once is enough"


def test_a_checkpoint_of_another_version_goes_on_and_one_ahead_of_the_log_is_data_loss(
    broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, b"a", b"b", b"c")
    older = {topic: {"0": 1}}  # as versions before this one and Spark's Kafka source write it
    stream = reader(broker, topic)
    assert values(stream, older, step(stream, older)) == [b"b", b"c"]
    assert stream.latestOffset({topic: {"0": 3}}, ReadAllAvailable()) == {topic: {"0": 3}}, "nothing new, no new batch"
    ahead = {topic: {"0": 7}}
    with pytest.raises(DataLoss, match=r"ends at 3; it was read up to 7: it was cut or made again"):
        step(stream, ahead)
    allowed = reader(broker, topic, failOnDataLoss="false")
    end = step(allowed, ahead)
    assert values(allowed, ahead, end) == [b"a", b"b", b"c"]


def test_a_partition_that_was_cut_goes_on_at_its_end(broker: Broker, topic: str) -> None:
    start = read_ten(broker, topic)
    start[topic]["0"] = 20
    allowed = reader(broker, topic, failOnDataLoss="false")
    end = step(allowed, start)
    assert plain(end) == {topic: {"0": 10}}
    assert values(allowed, start, end) == []
    put(broker, topic, b"next")
    assert values(allowed, end, step(allowed, end)) == [b"next"]


def test_offsets_behind_an_open_transaction_are_not_lost_to_who_reads_committed_records_now(
    broker: Broker, topic: str
) -> None:
    create_topic(broker, topic, 1)
    put(broker, topic, b"a")
    servers = f"{broker.host}:{broker.port}"
    with ottla.blocking.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"b").result(30)
        uncommitted = reader(broker, topic)
        start = step(uncommitted, uncommitted.initialOffset())
        assert plain(start) == {topic: {"0": 2}}
        stream = reader(broker, topic, **{"isolation.level": "read_committed"})
        assert step(stream, start) == start
        producer.commit_transaction()
        put(broker, topic, b"c")
        until(lambda: step(stream, start) != start, "the transaction has ended")
        assert values(stream, start, step(stream, start)) == [b"c"]


def test_too_few_records_wait_without_a_batch_also_in_a_new_partition(broker: Broker, topic: str) -> None:
    start = read_ten(broker, topic)
    grow(broker, topic, 2)
    put(broker, topic, b"x", partition=1)
    stream = reader(broker, topic, minOffsetsPerTrigger="50")
    assert stored(stream.latestOffset(start, ReadMinRows(50))) == start
