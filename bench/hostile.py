"""An innocent client beside clients that mean harm: how long it waits for its answers.

Owns: the attacks, each a function that goes on until its process is ended, and the table with its limit. Never knows:
how a broker defends itself. The innocent client writes a record of its own and waits for the acknowledgement, again and
again; each attack runs in a process of its own meanwhile. The suite of `tests/cluster/test_hostile_clients.py` holds
that it is served at all.

To add an attack: a function that takes the broker's port and never returns, and a line in ATTACKS.
"""

import math
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import cramjam
from bench.brokers import BROKERS, Broker
from bench.wire import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Connection,
    Refused,
    array,
    batch_of,
    frame,
    metadata_of_everything,
    one_record_batch,
    string,
    varint,
)

TOPIC, LARGE, BAD = "innocent", "large", "bad"
KEYED, BOMB = "keyed", "bomb"
CONSUMER_GROUP_HEARTBEAT, FIND_COORDINATOR = 68, 10
ZSTD = 4
BOMB_BYTES = 120 << 20
KEYED_PARTITIONS = 20
MANY_TOPICS = 500
LARGEST = 2**31 - 1
LARGE_BATCHES = 64
WARM_UP = 2000
SECONDS = 6.0
BEGIN_SECONDS = 1.0
"""From the start of an attack until the innocent one is watched."""
CALM_SECONDS = 2.0
PATIENCE_SECONDS = 30.0
"""An answer that takes longer never comes: the broker is started anew for the next attack."""
MOST_MS = 20.0

Numbers = dict[str, float]
Results = dict[str, dict[str, Numbers]]


class Attack(NamedTuple):
    key: str
    label: str
    run: Callable[[int], None] | None


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 120)


def drain(connection: socket.socket) -> None:
    """Read until the broker closes."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        pass


def again_and_again(port: int, request: bytes) -> None:
    """Ask the same, over a new connection where the broker closed the last one."""
    while True:
        try:
            with Connection(port) as client:
                while True:
                    client.socket.sendall(request)
                    client.receive_frame()
        except OSError:
            continue


def a_poll() -> bytes:
    """A fetch from the innocent client's topic that waits for weeks for more than there will be."""
    wanted = struct.pack(">iqi", 0, 0, LARGEST)
    head = struct.pack(">iiiib", -1, LARGEST, LARGEST, LARGEST, 0)
    return frame(FETCH, 4, 1, head + array([string(TOPIC) + array([wanted])]))


def polls_of_those_who_left(port: int) -> None:
    polls = a_poll() * 128
    while True:
        with connect(port) as client:
            client.sendall(polls)


def polls_by_the_hundred(port: int) -> None:
    polls = a_poll() * 128
    clients = [connect(port) for _ in range(200)]
    for client in clients:
        client.sendall(polls)
    time.sleep(3600)


def halves_of_frames(port: int) -> None:
    def begun() -> socket.socket:
        client = connect(port)
        client.sendall(struct.pack(">i", 50_000_000))
        return client

    clients = [begun() for _ in range(100)]
    while True:
        for position, client in enumerate(clients):
            try:
                client.sendall(b"\0" * 4096)
            except OSError:
                client.close()
                clients[position] = begun()


def requests_without_end(port: int) -> None:
    """Many that each send small requests as fast as they can, and read what comes back."""

    def go_on(client: socket.socket) -> None:
        requests = frame(API_VERSIONS, 0, 1, b"") * 200
        while True:
            client.sendall(requests)

    clients = [connect(port) for _ in range(50)]
    for client in clients:
        threading.Thread(target=go_on, args=(client,), daemon=True).start()
        threading.Thread(target=drain, args=(client,), daemon=True).start()
    time.sleep(3600)


def comings_and_goings(port: int) -> None:
    while True:
        connect(port).close()


def too_many_names(port: int) -> None:
    names = 1_000_001
    again_and_again(port, frame(METADATA, 4, 1, struct.pack(">i", names) + b"\0\0" * names + b"\1"))


def tags(port: int) -> None:
    head = struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + b"\x8f\x4e" + b"\x64\x00" * 9_999 + b"\2x\2y\0"
    again_and_again(port, struct.pack(">i", len(head)) + head)


def offsets_of_very_many(port: int) -> None:
    rows = [struct.pack(">iq", number, -1) for number in range(200_000)]
    again_and_again(port, frame(LIST_OFFSETS, 1, 1, struct.pack(">i", -1) + array([string(TOPIC) + array(rows)])))


def fetches_of_very_many(port: int) -> None:
    rows = [struct.pack(">iqi", number, 0, 1) for number in range(50_000)]
    head = struct.pack(">iiiib", -1, 0, 0, 1, 0)
    again_and_again(port, frame(FETCH, 4, 1, head + array([string(TOPIC) + array(rows)])))


def one_partition_many_times(port: int) -> None:
    batch = one_record_batch(b"again")
    rows = [struct.pack(">ii", 0, len(batch)) + batch] * 10_000
    body = string(None) + struct.pack(">hi", 1, 30_000) + array([string(BAD) + array(rows)])
    again_and_again(port, frame(PRODUCE, 7, 1, body))


def a_batch_that_cannot_be_read(port: int) -> None:
    wanted = array([string(BAD) + array([struct.pack(">iq", 1, 1)])])
    again_and_again(port, frame(LIST_OFFSETS, 1, 1, struct.pack(">i", -1) + wanted))


def much_at_once(port: int) -> None:
    wanted = struct.pack(">iqi", 0, 0, LARGEST)
    head = struct.pack(">iiiib", -1, 0, 0, LARGEST, 0)
    again_and_again(port, frame(FETCH, 4, 1, head + array([string(LARGE) + array([wanted])])))


def a_bomb(size: int) -> bytes:
    """A batch of a few kilobytes that is large when it is decompressed."""
    record = b"\x00\x00\x00\x02k" + varint(size) + bytes(size) + b"\x00"
    return batch_of(bytes(cramjam.zstd.compress(varint(len(record)) + record)), ZSTD)


def bombs(port: int) -> None:
    batch = a_bomb(BOMB_BYTES)
    rows = [struct.pack(">ii", number, len(batch)) + batch for number in range(KEYED_PARTITIONS)]
    body = string(None) + struct.pack(">hi", 1, 30_000) + array([string(KEYED) + array(rows)])
    again_and_again(port, frame(PRODUCE, 7, 1, body))


def times_of_a_bomb(port: int) -> None:
    wanted = array([string(BOMB) + array([struct.pack(">iq", 0, 1)])])
    again_and_again(port, frame(LIST_OFFSETS, 1, 1, struct.pack(">i", -1) + wanted))


def patterns(port: int) -> None:
    """Each a new one, so that none is known already."""
    number = 0
    with Connection(port) as client:
        client.ask(FIND_COORDINATOR, 1, string("g") + b"\0")
        while True:
            number += 1
            pattern = f"(((){{30}}){{1000}}){{1000}}(.?){{900}}x{number}".encode()
            member = str(number).encode()
            body = b"\2g" + bytes([len(member) + 1]) + member + struct.pack(">i", 0) + b"\0\0"
            body += struct.pack(">i", 10_000) + b"\0" + bytes([len(pattern) + 1]) + pattern + b"\0\1\0"
            head = struct.pack(">hhih", CONSUMER_GROUP_HEARTBEAT, 1, number, -1) + b"\0"
            client.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            client.receive_frame()


def metadata_of_all(port: int) -> None:
    again_and_again(port, frame(METADATA, 8, 1, metadata_of_everything()))


def answers_that_nobody_reads(port: int) -> None:
    wanted = struct.pack(">iqi", 0, 0, LARGEST)
    head = struct.pack(">iiiib", -1, 0, 0, LARGEST, 0)
    request = frame(FETCH, 4, 1, head + array([string(LARGE) + array([wanted])]))
    clients = [connect(port) for _ in range(50)]
    for client in clients:
        client.sendall(request * 10)
    time.sleep(3600)


ATTACKS = (
    Attack("alone", "nobody", None),
    Attack("left", "long polls of clients that left at once", polls_of_those_who_left),
    Attack("polls", "128 long polls on each of 200 connections", polls_by_the_hundred),
    Attack("halves", "100 unfinished requests that grow", halves_of_frames),
    Attack("endless", "50 clients that send small requests without end", requests_without_end),
    Attack("comings", "connections that come and go", comings_and_goings),
    Attack("names", "an array of a million and one names", too_many_names),
    Attack("tags", "9,999 tagged fields in a header", tags),
    Attack("offsets", "ListOffsets of 200,000 partitions", offsets_of_very_many),
    Attack("fetches", "Fetch of 50,000 partitions", fetches_of_very_many),
    Attack("again", "one partition 10,000 times in a Produce", one_partition_many_times),
    Attack("unreadable", "ListOffsets over a batch that cannot be read", a_batch_that_cannot_be_read),
    Attack("much", "fetches of 64 MB without a limit", much_at_once),
    Attack("bombs", f"Produce of {KEYED_PARTITIONS} batches of 4 kB that hold 120 MB each", bombs),
    Attack("times", "ListOffsets by time over such a batch", times_of_a_bomb),
    Attack("patterns", "subscriptions to patterns that would take for ever", patterns),
    Attack("metadata", f"metadata of {MANY_TOPICS * 10:,} partitions", metadata_of_all),
    Attack("unread", "fetches of 64 MB that nobody reads, 50 connections", answers_that_nobody_reads),
)


def measure(starts: int) -> Results:
    """Medians over the starts: attack → system → milliseconds."""
    seen: dict[str, dict[str, list[Numbers]]] = {attack.key: {kind.name: [] for kind in BROKERS} for attack in ATTACKS}
    for start in range(starts):
        for kind in BROKERS if start % 2 == 0 else reversed(BROKERS):
            broker = kind(f"hostile-{start}")
            broker.format()
            broker.start()
            try:
                prepare(broker)
                for attack in ATTACKS:
                    print(f"hostile: start {start + 1} of {starts}, {kind.name}, {attack.label}", flush=True)
                    numbers = beside(broker, attack)
                    seen[attack.key][kind.name].append(numbers)
                    if numbers["answers"] == 0:
                        start_anew(broker)
            finally:
                broker.stop()
                broker.remove()
    return {
        key: {name: {each: median(run[each] for run in runs) for each in runs[0]} for name, runs in row.items()}
        for key, row in seen.items()
    }


def start_anew(broker: Broker) -> None:
    """After an attack that it did not get over."""
    broker.kill()
    broker.format()
    broker.start()
    prepare(broker)


def prepare(broker: Broker) -> None:
    with Connection(broker.port) as connection:
        connection.create_topics([TOPIC, LARGE], 1)
        connection.create_topics([BAD], 2)
        for _ in range(LARGE_BATCHES):
            connection.produce(LARGE, 0, one_record_batch(b"x" * 1_000_000))
        try:
            connection.produce(BAD, 1, batch_of(b"\xff" * 40))
        except Refused as refusal:  # Kafka looks into every batch
            print(f"hostile: {broker.name} takes no batch that cannot be read: {refusal}", flush=True)
        connection.create_topics([KEYED], KEYED_PARTITIONS, {"cleanup.policy": "compact"})
        connection.create_topics([BOMB], 1)
        connection.create_topics([f"many-{number}" for number in range(MANY_TOPICS)], 10)
        try:
            connection.produce(BOMB, 0, a_bomb(BOMB_BYTES))
        except Refused as refusal:
            print(f"hostile: {broker.name} takes no batch that grows so much: {refusal}", flush=True)
        for _ in range(WARM_UP):
            connection.produce(TOPIC, 0, one_record_batch(b"warm"))


def beside(broker: Broker, attack: Attack) -> Numbers:
    """What the innocent client waits while this goes on."""
    running = None
    if attack.run is not None:
        running = subprocess.Popen([sys.executable, "-m", "bench.hostile", attack.key, str(broker.port)])
    try:
        time.sleep(BEGIN_SECONDS)
        assert running is None or running.poll() is None, f"the attack by {attack.label} ended by itself"
        return waits(broker)
    finally:
        if running is not None:
            running.kill()
            running.wait()
            time.sleep(CALM_SECONDS)


def waits(broker: Broker) -> Numbers:
    taken: list[float] = []
    batch = one_record_batch(b"innocent")
    try:
        with Connection(broker.port, PATIENCE_SECONDS) as connection:
            until = time.perf_counter() + SECONDS
            begin = time.perf_counter()
            while begin < until:
                connection.produce(TOPIC, 0, batch)
                end = time.perf_counter()
                taken.append((end - begin) * 1000)
                begin = end
    except OSError:
        return {"p50": math.inf, "p99": math.inf, "p999": math.inf, "worst": math.inf, "answers": 0.0}
    taken.sort()
    return {
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
        "p999": taken[int(len(taken) * 0.999)],
        "worst": taken[-1],
        "answers": len(taken) / SECONDS,
    }


def table(results: Results) -> str:
    lines = [
        "| beside the innocent client | | p50 ms | p99 ms | p99.9 ms | worst ms | answers/s | p99.9 at most | |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for attack in ATTACKS:
        for name, found in results[attack.key].items():
            target, mark = "", ""
            if name == "ottla":
                target, mark = f"{MOST_MS:g}", "reached" if found["p999"] <= MOST_MS else "MISSED"
            figures = " | ".join(f"{found[key]:.2f}" for key in ("p50", "p99", "p999", "worst"))
            lines.append(f"| {attack.label} | {name} | {figures} | {found['answers']:,.0f} | {target} | {mark} |")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = next(attack for attack in ATTACKS if attack.key == sys.argv[1])
    assert chosen.run is not None, "nobody attacks"
    chosen.run(int(sys.argv[2]))
