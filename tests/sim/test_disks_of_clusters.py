"""Disks of a cluster's brokers that are replaced, that fail, and that come back with less than they had.

Whatever happens to the disk of one broker, nothing that was acknowledged is lost, and every partition is led.
"""

import errno

import pytest

from kit.worlds.cluster_stories import TOLD, ClusterStory
from ottla.metadata.image import NO_LEADER
from ottla.sim.cluster import SimNode

L, F, X = 2, 3, 4
"""The leader, the follower that the story is about, and the other one."""


def test_disks_may_be_replaced_one_broker_after_the_other() -> None:
    with ClusterStory() as story:
        written = story.write(20)
        for number in (L, F, X):
            story.stop(number).replace_disk()
            story.boot(number)
            story.until(lambda: len(story.state().in_sync) == 3, "all are in sync again")
            assert story.state().leader != NO_LEADER
        assert story.write(1) == written + 1
        for number in (L, F, X):
            for other in {L, F, X} - {number}:
                story.stop(other)
            assert story.state().leader == number, "it leads from its new disk"
            assert story.end(number) == written + 1
            story.boot(*({L, F, X} - {number}))
            story.until(lambda: len(story.state().in_sync) == 3, "all are in sync again")


@pytest.mark.parametrize("directories", ["/one", "/one,/two"])
def test_a_directory_that_fails_moves_leadership_at_once_and_another_serves_on(directories: str) -> None:
    with ClusterStory({"log.dirs": f"{directories},/three", "metadata.log.dir": "/metadata"}) as story:
        written = story.write(5)
        log = story.log(L)
        assert log is not None
        bad = log.directory.rsplit("/", 1)[0]
        story.nodes[L].disk.fault = lambda operation, path: errno.EIO if path.startswith(bad) else 0
        story.until(lambda: _written(story), "a write succeeds", seconds=3)
        assert (story.state().leader, story.state().in_sync) == (F, (F, X))
        assert story.end(F) > written
        assert story.nodes[L].alive, "its other directory serves"


def _written(story: ClusterStory) -> bool:
    try:
        story.write(1)
    except Exception:  # whatever a client is told while nobody leads
        return False
    return True


def test_the_last_in_sync_replica_on_a_new_disk_does_not_lead_with_nothing() -> None:
    """The two others have all but the last record; with an empty leader they would cut it all."""
    with ClusterStory({"min.insync.replicas": "1"}) as story:
        written = story.write(20)
        story.kill(F)
        story.kill(X)
        story.write(1)
        story.nodes[L].kill()
        story.until(lambda: story.state().leader == NO_LEADER, "nobody leads")
        story.boot(F, X)
        story.nodes[L].replace_disk()
        story.boot(L)
        story.run(10)
        assert story.state().leader == NO_LEADER
        assert (story.end(F), story.end(X)) == (written, written)


@pytest.mark.parametrize("damage", ["a byte", "the folder", "the disk attached anew"])
@pytest.mark.parametrize("again", [False, True])
def test_a_killed_broker_vouches_only_for_what_it_has_read(damage: str, again: bool) -> None:
    """One of three that were killed is back first, with less than was acknowledged: it waits for one that has all."""
    with ClusterStory() as story:
        written = story.write(20)
        for number in (X, F):
            story.kill(number)
        story.run(0.5)
        story.nodes[L].kill()
        story.until(lambda: story.state().leader == NO_LEADER, "nobody leads")
        node = story.nodes[F]
        if damage == "a byte":
            node.disk.damage(f"/data/{TOLD}/{0:020d}.log", 3000)
        elif damage == "the folder":
            node.disk.lose(f"/data/{TOLD}")
        else:
            node.place = "second"
            node.disk.lose(f"/data/{TOLD}/{0:020d}.log")
        node.boot()
        if again:
            # Killed once more, in the middle of its start, with the damage cut away.
            story.until(lambda: node.assembly is not None and _loaded(node), "its logs are loaded")
            node.kill()
            node.boot()
        story.until(lambda: node.ready, "it serves")
        story.run(5)
        assert story.state().leader == NO_LEADER
        story.boot(L, X)
        story.until(lambda: len(story.state().in_sync) == 3, "all are in sync again")
        assert [story.end(number) for number in (L, F, X)] == [written] * 3


def _loaded(node: SimNode) -> bool:
    assert node.assembly is not None
    return bool(node.assembly.store.logs)


def test_a_broker_that_was_killed_and_has_all_is_elected_at_once() -> None:
    with ClusterStory() as story:
        written = story.write(20)
        for number in (X, F):
            story.kill(number)
        story.nodes[L].kill()
        story.until(lambda: story.state().leader == NO_LEADER, "nobody leads")
        story.boot(F)
        story.until(lambda: story.state().leader == F, "it leads")
        assert story.end(F) == written


def _known_end(story: ClusterStory, follower: int) -> int:
    """How far the leader knows a follower to be."""
    assembly = story.nodes[L].assembly
    assert assembly is not None
    assert assembly.broker is not None
    partition = assembly.broker.partitions.get(TOLD)
    assert partition is not None
    assert partition.leading is not None
    return partition.leading.followers[follower].end_offset


def test_a_follower_that_waits_to_join_and_loses_its_log_does_not_join() -> None:
    """The leader cannot reach the controller. Its proposal is true when it is made, and false when it is sent."""
    settings = {"replica.fetch.max.bytes": "1500", "replica.fetch.response.max.bytes": "3000"}
    with ClusterStory(settings, topics=("before", TOLD.topic)) as story:
        story.write(3, "before")
        story.write(3)
        story.part(L, F)
        story.write(2, "before")
        story.write(20)
        for topic in ("before", TOLD.topic):
            story.until(lambda topic=topic: F not in story.state(topic).in_sync, "the follower is out")  # type: ignore[misc]
        written = story.write(100)
        story.part(L, 1)
        story.network.weather.delay = (0.01, 0.012)
        story.join(L, F)
        story.until(lambda: story.end(F) == written, "the follower has caught up")
        story.run(0.1)
        node = story.nodes[F]
        node.kill()
        node.disk.lose(f"/data/{TOLD}")
        story.until(lambda: story.image.brokers[F].fenced, "the follower is missed")
        node.boot()
        story.until(lambda: _known_end(story, F) < written, "the follower begins anew, as the leader sees")
        story.join(L, 1)
        story.until(lambda: F in story.state().in_sync, "the follower is in sync again")
        assert story.end(F) == written
        story.nodes[L].kill()
        story.until(lambda: story.state().leader in (F, X), "another one leads")
        story.run(2)
        assert story.end(story.state().leader) == written
