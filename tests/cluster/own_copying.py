"""`copying.py` on ottla's own clients: `python own_copying.py BOOTSTRAP FROM TO GROUP PROTOCOL NAME`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import ottla

BATCH = 40
PACE: dict[str, Any] = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 10}


def transformed(value: bytes) -> bytes:
    return b"copy of " + value


async def copy(bootstrap: str, source: str, target: str, group: str, protocol: str, name: str) -> None:
    session: dict[str, Any] = {"session_timeout_ms": 1000, "heartbeat_interval_ms": 100}
    consumer = ottla.Consumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        **PACE,
        **(session if protocol == "classic" else {}),
    )
    producer = ottla.Producer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=5000, linger_ms=1, **PACE
    )
    async with producer, consumer:
        await producer.init_transactions()
        while True:
            taken = await consumer.poll(0.05, BATCH)
            if not taken:
                continue
            async with producer.transaction():
                for record in taken:
                    assert record.value is not None
                    await producer.put(target, transformed(record.value), record.key, partition=record.partition)
                ends = {ottla.TopicPartition(each.topic, each.partition): each.offset + 1 for each in taken}
                await producer.send_offsets(ends, consumer.group_metadata())
            print(len(taken), flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(copy(*sys.argv[1:]))
    except ottla.errors.ClientError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
