"""What must hold inside the nodes at every moment, looked at from outside while they run.

Owns: the invariants that no client can see: one leader per epoch, watermarks and last stable offsets that never go
back, logs and images that agree, and that whoever may be elected has all that was acknowledged and, in sync, all below
the watermark. Never knows: how anything came about, what clients do. Invariant: a look changes nothing in the nodes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ottla.base.vocabulary import TopicPartition
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.records.header import iterate_headers
from ottla.sim.cluster import SimCluster, SimNode

Told = Callable[[str], None]
KEPT_IMAGES = 200


class _Mark(NamedTuple):
    """How far readers get at a leader in one epoch."""

    life: int
    epoch: int
    high_watermark: int
    last_stable_offset: int


class Watch:
    """Looks at all nodes from time to time; `violation` hears what must not be."""

    def __init__(self, cluster: SimCluster, violation: Told, acknowledged_end: Mapping[TopicPartition, int]) -> None:
        self._cluster = cluster
        self._violation = violation
        self._acknowledged_end = acknowledged_end
        self._newest: ClusterImage | None = None
        self._heard: dict[int, int] = {}
        self._tell = cluster.scheduler.trace.tell
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._controllers: dict[int, int] = {}
        self._marks: dict[tuple[int, TopicPartition], _Mark] = {}
        self._images: dict[int, tuple[str, ClusterImage]] = {}
        self.looks = 0

    def look(self) -> None:
        self.looks += 1
        for node in self._cluster.nodes:
            if node.assembly is None or not node.ready:
                continue
            self._look_at_quorum(node)
            self._look_at_image(node)
            self._look_at_watermarks(node)
        self._look_at_members()

    def _look_at_quorum(self, node: SimNode) -> None:
        assert node.assembly is not None
        leader, epoch = node.assembly.quorum.leader
        if leader != NO_LEADER and self._controllers.setdefault(epoch, leader) != leader:
            self._violation(
                f"two leaders of the quorum in epoch {epoch}: {self._controllers[epoch]} and {leader} ({node.name})"
            )

    def _look_at_image(self, node: SimNode) -> None:
        assert node.assembly is not None
        image = node.assembly.loader.image
        self._see(image)
        if self._heard.get(node.id) != node.life:
            # Between two looks somebody may see more than anybody who is left at the second one.
            self._heard[node.id] = node.life
            node.assembly.loader.subscribe(lambda delta, image: self._see(image))
        known = self._images.get(image.offset)
        if known is None:
            self._images[image.offset] = (node.name, image)
            if len(self._images) > KEPT_IMAGES:
                del self._images[min(self._images)]
        elif known[1] is not image and known[0] != node.name and known[1] != image:
            self._violation(
                f"images differ at offset {image.offset}: {known[0]} and {node.name}: {_difference(known[1], image)}"
            )
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition.leader == NO_LEADER:
                    continue
                key = (topic.topic_id, number, partition.leader_epoch)
                if key not in self._leaders:
                    self._tell(
                        f"{topic.name}-{number} is led by {partition.leader} in epoch {partition.leader_epoch}, "
                        f"in sync {partition.in_sync}, eligible {partition.eligible}"
                    )
                if self._leaders.setdefault(key, partition.leader) != partition.leader:
                    self._violation(
                        f"two leaders of {topic.name}-{number} in epoch {partition.leader_epoch}: "
                        f"{self._leaders[key]} and {partition.leader} ({node.name})"
                    )

    def _look_at_watermarks(self, node: SimNode) -> None:
        assert node.assembly is not None
        if node.assembly.broker is None:
            return
        for partition in node.assembly.broker.partitions:
            log = partition.log
            if log is None or not partition.leads:
                continue
            mark = _Mark(node.life, partition.leader_epoch, log.high_watermark, log.last_stable_offset)
            before = self._marks.get((node.id, partition.name))
            self._marks[node.id, partition.name] = mark
            if before is not None and before[:2] == mark[:2]:
                for what, was, found in zip(_Mark._fields[2:], before[2:], mark[2:], strict=True):
                    if found < was:
                        self._violation(
                            f"the {what} of {partition.name} went back on {node.name} in epoch {mark.epoch}: "
                            f"{was} to {found}"
                        )
            if log.high_watermark > log.end_offset:
                self._violation(
                    f"the high watermark of {partition.name} on {node.name} is beyond its end: "
                    f"{log.high_watermark} > {log.end_offset}"
                )

    def _see(self, image: ClusterImage) -> None:
        if self._newest is None or image.offset > self._newest.offset:
            self._newest = image

    def _look_at_members(self) -> None:
        """Whoever is in sync or eligible, and serves, has every record that was acknowledged; in sync, all below the
        high watermark."""
        serving = {node.id: node for node in self._cluster.nodes if node.ready and node.assembly is not None}
        for name, end in self._acknowledged_end.items():
            partition = None if self._newest is None else self._newest.partition(*name)
            if partition is None:
                continue
            for replica in (*partition.in_sync, *partition.eligible):
                node = serving.get(replica)
                broker = None if node is None or node.assembly is None else node.assembly.broker
                held = None if broker is None else broker.partitions.get(name)
                if held is None or held.log is None:
                    continue
                mark = self._marks.get((partition.leader, name))
                least = end
                if mark is not None and mark.epoch == partition.leader_epoch and replica in partition.in_sync:
                    least = max(end, mark.high_watermark)
                if held.log.end_offset < least:
                    self._violation(
                        f"node-{replica} may lead {name} and ends at {held.log.end_offset}, counted on up to {least}: "
                        f"leader {partition.leader} in epoch {partition.leader_epoch}, in sync {partition.in_sync}, "
                        f"eligible {partition.eligible}"
                    )

    # --- at the end ---------------------------------------------------------------------------------------------------

    def compare_logs(self) -> None:
        """Below the lowest watermark all replicas hold the same bytes."""
        replicas: dict[TopicPartition, list[tuple[str, PartitionLog]]] = {}
        for node in self._cluster.nodes:
            if node.assembly is None or node.assembly.broker is None:
                continue
            for partition in node.assembly.broker.partitions:
                if partition.log is not None:
                    replicas.setdefault(partition.name, []).append((node.name, partition.log))
        for name, logs in replicas.items():
            upto = min(log.high_watermark for _, log in logs)
            since = max(log.start_offset for _, log in logs)
            first_name, first = logs[0]
            expected = dict(_batches(first, since, upto))
            for other_name, other in logs[1:]:
                found = dict(_batches(other, since, upto))
                for offset in sorted(expected.keys() | found.keys()):
                    if expected.get(offset) != found.get(offset):
                        self._violation(f"{name} differs at offset {offset} between {first_name} and {other_name}")
                        break


def _batches(log: PartitionLog, since: int, upto: int) -> Iterator[tuple[int, bytes]]:
    """The batches that lie wholly between two offsets, by their first offset."""
    for segment in log.segments:
        data = segment.file.read_at(0, segment.file.size())
        for start, header in iterate_headers(data):
            if header.base_offset >= since and header.next_offset <= upto:
                yield header.base_offset, data[start : start + header.size]


def _difference(one: ClusterImage, other: ClusterImage) -> str:
    names = [name for name in ClusterImage._fields if getattr(one, name) != getattr(other, name)]
    return "; ".join(f"{name}: {getattr(one, name)!r} and {getattr(other, name)!r}" for name in names)[:1000]
