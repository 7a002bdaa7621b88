"""What a reader of committed records sees in a topic."""

from __future__ import annotations

from ottla.spark.batch_reader import BatchReader, RangePartition
from ottla.spark.options import parse_source


def committed_values(servers: str, topic: str) -> list[str]:
    """Every value up to the first open transaction of each partition, sorted."""
    options = {"bootstrap.servers": servers, "subscribe": topic, "isolation.level": "read_committed"}
    reader = BatchReader(parse_source(options, streaming=False))
    values: list[str] = []
    for part in reader.partitions():
        assert isinstance(part, RangePartition)
        for batch in reader.read(part):
            values += [value.decode() for value in batch.column("value").to_pylist()]
    return sorted(values)
