"""Three brokers that replicate one partition, on virtual time, under a controller that does as it is told."""

import logging
from collections.abc import Iterator

import pytest

from kit.worlds.replicas import TOPIC, TOPIC_ID, Replicas
from ottla.base.errors import ErrorCode
from ottla.replicas.partitions import Partition
from ottla.replicas.replica_selection import RACK_AWARE
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.stored.metadata import PartitionChangeRecord


@pytest.fixture
def three() -> Iterator[Replicas]:
    replicas = Replicas()
    yield replicas
    replicas.close()


def follower_lost(three: Replicas, number: int) -> None:
    """As the controller does it when a broker is gone."""
    three.kill(number)
    three.change(isr=[each for each in three.state().in_sync if each != number])
    three.advance(0.1)


def test_a_record_is_on_every_replica_when_acks_all_is_answered(three: Replicas) -> None:
    three.create([1, 2, 3])
    answer = three.complete(three.produce(1, b"one"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert three.values(1) == three.values(2) == three.values(3) == [b"one"]
    assert three.watermark(1) == 1


def test_no_timer_is_between_an_append_and_its_acknowledgement(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.complete(three.produce(1, b"warm"))
    three.advance(0.2)
    began = three.scheduler.now
    three.complete(three.produce(1, b"one"))
    # Two ways to the client, two to the followers, each at most a millisecond, and turns of the loops.
    assert three.scheduler.now - began < 0.006


def test_acks_one_does_not_wait_for_followers(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.kill(2)
    three.kill(3)
    began = three.scheduler.now
    assert three.complete(three.produce(1, b"one", acks=1)).error_code == ErrorCode.NONE
    assert three.scheduler.now - began < 0.01
    assert three.watermark(1) == 0


def test_a_follower_that_is_gone_leaves_the_in_sync_set_and_the_watermark_moves_on(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.kill(3)
    answer = three.complete(three.produce(1, b"one", timeout_ms=30_000))
    assert answer.error_code == ErrorCode.NONE
    assert three.state().in_sync == (1, 2)


def test_a_follower_that_comes_back_catches_up_and_joins(three: Replicas) -> None:
    three.create([1, 2, 3])
    follower_lost(three, 3)
    for number in range(5):
        three.complete(three.produce(1, b"%d" % number))
    three.boot(3)
    three.until(lambda: three.state().in_sync == (1, 2, 3), 5)
    assert three.values(3) == three.values(1)


def test_too_few_in_sync_refuse_a_record_before_it_is_written(three: Replicas) -> None:
    three.create([1, 2, 3], {"min.insync.replicas": "2"})
    three.change(isr=[1])
    three.advance(0.01)
    assert three.complete(three.produce(1, b"one")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert three.end(1) == 0


def test_a_set_that_shrinks_too_far_fails_what_waits_and_hides_it(three: Replicas) -> None:
    three.create([1, 2, 3], {"min.insync.replicas": "2"})
    three.kill(2)
    three.kill(3)
    answer = three.complete(three.produce(1, b"one", timeout_ms=60_000))
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert (three.end(1), three.watermark(1)) == (1, 0)


def test_what_is_not_replicated_in_time_is_answered_at_the_deadline(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.kill(3)
    answer = three.complete(three.produce(1, b"one", timeout_ms=500))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not three.partition(1).commits


def test_a_leader_that_lost_its_office_sends_producers_to_the_new_one(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.network.cut("node-1", "node-3")
    three.network.cut("node-3", "node-1")
    waiting = three.asking.create_task(three.produce(1, b"one", timeout_ms=30_000))
    three.advance(0.1)
    three.change(leader=2, isr=[2, 3])
    three.until(waiting.done, 1)
    assert waiting.result().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = three.complete(three.produce(1, b"two"))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)
    assert [(node.node_id, node.host) for node in three.last_produced.node_endpoints] == [(2, "node-2")]


def test_an_old_leader_cuts_what_only_it_had(three: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    three.create([1, 2, 3])
    three.complete(three.produce(1, b"committed"))
    three.advance(1)
    for other in ("node-2", "node-3"):
        three.network.cut("node-1", other)
        three.network.cut(other, "node-1")
    three.complete(three.produce(1, b"lost", acks=1))
    three.change(leader=2, isr=[2, 3])
    three.advance(0.1)
    three.complete(three.produce(2, b"kept"))
    three.network.calm()
    three.until(lambda: three.state().in_sync == (1, 2, 3), 40)
    assert three.values(1) == three.values(2) == three.values(3) == [b"committed", b"kept"]
    assert f"{TOPIC}-0 is truncated from 2 to 1: epoch 0 of its leader, broker 2, ends at 1" in caplog.messages


def test_many_logs_that_are_truncated_at_once_are_one_line(three: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    three.create([1, 2, 3], partitions=8)
    three.advance(1)
    for other in ("node-2", "node-3"):
        three.network.cut("node-1", other)
        three.network.cut(other, "node-1")
    for number in range(8):
        three.complete(three.produce(1, b"lost", acks=1, partition=number))
        three.complete(three.produce(1, b"too", acks=1, partition=number))
    three.publish(*(PartitionChangeRecord(number, TOPIC_ID, leader=2, isr=[2, 3]) for number in range(8)))
    three.advance(0.1)
    for number in range(8):
        three.complete(three.produce(2, b"kept", partition=number))
    three.network.calm()
    three.until(lambda: all(three.state(number).in_sync == (1, 2, 3) for number in range(8)), 40)
    told = [line for line in caplog.messages if "truncated" in line]
    named = ", ".join(f"{TOPIC}-{number}" for number in range(5))
    assert told == [
        "8 partitions are truncated where they leave the histories of broker 2, by 16 records in all: "
        f"{named} and 3 more"
    ]


def test_followers_take_over_from_a_new_leader_at_once(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.complete(three.produce(1, b"one"))
    three.advance(1)
    three.kill(1)
    three.change(leader=2, isr=[2, 3])
    three.advance(0.001)
    began = three.scheduler.now
    assert three.complete(three.produce(2, b"two")).error_code == ErrorCode.NONE
    assert three.scheduler.now - began < 0.05
    assert three.values(3) == [b"one", b"two"]


def test_a_leader_tells_no_end_before_it_knows_what_was_committed(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.complete(three.produce(1, b"one"))
    three.kill(1)
    three.kill(3)
    three.change(leader=2, isr=[2, 3])
    three.advance(0.05)
    assert (three.end(2), three.watermark(2)) == (1, 0)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])])
    answer = three.complete(three.link(2).ask(request, ListOffsetsResponse, 5))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    three.boot(3)
    three.until(lambda: three.watermark(2) == 1, 5)
    answer = three.complete(three.link(2).ask(request, ListOffsetsResponse, 5))
    assert answer.topics[0].partitions[0].offset == 1


def test_a_replica_that_is_moved_away_loses_its_log_and_the_new_one_fills_up() -> None:
    four = Replicas(4)
    four.create([1, 2, 3])
    for number in range(3):
        four.complete(four.produce(1, b"%d" % number))
    four.change(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[3])
    four.until(lambda: 4 in four.state().in_sync, 5)
    four.change(replicas=[1, 2, 4], isr=[1, 2, 4], adding_replicas=[], removing_replicas=[])
    four.advance(0.1)
    assert four.values(4) == [b"0", b"1", b"2"]
    assert four.broker(3).partitions.held(TOPIC, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not four.broker(3).store.logs
    assert isinstance(four.broker(4).partitions.held(TOPIC, 0), Partition)
    four.close()


def test_deleted_records_are_gone_everywhere_when_the_answer_comes(three: Replicas) -> None:
    three.create([1, 2, 3])
    for number in range(5):
        three.complete(three.produce(1, b"%d" % number))
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 3)])], 5000)
    answer = three.complete(three.link(1).ask(request, DeleteRecordsResponse, 10))
    result = answer.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 3)
    starts = [three.partition(number).log.start_offset for number in (1, 2, 3)]  # type: ignore[union-attr]
    assert starts == [3, 3, 3]


def test_deleting_records_takes_no_others_however_old_they_are(three: Replicas) -> None:
    three.create([1, 2, 3], {"retention.ms": "1000"})
    for number in range(5):
        three.complete(three.produce(1, b"%d" % number))
    three.advance(5)
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 3)])], 5000)
    three.complete(three.link(1).ask(request, DeleteRecordsResponse, 10))
    assert [three.values(number)[-2:] for number in (1, 2, 3)] == [[b"3", b"4"]] * 3


def test_a_follower_that_starts_empty_begins_where_its_leader_begins(
    three: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    three.create([1, 2], partitions=1)
    for number in range(5):
        three.complete(three.produce(1, b"%d" % number))
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 3)])], 5000)
    three.complete(three.link(1).ask(request, DeleteRecordsResponse, 10))
    three.change(replicas=[1, 2, 3], adding_replicas=[3])
    three.until(lambda: 3 in three.state().in_sync, 5)
    log = three.partition(3).log
    assert log is not None
    assert (log.start_offset, log.end_offset) == (3, 5)
    assert f"{TOPIC}-0 ended at 0, its leader, broker 1, has 3 to 5: it goes on at 3" in caplog.messages


def test_a_client_is_sent_to_the_replica_in_its_rack_and_reads_there_what_is_committed() -> None:
    three = Replicas(racks=True, settings={"replica.selector.class": RACK_AWARE})
    three.create([1, 2, 3])
    three.complete(three.produce(1, b"one"))
    three.advance(1)
    told = three.complete(three.fetch(1, 0, rack="rack-3"))
    assert (told.preferred_read_replica, told.records or b"") == (3, b"")
    found = three.complete(three.fetch(3, 0, rack="rack-3"))
    assert found.error_code == ErrorCode.NONE
    assert found.records
    assert three.complete(three.fetch(1, 0, rack="rack-1")).preferred_read_replica == -1
    three.close()


def test_who_reads_from_a_follower_sees_a_committed_record_at_once() -> None:
    three = Replicas(racks=True, settings={"replica.selector.class": RACK_AWARE})
    three.create([1, 2, 3])
    for number in range(3):
        reading = three.asking.create_task(three.fetch(3, number, rack="rack-3", wait_ms=5000))
        three.advance(0.6)  # by then the follower has told its leader that it has a reader
        began = three.scheduler.now
        three.complete(three.produce(1, b"one"))
        three.until(reading.done, 1)
        assert reading.result().records
        assert three.scheduler.now - began < 0.02
    three.close()


def test_a_replica_that_crashed_without_power_takes_again_what_it_lost(three: Replicas) -> None:
    three.create([1, 2, 3])
    for number in range(5):
        three.complete(three.produce(1, b"%d" % number))
    three.kill(3, power=True)
    three.boot(3)
    three.until(lambda: three.end(3) == 5, 5)
    assert three.values(3) == three.values(1)
    assert three.complete(three.produce(1, b"more", timeout_ms=30_000)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_new_replica_is_filled_no_faster_than_the_throttle_allows(side: str) -> None:
    rate = 200_000
    three = Replicas(settings={f"{side}.replication.throttled.rate": str(rate), "replica.fetch.max.bytes": "65536"})
    three.create([1, 2], {f"{side}.replication.throttled.replicas": "*"})
    for _ in range(50):
        three.complete(three.produce(1, b"x" * 20_000))
    began = three.scheduler.now
    three.change(replicas=[1, 2, 3], adding_replicas=[3])
    three.until(lambda: 3 in three.state().in_sync, 60)
    log = three.partition(3).log
    assert log is not None
    # The first second's worth passes at once; a fetch may bring half a batch that comes again with the next.
    assert (log.size - rate) / rate <= three.scheduler.now - began <= 1.2 * log.size / rate
    began = three.scheduler.now
    assert three.complete(three.produce(1, b"x" * 20_000)).error_code == ErrorCode.NONE
    assert three.scheduler.now - began < 0.1  # who is in sync is not held back
    three.close()


def test_what_waits_for_a_log_whose_disk_fails_is_told_so(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.kill(3)
    waiting = three.asking.create_task(three.produce(1, b"one", timeout_ms=30_000))
    three.advance(0.1)
    partition = three.partition(1)
    three.broker(1).loop.call_soon(three.broker(1).replicas.log_lost, partition.name, bytes(16))
    three.until(waiting.done, 1)
    assert waiting.result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert three.complete(three.produce(1, b"two")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    three.change(leader=2, isr=[2])
    three.advance(0.1)
    assert three.complete(three.produce(1, b"two")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert three.complete(three.produce(2, b"two")).error_code == ErrorCode.NONE


def test_a_controller_that_is_busy_is_asked_again(three: Replicas) -> None:
    three.create([1, 2, 3])
    three.controller.refusal = ErrorCode.NOT_CONTROLLER
    three.kill(3)
    three.complete(three.produce(1, b"one", acks=1))
    three.advance(20)
    assert three.state().in_sync == (1, 2, 3)
    three.controller.refusal = ErrorCode.NONE
    three.until(lambda: three.state().in_sync == (1, 2), 1)


def test_a_leader_whose_registration_ended_acknowledges_nothing_that_others_must_know_of(three: Replicas) -> None:
    three.create([1, 2, 3])
    assert three.complete(three.produce(1, b"before")).error_code == ErrorCode.NONE
    three.broker(1).replicas.registration_changed(False)
    assert three.complete(three.produce(1, b"doubtful")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert three.complete(three.produce(1, b"with acks 1", acks=1)).error_code == ErrorCode.NONE
    three.advance(0.2)
    assert three.watermark(1) == 1, "nor do readers see it as committed"
    three.broker(1).replicas.registration_changed(True)
    assert three.complete(three.produce(1, b"after")).error_code == ErrorCode.NONE
    assert three.values(2) == [b"before", b"with acks 1", b"after"]


def test_a_leader_without_followers_needs_nobody_to_prove_anything_to(three: Replicas) -> None:
    three.create([1])
    three.broker(1).replicas.registration_changed(False)
    assert three.complete(three.produce(1, b"one")).error_code == ErrorCode.NONE
