"""Facts in record values: Kafka's frame, round trips, and bytes that are none."""

import pytest

from kit.machines.clusters import topic_facts
from ottla.metadata.facts import KINDS, BadFact, decode_fact, decode_facts, encode_fact, encode_facts
from ottla.wire.stored.metadata import ConfigRecord, NoOpRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord


def test_a_fact_is_framed_as_in_kafkas_metadata_log() -> None:
    # Taken from a log that Kafka 4.3.1 wrote: frame version, kind, version, then the message.
    assert encode_fact(NoOpRecord()) == bytes.fromhex("01140000")
    assert encode_fact(TopicRecord(name="zz", topic_id=bytes(16))) == bytes.fromhex("010200037a7a" + "00" * 16 + "00")


def test_versions_that_are_written_are_those_of_kafka_4_3() -> None:
    versions = {
        type(fact): encode_fact(fact)[2] for fact in (PartitionRecord(), RegisterBrokerRecord(), ConfigRecord())
    }

    assert versions == {PartitionRecord: 2, RegisterBrokerRecord: 4, ConfigRecord: 0}


def test_every_kind_reads_back_as_it_was_written() -> None:
    for kind in KINDS.values():
        value = bytes(encode_fact(kind()))
        assert encode_fact(decode_fact(value)) == value


def test_runs_of_alike_partitions_are_written_and_read_like_single_ones() -> None:
    facts = [*topic_facts("one", 3), *topic_facts("two", 2, (1, 2)), *topic_facts("three", 2)]
    facts.insert(2, ConfigRecord(resource_type=2, resource_name="one", name="retention.ms", value="1"))

    values = encode_facts(facts)

    assert values == [bytes(encode_fact(fact)) for fact in facts]
    assert decode_facts(values) == [decode_fact(value) for value in values]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "ends inside"),
        (b"\x02\x14\x00\x00", "frame has version 2"),
        (b"\x01\x63\x00\x00", "no fact of kind 99 in version 0"),
        (b"\x01\x14\x07\x00", "no fact of kind 20 in version 7"),
        (b"\x01\x14\x00\x00\x00", "1 bytes are left over"),
        (b"\x01\x02\x00\x7f", "ends inside"),
        (b"\x01\x02\x00\x03\xff\xff" + bytes(17), "utf-8"),
    ],
)
def test_bytes_that_are_no_fact_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(BadFact, match=reason):
        decode_facts([value])


def test_a_record_without_a_value_is_refused() -> None:
    with pytest.raises(BadFact, match="no value"):
        decode_facts([None])
