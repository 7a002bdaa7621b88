"""The same requests to ottla and to a real Kafka: once what must differ is named, the answers are equal.

A case is a row in one of the case files, compared field by field. It is sent in the oldest, the newest and one more of
the versions of its API that Kafka 4.3 serves. What is looked at afterwards is looked at after the oldest and the
newest. What may differ, and why, is in differences.py.
"""

from __future__ import annotations

import difflib
import re
from contextlib import closing
from pprint import pformat
from typing import Any

import pytest

from kit.brokers.brokers import Broker
from kit.others.kafka import RealKafka
from kit.wire.messages import Answer
from oracle import (
    cases_configs,
    cases_consumer_groups,
    cases_groups,
    cases_offsets,
    cases_reading,
    cases_topics,
    cases_transactions,
    cases_writing,
)
from oracle.cases import Case, Step
from oracle.differences import allow
from oracle.normal import normal
from oracle.sides import Side, learn_topic_ids

CASES: tuple[Case, ...] = (
    *cases_topics.CASES,
    *cases_writing.CASES,
    *cases_reading.CASES,
    *cases_configs.CASES,
    *cases_groups.CASES,
    *cases_consumer_groups.CASES,
    *cases_offsets.CASES,
    *cases_transactions.CASES,
)


def _runs() -> list[Any]:
    return [
        pytest.param(number, case, version, id=f"{case.name} (version {version})")
        for number, case in enumerate(CASES)
        for version in case.chosen_versions(number)
    ]


def _play(side: Side, case: Case) -> list[Answer | None]:
    """Everything a case sends, to one broker."""
    case.given(side)
    every = case.every_version()
    afterwards = case.then if case.follow_up or side.version in (every[0], every[-1]) else ()
    steps = [Step(case.api, None, case.fields, answered=case.answered), *afterwards]
    for step in steps:
        if step.settle:
            side.settle()
        version = side.version if step.version is None else step.version
        answer = side.send(step.api, version, step.fields(side), answered=step.answered)
        if answer is not None:
            learn_topic_ids(side, answer)
        side.answers.append(answer or {})
    return [normal(side, _only_own(side, answer) if case.only_own else answer) for answer in side.answers]


def _only_own(side: Side, answer: Any) -> Any:
    """The rows of an answer that belong to this case: other cases' topics are left out."""
    if isinstance(answer, list):
        return [_only_own(side, row) for row in answer if _is_own(side, row)]
    return {key: _only_own(side, value) for key, value in answer.items()} if isinstance(answer, dict) else answer


def _is_own(side: Side, row: Any) -> bool:
    if not isinstance(row, dict):
        return True
    names = ("name", "topic", "resource_name", "group_id", "transactional_id")
    name = next((row[key] for key in names if row.get(key)), None)
    return not isinstance(name, str) or name.startswith(side.prefix)


def _compare(case: Case, ours: Any, theirs: Any) -> None:
    allow(case.name, case.api, ours, theirs)
    if ours != theirs:
        lines = difflib.unified_diff(
            pformat(theirs, width=150).splitlines(),
            pformat(ours, width=150).splitlines(),
            "Kafka",
            "tested",
            lineterm="",
            n=6,
        )
        pytest.fail(f"{case.name}: the answers differ\n" + "\n".join(lines), pytrace=False)


@pytest.mark.parametrize(("number", "case", "version"), _runs())
def test_answers_are_those_of_kafka(
    broker: Broker, real_kafka: RealKafka, number: int, case: Case, version: int
) -> None:
    prefix = f"c{number}-v{version}-{re.sub('[^a-z]+', '-', case.name)[:40]}"
    with closing(Side(real_kafka, prefix, version)) as side:
        theirs = _play(side, case)
    with closing(Side(broker, prefix, version)) as side:
        ours = _play(side, case)
    _compare(case, ours, theirs)
