"""What `ottla config` shows, made from what the cluster told.

Owns: which settings are shown, the rows and JSON documents. Never knows: how they were asked for, or printing. Pure
functions of values.
"""

from collections.abc import Sequence
from typing import Any

from ottla.cli.output import Column, Table
from ottla.client.admin.topics import Config, ConfigSource, ConfigSynonym, Resource, ResourceKind

DEFAULTS = "default"
"""The name of what holds for all brokers."""

SOURCES = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.STATIC_BROKER: "settings file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER: "logger",
    ConfigSource.CLIENT_METRICS: "client metrics",
    ConfigSource.GROUP: "group",
}

OWN = {
    ResourceKind.TOPIC: (ConfigSource.TOPIC,),
    ResourceKind.BROKER: (
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
    ),
    ResourceKind.BROKER_LOGGER: (ConfigSource.DYNAMIC_BROKER_LOGGER,),
    ResourceKind.CLIENT_METRICS: (ConfigSource.CLIENT_METRICS,),
    ResourceKind.GROUP: (ConfigSource.GROUP,),
}
"""Where the values come from that somebody has set for a resource."""


def chosen(resource: Resource, configs: Sequence[Config], names: Sequence[str], every: bool) -> list[Config]:
    """The settings to show: those named, all, or those that somebody has set."""
    if names:
        return [config for config in configs if config.name in names]
    if every:
        return list(configs)
    return [config for config in configs if config.source in OWN[resource.kind]]


def configs_table(configs: Sequence[Config]) -> Table:
    columns = [Column("SETTING"), Column("VALUE"), Column("SOURCE"), Column("DYNAMIC"), Column("OTHERWISE")]
    rows = [
        [
            config.name,
            value_text(config.value, config.sensitive),
            SOURCES[config.source],
            "no" if config.read_only else "yes",
            _otherwise(config),
        ]
        for config in configs
    ]
    return Table(columns, rows)


def configs_json(resource: Resource, configs: Sequence[Config]) -> dict[str, Any]:
    return {
        "kind": kind_text(resource.kind),
        "name": resource.name or DEFAULTS,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "source": config.source.name.lower(),
                "dynamic": not config.read_only,
                "sensitive": config.sensitive,
                "synonyms": [
                    {"name": each.name, "value": each.value, "source": each.source.name.lower()}
                    for each in config.synonyms
                ],
            }
            for config in configs
        ],
    }


def resources_table(resources: Sequence[Resource]) -> Table:
    rows = [[kind_text(resource.kind), resource.name or DEFAULTS] for resource in resources]
    return Table([Column("KIND"), Column("NAME")], rows)


def resources_json(resources: Sequence[Resource]) -> list[dict[str, str]]:
    return [{"kind": kind_text(resource.kind), "name": resource.name or DEFAULTS} for resource in resources]


def kind_text(kind: ResourceKind) -> str:
    return kind.name.lower().replace("_", "-")


def value_text(value: str | None, sensitive: bool) -> str:
    if sensitive:
        return "(secret)"
    return "-" if value is None or value == "" else value


def _otherwise(config: Config) -> str:
    """What would hold if the place that counts said nothing."""
    others = [each for each in config.synonyms if not _counts(config, each)]
    if not others:
        return "-"
    following = others[0]
    value = value_text(following.value, config.sensitive)
    return f"{value} ({SOURCES[following.source]})"


def _counts(config: Config, synonym: ConfigSynonym) -> bool:
    return synonym.source == config.source
