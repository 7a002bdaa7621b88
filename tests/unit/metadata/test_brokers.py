"""Brokers join, take part, pause and leave: who is refused and why, and what a heartbeat brings about."""

import pytest

from kit.machines.clusters import applied, cluster, directory_id, registration
from kit.machines.partition_states import after, place, with_partition
from ottla.base.errors import ErrorCode
from ottla.metadata import brokers
from ottla.metadata.brokers import HeartbeatState, RegisteredProcess
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.controller_registration import Feature as ControllerFeature
from ottla.wire.messages.controller_registration import Listener as ControllerListener
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord, FeatureLevelRecord

ALONE = HeartbeatState(None, 1 << 60)
ELSEWHERE = [Listener("PLAINTEXT", "other.test", 9092, 0)]


def register(
    request: BrokerRegistrationRequest, image: ClusterImage, holder: RegisteredProcess = RegisteredProcess.GONE
) -> ErrorCode:
    return ErrorCode(brokers.register(request, place(image), 99, holder).reply.error_code)


def heartbeat(
    image: ClusterImage, broker_id: int = 1, *, standing: HeartbeatState = ALONE, **fields: object
) -> tuple[ClusterImage, BrokerHeartbeatResponse]:
    epoch = image.brokers[broker_id].epoch
    request = BrokerHeartbeatRequest(broker_id, epoch, 1000)
    for name, value in fields.items():
        setattr(request, name, value)
    facts, reply = brokers.heartbeat(request, place(image), standing)
    return applied(facts, image), reply


def test_a_new_broker_is_registered_and_fenced_until_it_is_heard() -> None:
    facts, reply = brokers.register(registration(1, "west"), place(cluster(0)), 7, RegisteredProcess.GONE)

    broker = applied(facts, cluster(0)).brokers[1]
    assert (reply.error_code, reply.broker_epoch, broker.epoch) == (ErrorCode.NONE, 7, 7)
    assert (broker.fenced, broker.rack, broker.directories) == (True, "west", (directory_id(1),))
    assert broker.listeners == {"PLAINTEXT": ("broker.test", 9092)}


def test_the_process_that_has_the_id_may_say_something_new_of_itself() -> None:
    image = cluster(1)
    request = registration(1, "east")

    facts, reply = brokers.register(request, place(image), 99, RegisteredProcess.ALIVE)

    broker = applied(facts, image).brokers[1]
    assert (reply.broker_epoch, broker.epoch, broker.rack, broker.fenced) == (1, 1, "east", False)


def test_an_id_is_not_taken_from_a_broker_that_lives() -> None:
    request = registration(1, incarnation=9)
    request.listeners = ELSEWHERE

    assert register(request, cluster(1), RegisteredProcess.ALIVE) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(request, cluster(1), RegisteredProcess.UNHEARD) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(request, cluster(1)) == ErrorCode.NONE


def test_a_process_at_the_address_of_one_that_was_not_heard_has_taken_its_place() -> None:
    request = registration(1, incarnation=9)

    assert register(request, cluster(1), RegisteredProcess.UNHEARD) == ErrorCode.NONE
    assert register(request, cluster(1), RegisteredProcess.ALIVE) == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_broker_of_another_cluster_is_refused() -> None:
    request = registration(2)
    request.cluster_id = "another"

    assert register(request, cluster(1)) == ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize(
    "directories",
    [[], [directory_id(2), directory_id(2)], [bytes(16)], [bytes(15) + b"\x01"], [directory_id(1)]],
    ids=["none", "one twice", "an unassigned one", "a lost one", "that of another broker"],
)
def test_directories_have_to_be_the_broker_s_own(directories: list[bytes]) -> None:
    request = registration(2)
    request.log_dirs = directories

    assert register(request, cluster(1)) == ErrorCode.INVALID_REGISTRATION


@pytest.mark.parametrize(
    ("supported", "error"),
    [
        ([Feature("metadata.version", 1, 30), Feature("group.version", 0, 1)], ErrorCode.NONE),
        ([Feature("metadata.version", 1, 29), Feature("group.version", 0, 1)], ErrorCode.UNSUPPORTED_VERSION),
        ([Feature("metadata.version", 1, 30)], ErrorCode.UNSUPPORTED_VERSION),
        ([Feature("group.version", 0, 1)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_broker_has_to_support_what_the_cluster_agreed_on(supported: list[Feature], error: ErrorCode) -> None:
    levels = {"metadata.version": 30, "group.version": 1}
    image = applied([FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()], cluster(1))
    request = registration(2)
    request.features = supported

    assert register(request, image) == error


def test_a_new_life_after_a_power_cut_is_neither_in_sync_nor_eligible() -> None:
    image = with_partition(isr=(1, 2), configs={"min.insync.replicas": "2"})
    request = registration(1, incarnation=9)

    dirty = after(brokers.register(request, place(image), 99, RegisteredProcess.GONE).facts, image)
    request.previous_broker_epoch = image.brokers[1].epoch
    clean = after(brokers.register(request, place(image), 99, RegisteredProcess.GONE).facts, image)

    assert (dirty.leader, dirty.in_sync, dirty.eligible) == (2, (2,), ())
    assert (clean.leader, clean.in_sync, clean.eligible) == (2, (2,), (1,))


def test_a_clean_stop_does_not_vouch_for_a_directory_that_did_not_come_back() -> None:
    image = with_partition(isr=(1, 2), configs={"min.insync.replicas": "2"})
    request = registration(1, incarnation=9)
    request.previous_broker_epoch = image.brokers[1].epoch
    request.log_dirs = [b"n" * 16]

    partition = after(brokers.register(request, place(image), 99, RegisteredProcess.GONE).facts, image)
    away = with_partition(fenced=[2, 3], isr=(), leader=NO_LEADER, eligible_leader_replicas=[1, 2], last_known_elr=[1])
    waiting = after(brokers.register(request, place(away), 99, RegisteredProcess.GONE).facts, away)

    assert (partition.leader, partition.in_sync, partition.eligible) == (2, (2,), ())
    assert (waiting.eligible, waiting.last_known) == ((2,), (1,)), "it may yet come back with all it had"


def test_a_process_that_registers_again_without_a_directory_leads_nothing_from_there() -> None:
    image = with_partition()
    request = registration(1)
    request.incarnation_id = image.brokers[1].incarnation_id
    request.log_dirs = [b"n" * 16]

    partition = after(brokers.register(request, place(image), 99, RegisteredProcess.ALIVE).facts, image)

    assert (partition.leader, partition.in_sync) == (2, (2, 3))


def test_a_broker_takes_part_when_it_has_seen_its_registration() -> None:
    image = cluster(1, fenced=[1])

    late, behind = heartbeat(image, current_metadata_offset=0)
    there, reply = heartbeat(image, current_metadata_offset=1)

    assert (behind.is_caught_up, behind.is_fenced, late.brokers[1].fenced) == (False, True, True)
    assert (reply.is_caught_up, reply.is_fenced, there.brokers[1].fenced) == (True, False, False)


def test_a_broker_that_wants_to_pause_leads_nothing() -> None:
    paused, reply = heartbeat(with_partition(), want_fence=True)

    assert (reply.is_fenced, reply.should_shut_down) == (True, False)
    assert paused.topics["orders"].partitions[0].leader == 2
    assert paused.brokers[1].fenced


def test_a_broker_that_unfences_leads_what_waits_for_it() -> None:
    image = with_partition(fenced=[1, 2, 3], isr=(), leader=NO_LEADER, eligible_leader_replicas=[1])

    there, _ = heartbeat(image)

    assert there.topics["orders"].partitions[0].leader == 1


def test_a_broker_that_leads_shuts_down_in_two_steps() -> None:
    image = with_partition()

    leaving, first = heartbeat(image, want_shut_down=True)
    waiting, second = heartbeat(leaving, want_shut_down=True, standing=HeartbeatState(20, 19))
    gone, third = heartbeat(waiting, want_shut_down=True, standing=HeartbeatState(20, 20))

    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert leaving.brokers[1].in_controlled_shutdown
    assert (leaving.topics["orders"].partitions[0].leader, leaving.topics["orders"].partitions[0].in_sync) == (
        2,
        (2, 3),
    )
    assert (second.should_shut_down, waiting) == (False, leaving)
    assert (third.should_shut_down, third.is_fenced, gone.brokers[1].fenced) == (True, True, True)


def test_a_broker_that_leads_nothing_may_stop_at_once_and_so_may_a_fenced_one() -> None:
    _, idle = heartbeat(with_partition(), 2, want_shut_down=True)
    _, fenced = heartbeat(cluster(1, fenced=[1]), want_shut_down=True)

    assert idle.should_shut_down
    assert fenced.should_shut_down


def test_a_registration_that_is_gone_is_not_heard() -> None:
    request = BrokerHeartbeatRequest(1, 55, 1000)

    facts, reply = brokers.heartbeat(request, place(cluster(1)), ALONE)

    assert (facts, reply.error_code) == ([], ErrorCode.STALE_BROKER_EPOCH)


def test_a_directory_that_failed_is_told_with_a_heartbeat() -> None:
    image = with_partition()

    there, _ = heartbeat(image, offline_log_dirs=[directory_id(1)])

    assert there.topics["orders"].partitions[0].leader == 2
    again, _ = heartbeat(there, offline_log_dirs=[b"x" * 16])
    assert again == there


def test_a_broker_may_stop_and_lose_a_directory_with_one_heartbeat() -> None:
    there, _ = heartbeat(with_partition(), want_shut_down=True, offline_log_dirs=[directory_id(1)])

    partition = there.topics["orders"].partitions[0]
    assert (partition.leader, partition.in_sync, partition.partition_epoch) == (2, (2, 3), 11)


def test_directories_that_shall_get_no_new_replicas_are_kept() -> None:
    there, _ = heartbeat(cluster(1), cordoned_log_dirs=[directory_id(1)])

    assert there.brokers[1].cordoned == (directory_id(1),)
    assert heartbeat(there, cordoned_log_dirs=[directory_id(1)])[0] == there


def test_fencing_moves_leaders_before_the_broker_is_fenced() -> None:
    image = with_partition()
    facts = brokers.fence(image.brokers[1], place(image))

    assert isinstance(facts[-1], BrokerRegistrationChangeRecord)
    assert applied(facts, image).brokers[1].fenced
    assert after(facts, image).leader == 2


def test_a_broker_is_unregistered_once() -> None:
    image = with_partition()
    request = UnregisterBrokerRequest(1)

    facts, reply = brokers.unregister(request, place(image))
    gone = applied(facts, image)
    again = brokers.unregister(request, place(gone))

    assert (reply.error_code, 1 in gone.brokers) == (ErrorCode.NONE, False)
    assert gone.topics["orders"].partitions[0].leader == 2
    assert (again.facts, again.reply.error_code) == ([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    assert again.reply.error_message == "Broker ID 1 is not currently registered"


def test_a_controller_says_where_it_is() -> None:
    request = ControllerRegistrationRequest(
        controller_id=9,
        incarnation_id=b"i" * 16,
        listeners=[ControllerListener("CONTROLLER", "host.test", 9093, 0)],
        features=[ControllerFeature("group.version", 0, 1)],
    )

    image = applied(brokers.register_controller(request, cluster(1)).facts, cluster(1))

    assert image.controllers[9].listeners == {"CONTROLLER": ("host.test", 9093)}
    assert image.controllers[9].features == {"group.version": (0, 1)}
    assert brokers.register_controller(request, image).facts == []
