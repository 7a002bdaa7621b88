"""Which APIs this broker serves: the one list behind dispatch, the ApiVersions answer and the documentation."""

from collections.abc import Mapping

from ottla.wire.apis import ADVERTISED_FIRST, FETCH, PRODUCE, TABLE, UNSTABLE_LAST, Api

HANDLED = (
    "metadata",
    "api_versions",
    "list_offsets",
    "offset_for_leader_epoch",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "delete_records",
    "describe_configs",
    "alter_configs",
    "incremental_alter_configs",
    "list_config_resources",
    "describe_cluster",
    "describe_topic_partitions",
    "describe_log_dirs",
    "describe_producers",
    "init_producer_id",
    "update_features",
    "describe_quorum",
    "add_raft_voter",
    "remove_raft_voter",
    "unregister_broker",
    "elect_leaders",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "find_coordinator",
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "offset_commit",
    "offset_fetch",
    "offset_delete",
    "list_groups",
    "describe_groups",
    "delete_groups",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "txn_offset_commit",
    "write_txn_markers",
    "list_transactions",
    "describe_transactions",
)
"""Modules of `broker.handlers` that serve an API each, beside Produce and Fetch."""

SERVED: dict[int, Api] = {key: api for key, api in TABLE.items() if key in (PRODUCE, FETCH) or api.module in HANDLED}

_WITH_UNSTABLE = SERVED | {key: SERVED[key]._replace(last=last) for key, last in UNSTABLE_LAST.items()}


def served_apis(*, unstable: bool) -> Mapping[int, Api]:
    """What a broker serves; on request also versions that Kafka has not released."""
    return _WITH_UNSTABLE if unstable else SERVED


def advertised_versions(api: Api) -> tuple[int, int]:
    """The range that ApiVersions names."""
    return ADVERTISED_FIRST.get(api.key, api.first), api.last
