"""Each failure is one sentence: what, where, and what to do next."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import explain
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    CorruptRecords,
    DeadlineExceeded,
    NoOffset,
    ProducerFailed,
    ProducerFenced,
    ProtocolViolation,
    RecordTooLarge,
    TransactionFailed,
    UnsupportedRequest,
)

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ConnectionFailed("h:1", "connection refused"), ["h:1", "connection refused", "ottla serve", "--bootstrap"]),
        (ConnectionLost("h:1", "the broker closed the connection"), ["lost", "h:1", "log"]),
        (DeadlineExceeded("h:1 did not answer Fetch"), ["h:1 did not answer Fetch", "--timeout"]),
        (
            UnsupportedRequest("h:1", "DescribeCluster", "it does not know it"),
            ["h:1", "DescribeCluster", "newer broker"],
        ),
        (ProtocolViolation("h:1", "a frame claims 5 bytes"), ["h:1", "a frame claims 5 bytes", "port"]),
        (BrokerError(3, "topic 'x'", "hosted elsewhere"), ["topic 'x' does not exist;", "ottla topic create"]),
        (BrokerError(3, "partition 9 of topic 'x'", "the topic has 3"), ["does not exist (the topic has 3)"]),
        (BrokerError(36, "topic 'x'", "Topic 'x' already exists."), ["topic 'x' exists already;", "--if-not-exists"]),
        (BrokerError(40, "topic 'x'", "Unknown topic config name: y."), ["not valid (Unknown topic config name: y)"]),
        (BrokerError(87, "partition x-0", None), ["partition x-0 was given a record the topic does not take"]),
        (BrokerError(-1, "topic 'x'", None), ["refused with UNKNOWN_SERVER_ERROR"]),
        (BrokerError(31_000, "topic 'x'", None), ["refused with UNKNOWN_SERVER_ERROR"]),
        (ProducerFailed(DeadlineExceeded("it took too long")), ["duplicates or gaps", "it took too long"]),
        (
            ProducerFenced(BrokerError(90, "producer 7")),
            ["another producer", "stop the other"],
        ),
        (TransactionFailed(BrokerError(19, "t-0")), ["the transaction was aborted: t-0 has too few", "min.insync"]),
        (CorruptRecords(PLACE, 7, "a wrong checksum"), ["records at 7 of t-0", "a wrong checksum", "ottla log verify"]),
        (RecordTooLarge("9 bytes: the largest is 8 (max.request.size)"), ["too large", "--set, and raise max.message"]),
        (NoOffset([PLACE]), ["no committed offset", "t-0", "auto.offset.reset to earliest"]),
        (
            BrokerError(39, "topic 'x'", "broker 9 is unknown"),
            ["those brokers (broker 9 is unknown); 'ottla"],
        ),
    ],
)
def test_the_sentence_says_what_is_needed(problem: ClientError, words: list[str]) -> None:
    sentence = explain(problem, "boot:9092")
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


def test_every_code_has_a_sentence() -> None:
    for code in ErrorCode:
        assert explain(BrokerError(code, "topic 'x'"), "b").startswith("topic 'x' ")
