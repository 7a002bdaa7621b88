"""Requests that name very many things are answered a portion at a time."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import Lists, in_portions
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

CONTEXT = Context(8, None, "PLAINTEXT", "127.0.0.1")
MANY = 5000


def told(groups: Any) -> list[tuple[str, list[tuple[str, list[int]]]]]:
    return [
        (group.group_id, [(topic.name, [each.partition_index for each in topic.partitions]) for topic in group.topics])
        for group in groups
    ]


class Host:
    """Whom handlers serve, as far as requests take turns there."""

    def __init__(self) -> None:
        self.dispatcher = self
        self.turns = 0

    async def turn(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)


class Fetching:
    """A handler of OffsetFetch that notes how much it got at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def handle(self, host: Any, request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
        groups = []
        size = 0
        for group in request.groups:
            topics = []
            for topic in group.topics or ():
                partitions = [OffsetFetchResponsePartitions(index, 7) for index in topic.partition_indexes]
                topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
                size += 1 + len(partitions)
            groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
            size += 1
        self.sizes.append(size)
        return OffsetFetchResponse(groups=groups)


def offsets_of(*groups: tuple[str, list[tuple[str, list[int]]]]) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=name,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=at) for topic, at in topics],
            )
            for name, topics in groups
        ]
    )


LISTS = Lists(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"))


def test_what_is_cut_within_a_list_is_one_in_the_answer() -> None:
    wanted = [
        ("a", [("x", list(range(25))), ("y", [1])]),
        ("b", [(f"t{number}", [0, 1]) for number in range(12)]),
        ("c", []),
        ("d", [("x", list(range(9))), ("x", [9])]),
    ]
    fetching = Fetching()
    answer = asyncio.run(in_portions(LISTS, at_once=10)(fetching.handle)(Host(), offsets_of(*wanted), CONTEXT))
    merged = [*wanted[:3], ("d", [("x", list(range(9))), ("x", [9])])]
    assert told(answer.groups) == merged
    assert len(fetching.sizes) > 5
    assert max(fetching.sizes) <= 10


def test_a_request_waits_for_its_turn_before_each_portion() -> None:
    host, fetching = Host(), Fetching()
    handle = in_portions(LISTS, at_once=10)(fetching.handle)
    asyncio.run(handle(host, offsets_of(("g", [("t", list(range(100)))])), CONTEXT))
    assert host.turns == len(fetching.sizes) >= 10


def test_few_are_handed_over_as_they_are() -> None:
    request = DescribeGroupsRequest(groups=["a", "b"])
    handle = in_portions(Lists(("groups",), ("groups",)), at_once=2)(lambda _, asked, __: asked)
    assert handle(None, request, CONTEXT) is request


def test_an_error_of_a_portion_as_a_whole_is_the_answer() -> None:
    answers = [OffsetFetchResponse(), OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR), None]
    handle = in_portions(LISTS, at_once=10)(lambda *_: answers.pop(0))
    answer = asyncio.run(handle(Host(), offsets_of(("g", [("t", list(range(100)))])), CONTEXT))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert len(answers) == 1


async def later(answer: DescribeGroupsResponse) -> DescribeGroupsResponse:
    return answer


def test_answers_that_come_later_are_waited_for() -> None:
    def handle(host: Any, request: DescribeGroupsRequest, context: Context) -> Any:
        return later(DescribeGroupsResponse(groups=[DescribedGroup(group_id=name) for name in request.groups]))

    names = [str(number) for number in range(25)]
    wrapped = in_portions(Lists(("groups",), ("groups",)), at_once=10)(handle)
    answer = asyncio.run(wrapped(Host(), DescribeGroupsRequest(groups=names), CONTEXT))
    assert [group.group_id for group in answer.groups] == names


@pytest.mark.parametrize(
    ("api", "lists"),
    [
        ("describe_groups", "groups"),
        ("consumer_group_describe", "group_ids"),
        ("describe_transactions", "transactional_ids"),
        ("find_coordinator", "coordinator_keys"),
        ("offset_for_leader_epoch", "topics"),
        ("offset_fetch", "topics"),
        ("offset_commit", "topics"),
        ("offset_delete", "topics"),
        ("txn_offset_commit", "topics"),
        ("describe_producers", "topics"),
    ],
)
def test_no_handler_works_through_thousands_at_a_time(api: str, lists: str) -> None:
    module = import_module(f"ottla.broker.handlers.{api}")
    messages = import_module(f"ottla.wire.messages.{api}")
    kind = next(each for name, each in vars(messages).items() if name.lower() == api.replace("_", "") + "request")
    (field,) = [each for each in kind.FIELDS if each.name == lists]
    elements = ["name"] * MANY if field.kind == "string" else [field.kind() for _ in range(MANY)]
    answer = module.handle(None, kind(**{lists: elements}), CONTEXT)
    assert asyncio.iscoroutine(answer), "it has not begun"
    answer.close()
