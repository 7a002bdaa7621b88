"""The numbers of a controller and of a node's part in the quorum.

Owns: what only the active controller tells, so that sums over all nodes are right. Never knows: how numbers are asked
for. Invariant: nothing here changes anything.
"""

from collections.abc import Iterator

from ottla.controller.controller import Controller
from ottla.metadata.image import NO_LEADER
from ottla.node.metrics import families
from ottla.node.metrics.exposition import Page
from ottla.quorum.node import QuorumNode
from ottla.raft.progress import ReplicaDescription


def write_controller(page: Page, controller: Controller) -> Iterator[None]:
    active = controller.active
    page.number(families.ACTIVE_CONTROLLER, int(active))
    page.number(families.COMMITTED_OFFSET, controller.image.offset)
    page.number(families.ELECTIONS, controller.elections)
    page.number(families.UNCLEAN_ELECTIONS, controller.unclean_elections)
    topics = offline = imbalance = count = serving = fenced = 0
    if active:
        topics = len(controller.image.topics)
        for topic in controller.image.topics.values():
            count += len(topic.partitions)
            offline += sum(partition.leader == NO_LEADER for partition in topic.partitions)
            imbalance += sum(partition.leader != partition.replicas[0] for partition in topic.partitions)
            yield
        fenced = sum(broker.fenced for broker in controller.image.brokers.values())
        serving = len(controller.image.brokers) - fenced
        page.number(families.BROKERS, serving)
    page.number(families.TOPIC_COUNT, topics)
    page.number(families.GLOBAL_PARTITIONS, count)
    page.number(families.OFFLINE_PARTITIONS, offline)
    page.number(families.IMBALANCE, imbalance)
    page.number(families.ACTIVE_BROKERS, serving)
    page.number(families.FENCED_BROKERS, fenced)


def write_quorum(page: Page, quorum: QuorumNode, now: float) -> Iterator[None]:
    raft = quorum.raft
    role = raft.role.name.lower()
    if role == "follower" and not raft.is_voter:
        role = "observer"
    page.all_series(families.RAFT_STATE, [((role,), 1)])
    page.number(families.RAFT_LEADER, raft.leader_id)
    page.number(families.RAFT_EPOCH, raft.epoch)
    page.number(families.RAFT_WATERMARK, raft.high_watermark)
    page.number(families.RAFT_END, quorum.end_offset)
    yield
    seen = raft.describe(now)
    replicas: list[tuple[str, ReplicaDescription]] = []
    if seen is not None:
        replicas = [*(("voter", each) for each in seen.voters), *(("observer", each) for each in seen.observers)]
    end = quorum.end_offset
    page.all_series(
        families.QUORUM_LAG,
        (((each.key.node_id, kind), max(end - max(each.end_offset, 0), 0)) for kind, each in replicas),
    )
    page.all_series(
        families.QUORUM_AGE,
        (
            ((each.key.node_id, kind), round(each.since_fetch, 3))
            for kind, each in replicas
            if each.since_fetch is not None
        ),
    )
