"""What the pipeline wrote is read and told; what keeps it from running is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ottla.testing
from ottla import blocking
from ottla.demo import books


async def test_the_books_are_read_as_a_reader_of_committed_records_sees_them() -> None:
    outcomes = [
        {"order": f"o{number}", "customer": "c1", "item": "tea", "cents": 100, "method": method}
        for number, method in enumerate(["card", "card", None, "wallet", None])
    ]
    with ottla.testing.broker() as broker:
        broker.create_topic(books.OUTCOMES, partitions=2)
        with blocking.Producer(bootstrap_servers=broker.bootstrap, transactional_id="sink") as producer:
            producer.init_transactions()
            with producer.transaction():
                for outcome in outcomes:
                    producer.send(books.OUTCOMES, json.dumps(outcome).encode(), key=b"k")
            producer.begin_transaction()
            producer.send(books.OUTCOMES, b"never to be seen").result()
            producer.abort_transaction()
        found = await books.read(broker.bootstrap)
    assert found.orders == 5
    assert found.paid == {"card": 2, "": 2, "wallet": 1}
    assert [example["order"] for example in found.examples] == ["o0", "o1", "o2", "o4"]


async def test_a_pipeline_that_fails_says_why_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "PIPELINE", "there-is-none.yaml")
    with pytest.raises(books.Failed, match=r"the pipeline ended with code \d: .*there-is-none\.yaml"):
        await books.keep("127.0.0.1:1", tmp_path, 120.0)


async def test_a_pipeline_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(books.TooSlow, match="not done after 0 s"):
        await books.keep("127.0.0.1:1", tmp_path, 0.01)
