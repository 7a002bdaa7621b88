"""The protocol of the exactly-once sink, without Spark: batches whose drivers die at each step, run again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import ottla.blocking
from kit.brokers.brokers import Broker, broker_under_test
from kit.brokers.processes import until
from kit.brokers.topics import create_topic
from kit.others.sink_runs import Run, assert_committed, committed_values
from ottla.admin import FeatureChange
from ottla.base.errors import ErrorCode
from ottla.client.errors import BrokerError
from ottla.spark import sink, transactions
from ottla.spark.journal import Superseded
from ottla.spark.sink import ExactStreamWriter, Task


class Killed(BaseException):
    """The driver's process ended here."""


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One whose transactions are of the first generation."""
    with broker_under_test(tmp_path_factory.mktemp("old") / "data") as running:
        with ottla.blocking.Admin(bootstrap_servers=f"{running.host}:{running.port}") as admin:
            outcome = admin.update_features({"transaction.version": 1}, FeatureChange.SAFE_DOWNGRADE)
        assert outcome["transaction.version"].error == ErrorCode.NONE
        yield running


@pytest.fixture(params=["second protocol", "first protocol"])
def protocol(request: pytest.FixtureRequest) -> str:
    """Every story is told in both generations of Kafka's transactions."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def broker(broker: Broker, protocol: str, request: pytest.FixtureRequest) -> Broker:
    """One that speaks it."""
    chosen: Broker = broker if protocol == "second protocol" else request.getfixturevalue("old_broker")
    return chosen


@pytest.fixture
def run(broker: Broker) -> Callable[[str], Run]:
    def begin(topic: str) -> Run:
        create_topic(broker, topic, 2)
        return Run(broker, topic)

    return begin


def test_a_transaction_is_of_the_generation_that_the_broker_speaks(run: Callable[[str], Run], protocol: str) -> None:
    (message,) = run("sink-generation").tasks(0, [["a"]])
    assert message.identity is not None
    assert message.identity.second_protocol == (protocol == "second protocol")


def test_batches_are_committed_one_after_another(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-plain")
    query.batch(0, [["a", "b"], ["c"], []])
    query.batch(1, [["d"], [], ["e"]])
    query.batch(2, [[], [], []])
    query.batch(3, [["f"], [], []])
    assert_committed(broker, "sink-plain", ["a", "b", "c", "d", "e", "f"])


def test_rows_are_invisible_until_the_batch_is_decided(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-open")
    messages = query.tasks(0, [["a"], ["b"]])
    assert committed_values(broker, "sink-open") == []
    query.commit(0, messages)
    assert_committed(broker, "sink-open", ["a", "b"])


def test_a_driver_killed_before_the_decision_leaves_nothing(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-before")
    query.tasks(0, [["a"], ["b"]])
    query.batch(0, [["a"], ["b"]])
    assert_committed(broker, "sink-before", ["a", "b"])


def test_a_driver_killed_after_the_decision_has_its_batch_finished(
    broker: Broker, run: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("sink-after")
    messages = query.tasks(0, [["a"], ["b"]])
    with monkeypatch.context() as patch:
        patch.setattr(sink, "_commit", killed_instead)
        with pytest.raises(Killed):
            query.commit(0, messages)
    again = query.tasks(0, [["b"], ["a"]])  # another order: what was decided counts
    assert_committed(broker, "sink-after", ["a", "b"])
    query.commit(0, again)
    query.batch(1, [["c"], []])
    assert_committed(broker, "sink-after", ["a", "b", "c"])


@pytest.mark.parametrize("ended", [1, 2])
def test_a_driver_killed_between_two_ends_has_its_batch_finished(
    broker: Broker, run: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    topic = f"sink-between-{ended}"
    query = run(topic)
    messages = query.tasks(0, [["a"], ["b"], ["c"]])
    real_end = transactions.end
    calls = iter(range(10))

    async def end_some(*arguments: Any) -> Any:
        if next(calls) >= ended:
            raise Killed
        return await real_end(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "end", end_some)
        with pytest.raises(Killed):
            query.commit(0, messages)
    query.batch(0, [["a"], ["b"], ["c"]])
    assert_committed(broker, topic, ["a", "b", "c"])


def test_a_driver_that_was_replaced_cannot_decide(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-zombie")
    stale = query.tasks(0, [["a"], ["b"]])
    fresh = query.tasks(0, [["a"], ["b"]])
    with pytest.raises(Superseded):
        query.commit(0, stale)
    query.commit(0, fresh)
    assert_committed(broker, "sink-zombie", ["a", "b"])


def test_a_decided_transaction_that_was_aborted_is_written_again_and_no_other(
    broker: Broker, run: Callable[[str], Run]
) -> None:
    query = run("sink-lost")
    messages = query.tasks(0, [["a"], ["b"]])
    identity = messages[1].identity
    assert identity is not None
    session = sink._session(query.options)
    session.run(transactions.init(session.cluster, identity.transactional_id, session.deadline()))
    with pytest.raises(sink.TransactionLost):
        query.commit(0, messages)
    again = query.tasks(0, [["a"], ["b"]])
    assert [message.rows for message in again] == [0, 1]
    query.commit(0, again)
    assert_committed(broker, "sink-lost", ["a", "b"])


def test_a_new_query_at_an_old_place_is_not_taken_for_a_replay(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-anew")
    query.batch(5, [["a"]])
    shipped = pickle.dumps(ExactStreamWriter(query.options))
    writer: ExactStreamWriter = pickle.loads(shipped)
    rows = pa.record_batch({"value": pa.array(["b"], pa.string())})
    query.commit(0, [writer.write_task(Task("other", 0, 0, 0), iter([rows]))])
    assert_committed(broker, "sink-anew", ["a", "b"])


def test_an_aborted_batch_leaves_nothing(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-aborted")
    messages = query.tasks(0, [["a"], ["b"]])
    ExactStreamWriter(query.options).abort([*messages, None], 0)
    assert committed_values(broker, "sink-aborted") == []
    query.batch(0, [["c"], []])
    assert_committed(broker, "sink-aborted", ["c"])


async def killed_instead(*_: Any, **__: Any) -> Any:
    raise Killed


def test_a_task_that_fails_leaves_nothing_and_its_next_attempt_writes(
    broker: Broker, run: Callable[[str], Run]
) -> None:
    query = run("sink-failed")
    shipped = pickle.dumps(ExactStreamWriter(query.options))

    def rows(fail: bool) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array(["a"], pa.string())})
        if fail:
            raise ZeroDivisionError

    writer: ExactStreamWriter = pickle.loads(shipped)
    with pytest.raises(ZeroDivisionError):
        writer.write_task(Task(query.query, 0, 0, 0), rows(True))
    query.commit(0, [writer.write_task(Task(query.query, 0, 0, 1), rows(False))])
    assert_committed(broker, "sink-failed", ["a"])


def test_a_task_whose_transaction_ran_out_of_time_says_so(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-late")
    writer, task = query.shipped(), Task(query.query, 0, 0, 0)
    session = sink._session(query.options)
    rows = pa.record_batch({"value": ["x" * 1000] * 5000})  # more than a portion: it is sent before the next is taken

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows
        prefix = f"ottla-spark-{query.options.sink_id}-"
        (own,) = until(
            lambda: session.run(transactions.find_open(session.cluster, prefix, session.deadline())), "its transaction"
        )
        session.run(transactions.init(session.cluster, own, session.deadline()))  # as its time-out would
        yield rows

    with pytest.raises(BrokerError, match=r"took longer than transaction\.timeout\.ms, or another driver"):
        writer.write_task(task, slowly())
    query.batch(0, [["a"]])
    assert_committed(broker, "sink-late", ["a"])


def test_what_attempts_left_open_that_died_is_aborted_with_the_batch(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-died")
    shipped = pickle.dumps(ExactStreamWriter(query.options))
    messages = []
    for attempt in range(3):  # two of them are never heard of: their rows are in open transactions
        writer: ExactStreamWriter = pickle.loads(shipped)
        rows = pa.record_batch({"value": pa.array(["a"], pa.string())})
        messages.append(writer.write_task(Task(query.query, 0, 0, attempt), iter([rows])))
    query.commit(0, messages[-1:])
    query.batch(1, [["b"]])
    assert_committed(broker, "sink-died", ["a", "b"])


def test_many_rows_of_several_topics_all_arrive(broker: Broker, run: Callable[[str], Run]) -> None:
    query = run("sink-many")
    create_topic(broker, "sink-more", 1)
    options = query.options._replace(topic="", columns=("value", "topic"))
    writer: ExactStreamWriter = pickle.loads(pickle.dumps(ExactStreamWriter(options)))
    batches = [
        pa.record_batch(
            {
                "value": [f"{first + each:06d}" for each in range(10_000)],
                "topic": ["sink-more" if each % 4 == 0 else "sink-many" for each in range(10_000)],
            }
        )
        for first in range(0, 150_000, 10_000)
    ]
    message = writer.write_task(Task(query.query, 0, 0, 0), iter(batches))
    assert message.rows == 150_000
    query.commit(0, [message])
    until(lambda: len(committed_values(broker, "sink-more")) == 37_500, "the rows of one topic")
    until(lambda: len(committed_values(broker, "sink-many")) == 112_500, "the rows of the other")
    values = committed_values(broker, "sink-many") + committed_values(broker, "sink-more")
    assert sorted(values) == [f"{each:06d}" for each in range(150_000)]
