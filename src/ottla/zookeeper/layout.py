"""Kafka's znodes: their paths and what is written in them.

Owns: the JSON of every znode, in the forms that Kafka 3.x wrote last, and where the few things lie that Kafka's znodes
have no place for. Never knows: ZooKeeper itself, what a change of the cluster touches (`zookeeper.translation`).
Invariants: what Kafka's own tools read is where and as they expect it; additions of ours are one key `ottla` in Kafka's
objects, or lie under `/ottla`, so that whoever does not know them does not see them; bytes that are no such znode give
`BadZnode` and nothing else.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ottla.base.vocabulary import identity_bytes, identity_text
from ottla.metadata.image import BrokerImage, ControllerImage, PartitionImage, ResourceType, TopicImage

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
PRODUCER_IDS = "/latest_producer_id_block"
IN_SYNC_CHANGES = "/isr_change_notification"
FEATURE = "/feature"
REGISTRATIONS = "/ottla/brokers"
CONTROLLERS = "/ottla/controllers"
LAST_OFFSET = "/ottla/offset"
REFUSALS = "/ottla/refusals"

CONFIG_CHANGE = f"{CONFIG_CHANGES}/config_change_"
IN_SYNC_CHANGE = f"{IN_SYNC_CHANGES}/isr_change_"
CONFIG_KINDS: Mapping[int, str] = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "groups",
}
KINDS_OF_CONFIG = {folder: ResourceType(kind) for kind, folder in CONFIG_KINDS.items()}
DEFAULT_ENTITY = "<default>"

PERSISTENT = (
    "/cluster",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    *(f"{CONFIG}/{folder}" for folder in CONFIG_KINDS.values()),
    "/config/users",
    "/config/clients",
    "/config/ips",
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    IN_SYNC_CHANGES,
    "/log_dir_event_notification",
    REGISTRATIONS,
    CONTROLLERS,
    REFUSALS,
)
"""What is there in every cluster, as Kafka's brokers made it at their start."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NO_PORT = -1
BLOCK = 1000


class BadZnode(Exception):
    """A znode that does not hold what its path promises; the message says which and why."""


class Presence(NamedTuple):
    """What a broker says of itself in its ephemeral znode."""

    endpoints: Mapping[str, tuple[str, int]]
    protocols: Mapping[str, int]
    rack: str | None
    features: Mapping[str, tuple[int, int]]
    epoch: int
    """That of its registration; -1 where another program wrote the znode."""


class Chosen(NamedTuple):
    """Who holds `/controller`, and where it listens; no address where it is not one of ours."""

    broker_id: int
    address: tuple[str, int] | None


class Assigned(NamedTuple):
    """What a topic's own znode says: its id and, by partition, who holds it, who is to join and who is to go."""

    topic_id: bytes | None
    partitions: Mapping[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]


class Move(NamedTuple):
    """A partition and the replicas that somebody wants it to have."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, number: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{number}"


def state_path(topic: str, number: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{number}/state"


def config_path(kind: int, name: str) -> str:
    return f"{CONFIG}/{entity_path(kind, name)}"


def entity_path(kind: int, name: str) -> str:
    """As in notifications: `topics/orders`, `brokers/<default>`."""
    if kind == ResourceType.TOPIC:
        return f"{CONFIG_KINDS[kind]}/{name}"
    # Names of groups may have any letter; Kafka writes such names as in an address.
    return f"{CONFIG_KINDS[kind]}/{quote(name, safe='') if name else DEFAULT_ENTITY}"


def entity_name(text: str) -> str:
    """The resource that the last part of a config's path stands for."""
    return "" if text == DEFAULT_ENTITY else unquote(text)


def _bytes(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _read(path: str, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as problem:
        raise BadZnode(f"{path} holds no JSON ({problem})") from None
    if not isinstance(content, dict):
        raise BadZnode(f"{path} holds no JSON object")
    return content


class _Reading:
    """Whatever is missing or of another kind in a znode is a `BadZnode` that names it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, at: object) -> None:
        if isinstance(problem, KeyError | ValueError | TypeError | AttributeError):
            raise BadZnode(f"{self._path} lacks what it should say ({problem!r})") from problem


# --- the controller --------------------------------------------------------------------------------------------------


def controller_znode(broker_id: int, address: tuple[str, int], now_ms: int) -> bytes:
    return _bytes(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(now_ms),
            "kraftControllerEpoch": -1,
            "ottla": {"host": address[0], "port": address[1]},
        }
    )


def read_controller(data: bytes) -> Chosen:
    with _Reading(CONTROLLER):
        content = _read(CONTROLLER, data)
        own = content.get("ottla")
        return Chosen(int(content["brokerid"]), None if own is None else (str(own["host"]), int(own["port"])))


def read_number(path: str, data: bytes) -> int:
    with _Reading(path):
        return int(data)


def cluster_id_znode(cluster_id: str) -> bytes:
    return _bytes({"version": "1", "id": cluster_id})


def read_cluster_id(data: bytes) -> str:
    with _Reading(CLUSTER_ID):
        return str(_read(CLUSTER_ID, data)["id"])


# --- brokers ---------------------------------------------------------------------------------------------------------


def presence_znode(presence: Presence, now_ms: int) -> bytes:
    """`/brokers/ids/N`, in version 5."""
    plain = next((at for name, at in presence.endpoints.items() if presence.protocols.get(name, 0) == 0), None)
    content: dict[str, object] = {
        "version": 5,
        "host": None if plain is None else plain[0],
        "port": NO_PORT if plain is None else plain[1],
        "jmx_port": NO_PORT,
        "timestamp": str(now_ms),
        "endpoints": [f"{name}://{_host(host)}:{port}" for name, (host, port) in presence.endpoints.items()],
        "listener_security_protocol_map": {
            name: PROTOCOLS[presence.protocols.get(name, 0)] for name in presence.endpoints
        },
        "features": {
            name: {"min_version": first, "max_version": last} for name, (first, last) in presence.features.items()
        },
        "ottla": {"epoch": presence.epoch},
    }
    if presence.rack is not None:
        content["rack"] = presence.rack
    return _bytes(content)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def read_presence(broker_id: int, data: bytes) -> Presence:
    path = f"{BROKER_IDS}/{broker_id}"
    with _Reading(path):
        content = _read(path, data)
        endpoints: dict[str, tuple[str, int]] = {}
        for text in content.get("endpoints") or [f"PLAINTEXT://{content['host']}:{content['port']}"]:
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            endpoints[name] = (host.removeprefix("[").removesuffix("]"), int(port))
        protocols = content.get("listener_security_protocol_map", {})
        return Presence(
            endpoints,
            {name: PROTOCOLS.index(protocols.get(name, "PLAINTEXT")) for name in endpoints},
            content.get("rack"),
            {
                name: (int(levels["min_version"]), int(levels["max_version"]))
                for name, levels in (content.get("features") or {}).items()
            },
            int(content.get("ottla", {}).get("epoch", -1)),
        )


def registration_znode(broker: BrokerImage) -> bytes:
    """`/ottla/brokers/N`: what the controller knows of a broker, which lasts longer than the broker's session."""
    return _bytes(
        {
            "version": 1,
            "epoch": broker.epoch,
            "incarnation_id": identity_text(broker.incarnation_id),
            **_endpoints(broker),
            "rack": broker.rack,
            "fenced": broker.fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "log_dirs": [identity_text(each) for each in broker.directories],
            "cordoned_log_dirs": [identity_text(each) for each in broker.cordoned],
        }
    )


def read_registration(broker_id: int, data: bytes) -> BrokerImage:
    path = f"{REGISTRATIONS}/{broker_id}"
    with _Reading(path):
        content = _read(path, data)
        listeners, protocols, features = _read_endpoints(content)
        return BrokerImage(
            id=broker_id,
            epoch=int(content["epoch"]),
            incarnation_id=identity_bytes(content["incarnation_id"]),
            listeners=listeners,
            protocols=protocols,
            features=features,
            rack=content["rack"],
            fenced=bool(content["fenced"]),
            in_controlled_shutdown=bool(content["in_controlled_shutdown"]),
            directories=tuple(identity_bytes(each) for each in content["log_dirs"]),
            cordoned=tuple(identity_bytes(each) for each in content["cordoned_log_dirs"]),
        )


def member_znode(controller: ControllerImage) -> bytes:
    """`/ottla/controllers/N`."""
    return _bytes({"version": 1, "incarnation_id": identity_text(controller.incarnation_id), **_endpoints(controller)})


def read_member(controller_id: int, data: bytes) -> ControllerImage:
    path = f"{CONTROLLERS}/{controller_id}"
    with _Reading(path):
        content = _read(path, data)
        return ControllerImage(controller_id, identity_bytes(content["incarnation_id"]), *_read_endpoints(content))


def _endpoints(node: BrokerImage | ControllerImage) -> dict[str, object]:
    return {
        "endpoints": [[name, host, port, node.protocols[name]] for name, (host, port) in node.listeners.items()],
        "features": {name: [first, last] for name, (first, last) in node.features.items()},
    }


def _read_endpoints(
    content: Mapping[str, Any],
) -> tuple[dict[str, tuple[str, int]], dict[str, int], dict[str, tuple[int, int]]]:
    return (
        {name: (host, int(port)) for name, host, port, _ in content["endpoints"]},
        {name: int(protocol) for name, _, _, protocol in content["endpoints"]},
        {name: (int(first), int(last)) for name, (first, last) in content["features"].items()},
    )


# --- topics ----------------------------------------------------------------------------------------------------------


def topic_znode(topic: TopicImage) -> bytes:
    """`/brokers/topics/T`, in version 3."""
    partitions = list(enumerate(topic.partitions))
    return _bytes(
        {
            "version": 3,
            "topic_id": identity_text(topic.topic_id),
            "partitions": {str(number): partition.replicas for number, partition in partitions},
            "adding_replicas": {str(number): each.adding for number, each in partitions if each.adding},
            "removing_replicas": {str(number): each.removing for number, each in partitions if each.removing},
        }
    )


def read_topic(topic: str, data: bytes) -> Assigned:
    path = topic_path(topic)
    with _Reading(path):
        content = _read(path, data)
        adding, removing = content.get("adding_replicas") or {}, content.get("removing_replicas") or {}
        text = content.get("topic_id")
        return Assigned(
            None if text is None else identity_bytes(text),
            {
                int(number): (_numbers(replicas), _numbers(adding.get(number)), _numbers(removing.get(number)))
                for number, replicas in content["partitions"].items()
            },
        )


def _numbers(values: Iterable[Any] | None) -> tuple[int, ...]:
    return tuple(int(value) for value in values or ())


def state_znode(partition: PartitionImage, controller_epoch: int) -> bytes:
    """`/brokers/topics/T/partitions/P/state`; the znode's version is the partition's epoch."""
    content: dict[str, object] = {
        "version": 1,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "controller_epoch": controller_epoch,
        "isr": partition.in_sync,
    }
    if partition.recovering:
        content["leader_recovery_state"] = 1
    own: dict[str, object] = {}
    if partition.directories:
        own["directories"] = [identity_text(each) for each in partition.directories]
    if partition.eligible:
        own["eligible_leader_replicas"] = partition.eligible
    if partition.last_known:
        own["last_known_elr"] = partition.last_known
    if own:
        content["ottla"] = own
    return _bytes(content)


def read_state(
    path: str, data: bytes, version: int, assigned: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
) -> PartitionImage:
    """A partition from its state and what its topic's znode assigns."""
    with _Reading(path):
        content = _read(path, data)
        own = content.get("ottla") or {}
        replicas, adding, removing = assigned
        directories = tuple(identity_bytes(each) for each in own.get("directories", ()))
        return PartitionImage(
            replicas=replicas,
            in_sync=_numbers(content["isr"]),
            leader=int(content["leader"]),
            leader_epoch=int(content["leader_epoch"]),
            partition_epoch=version,
            # Where another program changed the assignment, the directories of the old one say nothing.
            directories=directories if len(directories) == len(replicas) else (),
            adding=adding,
            removing=removing,
            eligible=_numbers(own.get("eligible_leader_replicas")),
            last_known=_numbers(own.get("last_known_elr")),
            recovering=bool(content.get("leader_recovery_state", 0)),
        )


# --- the rest --------------------------------------------------------------------------------------------------------


def config_znode(values: Mapping[str, str]) -> bytes:
    return _bytes({"version": 1, "config": dict(values)})


def read_config(path: str, data: bytes) -> dict[str, str]:
    if not data:
        return {}
    with _Reading(path):
        return {str(name): str(value) for name, value in (_read(path, data).get("config") or {}).items()}


def config_change_znode(kind: int, name: str) -> bytes:
    return _bytes({"version": 2, "entity_path": entity_path(kind, name)})


def read_config_change(path: str, data: bytes) -> tuple[ResourceType, str] | None:
    """What was changed; None where it is of a kind that this release keeps nothing of."""
    with _Reading(path):
        content = _read(path, data)
        if "entity_path" in content:
            folder, _, name = content["entity_path"].partition("/")
        else:
            folder, name = content["entity_type"], content["entity_name"]
        kind = KINDS_OF_CONFIG.get(folder)
        return None if kind is None else (kind, entity_name(name))


def partitions_znode(partitions: Iterable[tuple[str, int]], epoch: int | None = None) -> bytes:
    """Partitions of a notification about in-sync sets, with the controller's epoch, or of a wanted election."""
    content: dict[str, object] = {
        "version": 1,
        "partitions": [{"topic": topic, "partition": number} for topic, number in partitions],
    }
    if epoch is not None:
        content["ottla"] = {"controller_epoch": epoch}
    return _bytes(content)


def is_ours(path: str, data: bytes) -> bool:
    """Whether a controller of ottla wrote a notification: it knows what it says."""
    return "ottla" in _read(path, data)


def read_partitions(path: str, data: bytes) -> list[tuple[str, int]]:
    with _Reading(path):
        return [(str(each["topic"]), int(each["partition"])) for each in _read(path, data)["partitions"]]


def reassignment_znode(moves: Iterable[Move]) -> bytes:
    """`/admin/reassign_partitions`."""
    partitions = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in moves]
    return _bytes({"version": 1, "partitions": partitions})


def read_reassignment(data: bytes) -> list[Move]:
    with _Reading(REASSIGN_PARTITIONS):
        return [
            Move(str(each["topic"]), int(each["partition"]), _numbers(each["replicas"]))
            for each in _read(REASSIGN_PARTITIONS, data)["partitions"]
        ]


def producer_ids_znode(broker_id: int, next_id: int) -> bytes:
    return _bytes(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(max(next_id - BLOCK, 0)),
            "block_end": str(next_id - 1),
        }
    )


def read_producer_ids(data: bytes) -> int:
    """The next id that nobody has."""
    with _Reading(PRODUCER_IDS):
        return int(_read(PRODUCER_IDS, data)["block_end"]) + 1


def feature_znode(levels: Mapping[str, int]) -> bytes:
    return _bytes(
        {
            "version": 2,
            "status": 1,
            "features": {name: {"max_version_level": level} for name, level in levels.items()},
        }
    )


def read_features(data: bytes) -> dict[str, int]:
    with _Reading(FEATURE):
        content = _read(FEATURE, data)
        return {name: int(levels["max_version_level"]) for name, levels in (content.get("features") or {}).items()}
