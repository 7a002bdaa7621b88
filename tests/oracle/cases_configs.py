"""Settings of topics, brokers and groups; what a broker says about itself, its cluster and its disks.

Not compared: the same resource twice in one AlterConfigs request, which Kafka never answers, and an unknown operation
in IncrementalAlterConfigs, over which its controller steps down.
"""

from __future__ import annotations

from typing import Any

from oracle.cases import Case, Step, configs_of
from oracle.sides import Side

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _describe(*resources: tuple[int, str, list[str] | None], **more: Any) -> dict[str, Any]:
    rows = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in resources
    ]
    return {"resources": rows, "include_synonyms": True, "include_documentation": True, **more}


# What depends on the machine, the listeners and where the data lies is asked for by name elsewhere, not here.
BROKER_KEYS = [
    "log.retention.ms", "log.retention.hours", "log.segment.bytes", "num.partitions", "auto.create.topics.enable",
    "message.max.bytes", "log.cleaner.threads", "num.io.threads", "num.network.threads", "queued.max.requests",
    "socket.request.max.bytes", "log.cleanup.policy", "min.insync.replicas", "compression.type",
    "offsets.topic.num.partitions", "group.initial.rebalance.delay.ms", "log.flush.interval.ms",
    "ssl.keystore.password", "log.message.timestamp.type",
    "default.replication.factor", "delete.topic.enable", "unclean.leader.election.enable",
]  # fmt: skip


def _settings(name: str = "t") -> Any:
    return lambda s: _describe((TOPIC, s.name(name), None))


DESCRIBE = (
    Case("settings of a topic", "describe_configs", _settings(), given=lambda s: s.create("t")),
    Case("settings of a topic that has its own", "describe_configs", _settings(),
         given=lambda s: s.create("t", 1, retention_ms="1234", cleanup_policy="compact,delete")),
    Case("settings of a topic that has one meant for tests", "describe_configs", _settings(),
         given=lambda s: s.create("t", 1, internal_segment_bytes="100000")),
    Case("a setting of a topic that is meant for tests", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), ["internal.segment.bytes", "segment.bytes"])),
         given=lambda s: s.create("t", 1, internal_segment_bytes="100000")),
    Case("a setting that is meant for tests and was not set", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), ["internal.segment.bytes", "segment.bytes"])),
         given=lambda s: s.create("t")),
    Case("settings of a topic without synonyms", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), None), include_synonyms=False, include_documentation=False),
         given=lambda s: s.create("t", 1, retention_ms="1234")),
    Case("two settings of a topic", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), ["retention.ms", "segment.ms"])), given=lambda s: s.create("t")),
    Case("a setting that no topic has", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), ["no.such.setting", "retention.ms"])), given=lambda s: s.create("t")),
    Case("an empty list of settings of a topic", "describe_configs", lambda s: _describe((TOPIC, s.name("t"), [])),
         given=lambda s: s.create("t")),
    Case("settings of an unknown topic", "describe_configs", _settings("absent")),
    Case("settings of a topic of a bad name", "describe_configs", lambda s: _describe((TOPIC, "a b", None))),
    Case("settings of a topic without a name", "describe_configs", lambda s: _describe((TOPIC, "", None))),
    Case("settings of a topic asked for twice", "describe_configs",
         lambda s: _describe((TOPIC, s.name("t"), ["retention.ms"]), (TOPIC, s.name("t"), ["retention.ms"])),
         given=lambda s: s.create("t")),
    Case("settings of the broker", "describe_configs", lambda s: _describe((BROKER, "1", BROKER_KEYS))),
    Case("settings of all brokers", "describe_configs", lambda s: _describe((BROKER, "", None))),
    Case("settings of another broker", "describe_configs", lambda s: _describe((BROKER, "99", None))),
    Case("settings of a broker that is no number", "describe_configs", lambda s: _describe((BROKER, "one", None))),
    Case("settings of another broker's loggers", "describe_configs", lambda s: _describe((BROKER_LOGGER, "99", None))),
    Case("settings of a group", "describe_configs", lambda s: _describe((GROUP, s.name("group"), None))),
    Case("settings of a group without a name", "describe_configs", lambda s: _describe((GROUP, "", None))),
    Case("settings of client metrics", "describe_configs", lambda s: _describe((CLIENT_METRICS, s.name("m"), None))),
    Case("settings of a kind nobody knows", "describe_configs", lambda s: _describe((77, "x", None))),
    Case("settings of nothing", "describe_configs", lambda s: _describe()),
)  # fmt: skip


def _replace(side: Side, kind: int, name: str, *configs: tuple[str, str | None], **more: Any) -> dict[str, Any]:
    rows = [{"name": key, "value": value} for key, value in configs]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": rows}], **more}


def _replacing(name: str, *configs: tuple[str, str | None], **more: Any) -> Case:
    return Case(name, "alter_configs", lambda s: _replace(s, TOPIC, s.name("t"), *configs, **more),
                given=lambda s: s.create("t", 1, segment_ms="60000"), then=[configs_of("t")])  # fmt: skip


ALTER = (
    _replacing("replace a topic's settings", ("retention.ms", "5000"), ("cleanup.policy", "compact")),
    _replacing("replace a topic's settings by none"),
    _replacing("replace a topic's settings by an unknown one", ("no.such", "1")),
    _replacing("replace a topic's settings by a bad value", ("retention.ms", "soon")),
    _replacing("replace a topic's settings by a null value", ("retention.ms", None)),
    _replacing("replace a topic's settings with one twice", ("retention.ms", "1"), ("retention.ms", "2")),
    _replacing("only validate a replacement of a topic's settings", ("retention.ms", "5000"), validate_only=True),
    _replacing("only validate a wrong replacement of a topic's settings", ("retention.ms", "x"), validate_only=True),
    Case("replace an unknown topic's settings", "alter_configs",
         lambda s: _replace(s, TOPIC, s.name("absent"), ("retention.ms", "1"))),
    Case("replace a bad name's settings", "alter_configs", lambda s: _replace(s, TOPIC, "a b", ("retention.ms", "1"))),
    Case("replace settings of a kind nobody knows", "alter_configs", lambda s: _replace(s, 77, "x", ("a", "1"))),
    Case("replace settings of another broker", "alter_configs",
         lambda s: _replace(s, BROKER, "99", ("log.retention.ms", "1"))),
    Case("replace settings of nothing", "alter_configs", lambda s: {"resources": []}),
)  # fmt: skip


def _change(side: Side, kind: int, name: str, *configs: tuple[str, int, str | None], **more: Any) -> dict[str, Any]:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": rows}], **more}


def _changing(name: str, *configs: tuple[str, int, str | None], **more: Any) -> Case:
    return Case(name, "incremental_alter_configs", lambda s: _change(s, TOPIC, s.name("t"), *configs, **more),
                given=lambda s: s.create("t", 1, segment_ms="60000", cleanup_policy="compact"), then=[configs_of("t")],
                )  # fmt: skip


def _broker_case(name: str, broker: str, *configs: tuple[str, int, str | None], undo: bool = False) -> Case:
    keys = [key for key, _, _ in configs]
    see = Step("describe_configs", 4, lambda s: _describe((BROKER, "1", keys)), settle=True)
    back = Step(
        "incremental_alter_configs", 1, lambda s: _change(s, BROKER, broker, *((k, DELETE, None) for k in keys))
    )
    return Case(name, "incremental_alter_configs", lambda s: _change(s, BROKER, broker, *configs),
                then=[see, back, see] if undo else (), follow_up=True)  # fmt: skip


CHANGE = (
    _changing("set a topic's setting", ("retention.ms", SET, "5000")),
    _changing("set and delete a topic's settings", ("retention.ms", SET, "5000"), ("segment.ms", DELETE, None)),
    _changing("delete a setting that is not set", ("retention.ms", DELETE, None)),
    _changing("delete an unknown setting", ("no.such", DELETE, None)),
    _changing("append to a list", ("cleanup.policy", APPEND, "delete")),
    _changing("append to a list what it holds", ("cleanup.policy", APPEND, "compact")),
    _changing("subtract from a list", ("cleanup.policy", SUBTRACT, "compact")),
    _changing("subtract from a list what it does not hold", ("cleanup.policy", SUBTRACT, "delete")),
    _changing("append to what is no list", ("retention.ms", APPEND, "1")),
    _changing("set a null value", ("retention.ms", SET, None)),
    _changing("set an empty value", ("retention.ms", SET, "")),
    _changing("set a bad value", ("retention.ms", SET, "soon")),
    _changing("set a value out of range", ("min.cleanable.dirty.ratio", SET, "2")),
    _changing("set a bad list value", ("cleanup.policy", SET, "burn")),
    _changing("set an unknown setting", ("no.such", SET, "1")),
    _changing("set a setting twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    _changing("only validate a change", ("retention.ms", SET, "5000"), validate_only=True),
    _changing("only validate a wrong change", ("retention.ms", SET, "x"), validate_only=True),
    _changing("change nothing of a topic"),
    Case("change an unknown topic's settings", "incremental_alter_configs",
         lambda s: _change(s, TOPIC, s.name("absent"), ("retention.ms", SET, "1"))),
    Case("change a group's settings", "incremental_alter_configs",
         lambda s: _change(s, GROUP, s.name("g"), ("consumer.session.timeout.ms", SET, "50000")),
         then=[Step("describe_configs", 4, lambda s: _describe((GROUP, s.name("g"), None)), settle=True)]),
    Case("change a group's settings to what is not allowed", "incremental_alter_configs",
         lambda s: _change(s, GROUP, s.name("g"), ("consumer.session.timeout.ms", SET, "1"))),
    Case("change a topic's settings twice in a request", "incremental_alter_configs",
         lambda s: {"resources": _change(s, TOPIC, s.name("t"), ("retention.ms", SET, "1"))["resources"] * 2},
         given=lambda s: s.create("t")),
    _broker_case("set a broker's setting", "1", ("log.retention.ms", SET, "86400000"), undo=True),
    _broker_case("set every broker's setting", "", ("message.max.bytes", SET, "2000000"), undo=True),
    _broker_case("set a broker's setting that is read only", "1", ("num.partitions", SET, "5")),
    _broker_case("set a broker's setting that is per broker for all", "", ("advertised.listeners", SET, "PLAINTEXT://x:1")),
    _broker_case("set a broker's setting to nonsense", "1", ("log.retention.ms", SET, "soon")),
    _broker_case("set a setting that no broker has", "1", ("no.such", SET, "1")),
    _broker_case("set a setting of a broker that is no number", "one", ("log.retention.ms", SET, "1")),
    _broker_case("set a setting of another broker", "99", ("log.retention.ms", SET, "1")),
)  # fmt: skip

RESOURCES = (
    Case("all resources with settings", "list_config_resources", lambda s: {"resource_types": []}, only_own=True,
         given=lambda s: s.create("t")),
    Case("topics with settings", "list_config_resources", lambda s: {"resource_types": [TOPIC]}, only_own=True,
         given=lambda s: s.create("t"), versions=(1,)),
    Case("brokers with settings", "list_config_resources", lambda s: {"resource_types": [BROKER, BROKER_LOGGER]},
         versions=(1,)),
    Case("resources of a kind nobody knows", "list_config_resources", lambda s: {"resource_types": [77]},
         versions=(1,)),
)  # fmt: skip


def _listed(side: Side, *names: str, limit: int = 2000, cursor: Any = None) -> dict[str, Any]:
    rows = [{"name": side.name(name)} for name in names]
    return {"topics": rows, "response_partition_limit": limit, "cursor": cursor}


CLUSTER = (
    Case("the cluster", "describe_cluster", lambda s: {}),
    Case("the cluster and what a client may do", "describe_cluster",
         lambda s: {"include_cluster_authorized_operations": True, "include_fenced_brokers": True}),
    Case("the cluster's controllers", "describe_cluster", lambda s: {"endpoint_type": 2}, versions=(1, 2)),
    Case("the cluster's endpoints of a kind nobody knows", "describe_cluster", lambda s: {"endpoint_type": 7},
         versions=(1, 2)),
    Case("partitions of topics", "describe_topic_partitions", lambda s: _listed(s, "b", "a"),
         given=lambda s: s.create_all("a", "b")),
    Case("partitions of an unknown topic", "describe_topic_partitions", lambda s: _listed(s, "absent")),
    Case("partitions page by page", "describe_topic_partitions", lambda s: _listed(s, "t", limit=2),
         given=lambda s: s.create("t", 5),
         then=[Step("describe_topic_partitions", 0, lambda s: _listed(
             s, "t", limit=2, cursor={"topic_name": s.name("t"), "partition_index": 2}))]),
    Case("partitions after a cursor of another topic", "describe_topic_partitions",
         lambda s: _listed(s, "a", "b", cursor={"topic_name": s.name("az"), "partition_index": 0}),
         given=lambda s: s.create_all("a", "b")),
    Case("partitions after a negative cursor", "describe_topic_partitions",
         lambda s: _listed(s, "a", cursor={"topic_name": s.name("a"), "partition_index": -1}),
         given=lambda s: s.create("a")),
    Case("partitions with a limit of zero", "describe_topic_partitions", lambda s: _listed(s, "a", limit=0),
         given=lambda s: s.create("a")),
    Case("directories of a topic", "describe_log_dirs",
         lambda s: {"topics": [{"topic": s.name("t"), "partitions": [0]}]}, given=lambda s: s.create_filled("t")),
    Case("directories of all topics", "describe_log_dirs", lambda s: {"topics": None}, only_own=True,
         given=lambda s: s.create_filled("t")),
    Case("directories of an unknown topic", "describe_log_dirs",
         lambda s: {"topics": [{"topic": s.name("absent"), "partitions": [0]}]}),
    Case("directories of an unknown partition", "describe_log_dirs",
         lambda s: {"topics": [{"topic": s.name("t"), "partitions": [0, 7]}]}, given=lambda s: s.create("t")),
    Case("directories of nothing", "describe_log_dirs", lambda s: {"topics": []}),
    Case("what the broker speaks", "api_versions",
         lambda s: {"client_software_name": "test", "client_software_version": "1.0"}),
    Case("what the broker speaks, asked by a client without a name", "api_versions",
         lambda s: {"client_software_name": "", "client_software_version": "1.0"}, versions=(3, 4)),
    Case("what the broker speaks, asked by a client with a bad name", "api_versions",
         lambda s: {"client_software_name": "a b", "client_software_version": "ä"}, versions=(3, 4)),
)  # fmt: skip

CASES = (*DESCRIBE, *ALTER, *CHANGE, *RESOURCES, *CLUSTER)
