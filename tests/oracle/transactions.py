"""Transactions in every state a case can start from, made by the same requests on both sides.

The producer's id is the first of `side.producer_ids`, its epoch is in `side.epoch`.
"""

from __future__ import annotations

from typing import Any

from kit.brokers.processes import until
from kit.wire.batches import Rec, batch
from oracle import groups
from oracle.groups import LOADING
from oracle.sides import Side

TRANSACTIONAL = 16
TIMEOUT_MS = 60_000
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Ongoing")


def coordinated(side: Side) -> None:
    """Wait until the broker coordinates the case's transactional id and has loaded what it knows of it."""

    def ready() -> bool:
        found = side.ask("find_coordinator", 3, key=side.name("x"), key_type=1)["error_code"]
        return found == "none" and state_of(side)["error_code"] not in LOADING

    side.create("t", 2)
    until(ready, f"{side.broker.name} coordinates {side.name('x')}")


def state_of(side: Side, short: str = "x") -> dict[str, Any]:
    answer = side.ask("describe_transactions", 0, transactional_ids=[side.name(short)])
    state: dict[str, Any] = answer["transaction_states"][0]
    return state


def started(side: Side) -> None:
    """A producer that has its id and has begun nothing."""
    coordinated(side)
    (answer,) = until(lambda: given_id(side), f"a producer id of {side.broker.name}")
    side.producer_ids.append(answer["producer_id"])
    side.epoch = answer["producer_epoch"]


def given_id(side: Side) -> list[dict[str, Any]]:
    """Nothing while Kafka's broker still waits for its first block of ids."""
    answer = side.ask("init_producer_id", 4, transactional_id=side.name("x"), transaction_timeout=TIMEOUT_MS,
                      producer_id=-1, producer_epoch=-1)  # fmt: skip
    return [answer] if answer["error_code"] == "none" else []


def open_transaction(side: Side) -> None:
    """A transaction with a partition and nothing written."""
    started(side)
    answer = side.ask("add_partitions_to_txn", 3, **adding_fields(side))
    outcome = answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]
    assert outcome["partition_error_code"] == "none", f"{side.broker.name}: {answer}"


def written(side: Side) -> None:
    """A transaction with three records."""
    open_transaction(side)
    answer = side.ask("produce", 9, **producing_fields(side))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer


def committed_transaction(side: Side) -> None:
    end_of_transaction(side, committed=True)


def aborted_transaction(side: Side) -> None:
    end_of_transaction(side, committed=False)


def end_of_transaction(side: Side, *, committed: bool) -> None:
    written(side)
    answer = side.ask("end_txn", 3, **ending_fields(side, committed))
    assert answer["error_code"] == "none", answer
    until(lambda: str(state_of(side)["transaction_state"]).startswith("Complete"), "the end of the transaction")


def with_offsets(side: Side) -> None:
    """A transaction that a group's offsets belong to."""
    groups.coordinated(side)
    started(side)
    answer = side.ask("add_offsets_to_txn", 3, **producer_fields(side), group_id=side.name("g"))
    assert answer["error_code"] == "none", answer


def producer_fields(side: Side, **more: Any) -> dict[str, Any]:
    own = {"transactional_id": side.name("x"), "producer_epoch": side.epoch}
    return {**own, "producer_id": side.producer_ids[0] if side.producer_ids else 77, **more}


def adding_fields(side: Side, *names: tuple[str, int], verify_only: bool = False, **more: Any) -> dict[str, Any]:
    """Both shapes of the request: of one producer before version 4, of several from then on."""
    by_name: dict[str, list[int]] = {}
    for name, partition in names or [("t", 0)]:
        by_name.setdefault(side.name(name), []).append(partition)
    topics = [{"name": name, "partitions": partitions} for name, partitions in by_name.items()]
    producer = producer_fields(side, **more)
    old = {f"v3_and_below_{key}": value for key, value in {**producer, "topics": topics}.items()}
    return {**old, "transactions": [{**producer, "verify_only": verify_only, "topics": topics}]}


def producing_fields(
    side: Side, sequence: int = 0, name: str = "t", flags: int = TRANSACTIONAL, **more: Any
) -> dict[str, Any]:
    producer = producer_fields(side, **{key: more.pop(key) for key in ("producer_id", "producer_epoch") if key in more})
    rows = [Rec(b"%d" % (sequence + at), b"k") for at in range(3)]
    data = batch(rows, producer_id=producer["producer_id"], producer_epoch=producer["producer_epoch"],
                 base_sequence=sequence, flags=flags)  # fmt: skip
    topic = {"name": side.name(name), "topic_id": side.id(name), "partition_data": [{"index": 0, "records": data}]}
    return {"acks": -1, "timeout": 10_000, "transactional_id": side.name("x"), "topic_data": [topic], **more}


def ending_fields(side: Side, committed: bool = True, **more: Any) -> dict[str, Any]:
    return producer_fields(side, committed=committed, **more)


def settled(side: Side) -> None:
    """Wait for markers that are on their way."""
    until(lambda: state_of(side)["error_code"] != "none" or state_of(side)["transaction_state"] in ENDED, "the markers")


def mixed(side: Side) -> None:
    """A committed, an aborted and an open transaction of three records each: offsets 0, 4 and 8, markers 3 and 7."""
    started(side)
    for number, committed in enumerate((True, False)):
        write_more(side, 3 * number)
        answer = side.ask("end_txn", 3, **ending_fields(side, committed))
        assert answer["error_code"] == "none", answer
        until(lambda: str(state_of(side)["transaction_state"]).startswith("Complete"), "the end of the transaction")
    write_more(side, 6)


def write_more(side: Side, sequence: int) -> None:
    side.ask("add_partitions_to_txn", 3, **adding_fields(side))
    answer = side.ask("produce", 9, **producing_fields(side, sequence))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer
