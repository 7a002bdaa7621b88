"""What went in and out of this broker, by topic.

Owns: the counters. Never knows: requests, who reads the numbers. Invariants: a counter never goes back; what was
counted for a topic that is gone stays in the sum of all topics. Plain numbers in slots: every batch passes here.
"""

COUNTED = (
    "bytes_in",
    "bytes_out",
    "failed_fetches",
    "failed_produces",
    "fetches",
    "messages_in",
    "produces",
)


class TopicTraffic:
    """What went into and out of one topic's partitions on this broker."""

    __slots__ = COUNTED

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.failed_fetches = 0
        self.failed_produces = 0
        self.fetches = 0
        self.messages_in = 0
        self.produces = 0

    def add(self, other: "TopicTraffic") -> None:
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """Of all topics, found by name and by id."""

    def __init__(self) -> None:
        self.by_name: dict[str, TopicTraffic] = {}
        self.by_key: dict[str | bytes, TopicTraffic] = {}
        """Likewise by id."""
        self._rest = TopicTraffic()
        """Of topics that are gone, or that are not there."""
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.in_sync_shrinks = 0
        self.in_sync_expansions = 0

    def begin(self, topic: str, topic_id: bytes) -> TopicTraffic:
        """The counters of a topic that this broker holds partitions of."""
        found = self.by_key.get(topic_id)
        if found is None:
            found = self.by_key[topic] = self.by_key[topic_id] = self.by_name[topic] = TopicTraffic()
        return found

    def of(self, topic: str | bytes) -> TopicTraffic:
        return self.by_key.get(topic, self._rest)

    def end(self, topic: str, topic_id: bytes) -> None:
        """No partition of the topic is here any more."""
        going = self.by_key.pop(topic_id, None)
        if going is None:
            return
        self._rest.add(going)
        if self.by_key.get(topic) is going:
            del self.by_key[topic], self.by_name[topic]

    def total(self) -> TopicTraffic:
        """Of all topics together, those of before included."""
        total = TopicTraffic()
        total.add(self._rest)
        for each in self.by_name.values():
            total.add(each)
        return total
