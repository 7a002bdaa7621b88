"""Which broker a test runs against.

`OTTLA_TEST_BROKER=kafka` points the client tests, and the tested side of the oracle, at a real Kafka instead of ottla:
a test that fails there is itself wrong.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kit.brokers.processes import OttlaProcess
from kit.others.kafka import RealKafka

Broker = OttlaProcess | RealKafka

# What a single node and a quick test need; both sides of every comparison get the same.
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Many tests write records with old timestamps: a look at retention during one would take them away.
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
}


def broker_under_test(data: Path, settings: Mapping[str, str] | None = None) -> Broker:
    """The broker under test, not yet started."""
    wanted = {**SETTINGS, **(settings or {})}
    if os.environ.get("OTTLA_TEST_BROKER", "ottla") == "kafka":
        return RealKafka(data, wanted)
    return OttlaProcess(data, wanted)
