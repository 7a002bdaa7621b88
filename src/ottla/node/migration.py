"""From ZooKeeper to the quorum: a stopped cluster's metadata, moved.

Owns: what is moved and what has no place in the quorum, the checks that make it safe, and writing the quorum's first
snapshot. Never knows: how the plan is shown. Invariants: looking changes nothing; nothing is written while a node of
the cluster runs, or over metadata that is there already; voters that are written one after the other, on several
machines too, begin with the same metadata; ZooKeeper's tree is never changed, so there is a way back until the cluster
has gone on in the quorum.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.base.settings.values import BrokerValues
from ottla.log.files import World
from ottla.metadata.facts import Fact
from ottla.metadata.features import starting_levels
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from ottla.metadata.snapshot import facts_of
from ottla.node.formatting import (
    Formatted,
    Wishes,
    first_voters,
    give_directories,
    metadata_log_directory,
    write_first_snapshot,
)
from ottla.node.options import StartFailure
from ottla.node.roles import by_zookeeper, roles_of
from ottla.quorum.snapshots import SnapshotState
from ottla.raft.log_view import LogPosition
from ottla.zookeeper import layout
from ottla.zookeeper.loading import HowFar, load_tree
from ottla.zookeeper.ports import Ensemble
from ottla.zookeeper.translation import read_tree

WITHOUT_PLACE = {
    "/config/users": "quotas and SCRAM credentials of users",
    "/config/clients": "quotas of clients",
    "/config/ips": "quotas of addresses",
    "/kafka-acl": "access control lists",
    "/kafka-acl-extended": "access control lists by prefix",
    "/delegation_token/tokens": "delegation tokens",
}
"""Folders of Kafka's tree that this release keeps nothing of."""
UNFINISHED = {
    layout.DELETE_TOPICS: "topics that wait for their deletion",
    layout.REASSIGN_PARTITIONS: "a reassignment that was asked for",
    layout.PREFERRED_ELECTION: "an election that was asked for",
}
"""Requests of tools that no controller has carried out."""


class MigrationPlan(NamedTuple):
    """What would be moved."""

    image: ClusterImage
    """As the quorum begins: every broker away, no partition led."""
    position: LogPosition
    """Where the quorum's log goes on."""
    remarks: tuple[str, ...]
    """What has no place in the quorum, a sentence each."""
    obstacle: str | None
    """Why it cannot be moved now, if so: the cluster runs."""

    @property
    def facts(self) -> int:
        """How many a voter begins with."""
        return sum(1 for _ in facts_of(self.image))


async def survey(session: Ensemble, how_far: HowFar = lambda read, known: None) -> MigrationPlan:
    """Read the tree. Raises StartFailure, and what reading raises: Unreachable, Refused, BadZnode."""
    obstacle = await _obstacle(session)
    named = await session.get(layout.CLUSTER_ID)
    if named is None:
        raise StartFailure("there is no cluster in this tree: /cluster/id is missing; see the address and its chroot.")
    cluster_id = layout.read_cluster_id(named.data)
    tree = dict(sorted((await load_tree(session, how_far)).items()))
    image = _asleep(read_tree(tree, cluster_id, _identities(cluster_id)).image)
    epoch = await session.get(layout.CONTROLLER_EPOCH)
    mark = await session.get(layout.LAST_OFFSET)
    offset = max(
        sum(1 for _ in facts_of(image)),
        0 if mark is None else layout.read_number(layout.LAST_OFFSET, mark.data) + 1,
        *(broker.epoch + 1 for broker in image.brokers.values()),
    )
    number = 0 if epoch is None else layout.read_number(layout.CONTROLLER_EPOCH, epoch.data)
    remarks = [text async for text in _remarks(session)]
    # Who left or came while the tree was read may have changed what had been read.
    obstacle = obstacle or await _obstacle(session)
    return MigrationPlan(image, LogPosition(offset, number), tuple(remarks), obstacle)


async def _obstacle(session: Ensemble) -> str | None:
    living = await session.children(layout.BROKER_IDS)
    if living:
        brokers = f"broker {living[0]} is" if len(living) == 1 else f"brokers {', '.join(living)} are"
        return (
            f"the cluster runs: {brokers} registered in ZooKeeper. Stop every node first; what one that crashed left "
            "there goes when its session ends."
        )
    if await session.get(layout.CONTROLLER) is not None:
        return "the cluster runs: it has a controller in ZooKeeper. Stop every node first."
    return None


async def _remarks(session: Ensemble) -> AsyncIterator[str]:
    for path, what in WITHOUT_PLACE.items():
        found = await session.children(path)
        if found:
            yield f"{what} stay behind: {len(found)} under {path}"
    for path, what in UNFINISHED.items():
        if path == layout.DELETE_TOPICS:
            waiting = await session.children(path)
            if waiting:
                yield f"{what} are moved as they are: {', '.join(waiting)}"
        elif await session.get(path) is not None:
            yield f"{what} is not carried out ({path})"


def _identities(cluster_id: str) -> Iterator[bytes]:
    """Ids for topics from before there were any: the same ones on every machine that asks."""
    number = 0
    while True:
        yield hashlib.sha256(f"{cluster_id} {number}".encode()).digest()[:16]
        number += 1


def _asleep(image: ClusterImage) -> ClusterImage:
    """The same cluster with nobody there, as the quorum would have it after the last broker went."""
    levels = starting_levels()
    return image._replace(
        brokers={number: broker._replace(fenced=True) for number, broker in image.brokers.items()},
        controllers={},
        topics={
            name: topic._replace(partitions=tuple(_unled(partition) for partition in topic.partitions))
            for name, topic in image.topics.items()
        },
        features={**levels, **{name: level for name, level in image.features.items() if name in levels}},
    )


def _unled(partition: PartitionImage) -> PartitionImage:
    if partition.leader == NO_LEADER:
        return partition
    return partition._replace(
        leader=NO_LEADER,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def require_voter(world: World, values: BrokerValues) -> None:
    """See that this node can begin in the quorum. Raises StartFailure."""
    node_id = values.integer("node.id")
    if by_zookeeper(values) or not roles_of(values).controller:
        raise StartFailure(
            f"node {node_id} is no voter by these settings: take zookeeper.connect out, and put "
            "process.roles=broker,controller and the quorum's settings in."
        )
    directory = metadata_log_directory(values)
    if world.disk.exists(directory):
        names = world.disk.list(directory)
        if any(name.endswith((".log", ".checkpoint")) for name in names):
            raise StartFailure(
                f"{directory} holds metadata of a quorum already. If an earlier migration wrote it and the cluster has "
                "not run since, remove that folder and migrate again; otherwise there is nothing to do."
            )


def move(
    world: World,
    values: BrokerValues,
    plan: MigrationPlan,
    wishes: Wishes,
    written: Callable[[int], None] = lambda facts: None,
) -> list[Formatted]:
    """Write the quorum's first snapshot for one voter; its directories stay its own. Blocking. Raises StartFailure.

    `written` is called with how many more facts are on their way to the file.
    """
    if plan.obstacle is not None:
        raise StartFailure(plan.obstacle)
    require_voter(world, values)
    own_id, voters = first_voters(world, values, wishes)
    given = wishes._replace(cluster_id=plan.image.cluster_id, ignore_formatted=True)
    _, directories = give_directories(world, values, given, own_id)
    state = SnapshotState(plan.position, 1 if voters.voters else 0, voters)
    write_first_snapshot(world, values, state, _told(facts_of(plan.image), written))
    return directories


def _told(facts: Iterable[Fact], written: Callable[[int], None]) -> Iterator[Fact]:
    for fact in facts:
        yield fact
        written(1)
