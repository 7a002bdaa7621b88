"""ottla's consumer on a cluster whose leaders are killed, lose what was read, or stand further away than a follower."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

import ottla
from cluster.traffic import Traffic, read_all
from kit.brokers.cluster_processes import ClusterProcesses, NewCluster
from ottla import TopicPartition

PARTITIONS = 3
SECONDS = 120.0
PLACE = TopicPartition("numbers", 0)


class Reader:
    """Reads everything from the beginning, in the background."""

    def __init__(self, consumer: ottla.Consumer) -> None:
        self.seen: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}
        self._consumer = consumer
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for record in self._consumer:
            self.seen[record.partition].append((record.offset, record.value))

    async def reach(self, counts: dict[int, int]) -> None:
        """Return when so many records of every partition were read."""
        for _ in range(int(SECONDS * 20)):
            if self._task.done():
                self._task.result()
            if all(len(self.seen[number]) >= count for number, count in counts.items()):
                break
            await asyncio.sleep(0.05)
        self._task.cancel()


def write(cluster: ClusterProcesses, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(first, last):
        producer.produce("numbers", b"%d" % number, partition=0)
    assert producer.flush(SECONDS) == 0


async def values(consumer: ottla.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += [record.value for record in await consumer.poll(1.0)]
    return found


async def test_a_reader_follows_killed_leaders_without_gap_or_repetition(new_cluster: NewCluster) -> None:
    with new_cluster() as cluster:
        cluster.create_topic("numbers", PARTITIONS)
        async with ottla.Consumer(
            "numbers",
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            reader = Reader(consumer)
            with Traffic(cluster.bootstrap, "numbers", PARTITIONS) as traffic:
                await asyncio.to_thread(traffic.go_on, 300)
                for _ in range(2):
                    dead = await asyncio.to_thread(cluster.leader, "numbers")
                    await asyncio.to_thread(cluster.kill, dead)
                    await asyncio.to_thread(traffic.go_on, 300)
                    await asyncio.to_thread(cluster.start, dead)
                await asyncio.to_thread(cluster.heal)
            expected: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}
            for number, offset, value in await asyncio.to_thread(read_all, cluster.bootstrap, "numbers", PARTITIONS):
                expected[number].append((offset, value))
            await reader.reach({number: len(rows) for number, rows in expected.items()})
            assert reader.seen == expected


async def test_a_reader_hears_that_an_unclean_election_took_what_it_read(new_cluster: NewCluster) -> None:
    with new_cluster(settings={"unclean.leader.election.enable": "true"}) as cluster:
        cluster.create_topic("numbers", 1, 2, **{"min.insync.replicas": "1"})
        await asyncio.to_thread(write, cluster, 0, 10)
        leader = cluster.leader("numbers")
        (follower,) = set(cluster.partition("numbers")["replica_nodes"]) - {leader}
        async with (
            ottla.Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as strict,
            ottla.Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="latest") as lenient,
        ):
            for consumer in (strict, lenient):
                consumer.assign([PLACE])
                consumer.seek(PLACE, 0)
            assert len(await values(strict, 10)) == 10
            await asyncio.to_thread(cluster.kill, follower)
            await asyncio.to_thread(write, cluster, 10, 30)
            assert (await values(strict, 20))[-1] == b"29"
            assert (await values(lenient, 30))[-1] == b"29"
            await asyncio.to_thread(cluster.kill, leader)
            await asyncio.to_thread(cluster.start, follower)
            with pytest.raises(ottla.errors.LogTruncated) as raised:
                await values(strict, 1)
            assert (raised.value.positions, raised.value.diverged) == ({PLACE: 30}, {PLACE: 10})
            await asyncio.to_thread(write, cluster, 100, 103)
            assert await values(lenient, 3) == [b"100", b"101", b"102"]


async def test_a_replica_in_the_readers_rack_is_read(new_cluster: NewCluster) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    cluster = new_cluster(settings={"replica.selector.class": selector})
    for number, node in cluster.nodes.items():
        with node.folder.joinpath("server.properties").open("a") as file:
            file.write(f"broker.rack=rack-{number}\n")
    with cluster:
        cluster.create_topic("numbers", 1, 3)
        leader = cluster.leader("numbers")
        near = next(number for number in cluster.nodes if number != leader)
        async with ottla.Consumer(
            "numbers",
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            client_rack=f"rack-{near}",
        ) as consumer:
            await asyncio.to_thread(write, cluster, 0, 10)
            assert len(await values(consumer, 10)) == 10
            # The leader names a replica nearby with its next answer, as soon as that one is in sync.
            async with asyncio.timeout(SECONDS):
                while consumer.sources() != {PLACE: near}:
                    assert await consumer.poll(0.1) == []
            await asyncio.to_thread(cluster.kill, near)
            await asyncio.to_thread(write, cluster, 10, 20)
            assert len(await values(consumer, 10)) == 10
            assert consumer.sources()[PLACE] != near
