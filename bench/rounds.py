"""Throughput, latency, CPU time and memory, cold and warm.

Each start of a broker runs four rounds. The first is what scripts and tests meet after a start (cold), the fourth what
a long-lived broker gives (warm). A round makes new topics, so no round reads what another wrote.
"""

from bench import load
from bench.brokers import BROKERS, Broker
from bench.turns import Numbers, in_turn, medians
from bench.wire import Connection

ROUNDS = 4
SMALL, SMALL_COUNT = 100, 1_000_000
LARGE, LARGE_COUNT = 1024, 200_000
UNBATCHED_COUNT = 50_000
LATENCY_COUNT = 10_000
BATCHED = "linger.ms=5"
WARM_READS = 5
"""A read takes half a second, and phases of several seconds in which the machine is half as fast are common."""


def measure(starts: int) -> dict[str, dict[str, Numbers]]:
    return in_turn("load", BROKERS, starts, rounds_of)


def rounds_of(broker: Broker) -> tuple[Numbers, Numbers]:
    broker.format()
    broker.start()
    try:
        idle = broker.resident_megabytes()
        found = [one_round(broker, number) for number in range(ROUNDS)]
        found[0]["resident_idle"] = idle
        found[-1]["resident_after"] = broker.resident_megabytes()
        return found[0], found[-1]
    finally:
        broker.stop()
        broker.remove()


def one_round(broker: Broker, number: int) -> Numbers:
    topic, unbatched = f"round-{number}", f"unbatched-{number}"
    with Connection(broker.port) as connection:
        connection.create_topics([topic, unbatched], 6)
    small = load.run(broker, "produce", topic, SMALL_COUNT, SMALL, BATCHED)
    large = load.run(broker, "produce", topic, LARGE_COUNT, LARGE, BATCHED)
    reads = 1 if number == 0 else WARM_READS
    consumed = medians([load.run(broker, "consume", topic, SMALL_COUNT + LARGE_COUNT, 0) for _ in range(reads)])
    # Before the unbatched requests: a hundred thousand of those would warm exactly the code that is measured here.
    single = load.run(broker, "latency", unbatched, LATENCY_COUNT, SMALL, "acks=all")
    one = load.run(broker, "unbatched", unbatched, UNBATCHED_COUNT, SMALL)
    eight = load.run(broker, "unbatched", unbatched, UNBATCHED_COUNT, SMALL, "connections=8")
    return {
        "produce_small": small["messages_per_second"],
        "produce_large": large["megabytes_per_second"],
        "consume": consumed["messages_per_second"],
        "unbatched_one": one["messages_per_second"],
        "unbatched_eight": eight["messages_per_second"],
        "latency_p50": single["p50"] * 1e6,
        "latency_p99": single["p99"] * 1e6,
        "latency_p999": single["p999"] * 1e6,
        "cpu_produce": small["broker_cpu"] / SMALL_COUNT * 1e6,
        "cpu_produce_large": large["broker_cpu"] / LARGE_COUNT * 1e6,
        "cpu_consume": consumed["broker_cpu"] / (SMALL_COUNT + LARGE_COUNT) * 1e6,
        "cpu_unbatched": one["broker_cpu"] / UNBATCHED_COUNT * 1e6,
    }
