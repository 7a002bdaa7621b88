"""The quorum's messages in Kafka's envelopes, there and back."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.raft.log_view import Diverging, LogPosition
from ottla.raft.messages import (
    AddVoter,
    Answer,
    Answered,
    BeginEpoch,
    Believed,
    EndEpoch,
    Fetch,
    Fetched,
    FetchedSnapshot,
    FetchSnapshot,
    RemoveVoter,
    Request,
    UpdateVoter,
    Vote,
    Voted,
)
from ottla.raft.translation import misdirected, read_answer, read_request, write_answer, write_request
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Endpoint, Voter
from ottla.wire import codec
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.vote import TopicData, VoteRequest, VoteResponse
from ottla.wire.schema import Root

ONE = ReplicaKey(1, b"1" * 16)
TWO = ReplicaKey(2, b"2" * 16)
HOME = (Endpoint("CONTROLLER", "home", 9093),)
LEADER = Believed(1, 7, Endpoint("", "home", 9093))
VOTER = Voter(*TWO, HOME, 0, 1)
REQUESTS: tuple[Request, ...] = (
    Vote("cluster", TWO, 7, ONE, LogPosition(30, 6), True),
    BeginEpoch("cluster", TWO, 1, 7, HOME),
    EndEpoch("cluster", 1, 7, (TWO, ONE), HOME),
    Fetch("cluster", TWO, 7, LogPosition(30, 6), 29, 0.5),
    FetchSnapshot("cluster", TWO, 7, LogPosition(30, 6), 12),
    AddVoter("cluster", VOTER, 1.5, False),
    RemoveVoter("cluster", TWO),
    UpdateVoter("cluster", 7, VOTER),
)
ANSWERS: tuple[Answer, ...] = (
    Voted(ErrorCode.NONE, LEADER, granted=True),
    Answered(ErrorCode.INVALID_REQUEST, LEADER),
    Answered(ErrorCode.NONE, LEADER),
    Fetched(ErrorCode.NONE, LEADER, 28, diverging=Diverging(5, 20)),
    FetchedSnapshot(ErrorCode.NONE, LEADER, LogPosition(30, 6), 12, 99, b"bytes"),
    Answered(ErrorCode.DUPLICATE_VOTER, Believed(-1, -1), "twice"),
    Answered(ErrorCode.VOTER_NOT_FOUND, Believed(-1, -1), "never"),
    Answered(ErrorCode.NONE, LEADER),
)


def over_the_wire(message: Root) -> Root:
    version = type(message).VERSIONS[1]
    out = bytearray()
    codec.write(out, message, version)
    read = codec.reader(type(message), version, version >= type(message).FLEXIBLE_FROM)
    found, position = read(memoryview(bytes(out)), 0)
    assert position == len(out)
    assert isinstance(found, Root)
    return found


@pytest.mark.parametrize(("request_", "answer"), tuple(zip(REQUESTS, ANSWERS, strict=True)))
def test_a_message_arrives_as_it_left(request_: Request, answer: Answer) -> None:
    written, kind = write_request(request_, 1000)
    arrived = over_the_wire(written)
    assert read_request(arrived, type(written).VERSIONS[1]) == request_

    replied = over_the_wire(write_answer(arrived, answer))
    assert isinstance(replied, kind)
    assert read_answer(request_, replied, lambda data: ()) == answer


def test_an_error_of_the_whole_answer_is_told_without_a_partition() -> None:
    request = REQUESTS[0]

    assert read_answer(request, VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID), lambda data: ()) == Voted(
        ErrorCode.INCONSISTENT_CLUSTER_ID, Believed(-1, -1)
    )


@pytest.mark.parametrize("request_", [VoteRequest("cluster", 1, [TopicData("other", [])]), FetchRequest("cluster")])
def test_a_message_about_anything_else_is_refused(request_: Root) -> None:
    assert read_request(request_, type(request_).VERSIONS[1]) is None
    answer = misdirected(request_)
    assert isinstance(answer, VoteResponse | FetchResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
