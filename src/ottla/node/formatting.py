"""Giving data directories to a node of a cluster, as Kafka's storage tool does.

Owns: what is written before the first start of a node of a cluster: whose the directories are, and who votes first.
Never knows: a running node. Invariants: a directory that belongs to somebody is never given to another; nothing is
written when one of the directories cannot be used.
"""

import os
import socket
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.base.ports import Disk
from ottla.base.settings.values import BrokerValues
from ottla.base.vocabulary import identity_bytes, identity_text
from ottla.log.data_directory import METADATA_LOG
from ottla.log.files import StorageFailure, World
from ottla.log.properties import (
    DirectoryProperties,
    UnusableDirectory,
    read_directory_properties,
    write_directory_properties,
)
from ottla.metadata.facts import Fact
from ottla.node.listeners import parse_listeners
from ottla.node.options import StartFailure
from ottla.node.roles import VOTER_VERSIONS
from ottla.quorum.snapshots import Snapshots, SnapshotState
from ottla.quorum.state_file import QuorumState, write_quorum_state
from ottla.raft.log_view import LogPosition
from ottla.raft.voters import VoterSet
from ottla.records.control import Endpoint, Voter


class Formatted(NamedTuple):
    """One directory, and whether it is new."""

    path: str
    new: bool


class Wishes(NamedTuple):
    """What the person who formats wants."""

    cluster_id: str | None = None
    """None takes the one that is there, or a new one."""
    ignore_formatted: bool = False
    standalone: bool = False
    """This node alone votes at first, and others may join the voters later."""
    initial_controllers: str | None = None
    """These vote at first, as `id@host:port:directory-id`, and others may join them later."""


def format_directories(world: World, values: BrokerValues, wishes: Wishes) -> tuple[str, list[Formatted]]:
    """Give every data directory of a node to a cluster; answers its id. Raises StartFailure."""
    own_id, voters = first_voters(world, values, wishes)
    given = give_directories(world, values, wishes, own_id)
    if voters.voters:
        write_first_snapshot(world, values, SnapshotState(LogPosition(0, 0), 1, voters), ())
    return given


def give_directories(world: World, values: BrokerValues, wishes: Wishes, own_id: bytes) -> tuple[str, list[Formatted]]:
    """Make the directories this node's, the one of the metadata with this id unless it has one. Raises StartFailure."""
    disk, random = world.disk, world.random
    if wishes.cluster_id is not None:
        try:
            identity_bytes(wishes.cluster_id)
        except ValueError:
            raise StartFailure(
                f"{wishes.cluster_id!r} is no cluster id: one has 22 letters and digits; leave --cluster-id out for a "
                "new one."
            ) from None
    try:
        found = [(path, read_directory_properties(disk, path)) for path in _paths(values)]
    except UnusableDirectory as problem:
        raise StartFailure(str(problem)) from None
    except OSError as problem:
        raise StartFailure(f"cannot read {problem.filename}: {problem.strerror}.") from None
    node_id = values.integer("node.id")
    cluster = wishes.cluster_id or next((own.cluster_id for _, own in found if own is not None), None)
    cluster = cluster or identity_text(random.identity())
    for path, own in found:
        if own is None:
            continue
        try:
            own.require(path, cluster, node_id)
        except UnusableDirectory as problem:
            raise StartFailure(str(problem)) from None
        if not wishes.ignore_formatted:
            raise StartFailure(f"{path} is formatted already; leave it so with --ignore-formatted.")
    try:
        for path, own in found:
            if own is None or not own.directory_id:  # Kafka's of the ZooKeeper times have none
                disk.make_directory(path)
                of_metadata = path == metadata_directory(values)
                properties = DirectoryProperties(cluster, node_id, own_id if of_metadata else random.identity())
                write_directory_properties(disk, path, properties)
    except OSError as problem:
        raise StartFailure(f"cannot write to {problem.filename}: {problem.strerror}.") from None
    return cluster, [Formatted(path, own is None) for path, own in found]


def write_first_snapshot(world: World, values: BrokerValues, state: SnapshotState, facts: Iterable[Fact]) -> None:
    """What the metadata log begins with. Blocking. Raises StartFailure."""
    directory = metadata_log_directory(values)
    try:
        world.disk.make_directory(directory)
        if state.position.epoch:
            # Metadata with a past: that nobody has voted since is written down before there is anything to vote about.
            election = QuorumState(leader_epoch=state.position.epoch, voters=state.voters.ids)
            write_quorum_state(world.disk, directory, election, min(state.kraft_version, 1))
        Snapshots(world, directory).write(state, facts)
    except OSError as problem:
        raise StartFailure(f"cannot write to {problem.filename}: {problem.strerror}.") from None
    except StorageFailure as problem:
        raise StartFailure(str(problem)) from None


def first_voters(world: World, values: BrokerValues, wishes: Wishes) -> tuple[bytes, VoterSet]:
    """The id of the metadata directory, and who votes first where voters may change; nobody where they are fixed."""
    path = metadata_directory(values)
    try:
        present = read_directory_properties(world.disk, path)
    except (UnusableDirectory, OSError):
        present = None  # told in a moment, with the other directories
    present_id = b"" if present is None else present.directory_id
    own_id = present_id or world.random.identity()
    if not wishes.standalone and wishes.initial_controllers is None:
        return own_id, VoterSet()
    if values.listing("controller.quorum.voters"):
        raise StartFailure("controller.quorum.voters fixes the voters; take it out to have voters that can change.")
    node_id = values.integer("node.id")
    if wishes.initial_controllers is not None:
        voters = VoterSet.of(_initial_voter(text, values) for text in wishes.initial_controllers.split(","))
        own = voters.find(node_id)
        if not present_id and own is not None:
            own_id = own.directory_id
        return own_id, voters
    for address in parse_listeners(values.listing("listeners"), "listeners"):
        if address.name == _controller_listener(values):
            endpoint = Endpoint(address.name, address.host or socket.gethostname(), address.port)
            return own_id, VoterSet.of([Voter(node_id, own_id, (endpoint,), *VOTER_VERSIONS)])
    raise StartFailure("listeners names none for controllers; add one such as CONTROLLER://localhost:9093.")


def _controller_listener(values: BrokerValues) -> str:
    return next(iter(values.listing("controller.listener.names")), "CONTROLLER").upper()


def _initial_voter(text: str, values: BrokerValues) -> Voter:
    number, _, rest = text.strip().partition("@")
    address, _, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    try:
        endpoint = Endpoint(_controller_listener(values), host.strip("[]"), int(port))
        return Voter(int(number), identity_bytes(directory), (endpoint,), *VOTER_VERSIONS)
    except ValueError:
        raise StartFailure(f"{text.strip()!r} is not of the form id@host:port:directory-id.") from None


def is_formatted(disk: Disk, values: BrokerValues) -> bool:
    """Whether the directory of the metadata log belongs to somebody. Raises UnusableDirectory and OSError."""
    return read_directory_properties(disk, metadata_directory(values)) is not None


def metadata_directory(values: BrokerValues) -> str:
    return os.path.abspath(values.text("metadata.log.dir"))


def metadata_log_directory(values: BrokerValues) -> str:
    """Where the metadata log itself lies."""
    return os.path.join(metadata_directory(values), METADATA_LOG)


def require_one_metadata_log(disk: Disk, values: BrokerValues) -> None:
    """A voter that begins another metadata log has forgotten how it voted and what was committed. Raises StartFailure.

    `metadata.log.dir` is the first of `log.dirs` where nobody sets it, so another order of these is enough.
    """
    chosen = metadata_directory(values)
    for path in _paths(values):
        if path == chosen or not disk.exists(os.path.join(path, METADATA_LOG)):
            continue
        if disk.exists(metadata_log_directory(values)):
            advice = f"move {os.path.join(path, METADATA_LOG)} elsewhere, or set metadata.log.dir={path} if that is it"
        else:
            advice = f"set metadata.log.dir={path}, or move the folder {METADATA_LOG} there to {chosen}"
        raise StartFailure(f"{path} holds a metadata log of this node, which is to be in {chosen}: {advice}.")


def _paths(values: BrokerValues) -> Sequence[str]:
    paths = [os.path.abspath(path) for path in values.listing("log.dirs")]
    metadata = metadata_directory(values)
    return paths if metadata in paths else [metadata, *paths]
