"""A new cluster begins only where there is no data of another: not by half a migration, nor where metadata was lost."""

import pytest

from kit.worlds.cluster_stories import TOLD, ClusterStory
from ottla.metadata.image import ClusterImage
from ottla.metadata.snapshot import facts_of
from ottla.node.formatting import write_first_snapshot
from ottla.quorum.snapshots import SnapshotState
from ottla.raft.log_view import LogPosition
from ottla.raft.voters import VoterSet
from ottla.sim.cluster import SimNode

BOTH = "broker,controller"
METADATA = "/data/__cluster_metadata-0"


def migrate(node: SimNode, image: ClusterImage) -> None:
    """What `ottla quorum migrate` leaves for a voter: everything of a cluster in which nobody is there."""
    for name, topic in image.topics.items():
        asleep = tuple(each._replace(leader=-1, in_sync=each.replicas, eligible=()) for each in topic.partitions)
        image = image._replace(topics={**image.topics, name: topic._replace(partitions=asleep)})
    brokers = {number: broker._replace(fenced=True) for number, broker in image.brokers.items()}
    position = SnapshotState(LogPosition(3 * (1 << 40), 3), 0, VoterSet())
    write_first_snapshot(node.world, node.values, position, facts_of(image._replace(brokers=brokers)))


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_voters_without_metadata_found_no_cluster_over_the_data_of_another(order: tuple[int, int]) -> None:
    """Only the first of three voters was migrated, and the others are started before it."""
    with ClusterStory(roles=(BOTH,) * 3, assignment=(1, 2, 3)) as story:
        written = story.write(10)
        nodes = story.cluster.nodes
        assembly = nodes[0].assembly
        assert assembly is not None
        image = assembly.loader.image
        for number in (3, 2, 1):
            story.stop(number).disk.lose(METADATA)
        migrate(nodes[0], image)
        refused = [story.nodes[number] for number in order]
        for node in refused:
            node.boot()
        story.until(lambda: any(node.failure for node in refused), "one that would found a cluster says why not")
        for node in refused:
            assert str(TOLD) in node.disk.list("/data"), "nothing was put aside"
            assert node.failure is None or "it does not found a new cluster over the data of another" in node.failure
        story.nodes[1].boot()

        def all_serve() -> bool:
            for node in nodes:
                if not node.alive:
                    node.boot()
            return all(node.ready for node in nodes)

        story.until(all_serve, "with the one that was migrated they all serve")
        story.until(lambda: len(story.state().in_sync) == 3, "all are in sync")
        assert [story.end(number) for number in (1, 2, 3)] == [written] * 3


def test_a_broker_does_not_serve_a_cluster_that_began_after_its_own_data() -> None:
    """The controllers hold no data that would keep them from founding one."""
    story = ClusterStory()
    with story:
        story.write(10)
        for number in (2, 3, 4, 1):
            story.stop(number)
        story.nodes[1].replace_disk()
        story.nodes[1].boot()
        story.until(lambda: story.nodes[1].ready, "a new cluster begins")
        broker = story.nodes[2]
        broker.disk.lose(METADATA)
        broker.boot()
        story.until(lambda: story.cluster.failures, "the broker does not start")
        (failure,) = story.cluster.failures
        assert "it is not that of this data" in failure
        assert str(TOLD) in broker.disk.list("/data"), "nothing was put aside"
        story.cluster.failures.clear()


def test_a_voter_whose_metadata_alone_was_lost_gets_it_from_the_others() -> None:
    with ClusterStory({"metadata.log.dir": "/metadata"}, roles=(BOTH,) * 3, assignment=(1, 2, 3)) as story:
        written = story.write(10)
        story.stop(1).disk.lose("/metadata/__cluster_metadata-0")
        story.boot(1)
        story.until(lambda: len(story.state().in_sync) == 3, "all are in sync")
        assert story.end(1) == written
