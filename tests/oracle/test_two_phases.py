"""Two-phase commit (KIP-939) as far as Kafka 4.3 serves it: InitProducerId in the version that is not stable there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from kit.brokers.brokers import SETTINGS, Broker, broker_under_test
from kit.brokers.processes import until
from kit.others.kafka import RealKafka
from oracle.sides import Side
from oracle.transactions import adding_fields, given_id, started, state_of

NEWEST = 6
QUESTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"enable2_pc": True},
    {"enable2_pc": True, "transaction_timeout": -5},
    {"enable2_pc": True, "transaction_timeout": 2**31 - 1},
    {"transaction_timeout": 2**31 - 1},
    {"keep_prepared_txn": True},
    {"enable2_pc": True, "keep_prepared_txn": True},
    {"enable2_pc": True, "transactional_id": ""},
    {"enable2_pc": True, "transactional_id": None},
    {"keep_prepared_txn": True, "transactional_id": None},
)


@pytest.fixture(scope="module", params=["true", "false"], ids=["allowed", "forbidden"])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """Both, told alike."""
    own = {
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": request.param,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    folder = tmp_path_factory.mktemp("phases")
    with ExitStack() as stack:
        pair: list[Broker] = [
            broker_under_test(folder / "ottla", own),
            RealKafka(folder / "kafka", {**SETTINGS, **own}),
        ]
        for broker in pair:
            stack.enter_context(broker)
        yield pair


def ask(side: Side, **changes: Any) -> dict[str, Any]:
    fields = {
        "transactional_id": side.name("x"),
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
        "enable2_pc": False,
        "keep_prepared_txn": False,
    }
    answer: dict[str, Any] = side.ask("init_producer_id", NEWEST, **(fields | changes))
    return answer


def told(side: Side) -> list[Any]:
    """Everything a side says to the questions, without the producer ids that it made up."""
    started(side)
    found: list[Any] = [
        each["max_version"] for each in side.ask("api_versions", 3)["api_keys"] if each["api_key"] == 22
    ]
    for question in QUESTIONS:
        answer = ask(side, **question)
        answer["producer_id"] = answer["producer_id"] >= 0
        found.append((question, answer, state_of(side)["transaction_timeout"]))
    return found


def outlived(side: Side) -> list[Any]:
    """What became of a transaction long after the time-out that it was begun with."""
    started(side)
    answer = ask(side, enable2_pc=True, transaction_timeout=500)
    if answer["error_code"] != "none":
        answer = ask(side, transaction_timeout=500)
    side.producer_ids[0], side.epoch = answer["producer_id"], answer["producer_epoch"]
    side.ask("add_partitions_to_txn", 3, **adding_fields(side))
    other = Side(side.broker, f"{side.prefix}.other", 0)
    with closing(other):
        started(other)
        answer = ask(other, transaction_timeout=500)
        other.producer_ids[0], other.epoch = answer["producer_id"], answer["producer_epoch"]
        other.ask("add_partitions_to_txn", 3, **adding_fields(other))
        until(lambda: state_of(other)["transaction_state"] == "CompleteAbort", "the end of an ordinary transaction")
    listed = side.ask("list_transactions", 1, state_filters=["Ongoing"], producer_id_filters=[], duration_filter=-1)
    state = state_of(side)
    found = [state["transaction_state"], state["transaction_timeout"]]
    found.append(sorted(each["transactional_id"] for each in listed["transaction_states"]))
    until(lambda: given_id(side), "the abort of what was open")
    return [*found, state_of(side)["transaction_timeout"]]


@pytest.mark.parametrize("story", [told, outlived])
def test_both_say_the_same(brokers: list[Broker], story: Any) -> None:
    answers = []
    for broker in brokers:
        with closing(Side(broker, f"phases-{story.__name__}", NEWEST)) as side:
            answers.append(story(side))
    assert answers[0] == answers[1]
