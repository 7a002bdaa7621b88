"""Elections that somebody asks for, or that restore order: ElectLeaders, preferred leaders, unclean elections.

Owns: which partitions need one, and Kafka's codes. Never knows: who wins, that is in `metadata.partition_change`.
Invariant: an election that changes nothing leaves no fact.
"""

from ottla.base.errors import ErrorCode
from ottla.metadata.decision import MOST_FACTS, DecisionContext, MetadataDecision, Refusal
from ottla.metadata.facts import Fact
from ottla.metadata.image import NO_LEADER, ClusterImage
from ottla.metadata.partitions import Elector, Found, find
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED = 0
UNCLEAN = 1
MOST_AT_ONCE = 1000
"""Elections of one round of balancing: clients follow one round before the next begins."""

NOT_NEEDED = Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
NO_PREFERRED = Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
NO_ELIGIBLE = Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def elect(request: ElectLeadersRequest, context: DecisionContext) -> MetadataDecision[ElectLeadersResponse]:
    """ElectLeaders, for the partitions named or for all; of all, those that need none are left out of the answer."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return MetadataDecision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    elector = Elector(context)
    kind = request.election_type
    results: list[ReplicaElectionResult] = []
    if request.topic_partitions is None:
        for topic in context.image.topics.values():
            outcomes = [
                (number, _elect(Found(topic, number, partition), kind, elector))
                for number, partition in enumerate(topic.partitions)
            ]
            told = [_result(number, outcome) for number, outcome in outcomes if outcome is not NOT_NEEDED]
            results.append(ReplicaElectionResult(topic.name, told))
    else:
        done: set[tuple[str, int]] = set()
        for asked in request.topic_partitions:
            answers: list[PartitionResult] = []
            for number in asked.partitions:
                found = _found(context.image, asked.topic, number)
                if isinstance(found, Refusal):
                    answers.append(_result(number, found))
                    continue
                again = (asked.topic, number) in done
                done.add((asked.topic, number))
                answers.append(_result(number, NOT_NEEDED if again else _elect(found, kind, elector)))
            results.append(ReplicaElectionResult(asked.topic, answers))
    if len(elector.facts) > MOST_FACTS:
        return MetadataDecision([], ElectLeadersResponse(error_code=ErrorCode.POLICY_VIOLATION))
    return MetadataDecision(elector.facts, ElectLeadersResponse(replica_election_results=results))


def _found(image: ClusterImage, name: str, number: int) -> Found | Refusal:
    topic = image.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = image.partition(name, number)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    return Found(topic, number, partition)


def _elect(found: Found, kind: int, elector: Elector) -> Refusal | None:
    partition = found.partition
    if partition.leader == partition.replicas[0] if kind == PREFERRED else partition.leader != NO_LEADER:
        return NOT_NEEDED
    change = elector.change(found)
    change.prefer_first = kind == PREFERRED
    change.unclean = kind == UNCLEAN
    if elector.decide(found, change):
        return None
    return NO_PREFERRED if kind == PREFERRED else NO_ELIGIBLE


def _result(number: int, refusal: Refusal | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(number, ErrorCode.NONE, None)
    return PartitionResult(number, refusal.error, refusal.message)


def balance(context: DecisionContext) -> list[Fact]:
    """Leadership goes back to the first replicas where they can lead, `MOST_AT_ONCE` at a time."""
    elector = Elector(context)
    for found in find(context.image, lambda partition: partition.leader != partition.replicas[0]):
        if len(elector.facts) >= MOST_AT_ONCE:
            break
        change = elector.change(found)
        change.prefer_first = True
        change.unclean = False
        elector.decide(found, change)
    return elector.facts


def elect_uncleanly(context: DecisionContext) -> list[Fact]:
    """Partitions without a leader get one that lacks records, where the settings prefer that to none."""
    elector = Elector(context)
    for found in find(context.image, lambda partition: partition.leader == NO_LEADER):
        if len(elector.facts) >= MOST_AT_ONCE:
            break
        if elector.rules(found.topic).unclean:
            elector.decide(found, elector.change(found))
    return elector.facts
