"""What `ottla transaction` shows, made from what the cluster told, and which transactions hang.

Owns: the rows and JSON documents; the rule for hanging. Never knows: how they were asked for, or printing. Pure
functions of values.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import Column, Table
from ottla.client.admin.transactions import ActiveProducer, ListedTransaction, TransactionDescription


class ProducerAt(NamedTuple):
    """A producer that a partition remembers, as the partition's leader knows it."""

    partition: TopicPartition
    producer: ActiveProducer


def open_transactions(
    producers: Mapping[TopicPartition, Sequence[ActiveProducer]], silent_since: int
) -> list[ProducerAt]:
    """Those whose producer has written nothing since that moment."""
    return [
        ProducerAt(place, producer)
        for place, found in sorted(producers.items())
        for producer in found
        if producer.transaction_start >= 0 and producer.last_timestamp < silent_since
    ]


def hanging(
    candidates: Sequence[ProducerAt],
    listed: Sequence[ListedTransaction],
    described: Mapping[str, TransactionDescription],
) -> list[ProducerAt]:
    """Those that no coordinator will ever end: it does not know the producer, or not that it wrote there."""
    names = {each.producer_id: each.transactional_id for each in listed}
    return [
        candidate
        for candidate in candidates
        if (known := described.get(names.get(candidate.producer.producer_id, ""))) is None
        or candidate.partition not in known.partitions
    ]


def list_table(found: Sequence[ListedTransaction]) -> Table:
    columns = [Column("TRANSACTIONAL ID"), Column("COORDINATOR", True), Column("PRODUCER", True), Column("STATE")]
    rows = [[each.transactional_id, str(each.coordinator), str(each.producer_id), each.state] for each in found]
    return Table(columns, rows)


def list_json(found: Sequence[ListedTransaction]) -> list[dict[str, Any]]:
    return [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]


def describe_text(found: TransactionDescription, now: int) -> str:
    """What is known of one transactional id, a fact a line."""
    facts = [
        ("transactional id", found.transactional_id),
        ("state", found.state),
        ("coordinator", str(found.coordinator)),
        ("producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
        ("time-out", f"{found.timeout / 1000:g} s"),
    ]
    if found.started >= 0:
        facts.append(("started", f"{_moment(found.started)}, {_seconds(now - found.started)} ago"))
    facts += [("partition", f"{place.topic}:{place.partition}") for place in found.partitions]
    return "".join(f"{name:<17} {text}\n" for name, text in facts)


def describe_json(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "coordinator": found.coordinator,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout,
        "started": found.started if found.started >= 0 else None,
        "partitions": [{"topic": place.topic, "partition": place.partition} for place in found.partitions],
    }


def producers_json(found: Sequence[ProducerAt]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp,
            "start_offset": producer.transaction_start if producer.transaction_start >= 0 else None,
        }
        for place, producer in found
    ]


def producers_table(found: Sequence[ProducerAt]) -> Table:
    columns = [
        Column("TOPIC"),
        Column("PARTITION", True),
        Column("PRODUCER", True),
        Column("EPOCH", True),
        Column("COORDINATOR EPOCH", True),
        Column("LAST SEQUENCE", True),
        Column("LAST TIME"),
        Column("START OFFSET", True),
    ]
    rows = [
        [
            place.topic,
            str(place.partition),
            str(producer.producer_id),
            str(producer.producer_epoch),
            _number(producer.coordinator_epoch),
            _number(producer.last_sequence),
            _moment(producer.last_timestamp),
            _number(producer.transaction_start),
        ]
        for place, producer in found
    ]
    return Table(columns, rows)


def _number(value: int) -> str:
    return str(value) if value >= 0 else "-"


def _moment(milliseconds: int) -> str:
    if milliseconds < 0:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(milliseconds: int) -> str:
    return f"{max(0, milliseconds) / 1000:.1f} s"
