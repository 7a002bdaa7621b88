"""The settings of embedded nodes.

Owns: what they have in place of Kafka's defaults, and how a test writes its own. Never knows: sockets, directories.
Invariant: time-outs between nodes are so long that none ends while time is moved in steps, and so short that a test can
wait for them.
"""

from collections.abc import Mapping, Sequence

from ottla.testing.life import Ports
from ottla.testing.network import HOST

REPLICAS = 3
_COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "2",
    # Whatever waits while time is moved would count as slow.
    "ottla.slow.request.ms": "-1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
_ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # It hears of itself whenever it likes: a jump of time must not end its own session.
    "broker.session.timeout.ms": str(2**31 - 1),
}
_TOGETHER = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "5000",
    "replica.lag.time.max.ms": "10000",
}
FIRST_ELECTION_MS = 60
OWN_SETTINGS = frozenset(
    {"node.id", "broker.id", "listeners", "advertised.listeners", "log.dir", "log.dirs", "metadata.log.dir"}
)


def node_settings(number: int, ports: Ports, voters: Sequence[str]) -> dict[str, str]:
    """What a node has where the test says nothing else; it is alone where nobody votes."""
    listeners = [f"PLAINTEXT://{HOST}:{ports.broker.number}"]
    own: dict[str, str] = dict(_ALONE)
    if ports.controller is not None:
        listeners.append(f"CONTROLLER://{HOST}:{ports.controller.number}")
        replicas = min(REPLICAS, len(voters))
        in_sync = min(2, replicas)
        own = {
            **_TOGETHER,
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            # Apart from each other, so that the first election is not a tie.
            "controller.quorum.election.timeout.ms": str(FIRST_ELECTION_MS * (1 + 3 * (number - 1))),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
        }
    return {**_COMMON, **own, "node.id": str(number), "listeners": ",".join(listeners)}


def texts_of_nodes(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings that a test gives to all nodes. Raises ValueError."""
    texts = setting_texts(settings)
    for name in OWN_SETTINGS & texts.keys():
        raise ValueError(f"{name} is chosen here: an embedded node has a free port and a directory of its own")
    if "ottla.metrics.port" in texts:
        raise ValueError("ottla.metrics.port: an embedded node serves no metrics; a process does (ottla serve)")
    return texts


def setting_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as a file would have them; `log_retention_ms=1` is `log.retention.ms=1`."""
    return {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
