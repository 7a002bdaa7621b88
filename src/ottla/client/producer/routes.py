"""A topic as the producer's hot path sees it: its queues and the choice among them.

Owns: the queues of one topic, and the sticky choice for records without key. Never knows: batches' contents, requests.
Invariants: a queue lives as long as the producer, so that its sequence numbers go on; the sticky queue is one that has
a leader, where any has.
"""

from collections.abc import Sequence

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.base.vocabulary import NO_TOPIC_ID
from ottla.client.cluster import Topic
from ottla.client.errors import BadRecord, BrokerError
from ottla.client.producer.accumulator import PartitionQueue
from ottla.client.producer.partitioners import Partitioner, draw, weighted


class Choice:
    """How a producer chooses partitions; the same for all its topics."""

    __slots__ = ("adaptive", "available_seconds", "ignore_keys", "partitioner", "random")

    def __init__(
        self,
        random: Random,
        partitioner: Partitioner | None = None,
        *,
        ignore_keys: bool = False,
        adaptive: bool = True,
        available_seconds: float = 0.0,
    ) -> None:
        self.random = random
        self.partitioner = partitioner
        self.ignore_keys = ignore_keys
        self.adaptive = adaptive
        self.available_seconds = available_seconds


class Route:
    """One topic."""

    __slots__ = ("_choice", "available", "by_key", "count", "led", "name", "produced", "queues", "sticky", "topic_id")

    def __init__(self, name: str, choice: Choice) -> None:
        self.name = name
        self._choice = choice
        self.by_key = choice.partitioner is None and not choice.ignore_keys
        self.queues: list[PartitionQueue] = []
        self.count = 0
        self.topic_id: bytes = NO_TOPIC_ID
        self.led: list[PartitionQueue] = []
        self.available: Sequence[int] = ()
        self.sticky: PartitionQueue | None = None
        """Where records without key go; None when a partitioner decides."""
        self.produced = 0
        """Bytes that went there since it was chosen, without those in its open batch."""

    def learn(self, topic: Topic) -> None:
        """Take what the cluster says of the topic."""
        if NO_TOPIC_ID != self.topic_id != topic.topic_id != NO_TOPIC_ID:
            for queue in self.queues:
                queue.restart = True  # another topic of the same name: its log knows nothing of our numbers
        self.topic_id = topic.topic_id
        for number in range(len(self.queues), len(topic.partitions)):
            self.queues.append(PartitionQueue(self.name, number))
        self.count = len(topic.partitions)
        for part in topic.partitions:
            self.queues[part.number].leader = part.leader
        self.led = [self.queues[part.number] for part in topic.partitions if part.leader >= 0]
        self.led = self.led or self.queues[: self.count]
        self.available = [queue.number for queue in self.led]
        if self._choice.partitioner is None and self.sticky not in self.led:
            self.sticky = self.led[draw(self._choice.random, len(self.led))]
            self.produced = 0

    def at(self, number: int) -> PartitionQueue:
        """The queue of a partition that the user named."""
        if not 0 <= number < self.count:
            subject = f"partition {number} of topic {self.name!r}"
            message = f"the topic has {self.count} partitions"
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject, message)
        return self.queues[number]

    def choose(self, key: bytes | None, value: bytes | None) -> PartitionQueue:
        """The queue that the user's partitioner chooses."""
        partitioner = self._choice.partitioner
        assert partitioner is not None
        try:
            number = partitioner.partition(self.name, key, value, self.count, self.available)
        except Exception as problem:  # whatever the user's code raises is the fate of this one record
            raise BadRecord(f"the partitioner failed: {problem!r}") from problem
        if not isinstance(number, int):
            raise BadRecord(f"the partitioner chose {number!r}, which is no partition")
        return self.at(number)

    def switch(self, now: float) -> PartitionQueue:
        """Another queue for records without key: with adaptive partitioning the less likely the more waits in it."""
        choice = self._choice
        led = self.led
        if choice.available_seconds:
            moving = [
                queue
                for queue in led
                if queue.stuck_since is None or now - queue.stuck_since <= choice.available_seconds
            ]
            led = moving or led
        if choice.adaptive and len(led) > 1:
            lengths = [len(queue.waiting) for queue in led]
            most = max(lengths)
            index = weighted(choice.random, [most + 1 - length for length in lengths])
        else:
            index = draw(choice.random, len(led))
        self.sticky = led[index]
        self.produced = 0
        return self.sticky
