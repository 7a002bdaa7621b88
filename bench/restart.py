"""Restart after kill -9 with 2,000 partitions and 5 GB that no flush was asked for.

Measured: from executing the process to the answered fetch of the last record in each of twenty partitions. The page
cache is warm for both brokers; the operating system lived on.
"""

import random
import struct
import time

from bench import load
from bench.brokers import BROKERS, Broker
from bench.wire import Connection

TOPIC = "many"
PARTITIONS = 2000
SAMPLE = 20
VALUE = 1024
RESTART_SECONDS = 300.0
POLL_SECONDS = 0.002


def measure(gigabytes: float) -> dict[str, dict[str, float]]:
    return {kind.name: restart(kind("restart"), gigabytes) for kind in BROKERS}


def restart(broker: Broker, gigabytes: float) -> dict[str, float]:
    each = int(gigabytes * 1e9 / PARTITIONS / VALUE)
    print(f"restart: filling {broker.name} with {PARTITIONS} partitions and {gigabytes} GB", flush=True)
    broker.format()
    broker.start()
    try:
        with Connection(broker.port) as connection:
            connection.create_topics([TOPIC], PARTITIONS)
            filled = load.run(broker, "fill", TOPIC, each * PARTITIONS, VALUE, "linger.ms=5")
            sample = sorted(random.Random(1).sample(range(PARTITIONS), SAMPLE))
            ends = {partition: connection.end_offset(TOPIC, partition) for partition in sample}
        broker.kill()
        begin = time.perf_counter()
        answered = broker.start()
        for partition, end in ends.items():
            wait_for_last_record(broker, partition, end, begin + RESTART_SECONDS)
        return {
            "seconds": time.perf_counter() - begin,
            "first_answer": answered,
            "fill_megabytes_per_second": filled["megabytes_per_second"],
            "cpu_seconds": broker.cpu_seconds(),
            "resident_after": broker.resident_megabytes(),
            "descriptors": broker.descriptors(),
        }
    finally:
        broker.kill()
        broker.remove()


def wait_for_last_record(broker: Broker, partition: int, end: int, deadline: float) -> None:
    while True:
        try:
            with Connection(broker.port) as connection:
                while time.perf_counter() < deadline:
                    error, records = connection.fetch(TOPIC, partition, end - 1, 1)
                    if not error and records and last_offset(records) == end - 1:
                        return
                    time.sleep(POLL_SECONDS)
        except OSError:
            time.sleep(POLL_SECONDS)
        if time.perf_counter() >= deadline:
            raise TimeoutError(f"{broker.name} lost the end of {TOPIC}-{partition} (offset {end - 1})")


def last_offset(batch: bytes) -> int:
    (base,) = struct.unpack_from(">q", batch)
    (delta,) = struct.unpack_from(">i", batch, 23)
    return int(base + delta)
