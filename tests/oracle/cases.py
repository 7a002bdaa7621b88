"""The shape of a comparison: a named case says what is sent; every version of the API is sent it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kit.wire.messages import Fields
from oracle.sides import Side

# The APIs of a single broker, with the versions that Kafka 4.3 serves.
VERSIONS: dict[str, range] = {
    "produce": range(3, 14),
    "fetch": range(4, 19),
    "list_offsets": range(1, 12),
    "metadata": range(14),
    "api_versions": range(5),
    "create_topics": range(2, 8),
    "delete_topics": range(1, 7),
    "delete_records": range(3),
    "init_producer_id": range(6),
    "offset_for_leader_epoch": range(2, 5),
    "describe_configs": range(1, 5),
    "alter_configs": range(3),
    "describe_log_dirs": range(1, 6),
    "create_partitions": range(4),
    "incremental_alter_configs": range(2),
    "describe_cluster": range(3),
    "describe_producers": range(1),
    "list_config_resources": range(2),
    "describe_topic_partitions": range(1),
    "find_coordinator": range(7),
    "join_group": range(10),
    "sync_group": range(6),
    "heartbeat": range(5),
    "leave_group": range(6),
    "offset_commit": range(2, 11),
    "offset_fetch": range(1, 11),
    "offset_delete": range(1),
    "list_groups": range(6),
    "describe_groups": range(7),
    "delete_groups": range(3),
    "consumer_group_heartbeat": range(2),
    "consumer_group_describe": range(2),
    "add_partitions_to_txn": range(6),
    "add_offsets_to_txn": range(5),
    "txn_offset_commit": range(6),
    "end_txn": range(6),
    "write_txn_markers": range(1, 3),
    "list_transactions": range(3),
    "describe_transactions": range(1),
}

FieldsOf = Callable[[Side], Fields]


def nothing(side: Side) -> None:
    """A case that starts from nothing."""


class Step(NamedTuple):
    """A further request of a case; without a version, in the version under test (and then of the same API)."""

    api: str
    version: int | None
    fields: FieldsOf
    settle: bool = False
    answered: bool = True


class Case(NamedTuple):
    """A sentence, the request it stands for, what must exist before, and what is looked at afterwards."""

    name: str
    api: str
    fields: FieldsOf
    given: Callable[[Side], None] = nothing
    then: Sequence[Step] = ()
    versions: Sequence[int] | None = None
    answered: bool = True
    only_own: bool = False  # the answer lists what other cases made too: keep this case's rows
    follow_up: bool = False  # what comes afterwards belongs to the case in every version

    def every_version(self) -> Sequence[int]:
        return VERSIONS[self.api] if self.versions is None else self.versions

    def chosen_versions(self, number: int) -> Sequence[int]:
        """The versions of an ordinary run: the oldest, the newest, and one between them that the case's number picks,
        so that every version is met many times; OTTLA_ORACLE_VERSIONS=all sends every case in every version."""
        every = self.every_version()
        if os.environ.get("OTTLA_ORACLE_VERSIONS") == "all" or len(every) <= 3:
            return every
        return [every[0], every[1 + number % (len(every) - 2)], every[-1]]


def metadata_of(*names: str) -> Step:
    """Afterwards: the topics as clients see them."""
    return Step(
        "metadata",
        12,
        lambda s: {"topics": [{"name": s.name(name)} for name in names], "allow_auto_topic_creation": False},
        settle=True,
    )


def records_of(name: str = "t", partition: int = 0) -> Step:
    """Afterwards: everything stored in a partition."""
    return Step("fetch", 12, lambda s: fetch_fields(s, name, offset=0, partition=partition))


def configs_of(name: str = "t", *keys: str) -> Step:
    """Afterwards: settings of a topic."""
    return Step(
        "describe_configs",
        4,
        lambda s: {
            "resources": [{"resource_type": 2, "resource_name": s.name(name), "configuration_keys": list(keys)}]
        },
        settle=True,
    )


def fetch_fields(side: Side, name: str = "t", *, offset: int, partition: int = 0, **more: object) -> dict[str, object]:
    """A fetch of one partition; `more` are fields of the partition when it has them, else of the request."""
    of_partition = {"current_leader_epoch", "last_fetched_epoch", "log_start_offset", "partition_max_bytes"}
    row: dict[str, object] = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    request: dict[str, object] = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 22}
    for key, value in more.items():
        (row if key in of_partition else request)[key] = value
    topic = {"topic": side.name(name), "topic_id": side.id(name), "partitions": [row]}
    return {"topics": [topic], **request}
