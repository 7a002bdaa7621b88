"""One replicated topic on a world of brokers, with requests to each of its replicas: for tests of replication alone."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kit.worlds.broker_worlds import PORT, BrokerWorld, topic_facts, topic_id_of
from ottla.base.errors import ErrorCode
from ottla.broker.broker import Broker
from ottla.client.links import NodeLinks
from ottla.metadata.image import PartitionImage
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.header import iterate_headers
from ottla.records.record import Record
from ottla.replicas.partitions import Partition
from ottla.sim.disk import SimDisk
from ottla.wire.links import Link
from ottla.wire.messages import fetch, produce
from ottla.wire.stored.metadata import PartitionChangeRecord

T = TypeVar("T")
TOPIC = "orders"
TOPIC_ID = topic_id_of(TOPIC)
SETTINGS = {"replica.lag.time.max.ms": "10000"}


class Replicas(BrokerWorld):
    """See the module. The controller grants every change of an in-sync set that fits the partition's epoch."""

    def __init__(self, count: int = 3, seed: int = 1, racks: bool = False, settings: Mapping[str, str] = {}) -> None:
        super().__init__({}, brokers=count, seed=seed, racks=racks, settings={**SETTINGS, **settings})
        self.controller.refusal = ErrorCode.NONE
        self.asking = self.client()
        """The loop of those who ask."""
        self._links: dict[int, Link] = {}

    # --- the topic ---

    def create(self, replicas: list[int], config: Mapping[str, str] = {}, partitions: int = 1) -> None:
        self.publish(*topic_facts(TOPIC, [replicas] * partitions, config))
        self.advance(0.1)

    def change(self, partition: int = 0, **fields: Any) -> None:
        """The controller decides so."""
        self.publish(PartitionChangeRecord(partition_id=partition, topic_id=TOPIC_ID, **fields))

    def state(self, partition: int = 0) -> PartitionImage:
        """As it is committed."""
        return self.image.topics[TOPIC].partitions[partition]

    def broker(self, number: int) -> Broker:
        return self.nodes[number].broker

    def disk(self, number: int) -> SimDisk:
        return self.nodes[number].disk

    def partition(self, broker: int, number: int = 0) -> Partition:
        found = self.broker(broker).partitions.held(TOPIC, number)
        assert isinstance(found, Partition), found
        return found

    def end(self, broker: int) -> int:
        log = self.partition(broker).log
        assert log is not None
        return log.end_offset

    def watermark(self, broker: int) -> int:
        log = self.partition(broker).log
        assert log is not None
        return log.high_watermark

    # --- time and requests ---

    def advance(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    def until(self, true: Callable[[], bool], seconds: float = 30) -> None:
        deadline = self.scheduler.now + seconds
        while not true():
            assert self.scheduler.now < deadline, "it did not come true in time"
            assert self.scheduler.step()

    def complete(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return self.scheduler.complete(self.asking, work, seconds)

    def link(self, broker: int) -> Link:
        if broker not in self._links:
            self._links[broker] = NodeLinks().link(f"node-{broker}", PORT)
        return self._links[broker]

    async def produce(
        self, broker: int, value: bytes, acks: int = -1, timeout_ms: int = 5000, partition: int = 0
    ) -> produce.PartitionProduceResponse:
        batch = build_batch([Record(0, 1_750_000_000_000, None, value)])
        request = produce.ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                produce.TopicProduceData(
                    topic_id=TOPIC_ID, partition_data=[produce.PartitionProduceData(partition, bytes(batch))]
                )
            ],
        )
        answer = await self.link(broker).ask(request, produce.ProduceResponse, 30)
        self.last_produced = answer
        return answer.responses[0].partition_responses[0]

    async def fetch(self, broker: int, offset: int, rack: str = "", wait_ms: int = 0) -> fetch.PartitionData:
        request = fetch.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_epoch=-1,
            rack_id=rack,
            topics=[
                fetch.FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)],
                )
            ],
        )
        answer = await self.link(broker).ask(request, fetch.FetchResponse, 30)
        self.last_fetched = answer
        return answer.responses[0].partitions[0]

    def values(self, broker: int) -> list[bytes | None]:
        """Everything in a broker's log, committed or not."""
        log = self.partition(broker).log
        assert log is not None
        found: list[bytes | None] = []
        position = log.start_offset
        while position < log.end_offset:
            part = log.read(position, 1 << 20, log.end_offset, True)
            assert part is not None
            assert not isinstance(part, ErrorCode)
            data = part.file.read_at(part.position, part.length)
            for start, header in iterate_headers(data):
                found += [record.value for record in read_records(data, header, start)]
                position = header.next_offset
        return found
