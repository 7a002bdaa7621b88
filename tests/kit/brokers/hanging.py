"""A transaction that hangs, as clients could leave one before brokers asked the coordinator about every append."""

from __future__ import annotations

import time
from typing import Any

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.wire.batches import Rec, batch
from kit.wire.raw import RawConnection

SECONDS = 60.0
TRANSACTIONAL = 16


def hang(broker: Broker, topic: str) -> int:
    """Write to a transaction that no coordinator knows, an hour ago; the producer's id."""
    with RawConnection(broker.host, broker.port) as connection:

        def given() -> list[int]:
            answer = connection.ask("init_producer_id", 4, transactional_id=None, producer_id=-1, producer_epoch=-1)
            return [answer["producer_id"]] if answer["error_code"] == "none" else []

        (identifier,) = until(given, "a producer id", SECONDS)
        records = [Rec(b"hanging", timestamp=int(time.time() * 1000) - 3_600_000)]
        data = batch(records, producer_id=identifier, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL)
        rows: list[dict[str, Any]] = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
        answer = connection.ask("produce", 9, transactional_id="forgotten", acks=-1, timeout=10_000, topic_data=rows)
        outcome = answer["responses"][0]["partition_responses"][0]
        assert outcome["error_code"] == "none", outcome
        return identifier
