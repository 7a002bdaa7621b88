"""AssignReplicasToDirs: a broker says in which of its directories a replica lies.

Owns: the checks, with Kafka's codes, and the facts that follow. Never knows: directories themselves.
Invariants: a replica that turns out to lie in a directory that stopped working leaves the in-sync set by the same fact.
One that lay in a directory which the broker has no more, and lies in another now, was made anew: whatever the one
before it was, it does not lead by that, unless it is the only one there is.
"""

from ottla.base.errors import ErrorCode
from ottla.metadata.brokers import is_current
from ottla.metadata.decision import DecisionContext, MetadataDecision
from ottla.metadata.image import BrokerImage, TopicImage
from ottla.metadata.partitions import Elector, Found, is_online
from ottla.metadata.placement import UNASSIGNED_DIRECTORY
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


# The rules that follow from where a replica lies: design/0023.
def assign(
    request: AssignReplicasToDirsRequest, context: DecisionContext
) -> MetadataDecision[AssignReplicasToDirsResponse]:
    """AssignReplicasToDirs."""
    image = context.image
    if not is_current(request.broker_id, request.broker_epoch, image):
        return MetadataDecision([], AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    broker = image.brokers[request.broker_id]
    assignment = _Assignment(broker, context)
    directories = [assignment.take(directory) for directory in request.directories]
    facts = [*assignment.staying.facts, *assignment.leaving.facts]
    return MetadataDecision(facts, AssignReplicasToDirsResponse(directories=directories))


class _Assignment:
    """One request of one broker."""

    def __init__(self, broker: BrokerImage, context: DecisionContext) -> None:
        self.staying = Elector(context)
        self.leaving = Elector(context, without=broker.id)
        self._broker = broker
        self._context = context
        self._done: set[tuple[bytes, int]] = set()

    def take(self, directory: DirectoryData) -> ResponseDirectoryData:
        topics: list[ResponseTopicData] = []
        for wanted in directory.topics:
            topic = self._context.image.topics_by_id.get(wanted.topic_id)
            answers = [
                ResponsePartitionData(each.partition_index, self._assign(topic, each.partition_index, directory.id))
                for each in wanted.partitions
            ]
            topics.append(ResponseTopicData(wanted.topic_id, answers))
        return ResponseDirectoryData(directory.id, topics)

    def _assign(self, topic: TopicImage | None, number: int, directory: bytes) -> ErrorCode:
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self._context.image.partition(topic.name, number)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker.id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if (topic.topic_id, number) in self._done:
            # A replica lies in one place; the first that was named counts.
            return ErrorCode.INVALID_REQUEST
        self._done.add((topic.topic_id, number))
        found = Found(topic, number, partition)
        works = directory in self._broker.directories
        elector = self.staying if works else self.leaving
        change = elector.change(found)
        for replica in partition.replicas:
            # Of the others nobody has said anything; a guess would be believed.
            change.directories.setdefault(replica, UNASSIGNED_DIRECTORY)
        made_anew = works and not is_online(change.directories[self._broker.id], self._broker)
        change.directories[self._broker.id] = directory
        if not works or (made_anew and len(partition.replicas) > 1):
            change.in_sync = [replica for replica in partition.in_sync if replica != self._broker.id]
            change.made_anew = (self._broker.id,) if made_anew else ()
        elector.decide(found, change)
        return ErrorCode.NONE
