"""A broker's way to the controller: which one is asked, and what happens when it changes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker import controller_channel
from ottla.broker.controller_channel import ControllerChannel, ControllerUnavailable
from ottla.wire.links import LinkDown
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.schema import LATEST, Root

FIRST, SECOND = ("first", 1), ("second", 2)
DONE = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
ELSEWHERE = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)])


class Quorum:
    """Says where the leader is."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self.leader_address = address

    async def handle(self, request: Root, version: int) -> Root:
        return DescribeQuorumResponse(error_message=f"local v{version}")


class Peers:
    """Links whose answers the test decides, by address."""

    def __init__(self, answers: dict[tuple[str, int], Callable[[], Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int]] = []

    def link(self, host: str, port: int) -> "Peer":
        return Peer(self, (host, port))


class Peer:
    def __init__(self, peers: Peers, address: tuple[str, int]) -> None:
        self.peers = peers
        self.address = address

    async def ask(self, request: Root, answer: type[Any], seconds: float, *, highest: int = LATEST) -> Any:
        self.peers.asked.append(self.address)
        found = self.peers.answers[self.address]()
        return await found if asyncio.iscoroutine(found) else found

    def close(self) -> None: ...


class Local:
    active = True

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return DONE


def channel_to(quorum: Quorum, peers: Peers, local: Any = None) -> ControllerChannel:
    return ControllerChannel(None, quorum, peers, local)  # type: ignore[arg-type]


def broken() -> Root:
    raise LinkDown("gone")


async def test_the_controller_of_this_process_is_asked_without_a_link() -> None:
    peers = Peers({})
    assert await channel_to(Quorum(FIRST), peers, Local()).create_topics(CreateTopicsRequest()) is DONE
    assert peers.asked == []


async def test_another_nodes_controller_is_asked_while_the_local_one_is_not_active() -> None:
    local = Local()
    local.active = False
    peers = Peers({FIRST: lambda: DONE})
    assert await channel_to(Quorum(FIRST), peers, local).create_topics(CreateTopicsRequest()) is DONE
    assert peers.asked == [FIRST]


async def test_a_controller_that_leads_no_more_is_not_believed() -> None:
    quorum = Quorum(FIRST)

    def moved() -> Root:
        quorum.leader_address = SECOND
        return ELSEWHERE

    peers = Peers({FIRST: moved, SECOND: lambda: DONE})
    assert await channel_to(quorum, peers).create_topics(CreateTopicsRequest()) is DONE
    assert peers.asked == [FIRST, SECOND]


async def test_a_controller_that_never_answers_is_left_when_another_leads() -> None:
    quorum = Quorum(FIRST)

    async def silent() -> Root:
        quorum.leader_address = SECOND
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    peers = Peers({FIRST: silent, SECOND: lambda: DONE})
    assert await asyncio.wait_for(channel_to(quorum, peers).create_topics(CreateTopicsRequest()), 60) is DONE


async def test_nobody_who_answers_is_an_error_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "ASK_SECONDS", 0.05)
    with pytest.raises(ControllerUnavailable, match="gone"):
        await channel_to(Quorum(FIRST), Peers({FIRST: broken})).create_topics(CreateTopicsRequest())
    with pytest.raises(ControllerUnavailable, match="no controller is known"):
        await channel_to(Quorum(None), Peers({})).create_topics(CreateTopicsRequest())


async def test_questions_about_the_quorum_go_to_it_in_the_version_that_was_asked() -> None:
    answer = await channel_to(Quorum(None), Peers({}), Local()).describe_quorum(DescribeQuorumRequest(), 1)
    assert answer.error_message == "local v1"
