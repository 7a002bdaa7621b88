"""What was committed is known from the log, when coordinators no longer know: batches of the exactly-once sink."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla.blocking
from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic
from kit.others.sink_runs import Run, assert_committed, lose, unanswered
from ottla.base.vocabulary import TopicPartition
from ottla.client.errors import BrokerError
from ottla.client.settings import PRODUCER
from ottla.spark.evidence import is_committed
from ottla.spark.journal import Journal
from ottla.spark.session import session_for
from ottla.spark.sink import Written

Begin = Callable[[str], Run]


@pytest.fixture
def run(broker: Broker) -> Begin:
    def begin(topic: str) -> Run:
        create_topic(broker, topic, 2)
        return Run(broker, topic)

    return begin


def unconcluded(query: Run, monkeypatch: pytest.MonkeyPatch) -> list[Written]:
    """A batch whose driver is killed when its transactions are committed, and before that is noted."""
    messages = query.tasks(0, [["a"], ["b"]])
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "conclude", unanswered)
        query.commit(0, messages)
    return messages


def test_what_was_committed_is_known_from_the_log_when_its_coordinator_has_forgotten(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a driver that was replaced aborts what it takes for leftovers of its own, a moment too late."""
    query = run("decided-overtaken")
    for message in unconcluded(query, monkeypatch):
        lose(query, message)
    again = query.tasks(0, [["a"], ["b"]])
    assert [message.rows for message in again] == [0, 0]
    query.commit(0, again)
    assert_committed(broker, "decided-overtaken", ["a", "b"])


def test_what_the_log_no_longer_has_is_not_proven_and_is_written_again(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("decided-deleted")
    for message in unconcluded(query, monkeypatch):
        lose(query, message)
    with ottla.blocking.Admin(bootstrap_servers=f"{broker.host}:{broker.port}") as admin:
        admin.delete_records({TopicPartition("decided-deleted", number): -1 for number in range(2)})
    query.batch(0, [["a"], ["b"]])
    assert_committed(broker, "decided-deleted", ["a", "b"])


def test_what_others_have_open_does_not_hide_what_was_committed(
    broker: Broker, run: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run("decided-hidden")
    with ottla.blocking.Producer(bootstrap_servers=f"{broker.host}:{broker.port}", transactional_id="other") as other:
        other.init_transactions()
        other.begin_transaction()
        for number in range(2):
            other.send("decided-hidden", b"other", partition=number)
        other.flush()
        for message in unconcluded(query, monkeypatch):
            lose(query, message)
        query.batch(0, [["a"], ["b"]])
        other.abort_transaction()
    assert_committed(broker, "decided-hidden", ["a", "b"])


def test_nothing_is_said_of_a_transaction_that_has_no_end(broker: Broker, run: Begin) -> None:
    query = run("decided-open")
    (message,) = query.tasks(0, [["a"]])
    assert message.identity is not None
    assert message.landed is not None
    session = session_for(PRODUCER, query.options.settings)
    with pytest.raises(BrokerError, match="has not ended yet"):
        session.run(is_committed(session.cluster, message.identity, message.landed, session.time() + 2.0))
    query.commit(0, [message])
    assert session.run(is_committed(session.cluster, message.identity, message.landed, session.deadline()))
    for other in (message.identity._replace(producer_epoch=17), message.identity._replace(producer_id=12345)):
        assert not session.run(is_committed(session.cluster, other, message.landed, session.deadline()))
