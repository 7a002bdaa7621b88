"""Frames no client should send: an error or a closed connection, bounded memory, and nobody else notices.

Seeded: OTTLA_FUZZ_SEED repeats a run, OTTLA_FUZZ_ROUNDS makes it longer.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cluster.bystander import Bystander, create_topic, produce
from cluster.kernel import resident_megabytes, sockets
from kit.brokers.processes import OttlaProcess, until
from kit.wire.batches import Rec, batch
from kit.wire.messages import API_KEYS, encode, versions
from kit.wire.raw import ConnectionClosed, RawConnection

SEED = int(os.environ.get("OTTLA_FUZZ_SEED", "3"))
ROUNDS = int(os.environ.get("OTTLA_FUZZ_ROUNDS", "4"))
ANSWER_SECONDS = 60.0
MOST_GROWTH = 48.0  # megabytes a broker may keep of all this
REQUEST_MAX = 1 << 20
TOPIC = "target"

# Between brokers or with the controller only: no client's business, and not served to clients.
INNER = frozenset(
    [
        "alter_partition",
        "assign_replicas_to_dirs",
        "begin_quorum_epoch",
        "broker_heartbeat",
        "broker_registration",
        "controlled_shutdown",
        "controller_registration",
        "end_quorum_epoch",
        "envelope",
        "fetch_snapshot",
        "leader_and_isr",
        "stop_replica",
        "unregister_broker",
        "update_metadata",
        "update_raft_voter",
        "vote",
    ]
)
APIS = sorted(set(API_KEYS) - INNER)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaProcess]:
    settings = {"socket.request.max.bytes": str(REQUEST_MAX), "auto.create.topics.enable": "false"}
    with OttlaProcess(tmp_path_factory.mktemp("fuzzed") / "data", settings) as running:
        with RawConnection(running.host, running.port) as connection:
            create_topic(connection, TOPIC, 2)
            produce(connection, TOPIC, b"value")
        yield running


@contextmanager
def unnoticed(broker: OttlaProcess, topic: str) -> Iterator[None]:
    """A bystander works on, and memory and descriptors are bounded afterwards."""
    with RawConnection(broker.host, broker.port) as connection:
        connection.ask("api_versions", 0)
    memory, connections = resident_megabytes(broker.pid), sockets(broker.pid)
    with Bystander(broker.host, broker.port, topic):
        yield
    grown = resident_megabytes(broker.pid) - memory
    assert grown < MOST_GROWTH, f"memory grew by {grown:.0f} MB (seed {SEED})"
    until(lambda: sockets(broker.pid) <= connections, "connections are closed")
    assert "Traceback" not in broker.log, f"seed {SEED}: {broker.log[-3000:]}"


def send_and_drain(broker: OttlaProcess, data: bytes) -> None:
    """Send these bytes, say that no more will come, and read until the broker closes."""
    with socket.create_connection((broker.host, broker.port), ANSWER_SECONDS) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(1 << 16):
                pass
        except TimeoutError:
            raise AssertionError(f"the connection stays open after {data[:60]!r}… (seed {SEED})") from None
        except OSError:
            pass  # reset, or closed before we had said all: both are the broker's good right


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_MAX + 1, 2**31 - 1])
def test_a_frame_of_impossible_size_closes_the_connection_before_its_bytes_are_read(
    broker: OttlaProcess, size: int
) -> None:
    with (
        unnoticed(broker, f"bystander-size-{abs(size)}"),
        RawConnection(broker.host, broker.port, seconds=ANSWER_SECONDS) as connection,
    ):
        connection.socket.sendall(struct.pack(">i", size) + b"x" * 1000)
        with pytest.raises(ConnectionClosed):
            connection.receive_frame()


@pytest.mark.parametrize("size", range(9))
def test_a_frame_too_short_for_a_header_closes_the_connection(broker: OttlaProcess, size: int) -> None:
    with RawConnection(broker.host, broker.port, seconds=ANSWER_SECONDS) as connection:
        connection.send_frame(b"\x00" * size)
        with pytest.raises(ConnectionClosed):
            connection.receive_frame()


@pytest.mark.parametrize(
    ("api_key", "version"), [(-1, 0), (9999, 0), (52, 0), (0, -1), (3, 9999), (1, 3), (2**15 - 1, 1)]
)
def test_an_unknown_api_or_version_closes_the_connection(broker: OttlaProcess, api_key: int, version: int) -> None:
    with RawConnection(broker.host, broker.port, seconds=ANSWER_SECONDS) as connection:
        connection.send_frame(struct.pack(">hhih", api_key, version, 1, -1))
        with pytest.raises(ConnectionClosed):
            connection.receive_frame()


def test_an_unknown_version_of_api_versions_is_answered_with_version_zero(broker: OttlaProcess) -> None:
    with RawConnection(broker.host, broker.port) as connection:
        connection.send_frame(struct.pack(">hhih", API_KEYS["api_versions"], 999, 7, -1) + b"\x00\x01\x01\x00")
        correlation, error = struct.unpack_from(">ih", connection.receive_frame())
        assert (correlation, error) == (7, 35)
        assert connection.ask("api_versions", 0)["error_code"] == "none", "the connection lives on"


def test_an_array_that_claims_billions_of_entries_is_refused_without_making_room_for_them(broker: OttlaProcess) -> None:
    with unnoticed(broker, "bystander-arrays"):
        for api in APIS:
            for version in versions(api):
                head = struct.pack(">hhih", API_KEYS[api], version, 1, -1)
                for claim in (b"\x7f\xff\xff\xff", b"\x00\x00\x00\x7f\xff\xff\xff", b"\x00\xff\xff\xff\xff\x07"):
                    send_and_drain(broker, framed(head + claim * 4))


def test_truncated_requests_are_dropped(broker: OttlaProcess) -> None:
    chance = random.Random(SEED)
    with unnoticed(broker, "bystander-truncated"):
        for api in APIS:
            whole = framed(encode(api, versions(api)[-1], {}, 1))
            send_and_drain(broker, whole[: chance.randrange(1, len(whole))])


def garbage(chance: random.Random, api: str, version: int) -> bytes:
    """A good header and a body of random bytes."""
    head = struct.pack(">hhih", API_KEYS[api], version, 1, -1)
    return head + chance.randbytes(chance.choice((0, 1, 7, 50, 1000)))


def mutated(chance: random.Random, api: str, version: int) -> bytes:
    """A valid request with some bytes changed, inserted or removed after its header."""
    data = bytearray(encode(api, version, VALID.get(api, {}), 1))
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(8, len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))])
            case 1:
                data[at : at + 4] = chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1"))
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                del data[at : at + chance.randrange(1, 9)]
    return bytes(data)


@pytest.mark.parametrize("kind", [garbage, mutated])
def test_garbage_and_mutated_requests_of_every_api_and_version_leave_the_broker_whole(
    broker: OttlaProcess, kind: Callable[[random.Random, str, int], bytes]
) -> None:
    chance = random.Random(SEED)
    with unnoticed(broker, f"bystander-{kind.__name__}"):
        for _ in range(ROUNDS):
            for api in APIS:
                for version in versions(api):
                    requests = [kind(chance, api, version) for _ in range(chance.randrange(1, 4))]
                    send_and_drain(broker, b"".join(map(framed, requests)))


def partition_rows(name: str, **fields: object) -> list[dict[str, object]]:
    return [{name: number, **fields} for number in (0, 1, 7)]


# Requests that do something, so that changed bytes reach code behind the decoder.
VALID: dict[str, dict[str, object]] = {
    "produce": {
        "acks": 1,
        "timeout": 100,
        "topic_data": [
            {
                "name": TOPIC,
                "partition_data": partition_rows("index", records=batch([Rec(b"one"), Rec(b"two", b"key")], "gzip")),
            }
        ],
    },
    "fetch": {
        "max_wait": 10,
        "min_bytes": 1,
        "max_bytes": 10_000,
        "topics": [
            {"topic": TOPIC, "partitions": partition_rows("partition", fetch_offset=0, partition_max_bytes=1000)}
        ],
    },
    "list_offsets": {
        "replica_id": -1,
        "topics": [{"name": TOPIC, "partitions": partition_rows("partition_index", timestamp=-1)}],
    },
    "metadata": {"topics": [{"name": TOPIC}, {"name": "absent"}]},
    "create_topics": {
        "topics": [
            {
                "name": "made",
                "num_partitions": 2,
                "replication_factor": 1,
                "configs": [{"name": "retention.ms", "value": "1000"}],
            }
        ],
        "timeout": 100,
    },
    "delete_topics": {"topics": [{"name": "made"}], "topic_names": ["made"], "timeout": 100},
    "create_partitions": {"topics": [{"name": TOPIC, "count": 2}], "timeout": 100, "validate_only": True},
    "delete_records": {
        "topics": [{"name": TOPIC, "partitions": partition_rows("partition_index", offset=0)}],
        "timeout": 100,
    },
    "describe_configs": {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]},
    "alter_configs": {
        "resources": [
            {"resource_type": 2, "resource_name": "made", "configs": [{"name": "retention.ms", "value": "5"}]}
        ]
    },
    "incremental_alter_configs": {
        "resources": [
            {
                "resource_type": 2,
                "resource_name": "made",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}],
            }
        ]
    },
    "init_producer_id": {"transactional_id": None, "transaction_timeout": 1000},
    "find_coordinator": {"key": "group", "key_type": 0, "coordinator_keys": ["group"]},
    "join_group": {
        "group_id": "group",
        "session_timeout": 6000,
        "rebalance_timeout": 100,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\1\0\0"}],
    },
    "offset_fetch": {"group_id": "group", "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
}
