"""Topics that are made because their metadata was asked for: later, once at a time, and told of when it fails."""

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.auto_creation import MOST_REQUESTS, AutoCreation
from ottla.wire.links import LinkDown
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


class Controller:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.go = asyncio.Event()
        self.failure: Exception | None = None
        self.error = ErrorCode.NONE

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        names = [topic.name for topic in request.topics]
        self.asked.append(names)
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=self.error) for name in names])


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_topic_is_asked_for_once_at_a_time() -> None:
    controller = Controller()
    creation = AutoCreation(controller)
    creation.create(["a", "b", "a"])
    creation.create(["b", "c"])
    creation.create(["c"])
    await turns()
    assert controller.asked == [["a", "b"], ["c"]]
    controller.go.set()
    await turns()
    creation.create(["a"])
    await turns()
    assert controller.asked[2:] == [["a"]]


@pytest.mark.parametrize("failure", [None, LinkDown("no controller answered")])
async def test_what_is_not_made_is_told_and_may_be_asked_for_again(
    failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller()
    controller.failure, controller.error = failure, ErrorCode.INVALID_REPLICATION_FACTOR
    controller.go.set()
    creation = AutoCreation(controller)
    creation.create(["a"])
    await turns()
    assert "not made" in caplog.text
    creation.create(["a"])
    await turns()
    assert controller.asked == [["a"], ["a"]]


async def test_no_more_than_so_many_requests_are_under_way() -> None:
    controller = Controller()
    creation = AutoCreation(controller)
    for number in range(2 * MOST_REQUESTS):
        creation.create([f"t{number}"])
    await turns()
    assert len(controller.asked) == MOST_REQUESTS
    await creation.stop()
