"""Transactional produce: transactions of 100 messages, one after the other, through librdkafka."""

import time
from typing import Any

from bench.brokers import BROKERS, Broker
from bench.turns import Numbers, in_turn
from bench.wire import Connection
from confluent_kafka import Producer

TRANSACTIONS = 300
MESSAGES = 100
SIZE = 100
PARTITIONS = 6
ROUNDS = 4
SECONDS = 60.0


def measure(starts: int) -> dict[str, dict[str, Numbers]]:
    return in_turn("transactions", BROKERS, starts, rounds_of)


def rounds_of(broker: Broker) -> tuple[Numbers, Numbers]:
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
        found = [one_round(broker, producer) for _ in range(ROUNDS)]
        return found[0], found[-1]
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
