"""Requests that name very many things are answered a portion at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context, in_the_end
from ottla.net.portions import A_LOOK, Look, at_most, in_portions, in_turns
from ottla.wire.lists import Lists
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
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

    async def in_steps(self, work: Generator[None, None, Any]) -> Any:
        return in_the_end(work)


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


class Creating:
    """A handler of CreateTopics that notes the names it got at a time."""

    def __init__(self) -> None:
        self.portions: list[list[str]] = []

    def handle(self, host: Any, request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
        self.portions.append([topic.name for topic in request.topics])
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=name) for name in self.portions[-1]])

    def asked(self, request: CreateTopicsRequest, way: Lists, look: Look | None = None) -> Any:
        return asyncio.run(in_portions(way, at_once=10, look=look)(self.handle)(Host(), request, CONTEXT))


def topics(names: Sequence[str], partitions: int = 0) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions) for name in names])


NAMED_ONCE = Lists(("topics",), ("topics",), once=("name",))


def test_what_is_named_twice_comes_in_one_portion_wherever_it_stands() -> None:
    creating = Creating()
    names = [str(number) for number in range(50)]
    creating.asked(topics([*names, "7", "49", "7"]), NAMED_ONCE)
    for portion in creating.portions:
        assert portion.count("7") in (0, 2)
        assert portion.count("49") in (0, 2)
    assert {name for portion in creating.portions for name in portion} == set(names)
    assert max(map(len, creating.portions)) <= 10


def test_what_is_named_a_hundred_times_is_named_twice() -> None:
    creating = Creating()
    creating.asked(topics(["a"] * 100), NAMED_ONCE)
    assert creating.portions == [["a", "a"]]


def test_an_element_may_count_for_more_than_one() -> None:
    creating = Creating()
    creating.asked(topics(["a", "b", "c", "d", "e"], partitions=4), NAMED_ONCE._replace(weight=partitions_of))
    assert creating.portions == [["a", "b"], ["c", "d"], ["e"]]


def partitions_of(topic: CreatableTopic) -> int:
    return topic.num_partitions


def test_what_lies_in_an_element_counts_and_stays_together() -> None:
    creating = Creating()
    request = topics(["a", "b", "c"])
    for topic, count in zip(request.topics, (20, 4, 4), strict=True):
        topic.configs = [CreatableTopicConfig(str(number)) for number in range(count)]
    creating.asked(request, NAMED_ONCE)
    assert creating.portions == [["a"], ["b", "c"]]


def test_a_look_at_the_whole_may_spare_the_portions() -> None:
    def look(host: Any, request: CreateTopicsRequest, context: Context) -> Generator[None, None, Any]:
        yield
        return "too much" if len(request.topics) > 30 else None

    creating = Creating()
    assert creating.asked(topics([str(number) for number in range(31)]), NAMED_ONCE, look) == "too much"
    assert creating.portions == []
    creating.asked(topics([str(number) for number in range(30)]), NAMED_ONCE, look)
    assert len(creating.portions) == 3


def test_a_list_that_is_one_thing_has_a_bound() -> None:
    handle = at_most(3, "groups", lambda request, context: "too much")(lambda _, asked, __: asked)
    few, many = DescribeGroupsRequest(groups=["a"] * 3), DescribeGroupsRequest(groups=["a"] * 4)
    assert handle(None, few, CONTEXT) is few
    assert handle(None, many, CONTEXT) == "too much"


def test_a_list_is_looked_through_in_turns() -> None:
    host = Host()

    async def looked() -> list[int]:
        return [len(some) async for some in in_turns(host, range(2 * A_LOOK + 1))]

    assert asyncio.run(looked()) == [A_LOOK, A_LOOK, 1]
    assert host.turns == 2
