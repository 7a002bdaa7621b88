"""Topics made, grown, removed and made again in bulk, faster than their logs can be: all are usable in the end."""

from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kit.brokers.processes import OttlaProcess

SECONDS = 120.0


class Bulk:
    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.names = [f"topic{number}" for number in range(500)]

    def create(self) -> None:
        for done in self.admin.create_topics([NewTopic(name, 1, 1) for name in self.names]).values():
            done.result(SECONDS)

    def delete(self) -> None:
        for done in self.admin.delete_topics(self.names).values():
            done.result(SECONDS)


def test_topics_that_are_made_and_removed_in_bulk_can_all_be_written_to(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as node:
        bulk = Bulk(node.bootstrap)
        bulk.admin.create_topics([NewTopic("wide", 300, 1)])["wide"].result(SECONDS)
        bulk.admin.create_partitions([NewPartitions("wide", 400)])["wide"].result(SECONDS)
        for _ in range(3):
            bulk.create()
            bulk.delete()
        bulk.create()
        failures: list[KafkaError] = []

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer({"bootstrap.servers": node.bootstrap})
        for name in bulk.names:
            producer.produce(name, b"value", on_delivery=told)
        for partition in range(400):
            producer.produce("wide", b"value", partition=partition, on_delivery=told)
        assert producer.flush(SECONDS) == 0
        assert not failures
        assert "ERROR" not in node.log
        node.restart()
        assert len(Bulk(node.bootstrap).admin.list_topics(timeout=SECONDS).topics) == len(bulk.names) + 1
