"""Batches of the exactly-once sink without Spark: its own classes, called in Spark's order."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kit.others.committed
from kit.brokers.processes import until
from ottla.client.errors import DeadlineExceeded
from ottla.client.settings import PRODUCER
from ottla.spark import transactions
from ottla.spark.session import session_for
from ottla.spark.sink import ExactStreamWriter, Task, Written
from ottla.spark.sink_options import parse_sink

if TYPE_CHECKING:
    from kit.brokers.brokers import Broker


def committed_values(broker: Broker, topic: str) -> list[str]:
    """What a reader of committed records sees, in order of value."""
    return kit.others.committed.committed_values(f"{broker.host}:{broker.port}", topic)


def assert_committed(broker: Broker, topic: str, values: list[str]) -> None:
    """A transaction's end is answered before its markers are in every log: what must be there may come a little later.

    What must not be there would be: a value too many is never equal.
    """
    until(lambda: len(committed_values(broker, topic)) >= len(values), f"{values} in {topic}")
    assert committed_values(broker, topic) == values


class Run:
    """A query's sink, batch by batch, as Spark drives it."""

    def __init__(self, broker: Broker, topic: str, **more: str) -> None:
        given = {
            "kafka.bootstrap.servers": f"{broker.host}:{broker.port}",
            "topic": topic,
            "checkpointLocation": f"/checkpoints/{topic}",
        }
        self.options = parse_sink(given | more, {"value": "string"}, streaming=True)
        self.query = f"query-to-{topic}"
        """Its id, which a restart has again."""

    def shipped(self) -> ExactStreamWriter:
        """What tasks get: the driver has begun a batch."""
        writer: ExactStreamWriter = pickle.loads(pickle.dumps(ExactStreamWriter(self.options)))
        return writer

    def tasks(self, batch: int, rows: list[list[str]]) -> list[Written]:
        """A batch up to its commit."""
        shipped = pickle.dumps(self.shipped())
        return [
            write(pickle.loads(shipped), Task(self.query, batch, number, 0), values)
            for number, values in enumerate(rows)
        ]

    def commit(self, batch: int, messages: list[Written]) -> None:
        ExactStreamWriter(self.options).commit(list(messages), batch)

    def abort(self, batch: int, messages: list[Written]) -> None:
        ExactStreamWriter(self.options).abort(list(messages), batch)

    def batch(self, batch: int, rows: list[list[str]]) -> None:
        self.commit(batch, self.tasks(batch, rows))


def write(writer: ExactStreamWriter, task: Task, values: list[str]) -> Written:
    """One task's rows."""
    return writer.write_task(task, iter([pa.record_batch({"value": pa.array(values, pa.string())})]))


async def unanswered(*_: Any, **__: Any) -> Any:
    raise DeadlineExceeded("nobody answers")


def lose(query: Run, message: Written) -> None:
    """As by its time-out."""
    assert message.identity is not None
    session = session_for(PRODUCER, query.options.settings)
    session.run(transactions.init(session.cluster, message.identity.transactional_id, session.deadline()))
