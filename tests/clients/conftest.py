"""Brokers that the tests of the command line run against: every command works on ottla and on a real Kafka."""

from __future__ import annotations

import os

import pytest

from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla
from kit.brokers.processes import until

# with OTTLA_TEST_BROKER=kafka the shared broker is a real Kafka already
KINDS = ["broker"] if os.environ.get("OTTLA_TEST_BROKER") == "kafka" else ["broker", "real_kafka"]


@pytest.fixture(params=KINDS, ids=lambda kind: "kafka" if kind == "real_kafka" else "ottla")
def any_broker(request: pytest.FixtureRequest) -> Broker:
    """The shared broker, then the shared real Kafka."""
    broker: Broker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def ottla(any_broker: Broker) -> Ottla:
    """The command line, pointed at each of them in turn."""
    return Ottla(any_broker.bootstrap)


@pytest.fixture
def made(ottla: Ottla, topic: str) -> str:
    """A topic of three partitions, which every broker knows."""
    ottla("topic", "create", topic, "--partitions", "3")
    until(lambda: ottla.attempt("topic", "offsets", topic).returncode == 0, "the new topic is known")
    return topic
