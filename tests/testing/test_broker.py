"""A broker in the test's own process: its life, its faults, its time."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from kit.brokers.polling import wait_until
from ottla.base.settings.kinds import InvalidSetting
from ottla.client.errors import BrokerError

QUIET = {"log_level": 0}
SECONDS = 60.0


def send(bootstrap: str, topic: str, *values: str, **settings: object) -> list[int]:
    """The offsets the values got."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **settings})
    offsets: list[int] = []

    def delivered(error: object, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, callback=delivered)
    assert producer.flush(SECONDS) == 0
    return offsets


def offsets_of(bootstrap: str, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looking", **QUIET})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
    finally:
        consumer.close()
    return first, end


def open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def test_a_broker_serves_and_leaves_nothing_behind() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders", partitions=3)
        assert len(send(b.bootstrap, "orders", "one", "two")) == 2
        directory, address = b.directory, b.bootstrap
        assert os.path.isdir(directory)
    assert not os.path.exists(directory)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla")]
    assert not [path for path in open_files() if directory in path]
    host, _, port = address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5)


async def test_the_async_form_gives_the_same_broker() -> None:
    async with ottla.testing.broker() as b:
        b.create_topic("orders")
        assert send(b.bootstrap, "orders", "one") == [0]
        directory = b.directory
    assert os.path.basename(directory) not in os.listdir(os.path.dirname(directory))


def test_the_host_process_is_left_as_it_was() -> None:
    def state() -> list[object]:
        return [
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            gc.get_threshold(),
            gc.get_freeze_count(),
            sys.getswitchinterval(),
            list(logging.getLogger().handlers),
            logging.getLogger().level,
            logging.getLogger("ottla").level,
        ]

    before = state()
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        assert state() == before
    assert state() == before


def test_settings_are_given_by_keyword_or_mapping() -> None:
    with ottla.testing.broker({"num.partitions": 5}, auto_create_topics_enable=True) as b:
        send(b.bootstrap, "made-by-itself", "one")
        topics = AdminClient({"bootstrap.servers": b.bootstrap, **QUIET}).list_topics(timeout=SECONDS).topics
        assert len(topics["made-by-itself"].partitions) == 5


def test_a_setting_that_does_not_exist_is_told_and_nothing_stays() -> None:
    with pytest.raises(InvalidSetting, match=r"log\.retention\.ms"):
        ottla.testing.broker(log_retention_msec=1).start()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla")]


def test_the_port_and_the_directory_are_not_for_the_test_to_choose() -> None:
    with pytest.raises(ValueError, match="listeners"):
        ottla.testing.broker(listeners="PLAINTEXT://localhost:9092")


def test_the_data_may_lie_in_a_directory_of_the_test(tmp_path: Path) -> None:
    with ottla.testing.broker(directory=tmp_path) as b:
        assert Path(b.directory).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_behind_is_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys, ottla.testing\nottla.testing.broker(directory=sys.argv[1]).start()\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=200)
    (left,) = tmp_path.iterdir()
    with ottla.testing.broker(directory=tmp_path), ottla.testing.broker(directory=tmp_path) as second:
        assert not left.exists()
        assert len(list(tmp_path.iterdir())) == 2, "those in use stay"
        second.create_topic("orders")


def test_a_broker_that_nobody_closed_is_gone_with_its_process(tmp_path: Path) -> None:
    program = "import sys, ottla.testing\nottla.testing.broker(directory=sys.argv[1]).start()\n"
    subprocess.run([sys.executable, "-W", "error", "-c", program, str(tmp_path)], check=True, timeout=200)
    assert list(tmp_path.iterdir()) == []


def test_a_broker_is_there_in_a_moment() -> None:
    """In time of the processor: what else a machine has to do does not count. The bench has the time that passes."""
    needed = []
    for _ in range(5):
        began = time.process_time()
        with ottla.testing.broker():
            needed.append(time.process_time() - began)
    assert min(needed) < 0.05, needed


def test_a_topic_that_exists_cannot_be_made_again() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        with pytest.raises(BrokerError, match="orders"):
            b.create_topic("orders")


def test_a_killed_broker_comes_back_with_what_it_wrote() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        send(b.bootstrap, "orders", "one", "two")
        address = b.bootstrap
        b.kill()
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": address, **QUIET}).list_topics(timeout=0.5)
        b.restart()
        assert b.bootstrap == address
        assert offsets_of(b.bootstrap, "orders") == (0, 2)


def test_a_stopped_broker_comes_back() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        send(b.bootstrap, "orders", "one")
        b.stop()
        b.restart()
        assert send(b.bootstrap, "orders", "two") == [1]


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        b.pause()
        admin = AdminClient({"bootstrap.servers": b.bootstrap, **QUIET})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.3)
        b.resume()
        assert "orders" in admin.list_topics(timeout=SECONDS).topics


def test_a_paused_broker_can_be_closed() -> None:
    with ottla.testing.broker() as b:
        b.pause()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla")]


def test_the_next_requests_of_an_api_fail_with_the_error_asked_for() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        failing = b.fail_next("Produce", 2, "NOT_LEADER_OR_FOLLOWER")
        assert send(b.bootstrap, "orders", "one", **{"retry.backoff.ms": 10}) == [0]
        assert (failing.hits, failing.left) == (2, 0)


def test_an_error_that_cannot_be_tried_again_reaches_the_program() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        b.fail_next("Produce", 1, "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(AssertionError, match="authorization"):
            send(b.bootstrap, "orders", "one")


def test_without_an_error_the_connection_breaks() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        failing = b.fail_next("produce")
        assert send(b.bootstrap, "orders", "one") == [0]
        assert failing.hits == 1


def test_requests_of_an_api_can_be_delayed() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        send(b.bootstrap, "orders", "warm")
        b.delay("Produce", 0.3)
        began = time.monotonic()
        send(b.bootstrap, "orders", "one")
        assert time.monotonic() - began >= 0.3
        b.delay("Produce", 3600)  # nobody would wait so long
        b.delay("Produce", 0)
        send(b.bootstrap, "orders", "two")


def test_names_that_do_not_exist_are_told() -> None:
    with ottla.testing.broker() as b:
        with pytest.raises(ValueError, match="Produces"):
            b.fail_next("Produces", 1, "REQUEST_TIMED_OUT")
        with pytest.raises(ValueError, match="NO_SUCH"):
            b.fail_next("Produce", 1, "NO_SUCH")


def test_retention_happens_when_the_clock_is_moved() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders", settings={"retention.ms": 3_600_000})
        send(b.bootstrap, "orders", "one", "two")
        b.advance(2 * 3600)
        wait_until(lambda: offsets_of(b.bootstrap, "orders") == (2, 2))


def test_a_transaction_times_out_when_the_clock_is_moved() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        producer = Producer({"bootstrap.servers": b.bootstrap, "transactional.id": "t", **QUIET})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("orders", "never")
        producer.flush(SECONDS)
        b.advance(120)
        # The open record and the marker that aborts it.
        wait_until(lambda: offsets_of(b.bootstrap, "orders")[1] == 2)
        with pytest.raises(KafkaException):
            producer.commit_transaction(SECONDS)


def test_a_member_that_is_gone_loses_its_partitions_when_the_clock_is_moved() -> None:
    with ottla.testing.broker() as b:
        b.create_topic("orders")
        send(b.bootstrap, "orders", "one")
        settings = {"bootstrap.servers": b.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
        # Silent for as long as the test takes: no report tells it that it is gone, and nothing is committed.
        silent = {"session.timeout.ms": 300_000, "heartbeat.interval.ms": 299_000, "enable.auto.commit": False}
        gone = Consumer({**settings, **silent, "max.poll.interval.ms": 300_000})
        gone.subscribe(["orders"])
        wait_until(lambda: gone.poll(0.1) is not None)
        b.advance(301)
        heir = Consumer(settings)
        heir.subscribe(["orders"])
        wait_until(lambda: heir.poll(0.1) is not None)
        heir.close()
        gone.close()
