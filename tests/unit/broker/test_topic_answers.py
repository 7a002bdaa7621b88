"""Topics of metadata are written once: the bytes are those that would be written anew, and follow every change."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

import pytest

from ottla.broker import topic_answers
from ottla.broker.topic_answers import TopicAnswers, Variant, described
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.net.dispatch import in_steps
from ottla.wire.answer_errors import errors_in, errors_in_portions
from ottla.wire.codec import encode, encode_in_steps
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.schema import Encoded

T = TypeVar("T")
REACHABLE = frozenset({1, 2})
OPERATIONS = 8


def topic(name: str, *leaders: int) -> TopicImage:
    partitions = tuple(PartitionImage((1, 2, 3), (1, 2), leader, 5, 1) for leader in leaders)
    return TopicImage(name, name.encode().ljust(16, b"\0"), partitions)


def ended(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value


def answered(answers: TopicAnswers, topics: dict[str, TopicImage], variant: Variant) -> list[Encoded]:
    return ended(answers.encoded(topics.values(), variant, topics))


@pytest.mark.parametrize("version", range(MetadataResponse.VERSIONS[0], MetadataResponse.VERSIONS[1] + 1))
def test_bytes_and_errors_are_those_of_an_answer_made_for_one_client(version: int) -> None:
    topics = {"a": topic("a", 1, 2, 3), "b": topic("b"), "c": topic("c", -1)}
    plain = MetadataResponse(brokers=[], topics=[described(each, REACHABLE, OPERATIONS) for each in topics.values()])
    known: list[object] = [*answered(TopicAnswers(), topics, (version, REACHABLE, OPERATIONS))]
    quick = MetadataResponse(brokers=[], topics=known)  # type: ignore[arg-type]
    assert b"".join(ended(encode_in_steps(quick, version))) == encode(plain, version)
    portions = errors_in_portions(quick, version)
    assert [code for portion in portions for code in portion] == errors_in(plain, version)


def test_only_a_topic_that_changed_is_written_again() -> None:
    answers = TopicAnswers()
    variant = (12, REACHABLE, OPERATIONS)
    topics = {"a": topic("a", 1), "b": topic("b", 2)}
    first = answered(answers, topics, variant)
    second = answered(answers, {**topics, "b": topic("b", 1)}, variant)
    assert second[0] is first[0]
    assert second[1].data != first[1].data


def test_who_reaches_other_brokers_is_told_otherwise() -> None:
    answers = TopicAnswers()
    topics = {"a": topic("a", 1)}
    [here] = answered(answers, topics, (12, REACHABLE, OPERATIONS))
    [there] = answered(answers, topics, (12, frozenset({2}), OPERATIONS))
    assert here.errors == []
    assert there.errors
    [again] = answered(answers, topics, (12, REACHABLE, OPERATIONS))
    assert again is here


def test_forms_and_topics_that_nobody_asks_for_any_more_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_answers, "_SLACK", 1)
    answers = TopicAnswers()
    for node in range(20):
        answered(answers, {"a": topic("a", 1)}, (12, frozenset({node}), OPERATIONS))
    assert len(answers._variants) == topic_answers.MOST_VARIANTS
    variant = (12, REACHABLE, OPERATIONS)
    answered(answers, {name: topic(name, 1) for name in "abcdef"}, variant)
    answered(answers, {"a": topic("a", 1)}, variant)
    assert list(answers._variants[variant]) == ["a"]


async def test_a_topic_of_very_many_partitions_lets_others_have_their_turn() -> None:
    turns = 0
    done = False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(others())
    large = topic("large", *[1] * 20_000)
    work = TopicAnswers().encoded([large], (12, REACHABLE, OPERATIONS), {"large": large})
    [made] = await in_steps(work, asyncio.get_running_loop())
    done = True
    await watching
    assert turns > 5
    assert len(made.data) > 20_000
