"""Topics for tests, made over a raw connection so that no tested client is needed to prepare a test of another."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.wire.batches import Rec, batch, read_batches
from kit.wire.raw import RawConnection


def create_topic(broker: Broker, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> uuid.UUID:
    """A topic all of whose partitions are ready to be written; answers its id."""
    rows = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
    with RawConnection(broker.host, broker.port) as connection:
        outcome = connection.ask("create_topics", 7, topics=[topic], timeout=10_000)["topics"][0]
        assert outcome["error_code"] == "none", outcome
        asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]

        def ready() -> bool:
            answer = connection.ask("list_offsets", 7, replica_id=-1, topics=[{"name": name, "partitions": asked}])
            return all(row["error_code"] == "none" for row in answer["topics"][0]["partitions"])

        until(ready, f"{name} is ready on {broker.name}")
    identifier: uuid.UUID = outcome["topic_id"]
    return identifier


def fill(broker: Broker, name: str, records: Sequence[Rec], partition: int = 0, compression: str = "none") -> None:
    """One batch of records."""
    write(broker, name, batch(records, compression), partition)


def write(broker: Broker, name: str, data: bytes, partition: int = 0) -> None:
    """A batch that must be accepted."""
    rows = [{"index": partition, "records": data}]
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask(
            "produce", 9, acks=-1, timeout=10_000, topic_data=[{"name": name, "partition_data": rows}]
        )
    outcome = answer["responses"][0]["partition_responses"][0]
    assert outcome["error_code"] == "none", outcome


def delete_before(broker: Broker, name: str, offset: int) -> None:
    """What retention does: the records of partition 0 before an offset go."""
    row = {"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask("delete_records", 2, topics=[row], timeout=10_000)
    assert answer["topics"][0]["partitions"][0]["error_code"] == "none"


def delete_topic(broker: Broker, name: str) -> None:
    """Until the broker knows it no more."""
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask("delete_topics", 5, topic_names=[name], timeout=10_000)
        assert answer["responses"][0]["error_code"] == "none"

        def gone() -> bool:
            told = connection.ask("metadata", 8, topics=[{"name": name}], allow_auto_topic_creation=False)
            return bool(told["topics"][0]["error_code"] == "unknown_topic_or_partition")

        until(gone, f"{name} is gone from {broker.name}")


def make_again(broker: Broker, name: str, partitions: int = 1) -> None:
    """Delete a topic and create another one of its name."""
    delete_topic(broker, name)
    create_topic(broker, name, partitions)


def grow(broker: Broker, name: str, partitions: int) -> None:
    """Give a topic more partitions."""
    with RawConnection(broker.host, broker.port) as connection:
        grown = {"name": name, "count": partitions, "assignments": None}
        outcome = connection.ask("create_partitions", 3, topics=[grown], timeout=10_000)["results"][0]
    assert outcome["error_code"] == "none", outcome


def values_of(broker: Broker, name: str, partition: int = 0) -> list[bytes | None]:
    """Every value stored in a partition."""
    return [record.value for record in records_of(broker, name, partition)]


def records_of(broker: Broker, name: str, partition: int = 0) -> list[Rec]:
    """Every record stored in a partition, read without a client."""
    row = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.ask(
            "fetch", 12, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1 << 25,
            topics=[{"topic": name, "partitions": [row]}],
        )  # fmt: skip
    outcome = answer["responses"][0]["partitions"][0]
    assert outcome["error_code"] == "none", outcome
    return [record for each in read_batches(outcome["records"]) for record in each.records]
