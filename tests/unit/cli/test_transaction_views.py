"""Which transactions hang, and what is shown of them."""

from ottla.base.vocabulary import TopicPartition
from ottla.cli.output import plain
from ottla.cli.transaction_views import (
    ProducerAt,
    describe_json,
    describe_text,
    hanging,
    list_json,
    list_table,
    open_transactions,
    producers_json,
    producers_table,
)
from ottla.client.admin.transactions import ActiveProducer, ListedTransaction, TransactionDescription

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
QUIET = ActiveProducer(7, 2, 10, 1_000, -1, 40)
BUSY = ActiveProducer(8, 0, 3, 9_000, 5, 50)
DONE = ActiveProducer(9, 0, 3, 1_000, 5, -1)
OPEN = TransactionDescription("tx", "Ongoing", 7, 2, 60_000, 1_000, (HERE,), 1)


def test_a_transaction_is_suspect_when_its_producer_has_long_been_silent() -> None:
    found = open_transactions({THERE: (QUIET,), HERE: (QUIET, BUSY, DONE)}, silent_since=5_000)
    assert found == [ProducerAt(HERE, QUIET), ProducerAt(THERE, QUIET)]


def test_one_hangs_that_no_coordinator_knows_or_not_at_that_place() -> None:
    suspects = [ProducerAt(HERE, QUIET), ProducerAt(THERE, QUIET)]
    listed = [ListedTransaction("tx", 7, "Ongoing", 1)]
    assert hanging(suspects, listed, {"tx": OPEN}) == [ProducerAt(THERE, QUIET)]
    assert hanging(suspects, listed, {}) == suspects
    assert hanging(suspects, [], {}) == suspects


def test_ids_are_listed_with_their_coordinator() -> None:
    listed = [ListedTransaction("tx", 7, "Ongoing", 1)]
    assert plain(list_table(listed)).splitlines()[1].split() == ["tx", "1", "7", "Ongoing"]
    assert list_json(listed) == [
        {"transactional_id": "tx", "coordinator": 1, "producer_id": 7, "state": "Ongoing"}
    ]  # fmt: skip


def test_a_description_says_since_when_and_where() -> None:
    assert describe_text(OPEN, 3_500) == (
        "transactional id  tx\nstate             Ongoing\ncoordinator       1\nproducer          7, epoch 2\n"
        "time-out          60 s\nstarted           1970-01-01T00:00:01Z, 2.5 s ago\npartition         t:0\n"
    )
    idle = OPEN._replace(started=-1, partitions=())
    assert "started" not in describe_text(idle, 3_500)
    assert describe_json(idle)["started"] is None


def test_producers_are_shown_with_where_their_transactions_began() -> None:
    found = [ProducerAt(HERE, QUIET), ProducerAt(HERE, DONE)]
    rows = [line.split() for line in plain(producers_table(found)).splitlines()[1:]]
    assert rows == [
        ["t", "0", "7", "2", "-", "10", "1970-01-01T00:00:01Z", "40"],
        ["t", "0", "9", "0", "5", "3", "1970-01-01T00:00:01Z", "-"],
    ]
    assert [row["start_offset"] for row in producers_json(found)] == [40, None]
