"""A controller between the beginning and the end of its leadership: answers, sessions, chores, and what others hear."""

from collections.abc import Iterator

import pytest

from kit.machines.clusters import applied, cluster, creation, new_topic, registration
from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.metadata.image import NO_LEADER, ResourceType
from ottla.metadata.snapshot import facts_of
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest
from ottla.wire.stored.metadata import AbortTransactionRecord, NoOpRecord
from unit.controller.offices import Office, voters

SESSION = 9.0


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.close()


def orders(replicas: list[int]) -> CreateTopicsRequest:
    return creation(new_topic("orders", -1, -1, assignments=[(0, replicas)]))


# --- answers ---


def test_the_first_leader_of_an_empty_log_gives_the_cluster_its_first_facts(office: Office) -> None:
    assert office.image.features["metadata.version"] == 30
    assert office.image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}


def test_a_later_leader_does_not(office: Office) -> None:
    office.do(office.quorum.lose)
    offset = office.image.offset
    office.do(office.quorum.lead)
    office.wait(0.1)

    assert office.image.offset == offset


def test_an_answer_leaves_when_its_facts_are_agreed_on_and_the_image_has_them(office: Office) -> None:
    office.join(1)
    office.quorum.patient = True
    heard: list[bool] = []
    answer = office.begin(office.controller.create_topics(creation("orders")))
    office.controller.subscribe(lambda delta, image: heard.append(answer.done()))

    assert not answer.done()
    assert "orders" not in office.image.topics
    office.do(office.quorum.agree)
    office.wait(0.01)
    assert answer.result().topics[0].error_code == ErrorCode.NONE
    assert "orders" in office.image.topics
    assert heard == [False]


def test_a_refusal_waits_for_the_facts_that_it_rests_on(office: Office) -> None:
    office.join(1)
    office.quorum.patient = True
    office.begin(office.controller.create_topics(creation("orders")))
    second = office.begin(office.controller.create_topics(creation("orders")))

    assert not second.done()
    office.do(office.quorum.agree)
    office.wait(0.01)
    assert second.result().topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_who_waits_when_leadership_is_lost_is_sent_away_and_nothing_of_it_remains(office: Office) -> None:
    office.join(1)
    office.quorum.patient = True
    answer = office.begin(office.controller.create_topics(creation("orders")))

    office.do(office.quorum.lose)
    office.wait(0.01)

    assert answer.result().topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not office.controller.active
    office.quorum.patient = False
    office.do(office.quorum.lead)
    again = office.run(office.controller.create_topics(creation("orders")))
    assert again.topics[0].error_code == ErrorCode.NONE


def test_facts_that_a_lost_leadership_left_behind_may_still_come(office: Office) -> None:
    office.join(1)
    office.quorum.patient = True
    answer = office.begin(office.controller.create_topics(creation("orders")))
    left = list(office.quorum.waiting)
    office.do(office.quorum.lose)
    office.wait(0.01)

    office.do(lambda: office.controller.committed(left))

    assert answer.result().topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert "orders" in office.image.topics


def test_a_controller_that_does_not_lead_answers_so_in_every_reply() -> None:
    office = Office(leads=False)
    controller, error = office.controller, ErrorCode.NOT_CONTROLLER
    named = ElectLeadersRequest(0, [TopicPartitions("orders", [0])])
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic("orders", 5, None)])
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])

    assert office.run(controller.register_broker(registration(1))).error_code == error
    assert office.run(controller.broker_heartbeat(BrokerHeartbeatRequest(1, 1, 1))).error_code == error
    assert office.run(controller.unregister_broker(UnregisterBrokerRequest(1))).error_code == error
    assert office.run(controller.controller_registration(ControllerRegistrationRequest(1))).error_code == error
    assert office.run(controller.alter_partition(AlterPartitionRequest(1, 1), 3)).error_code == error
    assert office.run(controller.assign_replicas_to_dirs(AssignReplicasToDirsRequest(1, 1))).error_code == error
    assert office.run(controller.list_partition_reassignments(ListPartitionReassignmentsRequest())).error_code == error
    reassigned = office.run(controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest()))
    assert reassigned.error_code == error
    assert office.run(controller.allocate_producer_ids(AllocateProducerIdsRequest(1, 1))).error_code == error
    assert office.run(controller.update_features(UpdateFeaturesRequest(), 2)).error_code == error
    assert office.run(controller.create_topics(creation("orders"))).topics[0].error_code == error
    assert office.run(controller.create_partitions(grown)).results[0].error_code == error
    assert office.run(controller.delete_topics(deleted, 6)).responses[0].error_code == error
    elected = office.run(controller.elect_leaders(named, 2))
    assert (elected.error_code, elected.replica_election_results[0].partition_result[0].error_code) == (error, error)
    office.close()


def test_a_disk_that_fails_is_told_when_there_is_no_other_controller(office: Office) -> None:
    failure = StorageFailure("somewhere", 5, "sync failed")
    office.quorum.failure = failure
    assert office.run(office.controller.unregister_broker(UnregisterBrokerRequest(1))).error_code == 102
    assert office.run(office.controller.register_broker(registration(1))).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    office.quorum.damaged = failure
    office.do(office.quorum.lose)
    assert office.run(office.controller.register_broker(registration(1))).error_code == ErrorCode.NOT_CONTROLLER
    office.quorum.voters = voters(1)
    assert office.run(office.controller.register_broker(registration(1))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_transaction_that_another_leader_left_open_is_aborted() -> None:
    office = Office(leads=False)
    office.quorum.interrupted = True
    office.do(office.quorum.lead)
    office.wait(0.01)

    assert isinstance(office.quorum.stored[0].facts[0], AbortTransactionRecord)
    assert office.image.features
    office.close()


def test_a_snapshot_replaces_the_image() -> None:
    office = Office(leads=False)
    there = applied([], cluster(2))
    heard: list[set[int]] = []
    office.controller.subscribe(lambda delta, image: heard.append(delta.changed_brokers))

    office.do(lambda: office.controller.snapshot(facts_of(there), 50, 3))

    assert office.image == there._replace(offset=50, epoch=3)
    assert heard == [{1, 2}]
    office.close()


# --- brokers that come and go ---


def test_a_broker_that_falls_silent_is_fenced_and_others_lead(office: Office) -> None:
    office.join(1, 2)
    office.run(office.controller.create_topics(orders([1, 2])))
    office.wait(SESSION - 1)
    office.beat(2)
    assert not office.image.brokers[1].fenced

    office.wait(2)

    assert office.image.brokers[1].fenced
    assert not office.image.brokers[2].fenced
    partition = office.image.topics["orders"].partitions[0]
    assert (partition.leader, partition.in_sync) == (2, (2,))


def test_a_broker_that_is_heard_again_takes_part_again(office: Office) -> None:
    office.join(1)
    office.wait(SESSION + 1)
    assert office.image.brokers[1].fenced

    assert not office.beat(1).is_fenced
    assert not office.image.brokers[1].fenced


def test_heartbeats_keep_a_session_open(office: Office) -> None:
    office.join(1)
    for _ in range(10):
        office.wait(SESSION / 3)
        office.beat(1)

    assert not office.image.brokers[1].fenced


def test_a_broker_that_is_certainly_gone_is_fenced_at_once(office: Office) -> None:
    office.join(1, 2)
    office.run(office.controller.create_topics(orders([1, 2])))

    office.do(lambda: office.controller.broker_lost(1, "refused"))
    office.wait(0.01)

    assert office.image.topics["orders"].partitions[0].leader == 2
    office.do(lambda: office.controller.broker_lost(77, "never seen"))


def test_an_id_is_free_when_its_session_ended_and_not_before(office: Office) -> None:
    office.join(1)
    other = registration(1, incarnation=5)
    other.listeners[0].port = 1

    refused = office.run(office.controller.register_broker(other))
    office.wait(SESSION + 1)
    taken = office.run(office.controller.register_broker(other))

    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert (taken.error_code, office.image.brokers[1].incarnation_id) == (ErrorCode.NONE, other.incarnation_id)


def test_brokers_that_all_restarted_join_a_new_leader_at_once(office: Office) -> None:
    office.join(1, 2)
    office.do(office.quorum.lose)
    office.do(office.quorum.lead)

    office.join_again(1)
    office.join_again(2)

    assert not office.image.brokers[1].fenced
    assert not office.image.brokers[2].fenced


def test_a_new_leader_gives_every_broker_a_whole_session(office: Office) -> None:
    office.join(1)
    office.wait(SESSION - 1)
    office.do(office.quorum.lose)
    office.do(office.quorum.lead)

    office.wait(SESSION - 1)
    assert not office.image.brokers[1].fenced
    office.wait(2)
    assert office.image.brokers[1].fenced


def test_a_broker_stops_when_the_others_know_who_leads(office: Office) -> None:
    office.join(1, 2)
    office.run(office.controller.create_topics(orders([1, 2])))
    before = office.image.offset

    assert not office.beat(1, stop=True).should_shut_down
    assert office.image.topics["orders"].partitions[0].leader == 2
    office.beat(2, offset=before)
    assert not office.beat(1, stop=True).should_shut_down
    office.beat(2)
    assert office.beat(1, stop=True).should_shut_down
    assert office.image.brokers[1].fenced


def test_a_broker_can_be_unregistered(office: Office) -> None:
    office.join(1)

    assert office.run(office.controller.unregister_broker(UnregisterBrokerRequest(1))).error_code == ErrorCode.NONE
    assert 1 not in office.image.brokers
    office.wait(2 * SESSION)


# --- chores ---


def test_leadership_returns_to_the_first_replica_by_itself() -> None:
    office = Office({"leader.imbalance.check.interval.seconds": "5", "broker.session.timeout.ms": "3600000"})
    office.join(1, 2)
    office.run(office.controller.create_topics(orders([1, 2])))
    office.do(lambda: office.controller.broker_lost(1, "refused"))
    office.join_again(1)
    office.follow("orders", 1)
    assert office.image.topics["orders"].partitions[0].leader == 2

    office.wait(6)

    assert office.image.topics["orders"].partitions[0].leader == 1
    office.close()


def test_partitions_without_a_leader_get_an_unclean_one_where_that_is_wanted() -> None:
    office = Office({"unclean.leader.election.interval.ms": "5000", "broker.session.timeout.ms": "3600000"})
    office.join(1, 2)
    office.run(office.controller.create_topics(orders([1, 2])))
    office.do(lambda: office.controller.broker_lost(2, "refused"))
    office.do(lambda: office.controller.broker_lost(1, "refused"))
    office.join_again(2)
    assert office.image.topics["orders"].partitions[0].leader == NO_LEADER

    office.configure("orders", "unclean.leader.election.enable", "true")
    office.wait(6)

    assert office.image.topics["orders"].partitions[0].leader == 2
    office.close()


def test_an_idle_controller_shows_that_it_lives_to_those_who_follow(office: Office) -> None:
    office.wait(5)
    signs = [batch for batch in office.quorum.stored if isinstance(batch.facts[0], NoOpRecord)]

    assert 8 <= len(signs) <= 10
    assert office.image.offset == office.quorum.stored[-1].offset


def test_a_node_that_is_its_whole_cluster_stays_silent() -> None:
    office = Office(leads=False)
    office.quorum.voters = voters(1)
    office.do(office.quorum.lead)
    office.wait(0.1)
    stored = len(office.quorum.stored)

    office.wait(30)

    assert len(office.quorum.stored) == stored
    office.close()


def test_no_chore_outlives_its_leadership(office: Office) -> None:
    office.join(1)
    office.do(office.quorum.lose)
    stored = len(office.quorum.stored)

    office.wait(3600)

    assert len(office.quorum.stored) == stored
    assert not office.image.brokers[1].fenced


def test_a_node_that_ends_does_no_chores(office: Office) -> None:
    office.join(1)
    office.do(office.controller.stop)
    stored = len(office.quorum.stored)

    office.wait(3600)

    assert len(office.quorum.stored) == stored


def test_a_chore_that_cannot_be_stored_is_done_later(office: Office) -> None:
    office.join(1)
    office.quorum.failure = StorageFailure("somewhere", 28, "No room")
    office.wait(SESSION + 1)
    assert not office.image.brokers[1].fenced

    office.quorum.failure = None
    office.wait(1)
    assert office.image.brokers[1].fenced
