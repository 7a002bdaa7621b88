"""Which parts of a long request a controller decides one after the other.

Owns: the lists whose elements have nothing to do with each other, for brokers that pass requests on and for a
controller's own listener. Never knows: how a request is cut, how its parts are decided.
"""

from ottla.wire.lists import Lists

FACTS_AT_ONCE = 500
"""Topics and partitions of them that are created at once, each a fact: some milliseconds."""

CREATE_TOPICS = Lists(("topics",), ("topics",), once=("name",), weight=lambda topic: max(topic.num_partitions, 0))
CREATE_PARTITIONS = Lists(("topics",), ("results",), once=("name",), weight=lambda topic: max(topic.count, 0))
DELETE_TOPICS = (
    Lists(("topics",), ("responses",), once=("name", "topic_id")),
    Lists(("topic_names",), ("responses",), once=()),
)
ALTER_CONFIGS = Lists(("resources",), ("responses",), once=("resource_type", "resource_name"))
ALTER_PARTITION_REASSIGNMENTS = Lists(("topics", "partitions"), ("responses", "partitions"))
LIST_PARTITION_REASSIGNMENTS = Lists(("topics", "partition_indexes"), ("topics", "partitions"))
ELECT_LEADERS = Lists(("topic_partitions", "partitions"), ("replica_election_results", "partition_result"))
DESCRIBE_QUORUM = Lists(("topics", "partitions"), ("topics", "partitions"))
ALTER_PARTITION = Lists(("topics", "partitions"), ("topics", "partitions"))
ASSIGN_REPLICAS_TO_DIRS = Lists(("directories", "topics", "partitions"), ("directories", "topics", "partitions"))
