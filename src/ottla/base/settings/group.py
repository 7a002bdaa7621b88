"""The settings of a group and of a subscription to clients' metrics, and the broker setting behind each.

Owns: the tables and the synonyms. Never knows: who has set what.
"""

from ottla.base.settings.bounds import ListOf, OffsetReset, OneOf, Range
from ottla.base.settings.kinds import Scope, Setting, ValueKind
from ottla.base.settings.reasons import SHARE, STREAMS, TELEMETRY

BOOLEAN = ValueKind.BOOLEAN
STRING = ValueKind.STRING
INT = ValueKind.INT
LIST = ValueKind.LIST
GROUP = Scope.GROUP
CLIENT_METRICS = Scope.CLIENT_METRICS

# One setting a declaration, its facts first, its sentence below.
# fmt: off
_GROUP_TABLE: tuple[Setting, ...] = (
    Setting("consumer.session.timeout.ms", INT, "45000",
            "A member of this consumer-protocol group that is silent for this long is removed.", GROUP, Range(1)),
    Setting("consumer.heartbeat.interval.ms", INT, "5000",
            "How often members of this consumer-protocol group are told to report.", GROUP, Range(1)),
    Setting("consumer.assignment.interval.ms", INT, "1000",
            "The least time between two computed assignments of this consumer-protocol group.", GROUP, Range(0)),
    Setting("share.session.timeout.ms", INT, "45000",
            "A member of this share group that is silent for this long is removed.", GROUP, Range(1), no_effect=SHARE),
    Setting("share.heartbeat.interval.ms", INT, "5000",
            "How often members of this share group are told to report.", GROUP, Range(1), no_effect=SHARE),
    Setting("share.assignment.interval.ms", INT, "1000",
            "The least time between two computed assignments of this share group.", GROUP, Range(0), no_effect=SHARE),
    Setting("share.record.lock.duration.ms", INT, "30000",
            "How long a member of this share group may hold a record.", GROUP, Range(1000), no_effect=SHARE),
    Setting("share.delivery.count.limit", INT, "5",
            "How often this share group offers a record before it counts as undeliverable.",
            GROUP, Range(2), no_effect=SHARE),
    Setting("share.partition.max.record.locks", INT, "2000",
            "How many records of one partition may be out with members of this share group.",
            GROUP, Range(100), no_effect=SHARE),
    Setting("share.auto.offset.reset", STRING, "latest",
            "Where this share group starts: `earliest`, `latest` or `by_duration:` and an ISO 8601 duration.",
            GROUP, OffsetReset(), no_effect=SHARE),
    Setting("share.isolation.level", STRING, "read_uncommitted",
            "Whether this share group sees records of open and aborted transactions.",
            GROUP, OneOf("read_committed", "read_uncommitted"), no_effect=SHARE),
    Setting("share.renew.acknowledge.enable", BOOLEAN, "true",
            "Whether members of this share group may prolong their hold on a record.", GROUP, no_effect=SHARE),
    Setting("streams.session.timeout.ms", INT, "45000",
            "A member of this streams group that is silent for this long is removed.",
            GROUP, Range(1), no_effect=STREAMS),
    Setting("streams.heartbeat.interval.ms", INT, "5000",
            "How often members of this streams group are told to report.", GROUP, Range(1), no_effect=STREAMS),
    Setting("streams.assignment.interval.ms", INT, "1000",
            "The least time between two computed assignments of this streams group.",
            GROUP, Range(0), no_effect=STREAMS),
    Setting("streams.initial.rebalance.delay.ms", INT, "3000",
            "How long this streams group, when empty, waits for more members.", GROUP, Range(0), no_effect=STREAMS),
    Setting("streams.num.standby.replicas", INT, "0",
            "Standby copies of every task of this streams group.", GROUP, Range(0), no_effect=STREAMS),
)

_CLIENT_METRICS_TABLE: tuple[Setting, ...] = (
    Setting("interval.ms", INT, "300000",
            "How often matching clients push their metrics.", CLIENT_METRICS, no_effect=TELEMETRY),
    Setting("match", LIST, "",
            "Which clients this subscription is for, as `client_id=pattern` and the like; empty means all.",
            CLIENT_METRICS, ListOf(), no_effect=TELEMETRY),
    Setting("metrics", LIST, "",
            "Prefixes of the metrics to push; `*` means all of them.", CLIENT_METRICS, ListOf(), no_effect=TELEMETRY),
)
# fmt: on

GROUP_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _GROUP_TABLE}
CLIENT_METRICS_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _CLIENT_METRICS_TABLE}

BROKER_NAME_OF_GROUP: dict[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}
"""The broker setting that gives a group setting its default; those not listed have none."""
