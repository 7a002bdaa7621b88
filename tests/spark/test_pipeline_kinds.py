"""Every kind of window, join and state: what Spark makes of records equals a plain computation over them.

The records come in two rounds, out of order, some of the second too late. A round is a batch; the watermark that judges
the second round is the first one's latest moment less the delay, and what is closed at the end is judged by both.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ottla.testing
from kit.others.pipelines import Sent, committed, headers_of, make_topics, run_once, send, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark leaves sockets to the collector
    pytest.mark.timeout(900),  # a session and many queries, on whatever machine
]

FILE = Path(__file__).with_name("pipeline_kinds.yaml")
START = 1_700_000_100_000  # a whole number of five minutes
SECOND, MINUTE = 1000, 60_000
FACTS_DELAY, OTHERS_DELAY, GAP, WITHIN = 10 * MINUTE, 5 * MINUTE, 2 * MINUTE, 4 * MINUTE
NAMES = ("ada", "bela", "cora")


class Fact(NamedTuple):
    id: str
    name: str
    amount: int
    time: int


class Other(NamedTuple):
    name: str
    word: str
    time: int


class Round(NamedTuple):
    facts: list[Fact]
    others: list[Other]
    people: dict[str, str]


def moment(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def text(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")


def draw(random: Random, number: int, begin: int, end: int, count: int) -> list[Fact]:
    """Facts in no order; every fifth is told twice."""
    facts = []
    for each in range(count):
        # an odd millisecond: nothing lies exactly on a border
        time = START + random.randrange(begin, end) // 2 * 2 + 1
        fact = Fact(f"{number}-{each}", random.choice(NAMES), random.randrange(100), time)
        facts += [fact, fact] if each % 5 == 0 else [fact]
    return facts


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    random = Random(11)
    first = draw(random, 1, 0, 30 * MINUTE, 40)
    # what comes later: mostly new, some out of order and in time, some too late for everything, some told again
    second = draw(random, 2, 15 * MINUTE, 60 * MINUTE, 40) + draw(random, 3, 0, 12 * MINUTE, 6) + first[::9]
    random.shuffle(second)
    others = [
        [
            Other(fact.name, f"w{each}", fact.time + random.randrange(-1 * MINUTE, 5 * MINUTE) // 2 * 2)
            for each, fact in enumerate(facts)
            if each % 3
        ]
        for facts in (first, second)
    ]
    people = [{"ada": "Prague", "bela": "Brno"}, {"ada": "Vienna", "bela": "Brno"}]
    return [Round(first, others[0], people[0]), Round(second, others[1], people[1])]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def files(spark: SparkSession, bootstrap: str, rounds: list[Round], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both rounds were run; where the files of the Parquet sink are."""
    folder = tmp_path_factory.mktemp("kinds")
    make_topics(bootstrap, ["kinds-facts", "kinds-others", "kinds-people"])
    for number, each in enumerate(rounds):
        send(bootstrap, records(each))
        broken = Sent("kinds-facts", b"broken", b'{"id": "%d' % number, START)
        send(bootstrap, [broken])
        state = run_once(spark, FILE, bootstrap, folder / "checkpoint", FILES=str(folder / "files"))
        assert state == "finished"
    return folder / "files"


def records(each: Round) -> Iterator[Sent]:
    for name, city in each.people.items():
        yield Sent("kinds-people", name.encode(), json.dumps({"name": name, "city": city}).encode(), START)
    for fact in each.facts:
        told = {"id": fact.id, "name": fact.name, "amount": fact.amount, "time": text(fact.time)}
        yield Sent("kinds-facts", fact.id.encode(), json.dumps(told).encode(), fact.time)
    for other in each.others:
        told = {"name": other.name, "word": other.word, "time": text(other.time)}
        yield Sent("kinds-others", other.name.encode(), json.dumps(told).encode(), other.time)


def watermarks(rounds: list[Round], with_others: bool = False) -> list[int]:
    """After each round."""
    found = []
    for number in (1, 2):
        latest = max(fact.time for each in rounds[:number] for fact in each.facts) - FACTS_DELAY
        if with_others:
            latest = min(latest, max(each.time for one in rounds[:number] for each in one.others) - OTHERS_DELAY)
        found.append(latest)
    return found


def windows(rounds: list[Round], length: int, slide: int) -> list[tuple[int, str, int, int]]:
    """Start, name, count and sum of the windows that are closed in the end."""
    early, final = watermarks(rounds)
    totals: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, each in enumerate(rounds):
        for fact in each.facts:
            start = fact.time - fact.time % slide
            while start + length > fact.time:
                if number == 0 or start + length > early:
                    totals[start, fact.name].append(fact.amount)
                start -= slide
    closed = {key: amounts for key, amounts in totals.items() if key[0] + length <= final}
    return sorted((start, name, len(amounts), sum(amounts)) for (start, name), amounts in closed.items())


def sessions(rounds: list[Round]) -> list[tuple[int, int, str, int, int]]:
    """Start, end, name, count and sum of the sessions that are closed in the end."""
    early, final = watermarks(rounds)
    done: list[tuple[int, int, str, int, int]] = []
    still: list[tuple[int, int, str, int, int]] = []
    for number, (each, watermark) in enumerate(zip(rounds, (early, final), strict=True)):
        new = [
            (fact.time, fact.time + GAP, fact.name, 1, fact.amount)
            for fact in each.facts
            if number == 0 or fact.time + GAP > early
        ]
        merged: list[tuple[int, int, str, int, int]] = []
        for start, end, name, count, total in sorted([*still, *new], key=lambda row: (row[2], row[0])):
            if merged and merged[-1][2] == name and start <= merged[-1][1]:
                first, last, _, counted, added = merged.pop()
                merged.append((first, max(last, end), name, counted + count, added + total))
            else:
                merged.append((start, end, name, count, total))
        done += [row for row in merged if row[1] <= watermark]
        still = [row for row in merged if row[1] > watermark]
    return sorted(done)


def in_time(rounds: list[Round]) -> tuple[list[Fact], list[Other]]:
    """Of a join of both, what is not too late."""
    early, _ = watermarks(rounds, with_others=True)
    facts = [fact for fact in rounds[1].facts if fact.time > early]
    others = [other for other in rounds[1].others if other.time > early]
    return rounds[0].facts + facts, rounds[0].others + others


def pairs(rounds: list[Round]) -> list[tuple[str, int, str, int]]:
    facts, others = in_time(rounds)
    return sorted(
        (fact.id, fact.time, other.word, other.time)
        for fact in facts
        for other in others
        if fact.name == other.name and fact.time <= other.time <= fact.time + WITHIN
    )


def in_files(spark: SparkSession, folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of Parquet files, moments as milliseconds."""
    rows = spark.read.parquet(str(folder)).select(*columns).collect()
    return [
        tuple(round(each.timestamp() * 1000) if isinstance(each, datetime) else each for each in row) for row in rows
    ]


def test_the_rounds_have_late_and_out_of_order_records(rounds: list[Round]) -> None:
    early, final = watermarks(rounds)
    second = [fact.time for fact in rounds[1].facts]
    assert any(time <= early for time in second)
    assert any(early < time < max(fact.time for fact in rounds[0].facts) for time in second)
    assert second != sorted(second)
    assert final > early


def test_tumbling_windows(bootstrap: str, files: Path, rounds: list[Round]) -> None:
    rows = values(bootstrap, "kinds-tumbling")
    expected = windows(rounds, 5 * MINUTE, 5 * MINUTE)
    assert sorted((moment(row["start"]), row["name"], row["count"], row["total"]) for row in rows) == expected
    assert len(expected) > 10


def test_sliding_windows(spark: SparkSession, files: Path, rounds: list[Round]) -> None:
    found = in_files(spark, files / "sliding", "start", "name", "count", "total")
    assert sorted(found) == windows(rounds, 10 * MINUTE, 5 * MINUTE)
    assert {path.name for path in (files / "sliding").glob("name=*")} == {f"name={name}" for name in NAMES}


def test_session_windows(spark: SparkSession, files: Path, rounds: list[Round]) -> None:
    found = in_files(spark, files / "session", "start", "end", "name", "count", "total")
    assert sorted(found) == sessions(rounds)
    assert any(row[3] > 2 for row in found)


def test_an_inner_join_of_two_streams_within_time_bounds(spark: SparkSession, files: Path, rounds: list[Round]) -> None:
    found = in_files(spark, files / "inner_joined", "id", "time", "word", "other_time")
    assert sorted(found) == pairs(rounds)
    assert len(found) > 10


def test_an_outer_join_tells_what_found_no_partner_once_none_can_come(
    spark: SparkSession, files: Path, rounds: list[Round]
) -> None:
    found = in_files(spark, files / "outer_joined", "id", "time", "word", "other_time")
    assert sorted(row for row in found if row[2] is not None) == pairs(rounds)
    _, final = watermarks(rounds, with_others=True)
    with_partner = {(each[0], each[1]) for each in pairs(rounds)}
    alone = [(fact.id, fact.time) for fact in in_time(rounds)[0] if (fact.id, fact.time) not in with_partner]
    expected = sorted(each for each in alone if each[1] + WITHIN < final)
    assert sorted(row[:2] for row in found if row[2] is None) == expected
    assert expected


def test_a_stream_is_joined_to_the_table_as_it_is_at_each_batch(
    bootstrap: str, files: Path, rounds: list[Round]
) -> None:
    expected = Counter((fact.id, fact.name, each.people.get(fact.name)) for each in rounds for fact in each.facts)
    rows = values(bootstrap, "kinds-with-people")
    assert Counter((row["id"], row["name"], row.get("city")) for row in rows) == expected


def test_duplicates_are_dropped_while_they_can_be_known(spark: SparkSession, files: Path, rounds: list[Round]) -> None:
    early, _ = watermarks(rounds)
    known = {fact.id: fact.time for fact in rounds[0].facts}
    expected = sorted(known)
    remembered = {each for each, time in known.items() if time + FACTS_DELAY > early}
    expected += sorted({fact.id for fact in rounds[1].facts if fact.time > early} - remembered)
    assert sorted(row[0] for row in in_files(spark, files / "single", "id")) == sorted(expected)
    assert len(expected) < len(rounds[0].facts) + len(rounds[1].facts)


def test_a_stateful_function_goes_on_where_it_was(spark: SparkSession, files: Path, rounds: list[Round]) -> None:
    expected = []
    for number in (1, 2):
        so_far = [fact for each in rounds[:number] for fact in each.facts]
        new = {fact.name for fact in rounds[number - 1].facts}
        for name in sorted(new):
            amounts = [fact.amount for fact in so_far if fact.name == name]
            expected.append((name, len(amounts), sum(amounts)))
    assert sorted(in_files(spark, files / "running_totals", "name", "count", "total")) == sorted(expected)


def test_late_records_are_dead_letters_of_the_queries_that_drop_them(
    bootstrap: str, files: Path, rounds: list[Round]
) -> None:
    early, _ = watermarks(rounds)
    joined, _ = watermarks(rounds, with_others=True)
    facts, others = rounds[1].facts, rounds[1].others
    expected: dict[str, list[bytes]] = {
        "tumbling": [fact.id.encode() for fact in facts if fact.time - fact.time % (5 * MINUTE) + 5 * MINUTE <= early],
        "session": [fact.id.encode() for fact in facts if fact.time + GAP <= early],
        "single": [fact.id.encode() for fact in facts if fact.time <= early],
        "inner_joined": [fact.id.encode() for fact in facts if fact.time <= joined]
        + [other.name.encode() for other in others if other.time <= joined],
    }
    found: dict[str, list[bytes]] = defaultdict(list)
    for record in committed(bootstrap, "kinds-dead"):
        told = headers_of(record)
        if told["dead-letter.reason"] == "late":
            assert told["dead-letter.pipeline"] == "kinds"
            found[told["dead-letter.query"]].append(record.key or b"")
    for query, keys in expected.items():
        assert sorted(found[query]) == sorted(keys), query
    assert expected["tumbling"]
    assert "with_people" not in found, "a query without state drops nothing"


def test_what_cannot_be_decoded_is_a_dead_letter_once_however_many_queries_read_it(
    bootstrap: str, files: Path, rounds: list[Round]
) -> None:
    broken = [
        (record, headers_of(record))
        for record in committed(bootstrap, "kinds-dead")
        if headers_of(record)["dead-letter.reason"] == "undecodable"
    ]
    by_source = Counter((told["dead-letter.topic"], record.value) for record, told in broken)
    # three sources read the topic, each with its own schema: each tells once
    assert by_source == {("kinds-facts", b'{"id": "0'): 3, ("kinds-facts", b'{"id": "1'): 3}
    original = {
        record.offset: record.value for record in committed(bootstrap, "kinds-facts") if record.key == b"broken"
    }
    assert {int(told["dead-letter.offset"]) for _, told in broken} == set(original)
