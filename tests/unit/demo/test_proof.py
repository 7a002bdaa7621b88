"""The count at the end of the demo finds what is lost and what is doubled."""

from __future__ import annotations

from collections import Counter

import ottla.testing
from ottla import blocking
from ottla.demo.proof import compare, read_everything
from ottla.demo.till import fingerprint


def test_equal_counts_are_whole() -> None:
    verdict = compare(Counter({b"a": 2, b"b": 1}), Counter({b"a": 2, b"b": 1}))
    assert verdict.whole
    assert verdict == (3, 3, 0, 0)


def test_one_lost_and_one_doubled_do_not_make_up_for_each_other() -> None:
    verdict = compare(Counter({b"a": 1, b"b": 1}), Counter({b"a": 2}))
    assert (verdict.acknowledged, verdict.found, verdict.lost, verdict.doubled) == (2, 2, 1, 1)
    assert not verdict.whole


def test_fingerprints_tell_records_apart_also_where_their_bytes_run_together() -> None:
    assert fingerprint("t", b"ab", b"c") != fingerprint("t", b"a", b"bc")
    assert fingerprint("t", b"a", b"b") != fingerprint("u", b"a", b"b")
    assert fingerprint("t", b"a", b"b") == fingerprint("t", b"a", b"b")


async def test_everything_in_the_topics_is_read_as_often_as_it_is_there() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic("one", partitions=2)
        broker.create_topic("empty")
        with blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for value in (b"x", b"y", b"x"):
                producer.send("one", value, key=value)
        found = await read_everything(["one", "empty"], broker.bootstrap)
    assert found == {fingerprint("one", b"x", b"x"): 2, fingerprint("one", b"y", b"y"): 1}
