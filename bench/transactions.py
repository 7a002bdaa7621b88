"""Transactional produce: transactions of 100 messages, one after the other, through librdkafka."""

import statistics
import time
from typing import Any

from bench.brokers import BROKERS, Broker
from bench.wire import Connection
from confluent_kafka import Producer

TRANSACTIONS = 300
MESSAGES = 100
SIZE = 100
PARTITIONS = 6
ROUNDS = 4
SECONDS = 60.0

Numbers = dict[str, float]


def measure(starts: int) -> dict[str, dict[str, Numbers]]:
    """Medians over the starts: broker → "cold" and "warm" → numbers."""
    seen: dict[str, list[list[Numbers]]] = {kind.name: [] for kind in BROKERS}
    for start in range(starts):
        for kind in BROKERS if start % 2 == 0 else reversed(BROKERS):
            print(f"transactions: start {start + 1} of {starts}, {kind.name}", flush=True)
            seen[kind.name].append(rounds_of(kind(f"transactions-{start}")))
    return {
        name: {
            when: {key: statistics.median(rounds[at][key] for rounds in found) for key in found[0][at]}
            for when, at in (("cold", 0), ("warm", -1))
        }
        for name, found in seen.items()
    }


def rounds_of(broker: Broker) -> list[Numbers]:
    broker.format()
    broker.start()
    try:
        with Connection(broker.port) as connection:
            connection.create_topics(["transactions"], PARTITIONS)
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.address,
            "transactional.id": "bench",
            "linger.ms": 5,
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(SECONDS)
        return [one_round(broker, producer) for _ in range(ROUNDS)]
    finally:
        broker.stop()
        broker.remove()


def one_round(broker: Broker, producer: Producer) -> Numbers:
    value = b"x" * SIZE
    keys = [b"key-%d" % number for number in range(MESSAGES)]
    before, begin = broker.cpu_seconds(), time.perf_counter()
    for _ in range(TRANSACTIONS):
        producer.begin_transaction()
        for key in keys:
            producer.produce("transactions", value, key)
        producer.commit_transaction(SECONDS)
    seconds = time.perf_counter() - begin
    cpu = broker.cpu_seconds() - before
    count = TRANSACTIONS * MESSAGES
    return {"transactional": count / seconds, "cpu_transactional": cpu / count * 1e6}
