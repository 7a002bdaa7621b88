"""How ottla's cost grows with data, idle partitions, idle connections and large questions.

Kafka is not driven here: the claims are about ottla alone (the same time in a small and in a large partition, next to
no CPU when idle, no other client delayed).
"""

import random
import statistics
import subprocess
import sys
import time

from bench import load
from bench.brokers import Broker, Ottla
from bench.wire import (
    DESCRIBE_CONFIGS,
    METADATA,
    Connection,
    configs_of_topics,
    metadata_of_everything,
    one_record_batch,
)

VALUE = 1024
LOOKUPS = 4000
QUIET_DEADLINE = 30
QUIET_CPU = 0.02
IDLE_SECONDS = 10.0
IDLE_TOPICS = 5000
IDLE_CONNECTIONS = 500
TOPICS_A_REQUEST = 250
QUESTIONS = {"metadata": METADATA, "configs": DESCRIBE_CONFIGS}

Numbers = dict[str, float]


def measure(small: float, large: float) -> Numbers:
    """Data part with partitions of `small` and `large` gigabytes, then the idle part."""
    return {**data(small, large), **idle()}


def data(small: float, large: float) -> Numbers:
    broker = Ottla("data")
    broker.format()
    broker.start()
    try:
        found = {"resident_empty": broker.resident_megabytes()}
        for label, gigabytes in (("small", small), ("large", large)):
            print(f"scaling: a partition of {gigabytes} GB", flush=True)
            with Connection(broker.port) as connection:
                connection.create_topics([label], 1)
            # Batches of 16 KiB, as the Java producer's default makes them: many index entries, small answers.
            load.run(broker, "fill", label, int(gigabytes * 1e9 / VALUE), VALUE, "linger.ms=5", "batch.size=16384")
            found[f"resident_{label}"] = broker.resident_megabytes()
        found.update(lookups(broker))
        found["resident_after_lookups"] = broker.resident_megabytes()
        return found
    finally:
        broker.stop()
        broker.remove()


def lookups(broker: Broker) -> Numbers:
    """Microseconds of a fetch at a random offset, the partitions in turn, after a round that fills the page cache."""
    chance = random.Random(1)
    taken: dict[str, list[float]] = {"small": [], "large": []}
    with Connection(broker.port) as connection:
        ends = {label: connection.end_offset(label, 0) for label in taken}
        for counted in (False, True):
            for _ in range(LOOKUPS):
                for label, end in ends.items():
                    offset = chance.randrange(end)
                    begin = time.perf_counter()
                    error, records = connection.fetch(label, 0, offset, 1)
                    seconds = time.perf_counter() - begin
                    assert not error, f"fetch of {label} at {offset}: error {error}"
                    assert records, f"fetch of {label} at {offset}: no records"
                    if counted:
                        taken[label].append(seconds * 1e6)
    found: Numbers = {}
    for label, times in taken.items():
        found[f"fetch_{label}_p50"] = statistics.median(times)
        found[f"fetch_{label}_p99"] = statistics.quantiles(times, n=100)[98]
    return found


def idle() -> Numbers:
    broker = Ottla("idle")
    broker.format()
    broker.start()
    connections: list[Connection] = []
    try:
        print(f"scaling: {IDLE_TOPICS} idle partitions, {IDLE_CONNECTIONS} idle connections", flush=True)
        names = idle_names()
        begin = time.perf_counter()
        with Connection(broker.port) as connection:
            for first in range(0, IDLE_TOPICS, TOPICS_A_REQUEST):
                connection.create_topics(names[first : first + TOPICS_A_REQUEST], 1)
            connection.create_topics(["probe"], 1)
        created = time.perf_counter() - begin
        for _ in range(IDLE_CONNECTIONS):
            connections.append(Connection(broker.port))
            connections[-1].api_versions()
        wait_until_quiet(broker)
        before = broker.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        found = {
            "create_seconds": created,
            "idle_cpu": broker.cpu_seconds() - before,
            "idle_resident": broker.resident_megabytes(),
            "idle_descriptors": broker.descriptors(),
        }
        found.update(delays(broker))
        return found
    finally:
        for connection in connections:
            connection.socket.close()
        broker.stop()
        broker.remove()


def wait_until_quiet(broker: Ottla) -> None:
    """The logs of new topics are made after the answer; idle is what comes after that."""
    deadline = time.monotonic() + QUIET_DEADLINE
    before = broker.cpu_seconds()
    while time.monotonic() < deadline:
        time.sleep(1)
        now = broker.cpu_seconds()
        if now - before < QUIET_CPU:
            return
        before = now


def idle_names() -> list[str]:
    return [f"idle-{number}" for number in range(IDLE_TOPICS)]


def delays(broker: Broker) -> Numbers:
    """Milliseconds of one client's small produce requests: alone, and while another process asks for everything."""
    found = {"delay_alone_worst": max(probe_for(broker, 3.0)) * 1e3}
    for question in QUESTIONS:
        print(f"scaling: small requests while another client asks for all {question}", flush=True)
        asking = subprocess.Popen(
            [sys.executable, "-m", "bench.scaling", question, str(broker.port)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert asking.stdout is not None
            asking.stdout.readline()  # the first answer has come, the questions go on
            times = probe_for(broker, 3.0)
        finally:
            asking.terminate()
            rest = asking.communicate()[0].split()
        found[f"delay_{question}_p99"] = statistics.quantiles(times, n=100)[98] * 1e3
        found[f"delay_{question}_worst"] = max(times) * 1e3
        found[f"{question}_answers"] = float(len(rest))
        found[f"{question}_answer_ms"] = statistics.median(map(float, rest)) if rest else 0.0
    return found


def probe_for(broker: Broker, seconds: float) -> list[float]:
    times: list[float] = []
    batch = one_record_batch(b"probe")
    with Connection(broker.port) as connection:
        connection.produce("probe", 0, batch)
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            connection.produce("probe", 0, batch)
            times.append(time.perf_counter() - begin)
            time.sleep(0.0005)  # an ordinary client, not a second load
    return times


def ask_for_ever(question: str, port: int) -> None:
    """Another process: ask the same large question until told to stop; print the milliseconds of each answer."""
    body = metadata_of_everything() if question == "metadata" else configs_of_topics(idle_names())
    version = {"metadata": 8, "configs": 3}[question]
    with Connection(port) as connection:
        while True:
            begin = time.perf_counter()
            connection.ask(QUESTIONS[question], version, body)
            print((time.perf_counter() - begin) * 1e3, flush=True)


if __name__ == "__main__":
    ask_for_ever(sys.argv[1], int(sys.argv[2]))
