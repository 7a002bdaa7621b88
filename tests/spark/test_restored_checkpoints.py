"""The exactly-once sink at the edges: checkpoints from backups, commits that fail, dead runs; one story with Spark."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import ottla.blocking
from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, values_of
from kit.others.sink_runs import Run, assert_committed, lose, unanswered, write
from kit.wire.batches import Rec
from ottla.admin import NewTopic
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import DeadlineExceeded
from ottla.spark import sink, transactions, writing
from ottla.spark.errors import BadOption, CheckpointMismatch
from ottla.spark.evidence import Landed
from ottla.spark.fingerprints import Fingerprint, Tally, combined
from ottla.spark.journal import Fence, Journal, Part, SinkDecision, Superseded
from ottla.spark.pipelines.workers import patiently
from ottla.spark.session import Session
from ottla.spark.sink import BatchWriter, Task, TransactionLost
from ottla.spark.sink_options import parse_sink
from ottla.spark.transactions import TransactionIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECONDS = 300
Begin = Callable[..., Run]


@pytest.fixture
def run(broker: Broker) -> Begin:
    def begin(topic: str, **more: str) -> Run:
        create_topic(broker, topic, 2)
        return Run(broker, topic, **more)

    return begin


def plan(checkpoint: Path, batch: int, end: int) -> None:
    """What Spark notes before a batch begins."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    moment = random.Random(end).randrange(2**40)
    text = f'v1\n{{"batchTimestampMs":{moment}}}\n{{"in":{{"0":{end}}}}}'
    (checkpoint / "offsets" / str(batch)).write_text(text)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_batch_before_the_last_decision_is_refused_and_not_dropped(broker: Broker, run: Begin) -> None:
    query = run("restored-older")
    for batch in range(3):
        query.batch(batch, [[f"{batch}a"], [f"{batch}b"]])
    with pytest.raises(CheckpointMismatch, match="batch 1 is to be written, and batch 2 is in the topic"):
        query.tasks(1, [["1a", "new"], ["1b"]])
    named = Run(broker, "restored-older", sinkId="after the backup")  # what the sentence advises
    named.batch(1, [["1a", "new"], ["1b"]])
    assert_committed(broker, "restored-older", ["0a", "0b", "1a", "1a", "1b", "1b", "2a", "2b", "new"])


def test_the_last_batch_with_other_rows_is_refused_and_not_dropped(broker: Broker, run: Begin) -> None:
    query = run("restored-same")
    query.batch(0, [["a"], ["b"]])
    for rows, said in (
        ([["a", "new"], ["b"]], "is in the topic with 2 rows, and now has 3"),
        ([["a"], ["c"]], "is in the topic, and now has other rows"),
    ):
        messages = query.tasks(0, rows)
        with pytest.raises(CheckpointMismatch, match=said):
            query.commit(0, messages)
    assert_committed(broker, "restored-same", ["a", "b"])


def test_the_last_batch_is_recognized_however_its_rows_are_placed(broker: Broker, run: Begin) -> None:
    query = run("restored-replay")
    query.batch(0, [["a", "b"], ["c"]])
    for rows in ([["b", "a"], ["c"]], [["c", "b", "a"]], [["a"], ["b"], ["c"], []]):
        messages = query.tasks(0, rows)
        assert not any(message.rows for message in messages)
        query.commit(0, messages)
    query.batch(1, [["d"]])
    assert_committed(broker, "restored-replay", ["a", "b", "c", "d"])


def test_rows_that_differ_each_time_are_not_compared_if_the_user_says_so(broker: Broker, run: Begin) -> None:
    query = run("restored-random", compareRows="false")
    query.batch(0, [["a"], ["b"]])
    query.batch(0, [["c"], ["d"]])
    assert_committed(broker, "restored-random", ["a", "b"])


def test_a_checkpoint_that_can_be_read_says_whether_a_batch_is_the_same(
    broker: Broker, run: Begin, tmp_path: Path
) -> None:
    query = run("restored-ranges", checkpointLocation=f"file:{tmp_path}/")
    plan(tmp_path, 0, 2)
    query.batch(0, [["a"], ["b"]])
    query.batch(0, [["x"], ["y", "z"]])  # the same offsets: the query makes other rows of them each time
    plan(tmp_path, 0, 3)
    with pytest.raises(CheckpointMismatch, match="batch 0 is in the topic, and now reads other offsets"):
        query.tasks(0, [["a"], ["b"]])
    assert_committed(broker, "restored-ranges", ["a", "b"])


def test_a_checkpoint_that_was_moved_is_told_by_which_name_to_go_on(broker: Broker, run: Begin) -> None:
    run("restored-moved", checkpointLocation="/before/q").batch(3, [["a"], ["b"]])
    moved = Run(broker, "restored-moved", checkpointLocation="hdfs://far/after/q")
    messages = moved.tasks(3, [["a"], ["b"]])
    with pytest.raises(CheckpointMismatch, match="sinkId to /before/q"):
        moved.commit(3, messages)
    moved.abort(3, messages)
    Run(broker, "restored-moved", checkpointLocation="hdfs://far/after/q", sinkId="/before/q").batch(3, [["a"], ["b"]])
    assert_committed(broker, "restored-moved", ["a", "b"])
    moved.batch(4, [["c"]])  # nothing is unclear about the batches that follow
    assert_committed(broker, "restored-moved", ["a", "b", "c"])


def test_a_checkpoint_that_was_left_behind_when_its_copy_went_on_is_told_so(broker: Broker, run: Begin) -> None:
    original = run("left-behind")
    copy = Run(broker, "left-behind", checkpointLocation="/elsewhere/left-behind")
    copy.query = original.query
    original.batch(0, [["a"]])
    copy.batch(1, [["b"]])
    for batch, rows in ((2, ["c"]), (3, ["d"])):
        original.batch(batch, [rows])  # moved back in good order: nothing is told
    with pytest.raises(CheckpointMismatch, match="batch 2 is to be written, and batch 3 of this query is in the topic"):
        copy.batch(2, [["c", "d"]])
    assert_committed(broker, "left-behind", ["a", "b", "c", "d"])


def test_what_others_keep_among_decisions_is_passed_over(broker: Broker, run: Begin) -> None:
    first = run("strangers", decisionTopic="decisions-and-more")
    first.batch(0, [["a"]])
    for key, value in ((b"\xff", b"\x00"), (b"somebody/driver", b"{}"), (b"somebody", first.query.encode())):
        fill(broker, "decisions-and-more", [Rec(value, key)])
    first.batch(1, [["b"]])
    Run(broker, "strangers", decisionTopic="decisions-and-more", sinkId="new").batch(0, [["c"]])
    assert_committed(broker, "strangers", ["a", "b", "c"])


def test_what_the_first_release_decided_is_still_recognized(broker: Broker, run: Begin) -> None:
    query = run("restored-upgrade")
    (message,) = Run(broker, "restored-upgrade", sinkId="whoever").tasks(5, [["a"]])
    assert message.identity is not None
    session, name = sink._session(query.options), query.options.sink_id
    journal = Journal(session, query.options.decision_topic, name)
    driver = session.run(transactions.init(session.cluster, f"ottla-spark-{name}", session.deadline()))
    fence = Fence(driver.producer_id, driver.producer_epoch, -1)
    form = {
        "query": query.query,
        "batch": 5,
        "generation": fence.generation,
        "tasks": {"0": list(message.identity)},
        "done": [1],
        "tasks_of_batch": 2,
    }
    session.run(journal._append(fence, 0, f"{name}/driver", b"%d" % fence.generation))
    session.run(journal._append(fence, 1, name, json.dumps(form).encode()))
    query.batch(5, [["a"], []])
    query.batch(6, [["b"], []])
    assert_committed(broker, "restored-upgrade", ["a", "b"])


# --- decisions --------------------------------------------------------------------------------------------------------


def renewed(query: Run) -> Callable[..., Any]:
    """As every 32767 batches, when the epochs of a producer id are used up: the next driver gets another one."""
    real = transactions.init

    async def init(cluster: Any, name: str, *more: Any, **options: Any) -> TransactionIdentity:
        identity = await real(cluster, name, *more, **options)
        if name != f"ottla-spark-{query.options.sink_id}":
            return identity
        producer_id, epoch = await transactions.init_idempotent(cluster, more[-1])
        return identity._replace(producer_id=producer_id, producer_epoch=epoch)

    return init


def test_a_replaced_driver_cannot_decide_when_its_successor_got_another_producer_id(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition refuses nobody then."""
    query = run("decided-rotation")
    stale = query.tasks(7, [["a"], ["b"]])
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "init", renewed(query))
        fresh = query.tasks(7, [["a"], ["b"]])
        with pytest.raises(Superseded):
            query.commit(7, stale)
        query.abort(7, stale)
        again = query.tasks(7, [["a"], ["b"]])  # the stale decision lies in the topic, and does not count
        assert [message.rows for message in again] == [1, 1]
        with pytest.raises(Superseded):
            query.commit(7, fresh)
        query.commit(7, again)
    assert_committed(broker, "decided-rotation", ["a", "b"])


def test_a_decision_of_a_replaced_driver_does_not_count_however_far_back_its_successor_is(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("decided-far", decisionTopic="decisions-far")
    stale = query.tasks(7, [["a"], ["b"]])
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "init", renewed(query))
        query.batch(7, [["a"], ["b"]])
    fill(broker, "decisions-far", [Rec(b"", b"other sinks") for _ in range(60)])
    with pytest.raises(Superseded):
        query.commit(7, stale)
    again = query.tasks(7, [["a"], ["b"]])
    assert [message.rows for message in again] == [0, 0]
    query.commit(7, again)
    assert_committed(broker, "decided-far", ["a", "b"])


def test_what_is_decided_is_not_aborted_when_the_commit_fails(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("decided-unanswered")
    messages = query.tasks(0, [["a"], ["b"], ["c"]])
    with monkeypatch.context() as patch:
        patch.setattr(sink, "_commit", unanswered)
        with pytest.raises(DeadlineExceeded):
            query.commit(0, messages)
    query.abort(0, messages)  # as Spark does then
    query.batch(0, [["a", "b"], ["c"]])
    assert_committed(broker, "decided-unanswered", ["a", "b", "c"])


def test_what_is_decided_is_finished_under_another_name_too(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("decided-before")
    messages = query.tasks(0, [["a"], ["b"]])
    with monkeypatch.context() as patch:
        patch.setattr(sink, "_commit", unanswered)
        with pytest.raises(DeadlineExceeded):
            query.commit(0, messages)
    elsewhere = run("decided-elsewhere", checkpointLocation="/checkpoints/decided-before")
    elsewhere.query = query.query
    elsewhere.batch(0, [["a", "b"]])
    assert_committed(broker, "decided-before", ["a", "b"])
    assert_committed(broker, "decided-elsewhere", ["a", "b"])


def test_a_decision_that_comes_after_the_abort_is_none(broker: Broker, run: Begin) -> None:
    """Its request was on the way when the driver stopped waiting for it."""
    query = run("decided-late")
    messages = query.tasks(0, [["a"], ["b"]])
    query.abort(0, messages)
    with pytest.raises(Superseded):
        query.commit(0, messages)
    query.batch(0, [["a", "b"]])
    assert_committed(broker, "decided-late", ["a", "b"])


def test_a_batch_of_which_nothing_was_committed_may_have_another_number_of_tasks(broker: Broker, run: Begin) -> None:
    query = run("decided-nothing")
    messages = query.tasks(0, [["a"], ["b"], []])
    for message in messages[:2]:
        lose(query, message)
    with pytest.raises(TransactionLost):
        query.commit(0, messages)
    query.abort(0, messages)
    query.batch(0, [["a", "b"], []])
    assert_committed(broker, "decided-nothing", ["a", "b"])


def test_a_batch_that_was_committed_in_part_is_refused_when_its_rows_moved(broker: Broker, run: Begin) -> None:
    query = run("decided-part")
    messages = query.tasks(0, [["a"], ["b", "c"], []])
    lose(query, messages[1])
    with pytest.raises(TransactionLost):
        query.commit(0, messages)
    for rows, said in (
        ([["a"], ["b", "c"]], "had 3 tasks, of which some were committed, and now has 2"),
        ([["b"], ["a", "c"], []], "task 0 has other rows"),
        ([["a"], ["b"], ["c"]], "task 1 has other rows"),
    ):
        again = query.tasks(0, rows)
        with pytest.raises(TransactionLost, match=said):
            query.commit(0, again)
        query.abort(0, again)
    query.batch(0, [["a"], ["c", "b"], []])
    assert_committed(broker, "decided-part", ["a", "b", "c"])


def test_a_batch_is_known_to_be_committed_after_somebody_took_one_of_its_ids(broker: Broker, run: Begin) -> None:
    query = run("decided-taken")
    messages = query.tasks(0, [["a"], ["b"]])
    query.commit(0, messages)
    lose(query, messages[0])  # a straggler: coordinators no longer know what became of the transaction
    query.batch(0, [["a"], ["b"]])
    assert_committed(broker, "decided-taken", ["a", "b"])


def test_a_decision_of_fifty_thousand_tasks_fits_into_a_record(broker: Broker, run: Begin) -> None:
    query = run("decided-large")
    session = sink._session(query.options)
    journal = Journal(session, query.options.decision_topic, query.options.sink_id)
    fence = session.run(journal.fence())
    content = random.Random(1)
    parts = {
        number: Part(
            TransactionIdentity(f"ottla-spark-{query.options.sink_id}-7-{number}-0", 4_000_000 + number * 3, 17, True),
            Fingerprint(1000 + number % 977, content.randrange(2**32)),
            Landed("orders-of-the-shop", number % 12, 4_000_000_000 + number * 1000 + content.randrange(977)),
        )
        for number in range(50_000)
    }
    whole = combined(part.fingerprint for part in parts.values())
    decision = SinkDecision(
        query.query, 1, (fence.producer_id, fence.generation), parts, len(parts), whole, topic="t", place="p"
    )
    session.run(journal.decide(fence, decision))
    assert session.run(journal.last(session.run(journal.fence()))) == (decision, [])


def test_a_topic_that_forgets_decisions_is_refused(broker: Broker, run: Begin) -> None:
    with ottla.blocking.Admin(bootstrap_servers=f"{broker.host}:{broker.port}") as admin:
        admin.create_topics([NewTopic("forgetful", 1, configs={"cleanup.policy": "delete"})])
    query = run("decided-forgotten", decisionTopic="forgetful")
    with pytest.raises(BadOption, match=r"decisionTopic cannot be forgetful.*must be compact"):
        query.tasks(0, [["a"]])


@pytest.mark.parametrize("allowed", [True, False], ids=["where it is allowed", "and else not"])
def test_what_is_to_be_decided_has_no_time_out_where_the_cluster_offers_that(
    start_broker: Callable[[Mapping[str, str]], AbstractContextManager[Broker]], allowed: bool
) -> None:
    settings = {
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": str(allowed).lower(),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with start_broker(settings) as broker:
        create_topic(broker, "held", 2)
        query = Run(broker, "held", **{"transaction.timeout.ms": "500"})
        messages = query.tasks(0, [["a"], ["b"]])
        session = sink._session(query.options)
        other = transactions.init(session.cluster, "other", session.deadline(), timeout_ms=500)
        identity = session.run(other)
        part = [TopicPartition("held", 0)]
        session.run(transactions.add(session.cluster, identity, part, session.deadline()))
        # when this one's time is over, that of the tasks would be, too
        until(lambda: "other" not in session.run(find_open(session, "")), "the time-out of an ordinary transaction")
        if not allowed:
            with pytest.raises(TransactionLost):
                query.commit(0, messages)
            messages = query.tasks(0, [["a"], ["b"]])
        query.commit(0, messages)
        assert_committed(broker, "held", ["a", "b"])
        write(query.shipped(), Task(query.query, 1, 0, 0), ["dead"])  # what nobody decides must not be held for ever
        query.batch(1, [["c"]])
        assert_committed(broker, "held", ["a", "b", "c"])


def test_who_begins_no_transaction_is_held_to_no_bound_of_its_time(
    start_broker: Callable[[Mapping[str, str]], AbstractContextManager[Broker]],
) -> None:
    settings = {
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": "30000",  # less than what the sink asks for elsewhere
    }
    with start_broker(settings) as broker:
        create_topic(broker, "bounded", 2)
        query = Run(broker, "bounded")
        for number in range(2):
            write(query.shipped(), Task(query.query, 0, number, 0), ["dead"])  # no time-out ends these
        query.batch(0, [["a"]])
        assert_committed(broker, "bounded", ["a"])


async def find_open(session: Session, prefix: str) -> list[str]:
    return await transactions.find_open(session.cluster, prefix, session.deadline())


# --- leftovers --------------------------------------------------------------------------------------------------------


def test_what_dead_runs_left_open_is_ended_before_the_next_begins(broker: Broker, run: Begin) -> None:
    query = run("left-open")
    for _ in range(2):  # two drivers in a row die in the middle of a batch
        writer = query.shipped()
        for number, attempt in ((0, 0), (0, 1), (5, 0)):
            write(writer, Task(query.query, 0, number, attempt), ["dead"])
    query.batch(0, [["a"], ["b"]])
    assert_committed(broker, "left-open", ["a", "b"])


def test_an_attempt_that_ran_beside_the_chosen_one_holds_nobody_back(broker: Broker, run: Begin) -> None:
    query = run("left-beside")
    writer = query.shipped()
    chosen = write(writer, Task(query.query, 0, 0, 0), ["a"])
    write(writer, Task(query.query, 0, 0, 1), ["a"])
    query.commit(0, [chosen])
    assert_committed(broker, "left-beside", ["a"])


def test_what_a_task_of_the_run_before_began_late_is_ended_with_the_next_batch(broker: Broker, run: Begin) -> None:
    query = run("left-late")
    query.batch(0, [["a"]])
    stopped = query.shipped()
    messages = query.tasks(1, [["b"]])
    write(stopped, Task(query.query, 1, 3, 0), ["late"])  # it was told to stop, and did not hear it at once
    query.commit(1, messages)
    assert_committed(broker, "left-late", ["a", "b"])


def test_leftovers_that_could_not_be_looked_for_are_looked_for_with_the_next_batch(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("left-later")
    write(query.shipped(), Task(query.query, 0, 5, 0), ["dead"])
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "find_open", unanswered)
        query.batch(0, [["a"]])
    query.batch(1, [["b"]])
    assert_committed(broker, "left-later", ["a", "b"])


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows_of_a_batch_write_are_there_once_when_an_answer_is_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker, "rows-once", 1)
    given = {"bootstrap.servers": f"{broker.host}:{broker.port}", "topic": "rows-once"}
    real = writing.RowWriter._send
    calls = iter(range(10))

    async def send(writer: writing.RowWriter, *arguments: Any) -> Any:
        outcome = await real(writer, *arguments)
        if next(calls) == 0:
            raise DeadlineExceeded("the answer is late")
        return outcome

    monkeypatch.setattr(writing.RowWriter, "_send", send)
    writer = BatchWriter(parse_sink(given, {"value": "string"}, streaming=False))
    assert writer.write(iter([pa.record_batch({"value": ["a", "b"]})])).rows == 2
    assert next(calls) == 2
    assert values_of(broker, "rows-once") == [b"a", b"b"]


def test_a_fingerprint_knows_rows_and_not_their_order() -> None:
    def of(*rows: tuple[str | None, str | None]) -> Fingerprint:
        tally = Tally(looks=True)
        keys, values = zip(*rows, strict=True)
        tally.write("t", pa.record_batch({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())}))
        return tally.fingerprint

    rows = [("k", "v"), (None, "w"), ("l", None)]
    assert of(*rows) == of(*reversed(rows)) == combined([of(rows[0]), of(*rows[1:])])
    assert of(*rows) != of(("l", "v"), (None, "w"), ("k", None))
    assert not of(*rows).matches(of(*rows[1:]))


class Nameless:
    """The context of a task that Spark says nothing about."""

    @staticmethod
    def get() -> Nameless:
        return Nameless()

    def getLocalProperty(self, _name: str) -> None:  # noqa: N802 — Spark's name
        return None


def test_a_task_of_no_query_is_not_taken_for_one_of_some_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "TaskContext", Nameless)
    with pytest.raises(AssertionError, match="which query"):
        sink._this_task()


# --- with Spark -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # PySpark leaves sockets to the collector
@pytest.mark.timeout(900)
def test_a_query_with_a_checkpoint_from_a_backup_ends_with_a_sentence(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create_topic(broker, "backup-in", 1)
    create_topic(broker, "backup-out", 1)
    servers = f"{broker.host}:{broker.port}"
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"

    def begin(**given: str) -> StreamingQuery:
        source = {"kafka.bootstrap.servers": servers, "subscribe": "backup-in", "startingOffsets": "earliest"}
        rows = spark.readStream.format("ottla").options(**source).load().select("value")
        target = {"kafka.bootstrap.servers": servers, "topic": "backup-out", "checkpointLocation": str(checkpoint)}
        return rows.writeStream.format("ottla").options(**(target | given)).trigger(availableNow=True).start()

    def put(*values: bytes) -> None:
        fill(broker, "backup-in", [Rec(value) for value in values])

    put(b"1", b"2")
    assert patiently(lambda: begin().awaitTermination(SECONDS))
    shutil.copytree(checkpoint, backup)
    put(b"3", b"4")
    assert patiently(lambda: begin(checkpointLocation=f"file://{checkpoint}/").awaitTermination(SECONDS))
    put(b"5")
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    with pytest.raises(StreamingQueryException, match="batch 1 is in the topic, and now reads other offsets"):
        patiently(lambda: begin().awaitTermination(SECONDS))
    assert_committed(broker, "backup-out", ["1", "2", "3", "4"])
    assert patiently(lambda: begin(sinkId="after the backup").awaitTermination(SECONDS))
    assert_committed(broker, "backup-out", ["1", "2", "3", "3", "4", "4", "5"])
