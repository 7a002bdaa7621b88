"""Transactions: producers with a transactional id, what they add, write and end, and what administrators see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oracle import groups
from oracle.cases import Case, Step, fetch_fields
from oracle.sides import Side
from oracle.transactions import (
    TIMEOUT_MS,
    aborted_transaction,
    adding_fields,
    committed_transaction,
    coordinated,
    ending_fields,
    mixed,
    open_transaction,
    producer_fields,
    producing_fields,
    settled,
    started,
    with_offsets,
    written,
)

Given = Callable[[Side], None]
ONE_BY_ONE, TOGETHER = range(4), range(4, 6)  # versions of AddPartitionsToTxn: of clients, of brokers


def _seen(step: Step) -> Step:
    """A step that looks once a transaction that is being ended has ended."""

    def fields(side: Side) -> Any:
        settled(side)
        return step.fields(side)

    return step._replace(fields=fields)


STATE = _seen(Step("describe_transactions", 0, lambda s: {"transactional_ids": [s.name("x")]}))
RECORDS = _seen(Step("fetch", 12, lambda s: fetch_fields(s, "t", offset=0, isolation_level=1)))
UNCOMMITTED = _seen(Step("fetch", 12, lambda s: fetch_fields(s, "t", offset=0, isolation_level=0)))
PRODUCERS = _seen(
    Step("describe_producers", 0, lambda s: {"topics": [{"name": s.name("t"), "partition_indexes": [0]}]})
)
OFFSETS = Step(
    "offset_fetch",
    9,
    lambda s: {"groups": [{"group_id": s.name("g"), "topics": None}], "require_stable": False},
)
STABLE_OFFSETS = OFFSETS._replace(
    fields=lambda s: {"groups": [{"group_id": s.name("g"), "topics": None}], "require_stable": True}
)


def _starting(name: str, given: Given = coordinated, versions: Any = None, **more: Any) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        own = {"transactional_id": side.name("x"), "transaction_timeout": TIMEOUT_MS, "producer_id": -1}
        known = {key: value(side) if callable(value) else value for key, value in more.items()}
        return {**own, "producer_epoch": -1, **known}

    return Case(name, "init_producer_id", fields, given=_with_an_id(given), then=[STATE], versions=versions)


def _with_an_id(given: Given) -> Given:
    """Kafka's broker fetches its first block of ids when somebody asks."""

    def prepare(side: Side) -> None:
        given(side)
        if not side.producer_ids:
            side.producer_id()

    return prepare


def _own_id(side: Side) -> int:
    return side.producer_ids[0]


def _own_epoch(side: Side) -> int:
    return side.epoch


KNOWING = range(3, 6)  # versions of InitProducerId in which a producer says who it was
STARTING = (
    _starting("start a transactional producer"),
    _starting("start a transactional producer again", started),
    _starting("start a transactional producer after a commit", committed_transaction),
    _starting("start a transactional producer after an abort", aborted_transaction),
    _starting("start a transactional producer in another's transaction", written),
    _starting("start a transactional producer with no time", transaction_timeout=0),
    _starting("start a transactional producer with a negative time", transaction_timeout=-1),
    _starting("start a transactional producer with the longest time", transaction_timeout=900_000),
    _starting("start a transactional producer with too long a time", transaction_timeout=900_001),
    _starting("start a transactional producer anew, known by id and epoch", started, KNOWING, producer_id=_own_id,
              producer_epoch=_own_epoch),
    _starting("start a transactional producer anew in its transaction", written, KNOWING, producer_id=_own_id,
              producer_epoch=_own_epoch),
    _starting("start a transactional producer with an epoch to come", started, KNOWING, producer_id=_own_id,
              producer_epoch=9),
    _starting("start a transactional producer with another's id", started, KNOWING, producer_id=123_456,
              producer_epoch=0),
    _starting("start a transactional producer with an id but without an epoch", started, KNOWING, producer_id=_own_id,
              producer_epoch=-1),
    _starting("start a transactional producer with an epoch but without an id", started, KNOWING, producer_epoch=0),
    _starting("start a new transactional producer with an id", coordinated, KNOWING, producer_id=123_456,
              producer_epoch=0),
)  # fmt: skip


def _addition(name: str, *names: tuple[str, int], given: Given = started, versions: Any = ONE_BY_ONE,
              **more: Any) -> Case:  # fmt: skip
    return Case(name, "add_partitions_to_txn", lambda s: adding_fields(s, *names, **more), given=given, then=[STATE],
                versions=versions)  # fmt: skip


ADDING = (
    _addition("add a partition"),
    _addition("add a partition again", given=open_transaction),
    _addition("add two partitions", ("t", 0), ("t", 1)),
    _addition("add a partition after a commit", given=committed_transaction),
    _addition("add a partition after an abort", given=aborted_transaction),
    _addition("add an unknown partition", ("t", 9)),
    _addition("add a known and an unknown partition", ("t", 0), ("t", 9)),
    _addition("add an unknown topic", ("absent", 0)),
    _addition("add a partition with an older epoch", producer_epoch=-1),
    _addition("add a partition with an epoch to come", producer_epoch=5),
    _addition("add a partition with another's id", producer_id=123_456),
    _addition("add a partition with an id nobody knows", transactional_id="nobody"),
    _addition("add a partition without a transactional id", transactional_id=""),
    _addition("add a partition before the producer started", given=coordinated),
    _addition("add a partition for a broker", versions=TOGETHER),
    _addition("verify a partition that was added", given=open_transaction, versions=TOGETHER, verify_only=True),
    _addition("verify a partition that was not added", ("t", 1), given=open_transaction, versions=TOGETHER,
              verify_only=True),
    _addition("verify a partition of no transaction", versions=TOGETHER, verify_only=True),
    _addition("verify a partition with an older epoch", given=open_transaction, versions=TOGETHER, verify_only=True,
              producer_epoch=-1),
    _addition("verify a partition with an epoch to come", given=open_transaction, versions=TOGETHER, verify_only=True,
              producer_epoch=4),
    _addition("verify a partition with another's id", given=open_transaction, versions=TOGETHER, verify_only=True,
              producer_id=123_456),
    _addition("verify a partition after a commit", given=committed_transaction, versions=TOGETHER, verify_only=True),
    _addition("verify a partition of nobody", given=coordinated, versions=TOGETHER, verify_only=True),
)  # fmt: skip


def _writing(name: str, *then: Step, given: Given = open_transaction, versions: Any = None, **more: Any) -> Case:
    return Case(name, "produce", lambda s: producing_fields(s, **more), given=given,
                then=[STATE, RECORDS, UNCOMMITTED, PRODUCERS, *then], versions=versions)  # fmt: skip


WRITING = (
    _writing("write in a transaction"),
    _writing("write in a transaction a second time", given=written, sequence=3),
    _writing("write in a transaction with a gap", given=written, sequence=9),
    _writing("write in a transaction what was written", given=written),
    _writing("write to a partition that was not added", given=started),
    _writing("write in a transaction after a commit", given=committed_transaction, sequence=3),
    _writing("write in a transaction with an older epoch", producer_epoch=-1),
    _writing("write in a transaction with an epoch to come", producer_epoch=3),
    _writing("write in a transaction with another's id", producer_id=123_456),
    _writing("write in another's transaction", transactional_id="nobody"),
    _writing("write in a transaction without saying so", flags=0),
    _writing("write in a transaction without a transactional id", transactional_id=None),
)


def _group_offsets(side: Side, offset: int = 5, metadata: str = "a note", partition: int = 0, topic: str = "t",
                   **more: Any) -> dict[str, Any]:  # fmt: skip
    row = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": 3}
    rows = [{"name": side.name(topic), "partitions": [{**row, "committed_metadata": metadata}]}]
    own = {"group_id": side.name("g"), "generation_id": -1, "member_id": "", "topics": rows}
    return {**producer_fields(side), **own, **more}


def _only_started(side: Side) -> None:
    groups.coordinated(side)
    started(side)


def _offsets_added(name: str, given: Given = started, **more: Any) -> Case:
    return Case(name, "add_offsets_to_txn", lambda s: producer_fields(s, group_id=s.name("g")) | more, given=given,
                then=[STATE])  # fmt: skip


ADDING_OFFSETS = (
    _offsets_added("add a group's offsets", given=_only_started),
    _offsets_added("add a group's offsets with an older epoch", producer_epoch=-1),
    _offsets_added("add a group's offsets with an epoch to come", producer_epoch=5),
    _offsets_added("add a group's offsets with another's id", producer_id=123_456),
    _offsets_added("add a group's offsets as nobody", transactional_id="nobody"),
    _offsets_added("add a group's offsets without a transactional id", transactional_id=""),
    _offsets_added("add the offsets of a group without a name", group_id=""),
)


def _offsets_committed(name: str, given: Given = with_offsets, versions: Any = None, **more: Any) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        known = {key: value(side) if callable(value) else value for key, value in more.items()}
        return _group_offsets(side, **known)

    end = Step("end_txn", 3, ending_fields)
    return Case(name, "txn_offset_commit", fields, given=given, versions=versions,
                then=[OFFSETS, STABLE_OFFSETS, STATE, end, _seen(OFFSETS)])  # fmt: skip


def _with_offsets_and_a_member(side: Side) -> None:
    with_offsets(side)
    groups.stable(side)


def _with_offsets_and_a_static_member(side: Side) -> None:
    with_offsets(side)
    groups.static(side)


MEMBERSHIP = range(3, 6)  # versions of TxnOffsetCommit in which a member says who it is
COMMITTING = (
    _offsets_committed("commit offsets in a transaction"),
    _offsets_committed("commit offsets in a transaction without adding them", _only_started),
    _offsets_committed("commit offsets of an unknown partition in a transaction", partition=9),
    _offsets_committed("commit offsets of an unknown topic in a transaction", topic="absent"),
    _offsets_committed("commit offsets in a transaction with metadata that is too long", metadata="x" * 4097),
    _offsets_committed("commit offsets in a transaction with an older epoch", producer_epoch=-1),
    _offsets_committed("commit offsets in a transaction with an epoch to come", producer_epoch=5),
    _offsets_committed("commit offsets in a transaction with another's id", producer_id=123_456),
    _offsets_committed("commit offsets in a transaction of nobody", transactional_id="nobody"),
    _offsets_committed("commit offsets of a group without a name in a transaction", group_id=""),
    _offsets_committed("commit no offsets in a transaction", topics=[]),
    _offsets_committed("commit offsets in a transaction from outside a group with members", _with_offsets_and_a_member),
    _offsets_committed("commit offsets in a transaction as a member", _with_offsets_and_a_member, MEMBERSHIP,
                       member_id=lambda s: s.members["a"], generation_id=1),
    _offsets_committed("commit offsets in a transaction as a member of an older generation",
                       _with_offsets_and_a_member, MEMBERSHIP, member_id=lambda s: s.members["a"], generation_id=0),
    _offsets_committed("commit offsets in a transaction as nobody in the group", _with_offsets_and_a_member, MEMBERSHIP,
                       member_id="nobody", generation_id=1),
    _offsets_committed("commit offsets in a transaction as a static member", _with_offsets_and_a_static_member,
                       MEMBERSHIP, member_id=lambda s: s.members["a"], generation_id=1, group_instance_id="i"),
    _offsets_committed("commit offsets in a transaction as a static member with another's id",
                       _with_offsets_and_a_static_member, MEMBERSHIP, member_id="nobody", generation_id=1,
                       group_instance_id="i"),
    _offsets_committed("commit offsets in a transaction as a member of a group nobody knows", with_offsets, MEMBERSHIP,
                       member_id="nobody", generation_id=1),
)  # fmt: skip


def _end_of(name: str, given: Given = written, committed: bool = True, then: tuple[Step, ...] = (),
            versions: Any = None, **more: Any) -> Case:  # fmt: skip
    return Case(name, "end_txn", lambda s: ending_fields(s, committed, **more), given=given, versions=versions,
                then=[*then, STATE, RECORDS, UNCOMMITTED, PRODUCERS])  # fmt: skip


AGAIN = _seen(Step("end_txn", None, ending_fields))
AGAIN_OTHERWISE = _seen(Step("end_txn", None, lambda s: ending_fields(s, False)))
ENDING = (
    _end_of("commit a transaction"),
    _end_of("abort a transaction", committed=False),
    _end_of("commit a transaction that wrote nothing", open_transaction),
    _end_of("abort a transaction that wrote nothing", open_transaction, False),
    _end_of("commit what was not begun", started),
    _end_of("abort what was not begun", started, False),
    _end_of("commit a transaction twice", then=(AGAIN,)),
    _end_of("commit a transaction, then abort it", then=(AGAIN_OTHERWISE,)),
    _end_of("abort a transaction twice", committed=False, then=(AGAIN_OTHERWISE,)),
    _end_of("abort a transaction, then commit it", committed=False, then=(AGAIN,)),
    _end_of("commit a transaction with an older epoch", producer_epoch=-1),
    _end_of("commit a transaction with an epoch to come", producer_epoch=5),
    _end_of("commit a transaction with another's id", producer_id=123_456),
    _end_of("commit a transaction of nobody", transactional_id="nobody"),
    _end_of("commit a transaction without a transactional id", transactional_id=""),
    _end_of("commit before the producer started", coordinated),
)


def _marking(name: str, given: Given = written, partition: int = 0, topic: str = "t", committed: bool = True,
             epoch: int | None = None, coordinator: int = 0) -> Case:  # fmt: skip
    def fields(side: Side) -> dict[str, Any]:
        topics = [{"name": side.name(topic), "partition_indexes": [partition]}]
        marker = {
            "producer_id": side.producer_ids[0],
            "producer_epoch": side.epoch if epoch is None else epoch,
            "transaction_result": committed,
            "coordinator_epoch": coordinator,
            "topics": topics,
        }
        return {"markers": [marker]}

    return Case(name, "write_txn_markers", fields, given=given, then=[RECORDS, UNCOMMITTED, PRODUCERS])


MARKING = (
    _marking("mark a transaction as committed"),
    _marking("mark a transaction as aborted", committed=False),
    _marking("mark a transaction that wrote nothing", open_transaction),
    _marking("mark a transaction that has ended", committed_transaction),
    _marking("mark a transaction with an older epoch", epoch=-1),
    _marking("mark a transaction with an epoch to come", epoch=7),
    _marking("mark a transaction as a later coordinator", coordinator=9),
    _marking("mark an unknown partition", partition=9),
    _marking("mark an unknown topic", topic="absent"),
    Case("mark nothing", "write_txn_markers", lambda s: {"markers": []}),
)


def _listing(name: str, given: Given, versions: Any = None, **filters: Any) -> Case:
    def fields(side: Side) -> dict[str, Any]:
        return {key: value(side) if callable(value) else value for key, value in filters.items()}

    return Case(name, "list_transactions", fields, given=given, versions=versions, only_own=True)


LISTING = (
    _listing("list transactions", written),
    _listing("list transactions of producers that began none", started),
    _listing("list committed transactions", committed_transaction, state_filters=["CompleteCommit"]),
    _listing("list transactions in another state", committed_transaction, state_filters=["Ongoing"]),
    _listing("list transactions in an unknown state", written, state_filters=["Tired", "Ongoing"]),
    _listing("list transactions in a state in small letters", written, state_filters=["ongoing"]),
    _listing("list the transactions of a producer", written, producer_id_filters=lambda s: s.producer_ids[:1]),
    _listing("list the transactions of another producer", written, producer_id_filters=[123_456]),
    _listing("list long transactions", written, versions=(1, 2), duration_filter=60_000),
    _listing("list transactions of any length", written, versions=(1, 2), duration_filter=0),
    _listing("list transactions by a pattern", written, versions=(2,), transactional_id_pattern=".*x$"),
    _listing("list transactions by a pattern of others", written, versions=(2,), transactional_id_pattern="y.*"),
    _listing("list transactions by a bad pattern", written, versions=(2,), transactional_id_pattern="["),
)


def _describing(name: str, given: Given, *shorts: str) -> Case:
    return Case(name, "describe_transactions",
                lambda s: {"transactional_ids": [s.name(short) if short else "" for short in shorts]},
                given=given, then=[PRODUCERS])  # fmt: skip


DESCRIBING = (
    _describing("describe an open transaction", written, "x"),
    _describing("describe a transaction that was committed", committed_transaction, "x"),
    _describing("describe a transaction that was aborted", aborted_transaction, "x"),
    _describing("describe a producer that began nothing", started, "x"),
    _describing("describe a transaction with a group's offsets", with_offsets, "x"),
    _describing("describe a transaction nobody knows", coordinated, "absent"),
    _describing("describe a transaction without a transactional id", coordinated, ""),
    _describing("describe two transactions, one nobody knows", written, "x", "absent"),
    _describing("describe no transaction", coordinated),
)


def _reading(name: str, offset: int, isolation: int = 1, given: Given = mixed, **more: Any) -> Case:
    return Case(name, "fetch", lambda s: fetch_fields(s, "t", offset=offset, isolation_level=isolation, **more),
                given=given)  # fmt: skip


def _finding_offset(name: str, timestamp: int, versions: range, isolation: int = 1) -> Case:
    rows = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
    return Case(name, "list_offsets",
                lambda s: {"replica_id": -1, "isolation_level": isolation, "timeout": 10_000,
                           "topics": [{"name": s.name("t"), "partitions": rows}]},
                given=mixed, versions=versions)  # fmt: skip


READING = (
    _reading("read what is committed", 0),
    _reading("read what is not committed too", 0, 0),
    _reading("read what is committed from within an aborted transaction", 5),
    _reading("read what is committed from a marker on", 7),
    _reading("read what is committed from the open transaction on", 8),
    _reading("read what is committed from beyond the open transaction's start", 10),
    _reading("read what is committed from the end on", 11),
    _reading("read what is committed from beyond the end", 12),
    _reading("read what is committed where nothing but an open transaction is", 0, given=written),
    _reading("read what is committed after an abort", 0, given=aborted_transaction),
    _reading("read little of what is committed", 0, partition_max_bytes=1),
    _reading("read little from within an aborted transaction", 4, partition_max_bytes=1),
    _finding_offset("the end of what is committed", -1, range(2, 12)),
    _finding_offset("the end of what is not committed too", -1, range(2, 12), 0),
    _finding_offset("the start of what is committed", -2, range(2, 12)),
    _finding_offset("the highest timestamp of what is committed", -3, range(7, 12)),
    _finding_offset("a time of what is committed", 1, range(2, 12)),
    _finding_offset("a time after what is committed", 9_000_000_000_000, range(2, 12)),
    Case("delete records into an open transaction", "delete_records",
         lambda s: {"timeout": 10_000, "topics": [{"name": s.name("t"),
                                                   "partitions": [{"partition_index": 0, "offset": 9}]}]},
         given=mixed, then=[RECORDS, UNCOMMITTED, PRODUCERS, Step("end_txn", 3, ending_fields), RECORDS]),
    Case("delete the records of an aborted transaction", "delete_records",
         lambda s: {"timeout": 10_000, "topics": [{"name": s.name("t"),
                                                   "partitions": [{"partition_index": 0, "offset": 6}]}]},
         given=mixed, then=[RECORDS, UNCOMMITTED, PRODUCERS]),
)  # fmt: skip

FINDING = (
    Case("find a producer's coordinator", "find_coordinator",
         lambda s: {"key": s.name("x"), "key_type": 1, "coordinator_keys": [s.name("x"), s.name("y")]},
         given=coordinated, versions=range(1, 7)),
    Case("find the coordinator of a producer without a name", "find_coordinator",
         lambda s: {"key": "", "key_type": 1, "coordinator_keys": [""]}, given=coordinated, versions=range(1, 7)),
)  # fmt: skip

CASES = (*STARTING, *ADDING, *WRITING, *ADDING_OFFSETS, *COMMITTING, *ENDING, *MARKING, *LISTING, *DESCRIBING,
         *READING, *FINDING)  # fmt: skip
