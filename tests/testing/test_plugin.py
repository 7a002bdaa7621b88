"""The pytest plugin, in runs of pytest as a user has them."""

from __future__ import annotations

import glob
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

CLIENTS = """
import asyncio
import pytest
import kafka
import aiokafka
import confluent_kafka


def test_confluent_kafka_writes_and_reads(ottla_broker, ottla_topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": ottla_broker.bootstrap})
    producer.produce(ottla_topic, key="k", value="v")
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": ottla_broker.bootstrap, "group.id": "g1", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([ottla_topic])
    message = consumer.poll(60)
    assert (message.key(), message.value(), message.error()) == (b"k", b"v", None)
    consumer.close()


def test_kafka_python_writes_and_reads(ottla_broker, ottla_topic):
    producer = kafka.KafkaProducer(bootstrap_servers=ottla_broker.bootstrap)
    producer.send(ottla_topic, b"v").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        ottla_topic, bootstrap_servers=ottla_broker.bootstrap, group_id="g2", auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    assert next(consumer).value == b"v"
    consumer.close()


def test_aiokafka_writes_and_reads(ottla_broker, ottla_topic):
    async def story():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=ottla_broker.bootstrap)
        await producer.start()
        await producer.send_and_wait(ottla_topic, b"v")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            ottla_topic, bootstrap_servers=ottla_broker.bootstrap, group_id="g3", auto_offset_reset="earliest"
        )
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), 60)
        await consumer.stop()
        return message.value

    assert asyncio.run(story()) == b"v"
"""

PORTS = """
import os
import pathlib
import pytest

@pytest.mark.parametrize("number", range(6))
def test_ports(ottla_broker, number):
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{ottla_broker.bootstrap} {ottla_broker.directory} {os.getpid()}\\n")
"""

THREADS = """
import threading
import pytest

@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla")]
    print("\\nno thread is left")
"""


def left_behind() -> set[str]:
    return set(glob.glob("/dev/shm/ottla-*"))


def test_the_three_common_clients_work_in_a_users_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CLIENTS)
    pytester.makeconftest(THREADS)
    result = pytester.runpytest_subprocess("-q", timeout=250)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*no thread is left*"])


def test_one_broker_serves_the_whole_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pytester.path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    pytester.makepyfile(PORTS)
    pytester.runpytest_subprocess("-q", "-p", "no:xdist", timeout=250).assert_outcomes(passed=6)
    assert len(set(seen.read_text().splitlines())) == 1


def test_every_test_has_its_own_broker_where_the_scope_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = pytester.path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    pytester.makeini("[pytest]\nottla_scope = function\n")
    pytester.makepyfile(PORTS)
    pytester.runpytest_subprocess("-q", timeout=250).assert_outcomes(passed=6)
    directories = {line.split()[1] for line in seen.read_text().splitlines()}
    assert len(directories) == 6
    assert not directories & left_behind()


def test_every_worker_of_a_parallel_run_has_its_own_broker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xdist")
    seen = pytester.path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    pytester.makepyfile(PORTS)
    pytester.runpytest_subprocess("-q", "-n", "2", "--dist", "each", timeout=250).assert_outcomes(passed=12)
    lines = {tuple(line.split()) for line in seen.read_text().splitlines()}
    assert len(lines) == len({address for address, _, _ in lines}) == len({worker for _, _, worker in lines}) == 2
    assert not {directory for _, directory, _ in lines} & left_behind()


def test_a_fault_that_a_test_leaves_behind_reaches_no_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import confluent_kafka

        def write(bootstrap, topic):
            producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60000})
            errors = []
            producer.produce(topic, "v", callback=lambda error, message: errors.append(error))
            producer.flush(60)
            return errors

        def test_one_leaves_faults(ottla_cluster):
            ottla_cluster.fail_next("Produce", 1000, "TOPIC_AUTHORIZATION_FAILED")
            ottla_cluster.delay("Fetch", 30)
            ottla_cluster.partition(1)
            ottla_cluster.kill(2)
            ottla_cluster.pause(3)

        def test_the_other_does_not_notice(ottla_cluster, ottla_topic):
            assert write(ottla_cluster.bootstrap, ottla_topic) == [None]
        """
    )
    pytester.runpytest_subprocess("-q", timeout=250).assert_outcomes(passed=2)


def test_settings_and_the_number_of_nodes_come_from_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_nodes = 2\nottla_settings =\n    num.partitions = 7\n    log.retention.ms=1000\n")
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        def test_nodes(ottla_fresh_cluster, ottla_topic):
            admin = AdminClient({"bootstrap.servers": ottla_fresh_cluster.bootstrap})
            found = admin.list_topics(timeout=60)
            assert len(found.brokers) == 2
            assert len(found.topics[ottla_topic].partitions[0].replicas) == 2

        def test_partitions(ottla_fresh_broker):
            name = ottla_fresh_broker.create_topic("many", partitions=-1)
            admin = AdminClient({"bootstrap.servers": ottla_fresh_broker.bootstrap})
            assert len(admin.list_topics(name, timeout=60).topics[name].partitions) == 7
        """
    )
    pytester.runpytest_subprocess("-q", timeout=250).assert_outcomes(passed=2)


def test_a_wrong_scope_is_told(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_scope = sessions\n")
    result = pytester.runpytest_subprocess("-q", timeout=250)
    result.stderr.fnmatch_lines(["*ottla_scope is a scope of pytest, not 'sessions'*"])


def test_a_run_that_needs_no_broker_loads_none() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, ottla.testing.plugin; print(*(m for m in sys.modules if 'ottla' in m))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert loaded.split() == ["ottla", "ottla.testing", "ottla.testing.plugin"]
