"""Who decides, who follows, and what a deposed controller can still do: nothing."""

import asyncio
import json

import pytest

from kit.machines.clusters import creation, new_topic
from kit.worlds.zookeeper_nodes import Member, MemoryCluster, eventually
from kit.worlds.zookeeper_tree import MemoryTree
from ottla.base.errors import ErrorCode
from ottla.metadata.quorum_events import NotLeader
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.stored.metadata import NoOpRecord
from ottla.zookeeper import layout
from ottla.zookeeper.layout import Move


def epoch(tree: MemoryTree) -> int:
    return int(tree.nodes[layout.CONTROLLER_EPOCH].data)


def holder(tree: MemoryTree) -> int:
    return layout.read_controller(tree.nodes[layout.CONTROLLER].data).broker_id


async def create(member: Member, *names: str) -> list[int]:
    answer = await member.controller.create_topics(creation(*(new_topic(name, 2, 1) for name in names)))
    return [topic.error_code for topic in answer.topics]


async def test_one_node_is_elected_and_all_have_its_decisions() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        assert holder(cluster.tree) == leader.node_id
        assert epoch(cluster.tree) == 1
        await leader.register(leader.controller)
        assert await create(leader, "orders", "bills") == [0, 0]
        await cluster.agreed()
        for member in cluster.members.values():
            assert set(member.loader.image.topics) == {"orders", "bills"}
            assert member.node.leader == (leader.node_id, 1)
            assert member.controller.active == (member is leader)
        assert json.loads(cluster.tree.nodes["/brokers/topics/orders/partitions/1/state"].data)["controller_epoch"] == 1


async def test_when_the_controller_goes_another_begins_with_everything_that_was_decided() -> None:
    async with MemoryCluster() as cluster:
        first = await cluster.leader()
        await first.register(first.controller)
        await create(first, "orders")
        await cluster.agreed()
        image = first.loader.image
        await cluster.crash(first.node_id)
        # The others find that nobody listens there, and need not wait for the end of its session.
        second = await cluster.leader(first.node_id)
        await cluster.agreed()
        assert second.loader.image.topics == image.topics
        assert second.loader.image.offset > image.offset
        assert epoch(cluster.tree) == 2
        assert await create(second, "bills") == [0]
        await cluster.agreed()


async def test_a_controller_that_was_deposed_unseen_cannot_write(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryCluster(session_seconds=60.0, settings={"metadata.max.idle.interval.ms": "0"}) as cluster:
        old = await cluster.leader()
        for member in cluster.members.values():
            await member.register(old.controller)
        assert await create(old, "orders") == [0]
        old.session.oversleep()
        new = await cluster.leader(old.node_id)
        assert old.controller.active, "it does not know"
        assert await create(old, "ghost") == [ErrorCode.NOT_CONTROLLER]
        assert not old.controller.active
        assert cluster.tree.children(layout.TOPICS) == ["orders"]
        assert "a write of the controller of epoch 1 was refused: BadVersion at /controller_epoch" in caplog.text
        with pytest.raises(NotLeader, match="does not lead"):
            old.node.append([NoOpRecord()])
        assert await create(new, "bills") == [0]


async def test_a_write_that_was_under_way_when_the_session_ended_is_refused_by_the_fence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MemoryCluster(session_seconds=60.0) as cluster:
        old = await cluster.leader()
        await old.register(old.controller)
        old.session.suspend()
        waiting = asyncio.create_task(create(old, "ghost"))
        cluster.tree.end_session(old.session.identity)
        new = await cluster.leader(old.node_id)
        assert not waiting.done()
        old.session.expire()
        assert await waiting == [ErrorCode.NOT_CONTROLLER]
        refusal = "a write of the controller of epoch 1 was refused: BadVersion at /controller_epoch"
        await eventually(lambda: refusal in caplog.text, "it was sent again, in the new session")
        assert cluster.tree.children(layout.TOPICS) == []
        assert new.controller.active


async def test_a_controller_learns_from_those_who_have_seen_a_newer_one_that_it_is_none() -> None:
    async with MemoryCluster(1) as cluster:
        leader = await cluster.leader()
        other = Member(cluster, 9, {})
        other.node._follower.epoch = 7
        task = asyncio.create_task(other.node._follower.follow(1, ("memory", 1)))
        await eventually(lambda: epoch(cluster.tree) > 1, "it makes room and is elected anew")
        task.cancel()
        assert leader.node_id == 1


async def test_a_session_that_ended_ends_the_office_and_another_begins() -> None:
    async with MemoryCluster() as cluster:
        first = await cluster.leader()
        first.session.expire()
        assert not first.controller.active
        await cluster.leader()
        await cluster.agreed()
        assert epoch(cluster.tree) >= 2


async def test_a_controller_goes_on_when_the_connection_comes_back_within_its_session() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        leader.session.suspend()
        waiting = asyncio.create_task(create(leader, "orders"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        leader.session.reconnect()
        assert await waiting == [0]
        assert epoch(cluster.tree) == 1


async def test_a_write_whose_answer_was_lost_is_neither_lost_nor_done_twice() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        leader.session.answers_lost = 2
        answers = await asyncio.gather(create(leader, "orders"), create(leader, "bills"), create(leader, "more"))
        assert list(answers) == [[0], [0], [0]]
        assert cluster.tree.children(layout.TOPICS) == ["bills", "more", "orders"]
        assert epoch(cluster.tree) == 1


async def test_without_zookeeper_for_longer_than_a_session_nobody_decides_and_then_somebody_does() -> None:
    async with MemoryCluster(session_seconds=0.1) as cluster:
        leader = await cluster.leader()
        for member in cluster.members.values():
            member.session.suspend()
        await eventually(lambda: not leader.controller.active, "it leads no longer")
        assert await create(leader, "orders") == [ErrorCode.NOT_CONTROLLER]
        for member in cluster.members.values():
            member.session.reconnect()
        again = await cluster.leader()
        await again.register(again.controller)
        assert await create(again, "orders") == [0]


async def test_a_controller_that_the_others_cannot_reach_makes_room() -> None:
    async with MemoryCluster(session_seconds=0.2) as cluster:
        first = await cluster.leader()
        for member in cluster.members.values():
            await member.register(first.controller)
        cluster.cut.add(first.node_id)
        second = await cluster.leader(first.node_id)
        assert second is not first
        assert holder(cluster.tree) == second.node_id


async def test_a_broker_whose_znode_goes_is_fenced_and_cannot_come_back_without_one() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        other = next(member for member in cluster.members.values() if member is not leader)
        await leader.register(leader.controller)
        await other.register(leader.controller)
        assert not leader.loader.image.brokers[other.node_id].fenced
        await other.presence.withdraw()
        await eventually(lambda: leader.loader.image.brokers[other.node_id].fenced, "it is fenced")
        assert not await other.beats(leader.controller)
        await other.register(leader.controller)
        assert not leader.loader.image.brokers[other.node_id].fenced


async def test_a_broker_that_was_unregistered_comes_back_in_the_same_session() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        other = next(member for member in cluster.members.values() if member is not leader)
        await other.register(leader.controller)
        before = other.broker_epoch
        await leader.controller.unregister_broker(UnregisterBrokerRequest(other.node_id))
        await other.register(leader.controller)
        assert other.broker_epoch > before
        assert not leader.loader.image.brokers[other.node_id].fenced


async def test_a_topic_that_another_program_made_is_completed_and_served() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        for member in cluster.members.values():
            await member.register(leader.controller)
        # As Kafka's tools wrote it before topics had ids: no states, no id.
        assigned = {"version": 1, "partitions": {"0": [1, 2], "1": [2, 3]}}
        cluster.tree.create("/brokers/topics/foreign", json.dumps(assigned).encode())
        found = await eventually(lambda: _leader_with(cluster, "foreign"), "a controller that knows it")
        assert found is not None
        topic = found.loader.image.topics["foreign"]
        assert [partition.leader for partition in topic.partitions] == [1, 2]
        written = cluster.tree.nodes[layout.topic_path("foreign")].data
        assert layout.read_topic("foreign", written).topic_id == topic.topic_id
        assert "/brokers/topics/foreign/partitions/1/state" in cluster.tree.nodes


def _leader_with(cluster: MemoryCluster, topic: str) -> Member | None:
    return next(
        (each for each in cluster.members.values() if each.controller.active and topic in each.loader.image.topics),
        None,
    )


async def test_settings_that_another_program_changed_count() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        await create(leader, "orders")
        cluster.tree.create("/config/topics/orders", layout.config_znode({"retention.ms": "5000"}))
        cluster.tree.create(layout.CONFIG_CHANGE, layout.config_change_znode(2, "orders"), sequential=True)

        def changed() -> bool:
            return all(
                member.loader.image.configs.get((2, "orders")) == {"retention.ms": "5000"}
                for member in cluster.members.values()
            )

        await eventually(changed, "every node has the setting")


async def test_requests_in_the_tree_are_carried_out_and_taken_away() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        for member in cluster.members.values():
            await member.register(leader.controller)
        answer = await leader.controller.create_topics(creation(new_topic("going"), new_topic("staying")))
        assert [topic.error_code for topic in answer.topics] == [0, 0]
        tree = cluster.tree
        tree.create(f"{layout.DELETE_TOPICS}/going", b"")
        tree.create(f"{layout.DELETE_TOPICS}/unknown", b"")
        tree.create(layout.PREFERRED_ELECTION, layout.partitions_znode([("staying", 0), ("unknown", 1)]))

        def done() -> bool:
            return not tree.children(layout.DELETE_TOPICS) and layout.PREFERRED_ELECTION not in tree.nodes

        await eventually(done, "the requests are gone")
        assert set(leader.loader.image.topics) == {"staying"}
        assert layout.topic_path("going") not in tree.nodes
        assert epoch(tree) == 1


def listed(tree: MemoryTree) -> list[Move]:
    """What is left of the request for other replicas."""
    found = tree.nodes.get(layout.REASSIGN_PARTITIONS)
    return [] if found is None else layout.read_reassignment(found.data)


async def propose_in_sync(cluster: MemoryCluster, leader: Member, topic: str, in_sync: list[int]) -> None:
    """As the leader of partition 0 does."""
    image = leader.loader.image.topics[topic]
    partition = image.partitions[0]
    states = [BrokerState(number, -1) for number in in_sync]
    state = PartitionData(
        0, partition.leader_epoch, new_isr_with_epochs=states, partition_epoch=partition.partition_epoch
    )
    epoch_of_broker = cluster.members[partition.leader].broker_epoch
    request = AlterPartitionRequest(partition.leader, epoch_of_broker, [TopicData(image.topic_id, [state])])
    answer = await leader.controller.alter_partition(request, 3)
    assert answer.topics[0].partitions[0].error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)


async def test_a_request_for_other_replicas_stays_in_the_tree_with_what_is_left_of_it_until_all_of_it_is_done() -> None:
    async with MemoryCluster() as cluster:
        first = await cluster.leader()
        for member in cluster.members.values():
            await member.register(first.controller)
        names = ("one", "two", "three")
        made = await first.controller.create_topics(
            creation(*(new_topic(name, -1, -1, assignments=[(0, [1, 2])]) for name in names))
        )
        assert [topic.error_code for topic in made.topics] == [0, 0, 0]
        moves = [Move(name, 0, (2, 3)) for name in names]
        refused = [Move("unknown", 0, (1,)), Move("one", 7, (1,)), Move("two", 0, (9,))]
        cluster.tree.create(layout.REASSIGN_PARTITIONS, layout.reassignment_znode([*moves, *refused]))
        await eventually(lambda: listed(cluster.tree) == moves, "only what is under way is left")
        assert all(first.loader.image.topics[name].partitions[0].adding == (3,) for name in names)
        # The next controller finds it there and goes on with it.
        first.session.expire()
        second = await cluster.leader()
        for member in cluster.members.values():
            await member.register(second.controller)
        await propose_in_sync(cluster, second, "one", [1, 2, 3])
        await eventually(lambda: listed(cluster.tree) == moves[1:], "one is done")
        cancelled = ReassignableTopic("two", [ReassignablePartition(0, None)])
        await second.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=[cancelled]))
        await eventually(lambda: listed(cluster.tree) == moves[2:], "another is wanted no longer")
        elsewhere = ReassignableTopic("three", [ReassignablePartition(0, [3, 1])])
        await second.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=[elsewhere]))
        await eventually(lambda: layout.REASSIGN_PARTITIONS not in cluster.tree.nodes, "nothing is left of it")
        replicas = [second.loader.image.topics[name].partitions[0].replicas for name in names]
        assert replicas == [(2, 3), (2, 1), (3, 1, 2)]
        # And another request is seen; one that nobody has to wait for is over at once.
        stays = second.loader.image.topics["two"].partitions[0].in_sync[:1]
        cluster.tree.create(layout.REASSIGN_PARTITIONS, layout.reassignment_znode([Move("two", 0, stays)]))
        await eventually(lambda: layout.REASSIGN_PARTITIONS not in cluster.tree.nodes, "it is carried out")
        assert second.loader.image.topics["two"].partitions[0].replicas == stays


async def test_a_request_that_cannot_be_read_stands_in_nobodys_way() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        cluster.tree.create(layout.REASSIGN_PARTITIONS, b"nonsense")
        await eventually(lambda: layout.REASSIGN_PARTITIONS not in cluster.tree.nodes, "it is taken away")
        assert await create(leader, "orders") == [0]


async def test_a_tree_that_cannot_be_read_makes_no_controller() -> None:
    async with MemoryCluster(0) as cluster:
        cluster.tree.create("/brokers/topics/bad", b"nonsense", makepath=True)
        member = cluster.add(1)
        await eventually(lambda: layout.CONTROLLER_EPOCH in cluster.tree.nodes and epoch(cluster.tree) > 0, "it tried")
        await eventually(lambda: layout.CONTROLLER not in cluster.tree.nodes, "it makes room")
        assert not member.controller.active


async def test_what_only_a_quorum_can_tell_is_refused() -> None:
    async with MemoryCluster(1) as cluster:
        leader = await cluster.leader()
        answer = await leader.node.handle(DescribeQuorumRequest(), 2)
        assert isinstance(answer, DescribeQuorumResponse)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "ZooKeeper" in (answer.error_message or "")


async def test_a_node_that_stops_leaves_its_office_at_once() -> None:
    async with MemoryCluster() as cluster:
        first = await cluster.leader()
        del cluster.members[first.node_id]
        await first.node.stop()
        second = await cluster.leader()
        assert second is not first
        await cluster.agreed()


async def test_changes_of_in_sync_sets_are_told_and_taken_away_and_those_of_others_are_believed() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        for member in cluster.members.values():
            await member.register(leader.controller)
        await leader.controller.create_topics(creation(new_topic("orders", -1, -1, assignments=[(0, [1, 2])])))
        partition = leader.loader.image.topics["orders"].partitions[0]
        await propose_in_sync(cluster, leader, "orders", [1])
        assert leader.loader.image.topics["orders"].partitions[0].in_sync == (1,)
        told = [operation for written in cluster.tree.writes for operation in written]
        assert any(operation.path == layout.IN_SYNC_CHANGE for operation in told)
        await eventually(lambda: not cluster.tree.children(layout.IN_SYNC_CHANGES), "it is taken away")
        assert epoch(cluster.tree) == 1
        # As a broker of Kafka did that wrote the state itself.
        path = layout.state_path("orders", 0)
        cluster.tree.write(path, layout.state_znode(partition._replace(in_sync=(1, 2)), 1))
        cluster.tree.create(layout.IN_SYNC_CHANGE, layout.partitions_znode([("orders", 0)]), sequential=True)

        def believed() -> bool:
            images = [member.loader.image for member in cluster.members.values()]
            return all(image.topics["orders"].partitions[0].in_sync == (1, 2) for image in images)

        await eventually(believed, "every node has the set")


async def test_a_decision_larger_than_a_request_may_be_is_stored_in_portions_and_told_as_one() -> None:
    async with MemoryCluster() as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        before = len(cluster.tree.writes)
        answer = await leader.controller.create_topics(creation(new_topic("wide", 2000, 1)))
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert len(cluster.tree.writes) - before > 1
        await cluster.agreed()
        assert all(len(member.loader.image.topics["wide"].partitions) == 2000 for member in cluster.members.values())
        deleted = await leader.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("wide")]), 6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert cluster.tree.children(layout.TOPICS) == []
        assert cluster.tree.children(layout.DELETE_TOPICS) == []
        assert epoch(cluster.tree) == 1


async def test_a_controller_that_died_within_a_decision_is_completed_by_the_next() -> None:
    async with MemoryCluster(1) as cluster:
        first = await cluster.leader()
        await first.register(first.controller)
        await first.controller.create_topics(creation(new_topic("wide", 20, 1), new_topic("going", 2, 1)))
        image = first.loader.image
        await cluster.crash(1)
        for number in range(10, 20):
            cluster.tree.remove(layout.state_path("wide", number))
            cluster.tree.remove(layout.partition_path("wide", number))
        cluster.tree.create(f"{layout.DELETE_TOPICS}/going", b"")
        cluster.tree.remove(layout.state_path("going", 1))
        cluster.add(2)
        second = await cluster.leader(1)
        topics = second.loader.image.topics
        assert len(topics["wide"].partitions) == 20
        assert topics["wide"].topic_id == image.topics["wide"].topic_id
        await eventually(lambda: "going" not in second.loader.image.topics, "what was being removed goes")
        assert cluster.tree.children(layout.TOPICS) == ["wide"]


async def test_old_notifications_about_settings_are_swept() -> None:
    async with MemoryCluster(1) as cluster:
        leader = await cluster.leader()
        await leader.register(leader.controller)
        await create(leader, "orders")
        before = set(cluster.tree.children(layout.CONFIG_CHANGES))
        cluster.tree.now_ms -= 16 * 60 * 1000
        cluster.tree.create(layout.CONFIG_CHANGE, layout.config_change_znode(2, "orders"), sequential=True)
        cluster.tree.now_ms += 16 * 60 * 1000
        cluster.tree.create(layout.CONFIG_CHANGE, layout.config_change_znode(2, "orders"), sequential=True)
        old, young = sorted(set(cluster.tree.children(layout.CONFIG_CHANGES)) - before)
        await eventually(lambda: old not in cluster.tree.children(layout.CONFIG_CHANGES), "the old one is gone")
        assert young in cluster.tree.children(layout.CONFIG_CHANGES)
        assert epoch(cluster.tree) == 1
