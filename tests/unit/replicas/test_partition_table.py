"""The table of partitions, and who waits for a watermark."""

from kit.worlds.lone_partitions import lone_partition
from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.replicas.partitions import Partition, PartitionTable

TOPIC_ID = bytes(range(16))


def partition(index: int, topic: str = "topic", topic_id: bytes = TOPIC_ID) -> Partition:
    return lone_partition(TopicPartition(topic, index), topic_id, 0, None)


def state(leader: int, in_sync: tuple[int, ...] = (1, 2, 3), epoch: int = 1) -> PartitionImage:
    return PartitionImage((1, 2, 3), in_sync, leader, epoch, epoch)


def table(*indexes: int) -> PartitionTable:
    found = PartitionTable()
    topic = TopicImage("topic", TOPIC_ID, tuple(state(1) for _ in range(5)))
    found.image = ClusterImage("c", topics={"topic": topic}, topics_by_id={TOPIC_ID: topic})
    for index in indexes:
        found.add(partition(index))
    return found


def test_a_partition_is_found_by_name_and_by_id() -> None:
    here = table(3)
    assert here.find("topic", 3) is here.find(TOPIC_ID, 3) is here.get(TopicPartition("topic", 3))


def test_what_lies_elsewhere_is_told_from_what_is_nowhere() -> None:
    here = table(3)
    assert here.find("topic", 1) == here.find(TOPIC_ID, 4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.find("topic", 5) == here.find("other", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert here.find(TOPIC_ID, -1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert here.find(bytes(16), 0) == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_follower_is_held_but_not_found_as_leader() -> None:
    here = table(3)
    followed = here.get(TopicPartition("topic", 3))
    assert followed is not None
    followed.follow(state(2))
    assert here.find("topic", 3) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.held("topic", 3) is followed


def test_the_last_partition_of_a_topic_takes_the_topic_along() -> None:
    here = table(1, 3)
    for index in (3, 1):
        going = here.get(TopicPartition("topic", index))
        assert going is not None
        here.remove(going)
    assert not here.by_name
    assert not here.by_id
    assert len(here) == 0


def test_a_topic_that_was_made_again_is_not_lost_with_its_former_self() -> None:
    here = table(0)
    here.add(partition(0, topic_id=bytes(16)))
    assert [each.topic_id for each in here.remove_topic(TOPIC_ID)] == [TOPIC_ID]
    assert isinstance(here.find("topic", 0), Partition)


def test_epochs_of_clients_are_fenced() -> None:
    led = partition(0)
    led.leader_epoch = 5
    assert led.fence(-1) == led.fence(5) == ErrorCode.NONE
    assert led.fence(4) == ErrorCode.FENCED_LEADER_EPOCH
    assert led.fence(6) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_those_who_wait_are_given_up_in_the_order_of_their_offsets() -> None:
    led = partition(0)
    told: list[tuple[str, ErrorCode]] = []
    for name, offset in (("b", 5), ("c", 9), ("a", 5), ("first", 2)):
        led.when_committed(offset, lambda where, error, name=name: told.append((name, error)))  # type: ignore[misc]
    led.give_up_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [name for name, _ in told] == ["first", "b", "a", "c"]
    assert {error for _, error in told} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    led.give_up_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(told) == 4


def test_fewer_replicas_than_asked_for_are_enough_when_there_are_no_more() -> None:
    led = partition(0)
    led.least_in_sync = 5
    led.take(state(1))
    assert led.enough_in_sync
    led.take(state(1, in_sync=(1, 2)))
    assert not led.enough_in_sync
