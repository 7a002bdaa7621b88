"""Kafka's own command line tools, from its jars. Each test is a sequence of tools, as a JVM takes a second to start."""

from __future__ import annotations

import json
import re
import time

from kit.brokers.brokers import Broker
from kit.brokers.processes import until
from kit.brokers.topics import create_topic, fill, records_of, values_of
from kit.others import java
from kit.wire.batches import Rec

NOW = int(time.time() * 1000) - 3_600_000


def topics(broker: Broker, *arguments: str) -> java.Printed:
    return java.run("TopicCommand", "--bootstrap-server", broker.bootstrap, *arguments)


def configs(broker: Broker, *arguments: str) -> java.Printed:
    return java.run("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)


def test_topics_are_created_described_altered_and_deleted(broker: Broker, topic: str) -> None:
    topics(broker, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000")
    described = topics(broker, "--describe", "--topic", topic).output
    assert re.search(rf"Topic: {topic}\s+TopicId: \S{{22}}\s+PartitionCount: 2\s+ReplicationFactor: 1", described)
    assert "retention.ms=5000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 2
    topics(broker, "--alter", "--topic", topic, "--partitions", "3")
    until(lambda: "PartitionCount: 3" in topics(broker, "--describe", "--topic", topic).output, "three partitions")
    refused = java.attempt("TopicCommand", "--bootstrap-server", broker.bootstrap, "--alter", "--topic", topic,
                           "--partitions", "1")  # fmt: skip
    assert refused.code == 1
    assert "would not be an increase" in refused.output
    topics(broker, "--delete", "--topic", topic)
    assert topic not in topics(broker, "--list").lines


def test_no_partition_of_a_healthy_broker_is_under_replicated_or_unavailable(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    for filter_name in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert topics(broker, "--describe", "--topic", topic, filter_name).output.strip() == ""


def test_a_topics_settings_are_described_added_and_deleted(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    configs(broker, "--alter", *of_topic, "--add-config", "retention.ms=7000,cleanup.policy=[compact,delete]")
    described = configs(broker, "--describe", *of_topic).output
    assert "retention.ms=7000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7000" in described
    assert "cleanup.policy=compact,delete" in described
    configs(broker, "--alter", *of_topic, "--delete-config", "cleanup.policy")
    every = configs(broker, "--describe", "--all", *of_topic).output
    assert "  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}" in every
    assert "  segment.bytes=1073741824 sensitive=false" in every
    assert every.count("sensitive=false") >= 30


def test_brokers_settings_are_described_and_changed(broker: Broker) -> None:
    one, default = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    configs(broker, "--alter", *one, "--add-config", "log.cleaner.backoff.ms=11000")
    configs(broker, "--alter", *default, "--add-config", "log.cleaner.backoff.ms=12000")
    described = configs(broker, "--describe", "--all", *one).output
    levels = {"DYNAMIC_BROKER_CONFIG": 11000, "DYNAMIC_DEFAULT_BROKER_CONFIG": 12000, "DEFAULT_CONFIG": 15000}
    synonyms = ", ".join(f"{level}:log.cleaner.backoff.ms={value}" for level, value in levels.items())
    assert f"log.cleaner.backoff.ms=11000 sensitive=false synonyms={{{synonyms}}}" in described
    assert "log.cleaner.backoff.ms=12000" in configs(broker, "--describe", *default).output
    configs(broker, "--alter", *one, "--delete-config", "log.cleaner.backoff.ms")
    configs(broker, "--alter", *default, "--delete-config", "log.cleaner.backoff.ms")
    refused = java.attempt("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter",
                           *one, "--add-config", "num.partitions=3")  # fmt: skip
    assert refused.code == 1
    assert "Cannot update these configs dynamically" in refused.output + refused.errors


def test_offsets_are_shown_by_time(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 2)
    fill(broker, topic, [Rec(b"%d" % at, timestamp=NOW + time) for at, time in enumerate((0, 5000, 2000))])

    def offsets(when: str) -> list[str]:
        return java.run(
            "GetOffsetShell", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--time", when
        ).lines

    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("latest") == [f"{topic}:0:3", f"{topic}:1:0"]
    assert offsets("max-timestamp")[0] == f"{topic}:0:1"
    assert offsets(str(NOW + 1))[0] == f"{topic}:0:1"


def test_records_are_deleted_and_directories_described(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    fill(broker, topic, [Rec(b"%d" % number) for number in range(5)])
    wanted = broker.data.parent / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    printed = java.run(
        "DeleteRecordsCommand", "--bootstrap-server", broker.bootstrap, "--offset-json-file", str(wanted)
    )
    assert f"partition: {topic}-0\tlow_watermark: 3" in printed.output
    described = java.run("LogDirsCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic)
    (answer,) = (json.loads(line) for line in described.lines if line.startswith("{"))
    (directory,) = answer["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert [row["partition"] for row in directory["partitions"]] == [f"{topic}-0"]
    assert directory["partitions"][0]["size"] > 0


def test_the_console_tools_write_and_read(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    java.run(
        "ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:", "--compression-codec", "zstd",
        stdin="k1:one\nk2:two\nk3:three\n",
    )  # fmt: skip
    assert [(record.key, record.value) for record in records_of(broker, topic)] == [
        (b"k1", b"one"),
        (b"k2", b"two"),
        (b"k3", b"three"),
    ]
    reading = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--formatter-property", "print.key=true")
    printed = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *reading,
        "--partition",
        "0",
        "--offset",
        "1",
        "--max-messages",
        "2",
    )
    assert printed.lines == ["k2\ttwo", "k3\tthree"]
    group = ("--group", f"group-{topic}", "--from-beginning", "--max-messages", "3")
    assert java.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *reading, *group).lines == [
        "k1\tone",
        "k2\ttwo",
        "k3\tthree",
    ]


def test_the_verifiable_tools_agree(broker: Broker, topic: str) -> None:
    create_topic(broker, topic)
    written = java.run(
        "VerifiableProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--max-messages", "500",
        "--acks", "-1",
    )  # fmt: skip
    events = [json.loads(line) for line in written.lines]
    acknowledged = [int(event["value"]) for event in events if event["name"] == "producer_send_success"]
    assert sorted(acknowledged) == list(range(500))
    assert values_of(broker, topic) == [b"%d" % number for number in range(500)]
    read = java.run(
        "VerifiableConsumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", f"group-{topic}",
        "--max-messages", "500", "--verbose", "--reset-policy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in read.lines if line.startswith("{")]
    assert [int(event["value"]) for event in events if event["name"] == "record_data"] == list(range(500))


def test_load_is_generated_with_every_acknowledgement(broker: Broker, topic: str) -> None:
    create_topic(broker, topic, 3)
    printed = java.run(
        "ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all", "compression.type=lz4",
    )  # fmt: skip
    assert printed.lines[-1].startswith("20000 records sent")
    assert sum(len(values_of(broker, topic, number)) for number in range(3)) == 20000


def test_the_cluster_is_named_and_speaks_what_kafka_speaks(broker: Broker) -> None:
    printed = java.run("ClusterTool", "cluster-id", "--bootstrap-server", broker.bootstrap)
    assert re.fullmatch(r"Cluster ID: \S{22}", printed.output.strip())
    spoken = java.run("BrokerApiVersionsCommand", "--bootstrap-server", broker.bootstrap).output
    assert "(id: 1 rack: null isFenced: false)" in spoken
    for line in (
        "Produce(0): 0 to 13 [usable: 13]",
        "Fetch(1): 4 to 18 [usable: 18]",
        "Metadata(3): 0 to 13 [usable: 13]",
    ):
        assert line in spoken
