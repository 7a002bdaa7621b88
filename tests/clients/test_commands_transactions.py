"""`ottla transaction …` on ottla and on a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kit.brokers.brokers import Broker
from kit.brokers.command_line import Ottla
from kit.brokers.hanging import hang
from kit.brokers.processes import until
from ottla import blocking

SECONDS = 60.0


@contextmanager
def begun(broker: Broker, name: str, topic: str) -> Iterator[blocking.Producer]:
    """A producer with a record in an open transaction."""
    with blocking.Producer(bootstrap_servers=broker.bootstrap, transactional_id=name) as producer:
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.send_and_wait(topic, b"one", partition=0)
        yield producer


def producers(ottla: Ottla, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ottla.json("transaction", "producers", f"{topic}:0")
    return found


def test_an_open_transaction_is_listed_described_and_aborted(ottla: Ottla, any_broker: Broker, made: str) -> None:
    name = f"tx-{made}"
    with begun(any_broker, name, made) as producer:
        (listed,) = [row for row in ottla.json("transaction", "list") if row["transactional_id"] == name]
        assert (listed["state"], listed["coordinator"]) == ("Ongoing", 1)
        assert (
            name
            in ottla("transaction", "list", "--state", "Ongoing", "--producer-id", str(listed["producer_id"])).decode()
        )
        assert name not in ottla("transaction", "list", "--longer-than", "1h").decode()
        (described,) = ottla.json("transaction", "describe", name)
        assert described["partitions"] == [{"topic": made, "partition": 0}]
        assert described["timeout_ms"] == 60_000
        text = ottla("transaction", "describe", name).decode()
        assert f"partition         {made}:0\n" in text
        (active,) = producers(ottla, made)
        assert (active["producer_id"], active["start_offset"]) == (listed["producer_id"], 0)
        assert "no transaction hangs" in ottla(
            "transaction", "find-hanging", made, "--max-transaction-timeout", "0s"
        ).decode()  # fmt: skip
        assert ottla.lines("transaction", "abort", name) == [f"aborted transaction {name!r}"]
        until(lambda: producers(ottla, made)[0]["start_offset"] is None, "the end of the transaction", SECONDS)
        del producer


def test_a_hanging_transaction_is_found_and_aborted(ottla: Ottla, any_broker: Broker, made: str) -> None:
    check = "transaction.partition.verification.enable"

    def checked() -> str:
        (row,) = ottla.json("config", "describe", "broker", "1", check)["configs"]
        return str(row["value"])

    ottla("config", "alter", "broker", "1", f"{check}=false")
    try:
        until(lambda: checked() == "false", "brokers ask no coordinator", SECONDS)
        identifier = hang(any_broker, made)
    finally:
        ottla("config", "delete", "broker", "1", check)
    (found,) = ottla.json("transaction", "find-hanging", made)
    assert (found["partition"], found["producer_id"], found["start_offset"]) == (0, identifier, 0)
    assert ottla.lines("transaction", "find-hanging", "--broker", "1", made)[1].split()[0] == made
    assert ottla.json("transaction", "find-hanging", "--broker", "77", made) == []
    assert ottla.json("transaction", "find-hanging", made, "--max-transaction-timeout", "2h") == []
    wrong = ottla.attempt("transaction", "abort", "--partition", f"{made}:0", "--start-offset", "5")
    assert (wrong.returncode, b"began at offset 5" in wrong.stderr) == (1, True)
    ended = ottla("transaction", "abort", "--partition", f"{made}:0", "--start-offset", "0", "--json")
    assert json.loads(ended)[0]["aborted"]
    until(lambda: producers(ottla, made)[0]["start_offset"] is None, "the end of the transaction", SECONDS)
    assert ottla.json("transaction", "find-hanging", made) == []


def test_what_is_not_there_is_a_sentence_and_nothing_is_made(ottla: Ottla, topic: str) -> None:
    for verb in ("describe", "abort"):
        # A first question after a transactional id makes the cluster create the topic for them, which takes a while.
        answer = ottla.attempt("transaction", verb, f"tx-{topic}", "--timeout", "60")
        assert (answer.returncode, b"does not exist" in answer.stderr) == (1, True), answer
    assert f"tx-{topic}" not in ottla("transaction", "list").decode()


def test_wrong_usage_is_exit_code_2(broker: Broker) -> None:
    ottla = Ottla(broker.bootstrap)
    for arguments in (
        ("abort",),
        ("abort", "--partition", "t:0"),
        ("abort", "--partition", "t", "--start-offset", "0"),
    ):
        assert ottla.attempt("transaction", *arguments).returncode == 2
