"""What a node does and whom it agrees with, from its settings.

Owns: the meaning of `process.roles`, `controller.listener.names`, `controller.quorum.voters`,
`controller.quorum.bootstrap.servers` and `zookeeper.connect` together. Never knows: sockets, files. Invariant: a node
that names nobody is its whole cluster.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.settings.values import BrokerValues
from ottla.node.listeners import Address
from ottla.node.options import StartFailure
from ottla.quorum.settings import QuorumIdentity
from ottla.records.control import Endpoint, Voter

NO_DIRECTORY = bytes(16)
AUTOMATIC_LISTENER = "OTTLA_CONTROLLER"
"""With ZooKeeper every broker may be the controller; one whose settings name no listener for that takes a free port."""
VOTER_VERSIONS = (0, 1)
"""The versions of the quorum's protocol that a voter of this release speaks."""


class Roles(NamedTuple):
    """What the process does."""

    broker: bool
    controller: bool


def roles_of(values: BrokerValues) -> Roles:
    named = values.listing("process.roles")
    return Roles("broker" in named, "controller" in named)


def split_listeners(values: BrokerValues, addresses: Sequence[Address]) -> tuple[list[Address], list[Address]]:
    """Those for clients and brokers, and those for controllers. Raises StartFailure where a role has none."""
    roles = roles_of(values)
    names = controller_listener_names(values)
    for_controllers = [address for address in addresses if address.name in names]
    for_brokers = [address for address in addresses if address.name not in names]
    if roles.broker and not for_brokers:
        raise StartFailure("listeners names none for clients; add one such as PLAINTEXT://localhost:9092.")
    if not roles.broker and for_brokers:
        raise StartFailure(
            f"{for_brokers[0].name} is no listener of controllers (controller.listener.names), and this node is no "
            "broker; take it out of listeners."
        )
    if not roles.controller and for_controllers:
        raise StartFailure(
            f"{for_controllers[0].name} is a listener of controllers, and this node is none; take it out of listeners."
        )
    if roles.controller and not for_controllers and not stands_alone(values):
        raise StartFailure("listeners names none for controllers; add one such as CONTROLLER://localhost:9093.")
    return for_brokers, for_controllers


def by_zookeeper(values: BrokerValues) -> bool:
    """Whether ZooKeeper coordinates the cluster instead of a quorum."""
    return values.get("zookeeper.connect") is not None


def controller_listener_names(values: BrokerValues) -> set[str]:
    """The listeners at which controllers serve other nodes."""
    names = {name.upper() for name in values.listing("controller.listener.names")}
    plane = values.get("control.plane.listener.name")
    if plane is not None:
        names.add(str(plane).upper())
    if by_zookeeper(values):
        names.add(AUTOMATIC_LISTENER)
    return names


def stands_alone(values: BrokerValues) -> bool:
    """Whether this node is its whole cluster."""
    return not values.listing("controller.quorum.voters") and not values.listing("controller.quorum.bootstrap.servers")


def quorum_identity(
    values: BrokerValues, cluster_id: str, directory_id: bytes, controller: Address | None
) -> QuorumIdentity:
    """Who this node is in the quorum. Raises StartFailure."""
    node_id = values.integer("node.id")
    roles = roles_of(values)
    own = () if controller is None else (Endpoint(controller.name, controller.host, controller.port),)
    if stands_alone(values):
        if not roles.controller:
            raise StartFailure(
                "a node that is no controller needs controller.quorum.voters or controller.quorum.bootstrap.servers."
            )
        voters: tuple[Voter, ...] = (Voter(node_id, NO_DIRECTORY, own, *VOTER_VERSIONS),)
    else:
        listener = next(iter(values.listing("controller.listener.names")), "CONTROLLER").upper()
        voters = tuple(_voter(text, listener) for text in values.listing("controller.quorum.voters"))
        fixed = [voter.voter_id for voter in voters]
        if len(set(fixed)) < len(fixed):
            raise StartFailure("controller.quorum.voters names a node twice.")
        if fixed and roles.controller != (node_id in fixed):
            raise StartFailure(
                f"controller.quorum.voters does not name this node ({node_id}), though it is a controller."
                if roles.controller
                else f"controller.quorum.voters names this node ({node_id}), which is no controller (process.roles)."
            )
    return QuorumIdentity(
        cluster_id,
        node_id,
        directory_id,
        voters,
        roles.controller,
        tuple(_host_and_port(text) for text in values.listing("controller.quorum.bootstrap.servers")),
        own,
    )


def _voter(text: str, listener: str) -> Voter:
    number, _, address = text.partition("@")
    host, port = _host_and_port(address)
    return Voter(int(number), NO_DIRECTORY, (Endpoint(listener, host, port),), *VOTER_VERSIONS)


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
