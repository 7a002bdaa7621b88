"""What may be changed through the wire, and what Kafka says to the rest.

Owns: the checks of CreateTopics, AlterConfigs and IncrementalAlterConfigs, the four operations on a value, and the
conditions between settings of one broker. Never knows: requests, where settings are stored.
Invariant: what these checks let pass, `BrokerValues` can parse.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from ottla.base.errors import ErrorCode
from ottla.base.settings.broker import (
    BROKER_SETTINGS,
    CLUSTER_WIDE_BY_LISTENER,
    LISTENER_ONLY,
    listener_base,
)
from ottla.base.settings.group import BROKER_NAME_OF_GROUP, CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.base.settings.kinds import InvalidSetting, Scope, Setting, Value, ValueKind, parse
from ottla.base.settings.security import check_unguarded
from ottla.base.settings.topic import TOPIC_SETTINGS
from ottla.base.settings.values import BrokerValues

_REQUEST = ErrorCode.INVALID_REQUEST


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, by their wire numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def check_alterations(alterations: Iterable[tuple[str, Operation, str | None]]) -> None:
    """What must hold for any resource before its changes are looked at: no name twice, nothing set to null."""
    listed = list(alterations)
    if len({name for name, _, _ in listed}) != len(listed):
        raise InvalidSetting("Error due to duplicate config keys", _REQUEST)
    empty = [name for name, operation, operand in listed if operand is None and operation is not Operation.DELETE]
    if empty:
        raise InvalidSetting(f"Null value not supported for : {', '.join(empty)}", _REQUEST)


def alter(
    name: str, setting: Setting | None, current: str | None, operation: Operation, operand: str | None
) -> str | None:
    """The text after one operation on `current`, the resource's own text; None when nothing remains set."""
    if operation is Operation.DELETE:
        return None
    assert operand is not None, name
    if operation is Operation.SET:
        return operand
    if setting is None or setting.kind is not ValueKind.LIST or setting.scope is Scope.CLIENT_METRICS:
        raise InvalidSetting(f"Can't {operation.name} to key {name} because its type is not LIST.")
    present = (setting.default if current is None else current) or ""
    items = [item for item in present.split(",") if item]
    for item in operand.split(","):
        if operation is Operation.SUBTRACT:
            if item in items:
                items.remove(item)
        elif item not in items:
            items.append(item)
    return ",".join(items)


def check_topic_overrides(overrides: Mapping[str, str | None], broker: BrokerValues | None = None) -> None:
    """Everything a topic would override after the change, against the broker whose defaults fill the gaps."""
    empty = [name for name, text in overrides.items() if text is None]
    if empty:
        raise InvalidSetting(f"Null value not supported for topic configs: {','.join(empty)}")
    texts = {name: text for name, text in overrides.items() if text is not None}
    for name in texts:
        if name not in TOPIC_SETTINGS:
            raise InvalidSetting(f"Unknown topic config name: {name}")
    values = (broker or BrokerValues()).topic_values(texts)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidSetting(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if values["remote.storage.enable"]:
        raise InvalidSetting(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


_GROUP_LIMITS = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("share", "assignment.interval.ms"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "assignment.interval.ms"),
)


def check_group_overrides(overrides: Mapping[str, str], broker: BrokerValues) -> None:
    """Everything a group would override after the change, within the limits of the broker."""
    for name in overrides:
        if name not in GROUP_SETTINGS:
            raise InvalidSetting(f"Unknown group config name: {name}")
    given = {name: parse(GROUP_SETTINGS[name], text) for name, text in overrides.items()}

    def value(name: str) -> int:
        found: Value = given[name] if name in given else broker.get(BROKER_NAME_OF_GROUP[name])
        assert isinstance(found, int), name
        return found

    for protocol, rest in _GROUP_LIMITS:
        name = f"{protocol}.{rest}"
        if name in given:
            least, most = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
            if value(name) < broker.integer(least):
                raise InvalidSetting(f"{name} must be greater than or equal to {least}")
            if value(name) > broker.integer(most):
                raise InvalidSetting(f"{name} must be less than or equal to {most}")
    standbys, most = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if standbys in given and value(standbys) > broker.integer(most):
        raise InvalidSetting(f"{standbys} must be less than or equal to {most}")
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if value(session) <= value(heartbeat):
            raise InvalidSetting(f"{session} must be greater than {heartbeat}")


_MATCHERS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    """Everything a subscription to clients' metrics would hold after the change."""
    for name in overrides:
        if name not in CLIENT_METRICS_SETTINGS:
            raise InvalidSetting(f"Unknown client metrics configuration: {name}", _REQUEST)
    given = {name: parse(CLIENT_METRICS_SETTINGS[name], text) for name, text in overrides.items()}
    interval = given.get("interval.ms", 100)
    assert isinstance(interval, int)
    if not 100 <= interval <= 3_600_000:
        raise InvalidSetting(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)", _REQUEST
        )
    patterns = given.get("match", ())
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        matcher, equals, expression = pattern.partition("=")
        if not (equals and matcher.strip() in _MATCHERS and _is_expression(expression.strip())):
            raise InvalidSetting(f"Illegal client matching pattern: {pattern}")


def _is_expression(text: str) -> bool:
    import re  # rarely needed, and not free to load

    try:
        re.compile(text)
    except re.error:
        return False
    return True


def check_broker_dynamic(texts: Mapping[str, str], per_broker: bool, broker: BrokerValues) -> None:
    """Everything one broker (or, when not `per_broker`, all of them) would be given dynamically after the change.

    `broker` is as it is now. Names without a declaration pass: they may belong to a plug-in.
    """
    try:
        _check_dynamic_names(texts, per_broker)
        check_unguarded({**broker.static, **texts})
        changed = (
            broker.with_dynamic(texts, broker.dynamic_default)
            if per_broker
            else broker.with_dynamic(broker.dynamic, texts)
        )
        _check_dynamic_values(texts, broker, changed)
    except InvalidSetting as refused:
        raise InvalidSetting(str(refused), _REQUEST) from None


def _check_dynamic_names(texts: Mapping[str, str], per_broker: bool) -> None:
    declared = {name: BROKER_SETTINGS[name].scope for name in texts if name in BROKER_SETTINGS}
    _refuse_names(
        "Cannot update these configs dynamically",
        [name for name, scope in declared.items() if scope is Scope.READ_ONLY],
    )
    _refuse_names(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in texts if name in LISTENER_ONLY],
    )
    for name, text in texts.items():
        setting = BROKER_SETTINGS.get(listener_base(name) or name)
        if setting is not None:
            parse(setting, text)
    if not per_broker:
        _refuse_names(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in texts if _belongs_to_one_broker(name)],
        )


def _belongs_to_one_broker(name: str) -> bool:
    base = listener_base(name)
    if base is not None:
        return base not in CLUSTER_WIDE_BY_LISTENER
    return name in BROKER_SETTINGS and BROKER_SETTINGS[name].scope is Scope.PER_BROKER


def _refuse_names(sentence: str, names: list[str]) -> None:
    if names:
        raise InvalidSetting(f"{sentence}: [{', '.join(names)}]")


_THREADS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)


def _check_dynamic_values(texts: Mapping[str, str], broker: BrokerValues, changed: BrokerValues) -> None:
    try:
        check_broker_together(changed)
    except InvalidSetting as refused:
        raise InvalidSetting(f"requirement failed: {refused}") from None
    for name in _THREADS:
        if name in texts:
            _check_thread_count(name, broker.integer(name), changed.integer(name))
    cleaners = broker.integer("log.cleaner.threads")
    if changed.integer("log.cleaner.threads") > cleaners * 2:
        raise _refused_update(
            f"Log cleaner threads cannot be increased to more than double the current value {cleaners}"
        )
    if "max.connection.creation.rate" in texts and changed.integer("max.connection.creation.rate") == 0:
        raise _refused_update("Invalid max.connection.creation.rate 0")


def _check_thread_count(name: str, now: int, then: int) -> None:
    sentence = f"Dynamic thread count update validation failed for {name}={then}, value should"
    if then > now * 2:
        raise _refused_update(f"{sentence} not be greater than double the current value {now}")
    if then < now // 2:
        raise _refused_update(f"{sentence} be at least half the current value {now}")


def _refused_update(reason: str) -> InvalidSetting:
    # The Java class is part of the sentence clients see.
    return InvalidSetting(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} "
        "for configuration Invalid dynamic configuration"
    )


def check_broker_together(values: BrokerValues) -> None:
    """The conditions between the settings of one broker, at its start and after every change."""
    if values.get("broker.id") != values.get("node.id"):
        raise InvalidSetting("You must set `node.id` to the same value as `broker.id`.")
    for holds, sentence in (*_log_conditions(values), *_node_conditions(values), *_coordination_conditions(values)):
        if not holds:
            raise InvalidSetting(sentence)


def _log_conditions(values: BrokerValues) -> Iterator[tuple[bool, str]]:
    yield values.integer("log.roll.ms") >= 1, "log.roll.ms must be greater than or equal to 1"
    yield values.integer("log.roll.jitter.ms") >= 0, "log.roll.jitter.ms must be greater than or equal to 0"
    yield (
        values.integer("log.retention.ms") != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    cleaners = values.integer("log.cleaner.threads")
    yield cleaners >= 1, "log.cleaner.threads must be greater than or equal to 1"
    yield (
        values.integer("log.cleaner.dedupe.buffer.size") // max(cleaners, 1) > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    cordoned = values.listing("cordoned.log.dirs")
    missing = [item for item in cordoned if item != "*" and item not in values.listing("log.dirs")]
    yield (
        "*" not in cordoned or len(cordoned) == 1,
        "When cordoned.log.dirs is set to *, it must not contain other values",
    )
    yield (
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )


def _node_conditions(values: BrokerValues) -> Iterator[tuple[bool, str]]:
    longest_wait = values.integer("replica.fetch.wait.max.ms")
    yield (
        longest_wait <= values.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
        "socket timeouts",
    )
    yield (
        longest_wait <= values.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
        "frequent changes in ISR",
    )
    queued = values.integer("queued.max.request.bytes")
    yield (
        queued <= 0 or queued >= values.integer("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    yield (
        values.integer("max.connections.per.ip") > 0 or bool(values.text("max.connections.per.ip.overrides")),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )


def _coordination_conditions(values: BrokerValues) -> Iterator[tuple[bool, str]]:
    by_zookeeper = values.get("zookeeper.connect") is not None
    for name in ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        yield (
            not by_zookeeper or not values.own_text(name),
            f"{name} belongs to a cluster with a quorum: set either it or zookeeper.connect.",
        )
    yield (
        by_zookeeper or values.own_text("control.plane.listener.name") is None,
        "control.plane.listener.name is only for clusters with ZooKeeper: a quorum has controller.listener.names.",
    )
    listener = values.get("control.plane.listener.name")
    named = [text.partition("://")[0].strip().upper() for text in values.listing("listeners")]
    yield (
        listener is None or str(listener).upper() in named,
        f"control.plane.listener.name is {listener}, which is none of the listeners.",
    )
    if values.boolean("zookeeper.set.acl"):
        yield (
            values.get("ottla.zookeeper.sasl.mechanism") is not None,
            "zookeeper.set.acl needs a name to guard znodes by: set ottla.zookeeper.sasl.mechanism too.",
        )
    if values.get("ottla.zookeeper.sasl.mechanism") == "DIGEST-MD5":
        yield (
            None not in (values.get("ottla.zookeeper.sasl.username"), values.get("ottla.zookeeper.sasl.password")),
            "ottla.zookeeper.sasl.mechanism=DIGEST-MD5 needs ottla.zookeeper.sasl.username and .password.",
        )
    if by_zookeeper:
        yield (
            all(server.strip() for server in values.text("zookeeper.connect").partition("/")[0].split(",")),
            "zookeeper.connect names an empty server; write it as host:port,host:port/chroot.",
        )
