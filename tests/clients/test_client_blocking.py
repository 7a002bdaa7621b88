"""ottla.blocking: threads, forks, interrupts, and the same answers as the asynchronous client."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from ottla import blocking, errors
from ottla.admin import NewTopic

SECONDS = 60.0


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic of one partition with ten records."""
    with blocking.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert not admin.create_topics([NewTopic(topic, 1, 1)])[topic].error
    with blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    return topic


@pytest.fixture
def consumer(broker: Broker, filled: str) -> Iterator[blocking.Consumer]:
    with blocking.Consumer(
        filled, bootstrap_servers=broker.bootstrap, group_id=f"group-{filled}", auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as made:  # fmt: skip
        yield made


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ottla-client"]


def test_what_is_sent_is_read_in_order(consumer: blocking.Consumer) -> None:
    values = []
    for record in consumer:
        values.append(record.value)
        if len(values) == 10:
            break
    assert values == [b"%d" % number for number in range(10)]


def test_a_loop_that_is_left_has_read_only_what_it_was_handed(consumer: blocking.Consumer, filled: str) -> None:
    place = blocking.TopicPartition(filled, 0)
    for record in consumer:
        if record.offset == 3:
            assert consumer.position(place) == 4
            consumer.commit()
            break
    committed = consumer.committed([place])[place]
    assert committed is not None
    assert committed.offset == 4
    assert consumer.poll(SECONDS, 1)[0].offset == 4


def test_many_threads_send_through_one_producer(broker: Broker, filled: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap) as producer, ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda number: producer.send(filled, b"%d" % number), range(500)))
        offsets = {delivery.result(SECONDS).offset for delivery in sent}
    assert offsets == set(range(10, 510))


def test_a_callback_hears_of_the_place_or_the_failure(broker: Broker, filled: str) -> None:
    heard: list[object] = []
    with blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
        good = producer.send(filled, b"x")
        good.add_callback(lambda placed, failure: heard.append((placed, failure)))
        placed = good.result(SECONDS)
        bad = producer.send(filled, object())
        with pytest.raises(errors.SerializationFailed):
            bad.result(SECONDS)
        bad.add_callback(lambda placed, failure: heard.append(type(failure)))
    assert heard == [(placed, None), errors.SerializationFailed]


def test_a_producer_without_room_says_so_and_forgets_nothing_silently() -> None:
    stuck = blocking.Producer(bootstrap_servers="127.0.0.1:1", buffer_memory=100_000, max_block_ms=60_000)
    sent = []

    def send_for_ever() -> None:
        while True:
            sent.append(stuck.send("nowhere", b"x" * 1000))

    with pytest.raises(errors.BufferFull):
        send_for_ever()
    stuck.close(0)
    for delivery in sent:
        with pytest.raises(errors.ClientError):
            delivery.result(0)


def test_put_waits_for_room(broker: Broker, filled: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000) as small:
        sent = [small.put(filled, b"x" * 1000) for _ in range(20_000)]
        assert sent[-1].result(SECONDS).offset == 10 + 19_999


def test_a_consumer_is_for_one_thread_at_a_time(consumer: blocking.Consumer) -> None:
    enough = threading.Event()

    def poll_on() -> None:
        while not enough.is_set():
            with contextlib.suppress(errors.ConcurrentUse):  # it may be this one that comes second
                consumer.poll(0.5)

    waiting = threading.Thread(target=poll_on)
    waiting.start()

    def refused() -> bool:
        try:
            consumer.paused()
        except errors.ConcurrentUse:
            return True
        return False

    try:
        until(refused, "the second thread is refused")
    finally:
        enough.set()
        waiting.join()


def test_a_listener_may_commit_while_partitions_go(broker: Broker, filled: str) -> None:
    place = blocking.TopicPartition(filled, 0)

    class Listener:
        def __init__(self, consumer: blocking.Consumer) -> None:
            self.told: list[str] = []
            self._consumer = consumer

        def on_partitions_assigned(self, partitions: Collection[blocking.TopicPartition]) -> None:
            self.told.append(f"assigned {len(partitions)}")

        def on_partitions_revoked(self, partitions: Collection[blocking.TopicPartition]) -> None:
            self._consumer.commit({place: 7})
            self.told.append(f"revoked {len(partitions)}")

        def on_partitions_lost(self, partitions: Collection[blocking.TopicPartition]) -> None:
            self.told.append(f"lost {len(partitions)}")

    with blocking.Consumer(
        bootstrap_servers=broker.bootstrap, group_id=f"group-{filled}", enable_auto_commit=False
    ) as reader:
        listener = Listener(reader)
        reader.subscribe([filled], listener)
        until(lambda: reader.poll(0.2) == [] and bool(reader.assignment()), "an assignment", SECONDS)
        reader.unsubscribe()
        committed = reader.committed([place])[place]
    assert listener.told == ["assigned 1", "revoked 1"]
    assert committed is not None
    assert committed.offset == 7


def test_a_transaction_is_committed_or_aborted_with_its_block(broker: Broker, filled: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap, transactional_id=f"tx-{filled}") as producer:
        producer.init_transactions()

        def fail_within() -> None:
            with producer.transaction():
                producer.send(filled, b"aborted")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_within()
        with producer.transaction():
            producer.send(filled, b"committed")
    with blocking.Consumer(
        filled, bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        values = []
        for record in reader:
            values.append(record.value)
            if record.value == b"committed":
                break
    assert values == [*(b"%d" % number for number in range(10)), b"committed"]


def test_the_thread_ends_with_the_last_client(broker: Broker) -> None:
    first, second = (blocking.Admin(bootstrap_servers=broker.bootstrap) for _ in range(2))
    assert len(client_threads()) == 1
    first.close()
    assert second.topics() is not None
    second.close()
    second.close()
    assert client_threads() == []
    with pytest.raises(errors.ClientClosed):
        second.topics()


def test_a_constructor_that_fails_leaves_no_thread() -> None:
    with pytest.raises(errors.InvalidSetting):
        blocking.Producer(bootstrap_servers="x:1", linger_ms=-1)
    with pytest.raises(errors.ConnectionFailed):
        blocking.Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300)
    assert client_threads() == []


FORK = """
import os, sys
from ottla import blocking, errors
admin = blocking.Admin(bootstrap_servers=sys.argv[1])
child = os.fork()
if child == 0:
    try:
        admin.topics()
    except errors.ForkedProcess as refused:
        assert "before fork()" in str(refused)
        admin.close()
        with blocking.Admin(bootstrap_servers=sys.argv[1]) as own:
            own.topics()
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
admin.topics()
admin.close()
"""

INTERRUPT = """
import sys
from ottla import blocking
with blocking.Consumer(sys.argv[2], bootstrap_servers=sys.argv[1]) as consumer:
    try:
        print("waiting", flush=True)
        for record in consumer:
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print("closed", flush=True)
"""


def test_a_client_is_refused_after_fork_and_a_new_one_works(broker: Broker) -> None:
    command = [sys.executable, "-c", FORK, broker.bootstrap]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    assert answer.returncode == 0, answer.stderr


def test_ctrl_c_ends_a_wait(broker: Broker, filled: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPT, broker.bootstrap, filled], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "waiting\n"
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
    assert output == "interrupted\nclosed\n"
    assert process.returncode == 0


def test_a_wait_holds_no_interpreter(broker: Broker, filled: str) -> None:
    """While one thread waits for records, this one counts on; the record that ends the wait comes after that."""
    with (
        blocking.Consumer(filled, bootstrap_servers=broker.bootstrap) as consumer,
        blocking.Producer(bootstrap_servers=broker.bootstrap) as producer,
    ):
        place = blocking.TopicPartition(filled, 0)
        until(lambda: consumer.poll(0.1) == [] and consumer.assignment(), "an assignment")
        assert consumer.position(place) == 10
        polled: list[int] = []
        polling = threading.Thread(target=lambda: polled.extend(each.offset for each in consumer.poll(SECONDS)))
        polling.start()
        counted = 0
        while counted < 10_000 and polling.is_alive():
            counted += 1
        producer.send_and_wait(filled, b"at last")
        polling.join()
    assert counted == 10_000
    assert polled == [10]
