"""Between the quorum's flat messages and Kafka's, which carry one partition of one topic in an envelope each.

Owns: both directions of Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot and the changes of voters.
Never knows: what they lead to. Invariant: a message about anything but the one partition of the metadata log is None
here, and the error for it is in `misdirected`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.ports import ByteView
from ottla.base.vocabulary import TopicId
from ottla.raft import messages as flat
from ottla.raft.log_view import Diverging, Entry, LogPosition
from ottla.raft.messages import Answer, Answered, Believed, Fetched, FetchedSnapshot, Request, Voted
from ottla.raft.voters import ReplicaKey
from ottla.records.control import Endpoint, Voter
from ottla.wire.messages import add_raft_voter as add
from ottla.wire.messages import begin_quorum_epoch as begin
from ottla.wire.messages import end_quorum_epoch as end
from ottla.wire.messages import fetch, vote
from ottla.wire.messages import fetch_snapshot as portion
from ottla.wire.messages import remove_raft_voter as remove
from ottla.wire.messages import update_raft_voter as update
from ottla.wire.schema import Root

TOPIC = "__cluster_metadata"
TOPIC_ID = TopicId(bytes(15) + b"\x01")
FETCH_BYTES = 1 << 20
ReadEntries = Callable[[ByteView], tuple[Entry, ...]]


# --- what others ask -------------------------------------------------------------------------------------------------


def read_request(request: Root, version: int) -> Request | None:
    """The flat request; None when it is about anything but the one partition."""
    if isinstance(request, add.AddRaftVoterRequest):
        voter = Voter(request.voter_id, request.voter_directory_id, _endpoints(request.listeners), 0, 1)
        return flat.AddVoter(request.cluster_id, voter, request.timeout_ms / 1000, request.ack_when_committed)
    if isinstance(request, remove.RemoveRaftVoterRequest):
        return flat.RemoveVoter(request.cluster_id, ReplicaKey(request.voter_id, request.voter_directory_id))
    if isinstance(request, update.UpdateRaftVoterRequest):
        feature = request.k_raft_version_feature
        voter = Voter(
            request.voter_id,
            request.voter_directory_id,
            _endpoints(request.listeners),
            feature.min_supported_version,
            feature.max_supported_version,
        )
        return flat.UpdateVoter(request.cluster_id, request.current_leader_epoch, voter)
    if isinstance(request, fetch.FetchRequest):
        return _read_fetch(request, version)
    if isinstance(request, portion.FetchSnapshotRequest):
        return _read_fetch_snapshot(request)
    return _read_election(request)


def _read_election(request: Root) -> Request | None:
    if isinstance(request, vote.VoteRequest):
        asked = _only(request.topics, "topic_name", "partition_index")
        return asked and flat.Vote(
            request.cluster_id,
            ReplicaKey(request.voter_id, asked.voter_directory_id),
            asked.replica_epoch,
            ReplicaKey(asked.replica_id, asked.replica_directory_id),
            LogPosition(asked.last_offset, asked.last_offset_epoch),
            asked.pre_vote,
        )
    if isinstance(request, begin.BeginQuorumEpochRequest):
        told = _only(request.topics, "topic_name", "partition_index")
        return told and flat.BeginEpoch(
            request.cluster_id,
            ReplicaKey(request.voter_id, told.voter_directory_id),
            told.leader_id,
            told.leader_epoch,
            _endpoints(request.leader_endpoints),
        )
    assert isinstance(request, end.EndQuorumEpochRequest), request
    over = _only(request.topics, "topic_name", "partition_index")
    if over is None:
        return None
    successors = [ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in over.preferred_candidates]
    successors += [ReplicaKey(node_id) for node_id in over.preferred_successors]
    return flat.EndEpoch(
        request.cluster_id, over.leader_id, over.leader_epoch, tuple(successors), _endpoints(request.leader_endpoints)
    )


def _read_fetch(request: fetch.FetchRequest, version: int) -> Request | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    if (topic.topic_id != TOPIC_ID) if version >= 13 else (topic.topic != TOPIC):
        return None
    asked = topic.partitions[0]
    if asked.partition != 0:
        return None
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    return flat.Fetch(
        request.cluster_id,
        ReplicaKey(replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        LogPosition(asked.fetch_offset, asked.last_fetched_epoch),
        asked.high_watermark,
        request.max_wait_ms / 1000,
    )


def _read_fetch_snapshot(request: portion.FetchSnapshotRequest) -> Request | None:
    asked = _only(request.topics, "name", "partition")
    return asked and flat.FetchSnapshot(
        request.cluster_id,
        ReplicaKey(request.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        LogPosition(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
    )


def _only(topics: Sequence[Any], name: str, index: str) -> Any:
    """The one partition of the one topic, or None."""
    if len(topics) != 1 or getattr(topics[0], name) != TOPIC:
        return None
    partitions = topics[0].partitions
    return partitions[0] if len(partitions) == 1 and getattr(partitions[0], index) == 0 else None


def _endpoints(listeners: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(one.name, one.host, one.port) for one in listeners)


# --- what is answered ------------------------------------------------------------------------------------------------


def misdirected(request: Root) -> Root:
    """The answer to a request that is not about the one partition."""
    code = ErrorCode.INVALID_REQUEST
    if isinstance(request, fetch.FetchRequest):
        return fetch.FetchResponse(error_code=code)
    if isinstance(request, portion.FetchSnapshotRequest):
        return portion.FetchSnapshotResponse(error_code=code)
    if isinstance(request, vote.VoteRequest):
        return vote.VoteResponse(error_code=code)
    if isinstance(request, begin.BeginQuorumEpochRequest):
        return begin.BeginQuorumEpochResponse(error_code=code)
    return end.EndQuorumEpochResponse(error_code=code)


def write_answer(request: Root, answer: Answer, records: ByteView = b"") -> Root:
    """Kafka's answer; `records` are the bytes of a fetch's entries."""
    believed = answer.believed
    whole = answer.error if answer.error == ErrorCode.INCONSISTENT_CLUSTER_ID else ErrorCode.NONE
    if isinstance(answer, Fetched):
        return _write_fetched(answer, whole, records)
    if isinstance(answer, FetchedSnapshot):
        return _write_portion(answer, whole)
    if isinstance(request, add.AddRaftVoterRequest):
        return add.AddRaftVoterResponse(error_code=answer.error, error_message=_message(answer))
    if isinstance(request, remove.RemoveRaftVoterRequest):
        return remove.RemoveRaftVoterResponse(error_code=answer.error, error_message=_message(answer))
    if isinstance(request, update.UpdateRaftVoterRequest):
        endpoint = believed.endpoint or Endpoint("", "", 0)
        leader = update.CurrentLeader(believed.leader_id, believed.epoch, endpoint.host, endpoint.port)
        return update.UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)
    if isinstance(answer, Voted):
        vote_part = vote.ResponsePartitionData(0, answer.error, believed.leader_id, believed.epoch, answer.granted)
        return vote.VoteResponse(
            whole, [vote.ResponseTopicData(TOPIC, [vote_part])], _nodes(believed, vote.NodeEndpoint)
        )
    if isinstance(request, begin.BeginQuorumEpochRequest):
        begin_part = begin.ResponsePartitionData(0, answer.error, believed.leader_id, believed.epoch)
        return begin.BeginQuorumEpochResponse(
            whole, [begin.ResponseTopicData(TOPIC, [begin_part])], _nodes(believed, begin.NodeEndpoint)
        )
    end_part = end.ResponsePartitionData(0, answer.error, believed.leader_id, believed.epoch)
    return end.EndQuorumEpochResponse(
        whole, [end.ResponseTopicData(TOPIC, [end_part])], _nodes(believed, end.NodeEndpoint)
    )


def _message(answer: Voted | Answered) -> str | None:
    return answer.message if isinstance(answer, Answered) else None


def _write_fetched(answer: Fetched, whole: ErrorCode, records: ByteView) -> Root:
    believed = answer.believed
    part = fetch.PartitionData(
        0,
        answer.error,
        answer.high_watermark,
        answer.high_watermark,
        current_leader=fetch.LeaderIdAndEpoch(believed.leader_id, believed.epoch),
        aborted_transactions=None,
        records=records,
    )
    if answer.diverging is not None:
        part.diverging_epoch = fetch.EpochEndOffset(answer.diverging.epoch, answer.diverging.end_offset)
    if answer.snapshot is not None:
        part.snapshot_id = fetch.SnapshotId(answer.snapshot.offset, answer.snapshot.epoch)
    topic = fetch.FetchableTopicResponse(TOPIC, TOPIC_ID, [part])
    return fetch.FetchResponse(error_code=whole, responses=[topic], node_endpoints=_nodes(believed, fetch.NodeEndpoint))


def _write_portion(answer: FetchedSnapshot, whole: ErrorCode) -> Root:
    believed = answer.believed
    assert isinstance(answer.data, bytes | bytearray | memoryview)
    part = portion.ResponsePartitionSnapshot(
        0,
        answer.error,
        portion.ResponseSnapshotId(answer.snapshot.offset, answer.snapshot.epoch),
        portion.LeaderIdAndEpoch(believed.leader_id, believed.epoch),
        answer.size,
        answer.position,
        answer.data,
    )
    return portion.FetchSnapshotResponse(
        error_code=whole,
        topics=[portion.ResponseTopicSnapshot(TOPIC, [part])],
        node_endpoints=_nodes(believed, portion.NodeEndpoint),
    )


def _nodes(believed: Believed, kind: Callable[[int, str, int], Any]) -> list[Any]:
    endpoint = believed.endpoint
    if endpoint is None or believed.leader_id < 0:
        return []
    return [kind(believed.leader_id, endpoint.host, endpoint.port)]


# --- what we ask -----------------------------------------------------------------------------------------------------


def write_request(request: Request, snapshot_bytes: int) -> tuple[Root, type[Root]]:
    """Kafka's request, and the class of its answer."""
    if isinstance(request, flat.Fetch):
        return _write_fetch(request), fetch.FetchResponse
    if isinstance(request, flat.FetchSnapshot):
        asked = portion.PartitionSnapshot(
            0,
            request.epoch,
            portion.SnapshotId(request.snapshot.offset, request.snapshot.epoch),
            request.position,
            request.replica.directory_id,
        )
        topics = [portion.TopicSnapshot(TOPIC, [asked])]
        whole = portion.FetchSnapshotRequest(request.cluster_id, request.replica.node_id, snapshot_bytes, topics)
        return whole, portion.FetchSnapshotResponse
    if isinstance(request, flat.Vote | flat.BeginEpoch | flat.EndEpoch):
        return _write_election(request)
    return _write_change(request)


def _write_fetch(request: flat.Fetch) -> Root:
    asked = fetch.FetchPartition(
        0,
        request.epoch,
        request.log_end.offset,
        request.log_end.epoch,
        partition_max_bytes=FETCH_BYTES,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        request.cluster_id,
        request.replica.node_id,
        fetch.ReplicaState(request.replica.node_id, -1),
        int(request.max_wait * 1000),
        max_bytes=FETCH_BYTES,
        topics=[fetch.FetchTopic(TOPIC, TOPIC_ID, [asked])],
    )


def _write_election(request: flat.Vote | flat.BeginEpoch | flat.EndEpoch) -> tuple[Root, type[Root]]:
    if isinstance(request, flat.Vote):
        ballot = vote.PartitionData(
            0,
            request.epoch,
            request.candidate.node_id,
            request.candidate.directory_id,
            request.voter.directory_id,
            request.log_end.epoch,
            request.log_end.offset,
            request.pre_vote,
        )
        topics = [vote.TopicData(TOPIC, [ballot])]
        return vote.VoteRequest(request.cluster_id, request.voter.node_id, topics), vote.VoteResponse
    if isinstance(request, flat.BeginEpoch):
        told = begin.PartitionData(0, request.voter.directory_id, request.leader_id, request.epoch)
        return (
            begin.BeginQuorumEpochRequest(
                request.cluster_id,
                request.voter.node_id,
                [begin.TopicData(TOPIC, [told])],
                [begin.LeaderEndpoint(*endpoint) for endpoint in request.endpoints],
            ),
            begin.BeginQuorumEpochResponse,
        )
    over = end.PartitionData(
        0,
        request.leader_id,
        request.epoch,
        [key.node_id for key in request.successors],
        [end.ReplicaInfo(*key) for key in request.successors],
    )
    return (
        end.EndQuorumEpochRequest(
            request.cluster_id,
            [end.TopicData(TOPIC, [over])],
            [end.LeaderEndpoint(*endpoint) for endpoint in request.endpoints],
        ),
        end.EndQuorumEpochResponse,
    )


def _write_change(request: flat.AddVoter | flat.RemoveVoter | flat.UpdateVoter) -> tuple[Root, type[Root]]:
    voter = request.voter
    if isinstance(voter, ReplicaKey):
        return remove.RemoveRaftVoterRequest(request.cluster_id, *voter), remove.RemoveRaftVoterResponse
    if isinstance(request, flat.AddVoter):
        listeners = [add.Listener(*endpoint) for endpoint in voter.endpoints]
        return (
            add.AddRaftVoterRequest(
                request.cluster_id,
                int(request.timeout * 1000),
                voter.voter_id,
                voter.directory_id,
                listeners,
                request.when_committed,
            ),
            add.AddRaftVoterResponse,
        )
    assert isinstance(request, flat.UpdateVoter)
    return (
        update.UpdateRaftVoterRequest(
            request.cluster_id,
            request.epoch,
            voter.voter_id,
            voter.directory_id,
            [update.Listener(*endpoint) for endpoint in voter.endpoints],
            update.KRaftVersionFeature(voter.min_supported_version, voter.max_supported_version),
        ),
        update.UpdateRaftVoterResponse,
    )


# --- what is answered to us ------------------------------------------------------------------------------------------


def read_answer(request: Request, answer: Root, read_entries: ReadEntries) -> Answer:
    """The flat answer; whatever has no partition in it is its error. Raises what `read_entries` raises."""
    if isinstance(answer, fetch.FetchResponse):
        return _read_fetched(answer, read_entries)
    if isinstance(answer, portion.FetchSnapshotResponse):
        assert isinstance(request, flat.FetchSnapshot)
        return _read_portion(request, answer)
    if isinstance(answer, vote.VoteResponse):
        voted = _first(answer.topics)
        if voted is None:
            return Voted(ErrorCode(answer.error_code), _NOBODY)
        return Voted(ErrorCode(voted.error_code), _believed(voted, answer.node_endpoints), voted.vote_granted)
    if isinstance(answer, begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse):
        told = _first(answer.topics)
        if told is None:
            return Answered(ErrorCode(answer.error_code), _NOBODY)
        return Answered(ErrorCode(told.error_code), _believed(told, answer.node_endpoints))
    if isinstance(answer, update.UpdateRaftVoterResponse):
        leader = answer.current_leader
        endpoint = Endpoint("", leader.host, leader.port) if leader.host else None
        return Answered(ErrorCode(answer.error_code), Believed(leader.leader_id, leader.leader_epoch, endpoint))
    assert isinstance(answer, add.AddRaftVoterResponse | remove.RemoveRaftVoterResponse), answer
    return Answered(ErrorCode(answer.error_code), _NOBODY, answer.error_message)


_NOBODY = Believed(-1, -1)


def _first(topics: Sequence[Any]) -> Any:
    return topics[0].partitions[0] if topics and topics[0].partitions else None


def _believed(leader: Any, nodes: Sequence[Any]) -> Believed:
    for node in nodes:
        if node.node_id == leader.leader_id:
            return Believed(leader.leader_id, leader.leader_epoch, Endpoint("", node.host, node.port))
    return Believed(leader.leader_id, leader.leader_epoch)


def _read_fetched(answer: fetch.FetchResponse, read_entries: ReadEntries) -> Fetched:
    part = _first(answer.responses)
    if part is None:
        return Fetched(ErrorCode(answer.error_code), _NOBODY)
    diverging = part.diverging_epoch
    snapshot = part.snapshot_id
    return Fetched(
        ErrorCode(part.error_code),
        _believed(part.current_leader, answer.node_endpoints),
        part.high_watermark,
        read_entries(part.records or b""),
        diverging=Diverging(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot=LogPosition(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def _read_portion(request: flat.FetchSnapshot, answer: portion.FetchSnapshotResponse) -> FetchedSnapshot:
    part = _first(answer.topics)
    if part is None:
        return FetchedSnapshot(ErrorCode(answer.error_code), _NOBODY, request.snapshot, request.position)
    return FetchedSnapshot(
        ErrorCode(part.error_code),
        _believed(part.current_leader, answer.node_endpoints),
        LogPosition(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.position,
        part.size,
        part.unaligned_records,
    )
