"""Kafka's DumpLogSegments on the files of a stopped broker: it reads our files as its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from confluent_kafka import Producer

from kit.brokers.brokers import Broker
from kit.brokers.topics import create_topic, fill
from kit.others import java
from kit.wire.batches import Rec

COMPLAINTS = (
    "Mismatches in",
    "Found timestamp",
    "Found out of order",
    "Exception",
    "isvalid: false",
)

StartBroker = Callable[[Mapping[str, str]], AbstractContextManager[Broker]]


def dump(files: list[Path], *arguments: str) -> str:
    """What the tool prints of these files; it ends with code 0 even when it finds them broken."""
    printed = java.run("DumpLogSegments", *arguments, "--files", ",".join(map(str, files)))
    lines = (printed.output + printed.errors).splitlines()
    assert [line for line in lines if any(complaint in line for complaint in COMPLAINTS)] == []
    return printed.output


def test_every_file_is_whole(start_broker: StartBroker) -> None:
    with start_broker({"log.index.interval.bytes": "512"}) as broker:
        create_topic(broker, "events", configs={"segment.bytes": "1048576", "compression.type": "producer"})
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            fill(broker, "events", [Rec(b"value %d" % number, b"key", headers=(("h", b"v"),))], compression=codec)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
        for number in range(3000):
            producer.produce("events", b"%d " % number + b"x" * 1000, b"key")
            producer.poll(0)
        assert producer.flush(60) == 0
        directory = broker.directories[0]
    partition = directory / "events-0"
    segments = sorted(partition.glob("*.log"))
    assert len(segments) >= 3, "the log rolled"
    printed = dump(segments, "--deep-iteration", "--print-data-log")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", printed, re.MULTILINE)]
    assert offsets == list(range(3005))
    assert "isvalid: false" not in printed
    codecs = re.findall(r"compresscodec: (\w+)", printed)
    assert codecs[:5] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert "headerKeys: [h]" in printed

    dump(sorted(partition.glob("*.index")), "--index-sanity-check")
    indexes = dump([*sorted(partition.glob("*.index")), *sorted(partition.glob("*.timeindex"))])
    assert "offset: " in indexes
    assert "timestamp: " in indexes
    snapshots = dump(sorted(partition.glob("*.snapshot")))
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: 2999", snapshots)


def test_the_metadata_log_is_read_by_kafkas_decoder(start_broker: StartBroker) -> None:
    with start_broker({}) as broker:
        create_topic(broker, "orders", 2, {"retention.ms": "5000"})
        directory = broker.directories[0]
    printed = dump(sorted((directory / "__cluster_metadata-0").glob("*.log")), "--cluster-metadata-decoder")
    assert '"type":"TOPIC_RECORD"' in printed
    assert '"name":"orders"' in printed
    assert printed.count('"type":"PARTITION_RECORD"') >= 2
    assert '"type":"CONFIG_RECORD"' in printed
    assert '"name":"retention.ms","value":"5000"' in printed
