"""Every setting of Kafka 4.3 under Kafka's name, and ottla's own under `ottla.`.

`BrokerValues` answers what a setting is, `describe_*` how it came to be, `check_*` whether it may be; the tables are in
`broker`, `topic` and `group`, the syntax of files in `file`. This page is the door: other rooms import from here.
"""

from ottla.base.settings.broker import BROKER_SETTINGS, find_broker_setting
from ottla.base.settings.changes import (
    Operation,
    alter,
    check_alterations,
    check_broker_dynamic,
    check_client_metrics,
    check_group_overrides,
    check_topic_overrides,
)
from ottla.base.settings.describe import (
    ConfigSource,
    Described,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_created_topic,
    describe_group,
    describe_topic,
)
from ottla.base.settings.file import check_static, merge, parse_properties
from ottla.base.settings.group import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.base.settings.kinds import InvalidSetting, Scope, Setting, Value, ValueKind, parse, text_of
from ottla.base.settings.topic import TOPIC_SETTINGS
from ottla.base.settings.values import BrokerValues

__all__ = [
    "BROKER_SETTINGS",
    "CLIENT_METRICS_SETTINGS",
    "GROUP_SETTINGS",
    "TOPIC_SETTINGS",
    "BrokerValues",
    "ConfigSource",
    "Described",
    "InvalidSetting",
    "Operation",
    "Scope",
    "Setting",
    "Synonym",
    "Value",
    "ValueKind",
    "alter",
    "check_alterations",
    "check_broker_dynamic",
    "check_client_metrics",
    "check_group_overrides",
    "check_static",
    "check_topic_overrides",
    "describe_broker",
    "describe_broker_defaults",
    "describe_client_metrics",
    "describe_created_topic",
    "describe_group",
    "describe_topic",
    "find_broker_setting",
    "merge",
    "parse",
    "parse_properties",
    "text_of",
]
