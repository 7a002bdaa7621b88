"""What went wrong, as one sentence for the person at the terminal.

Owns: the words: what happened, where, and what to do next. Never knows: exit codes, printing.
"""

from ottla.base.errors import ErrorCode
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    CorruptRecords,
    DeadlineExceeded,
    MemberFenced,
    NoOffset,
    OffsetOutOfRange,
    ProducerFailed,
    ProducerFenced,
    ProtocolViolation,
    RecordTooLarge,
    TransactionFailed,
    UnsupportedRequest,
)

_NEXT_STEPS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'ottla topic list' shows what there is, 'ottla topic create' makes one",
    ErrorCode.TOPIC_ALREADY_EXISTS: "take another name, or add --if-not-exists to accept the one that is there",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for a --replication-factor of at most the number of brokers",
    ErrorCode.INVALID_PARTITIONS: "'ottla topic describe' shows how many there are; a topic's partitions can only grow",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes with 'ottla topic alter', or send smaller records",
    ErrorCode.OFFSET_OUT_OF_RANGE: "'ottla topic offsets' shows where it begins and ends",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right to use the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to change the cluster",
    ErrorCode.NOT_ENOUGH_REPLICAS: "wait until more replicas are in sync, or lower min.insync.replicas",
    ErrorCode.LEADER_NOT_AVAILABLE: "'ottla topic describe' shows which partitions have no leader",
    ErrorCode.KAFKA_STORAGE_ERROR: "look at the disk of the broker",
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "'ottla cluster status' shows the brokers there are",
    ErrorCode.INVALID_CONFIG: "'ottla config describe … --all' shows what can be set",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "wait until more replicas are in sync, or lower min.insync.replicas",
    ErrorCode.UNSUPPORTED_VERSION: "this needs a newer broker",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower transaction.timeout.ms",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for the right to use the transactional id",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "stop a member, or raise group.max.size on the brokers",
    ErrorCode.GROUP_ID_NOT_FOUND: "'ottla group list' shows what there is",
    ErrorCode.NON_EMPTY_GROUP: "stop them first: 'ottla group describe NAME --members' shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the group's members first",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for the right to use the group",
    ErrorCode.UNKNOWN_MEMBER_ID: "'ottla group describe NAME --members' shows who is in it",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "'ottla transaction list' shows what there is",
}

_PLAIN_WORDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "is not a valid topic name",
    ErrorCode.INVALID_PARTITIONS: "cannot have that number of partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "cannot have that replication factor",
    ErrorCode.INVALID_CONFIG: "was given a setting that is not valid",
    ErrorCode.MESSAGE_TOO_LARGE: "is too large for the broker",
    ErrorCode.OFFSET_OUT_OF_RANGE: "has no such offset",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "is not yours to use",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "is not yours to change",
    ErrorCode.LEADER_NOT_AVAILABLE: "has no leader at the moment",
    ErrorCode.NOT_ENOUGH_REPLICAS: "has too few replicas in sync",
    ErrorCode.REQUEST_TIMED_OUT: "was not handled by the broker in time",
    ErrorCode.KAFKA_STORAGE_ERROR: "could not be stored by the broker",
    ErrorCode.INVALID_RECORD: "was given a record the topic does not take",
    ErrorCode.INVALID_TIMESTAMP: "was given a timestamp the topic does not take",
    ErrorCode.POLICY_VIOLATION: "breaks a policy of the cluster",
    ErrorCode.TOPIC_DELETION_DISABLED: "cannot be deleted on this cluster",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "cannot be on those brokers",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "has too few replicas in sync",
    ErrorCode.UNSUPPORTED_VERSION: "is beyond what this broker knows",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "asks for longer transactions than the cluster allows",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "is not yours to use",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "has as many members as it may have",
    ErrorCode.INVALID_GROUP_ID: "is not a valid group name",
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist",
    ErrorCode.NON_EMPTY_GROUP: "has members",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "belongs to a topic the group reads",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "is not yours to use",
    ErrorCode.UNKNOWN_MEMBER_ID: "is not in the group",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "does not exist",
}

_STEPS_AFTER: tuple[tuple[type[ClientError], str], ...] = (
    (ProducerFenced, "stop the other one, or take another transactional id"),
    (CorruptRecords, "'ottla log verify' on the broker's machine tells how much is damaged; --from reads beyond it"),
    (MemberFenced, "stop the other member, or take another group.instance.id"),
    (NoOffset, "set auto.offset.reset to earliest or latest"),
)
"""What to do after failures that say themselves what happened."""

_SAY_ENOUGH = frozenset(
    {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""Codes to which the broker's own sentence adds nothing."""


class Failure(Exception):
    """A sentence that ends the command with exit code 1."""


def explain(problem: ClientError, bootstrap: str) -> str:
    """The sentence for a failed call on the cluster at `bootstrap`."""
    if isinstance(problem, BrokerError):
        return refusal(problem)
    if isinstance(problem, ConnectionLost):
        return f"lost the connection to {problem.address}: {problem.reason}; its log says why, then try again"
    if isinstance(problem, ConnectionFailed):
        return (
            f"cannot reach {problem.address}: {problem.reason}; "
            "start a node with 'ottla serve', or name the address of another with --bootstrap"
        )
    if isinstance(problem, DeadlineExceeded):
        return (
            f"gave up waiting: {problem.what} (cluster at {bootstrap}); "
            "see whether the brokers are up, or allow more time with --timeout"
        )
    if isinstance(problem, UnsupportedRequest):
        return f"{problem}; this command needs a newer broker"
    if isinstance(problem, ProtocolViolation):
        return f"{problem.address} does not answer as a Kafka broker does: {problem.reason}; check the address and port"
    if isinstance(problem, RecordTooLarge):
        first = "raise max.request.size with --set, and " if "max.request.size" in str(problem) else ""
        return f"a record is too large: {problem}; {first}{_NEXT_STEPS[ErrorCode.MESSAGE_TOO_LARGE]}"
    if isinstance(problem, OffsetOutOfRange):
        places = ", ".join(f"offset {offset} of partition {place}" for place, offset in problem.positions.items())
        return f"{places} is not in the log; choose another --from"
    if isinstance(problem, TransactionFailed):
        return f"the transaction was aborted: {explain(problem.cause, bootstrap)}"
    if isinstance(problem, ProducerFailed) and not isinstance(problem, ProducerFenced):
        return f"stopped to avoid duplicates or gaps after this failed: {explain(problem.cause, bootstrap)}"
    next_step = next((step for kind, step in _STEPS_AFTER if isinstance(problem, kind)), None)
    return f"{problem}; {next_step}" if next_step else str(problem)


def refusal(problem: BrokerError) -> str:
    """The sentence for what a broker refused: our words for the code, its own reason, the next step."""
    words = _PLAIN_WORDS.get(problem.code, f"was refused with {problem.code.name}")
    next_step = _NEXT_STEPS.get(problem.code)
    message = (problem.message or "").strip().rstrip(".")
    if problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not problem.subject.startswith("topic"):
        next_step = None  # the topic is there; how many partitions it has is in the message
    elif problem.code in _SAY_ENOUGH:
        message = ""
    reason = f" ({message})" if message else ""
    return f"{problem.subject} {words}{reason}" + (f"; {next_step}" if next_step else "")
