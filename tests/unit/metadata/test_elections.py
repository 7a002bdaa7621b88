"""Elections that are asked for or restore order: preferred leaders, unclean ones, and who needs none."""

from typing import Any

import pytest

from kit.machines.partition_states import TOPIC, after, place, with_partition
from ottla.base.errors import ErrorCode
from ottla.metadata import elections
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


def elect(kind: int, image: ClusterImage, name: str = TOPIC, number: int = 0) -> tuple[int, int]:
    """The code for the partition, and who leads it then."""
    facts, reply = elections.elect(ElectLeadersRequest(kind, [TopicPartitions(name, [number])]), place(image))
    return reply.replica_election_results[0].partition_result[0].error_code, after(facts, image).leader


def test_the_first_replica_takes_over() -> None:
    assert elect(PREFERRED, with_partition(leader=2)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(
    ("kind", "image", "error"),
    [
        (PREFERRED, with_partition(), ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, with_partition(leader=2, isr=(2, 3)), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, with_partition(leader=2, fenced=[1]), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, with_partition(leader=2), ErrorCode.ELECTION_NOT_NEEDED),
        (
            UNCLEAN,
            with_partition(fenced=[1, 2, 3], leader=NO_LEADER, isr=(), eligible_leader_replicas=[1]),
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ),
    ],
)
def test_an_election_that_is_not_needed_or_cannot_be(kind: int, image: ClusterImage, error: ErrorCode) -> None:
    before = image.topics[TOPIC].partitions[0].leader

    assert elect(kind, image) == (error, before)


def test_an_unclean_election_is_done_when_it_is_asked_for_whatever_the_settings_say() -> None:
    image = with_partition(fenced=[1], leader=NO_LEADER, isr=(), eligible_leader_replicas=[1])

    assert elect(UNCLEAN, image) == (ErrorCode.NONE, 2)


def test_what_is_not_there_is_named() -> None:
    assert elect(PREFERRED, with_partition(), "nothing")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(PREFERRED, with_partition(), number=7)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_of_all_partitions_those_that_need_none_are_left_out() -> None:
    needs = elections.elect(ElectLeadersRequest(PREFERRED, None), place(with_partition(leader=2)))
    none = elections.elect(ElectLeadersRequest(PREFERRED, None), place(with_partition()))

    assert [len(topic.partition_result) for topic in needs.reply.replica_election_results] == [1]
    assert (none.facts, [len(topic.partition_result) for topic in none.reply.replica_election_results]) == ([], [0])


def test_a_kind_that_nobody_knows_is_refused() -> None:
    reply = elections.elect(ElectLeadersRequest(7, None), place(with_partition())).reply

    assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_that_is_named_twice_is_decided_once() -> None:
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions(TOPIC, [0, 0])])

    facts, reply = elections.elect(request, place(with_partition(leader=2)))

    assert len(facts) == 1
    codes = [each.error_code for each in reply.replica_election_results[0].partition_result]
    assert codes == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]


def test_balancing_gives_leadership_back_only_where_that_is_clean() -> None:
    possible = with_partition(leader=3)
    impossible = with_partition(leader=3, isr=(3,), configs={"unclean.leader.election.enable": "true"})

    assert after(elections.balance(place(possible)), possible).leader == 1
    assert elections.balance(place(impossible)) == []


def test_a_round_of_balancing_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "MOST_AT_ONCE", 0)

    assert elections.balance(place(with_partition(leader=3))) == []


def test_partitions_without_a_leader_get_one_that_lacks_records_where_the_settings_say_so() -> None:
    state: dict[str, Any] = {"fenced": [1], "leader": NO_LEADER, "isr": (), "eligible_leader_replicas": [1]}
    allowed = with_partition(configs={"unclean.leader.election.enable": "true"}, **state)
    forbidden = with_partition(**state)

    assert after(elections.elect_uncleanly(place(allowed)), allowed).leader == 2
    assert elections.elect_uncleanly(place(forbidden)) == []
