"""Control records: what brokers and controllers write into a log for each other, never for consumers.

Owns: their types, keys and values, byte for byte Kafka's, and batches that hold one. Never knows: what follows from
them (transactions, elections, snapshots).

Invariant: unknown types and unknown tagged fields are skipped, as a later Kafka may add them; everything else that
does not fit is CorruptBatch.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

from ottla.records.builder import build_batch
from ottla.records.header import CorruptBatch
from ottla.records.record import Record


class ControlType(IntEnum):
    """The second number in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransaction(NamedTuple):
    """The marker that commits or aborts a producer's open transaction."""

    commit: bool
    coordinator_epoch: int


class ElectionVoter(NamedTuple):
    """A member of the quorum at an election; the directory is written from version 1 on."""

    voter_id: int
    directory_id: bytes = bytes(16)


class LeaderChange(NamedTuple):
    """The first record of every epoch of a quorum."""

    leader_id: int
    voters: tuple[ElectionVoter, ...]
    granting_voters: tuple[ElectionVoter, ...]
    version: int = 0


class SnapshotHeader(NamedTuple):
    """The first record of a snapshot."""

    last_contained_timestamp: int


class SnapshotFooter(NamedTuple):
    """The last record of a snapshot: without it the file is not whole."""


class KraftVersion(NamedTuple):
    """The version of the quorum's protocol from here on."""

    kraft_version: int


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """A member of the quorum with all it takes to reach it."""

    voter_id: int
    directory_id: bytes
    endpoints: tuple[Endpoint, ...]
    min_supported_version: int
    max_supported_version: int


class Voters(NamedTuple):
    """The members of the quorum from here on."""

    voters: tuple[Voter, ...]


_Item = TypeVar("_Item")
Control: TypeAlias = EndTransaction | LeaderChange | SnapshotHeader | SnapshotFooter | KraftVersion | Voters

_KEY = Struct(">hh")
_SHORT = Struct(">h")
_PORT = Struct(">H")
_INT = Struct(">i")
_LONG = Struct(">q")
_MARKER = Struct(">hi")
_NO_TAGS = b"\x00"
_VERSION_0 = _SHORT.pack(0)


def build_control(
    content: Control,
    *,
    offset: int,
    timestamp: int,
    leader_epoch: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytearray:
    """A batch of this one control record; markers need the producer whose transaction they end."""
    return build_batch(
        [control_record(content, offset, timestamp)],
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=isinstance(content, EndTransaction),
        control=True,
    )


def control_record(content: Control, offset: int, timestamp: int) -> Record:
    """The record that says `content`."""
    kind, value = _written(content)
    return Record(offset, timestamp, _KEY.pack(0, kind), value)


def control_type(key: bytes | None) -> ControlType | None:
    """What a control record is, from its key; None for a type of a later Kafka."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(0, "a control record's key is too short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(0, f"a control record's key has version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return None


def read_control(record: Record) -> Control | None:
    """What a control record says; None for a type of a later Kafka."""
    kind = control_type(record.key)
    if kind is None:
        return None
    if record.value is None:
        raise CorruptBatch(0, "a control record has no value")
    reader = _FieldReader(record.value)
    version = reader.number(_SHORT)
    if version < 0:
        raise CorruptBatch(0, f"a control record has version {version}")
    if kind <= ControlType.COMMIT:
        return EndTransaction(kind == ControlType.COMMIT, reader.number(_INT))
    if kind == ControlType.LEADER_CHANGE:
        return _read_leader_change(reader, version)
    if kind == ControlType.SNAPSHOT_HEADER:
        return SnapshotHeader(reader.number(_LONG))
    if kind == ControlType.SNAPSHOT_FOOTER:
        return SnapshotFooter()
    if kind == ControlType.KRAFT_VERSION:
        return KraftVersion(reader.number(_SHORT))
    return Voters(reader.array(_read_voter))


def _written(content: Control) -> tuple[ControlType, bytes]:
    if isinstance(content, EndTransaction):
        kind = ControlType.COMMIT if content.commit else ControlType.ABORT
        return kind, _MARKER.pack(0, content.coordinator_epoch)
    if isinstance(content, LeaderChange):
        voters = b"".join(
            _array([_election_voter(voter, content.version) for voter in group])
            for group in (content.voters, content.granting_voters)
        )
        value = _SHORT.pack(content.version) + _INT.pack(content.leader_id) + voters + _NO_TAGS
        return ControlType.LEADER_CHANGE, value
    if isinstance(content, SnapshotHeader):
        value = _VERSION_0 + _LONG.pack(content.last_contained_timestamp) + _NO_TAGS
        return ControlType.SNAPSHOT_HEADER, value
    if isinstance(content, SnapshotFooter):
        return ControlType.SNAPSHOT_FOOTER, _VERSION_0 + _NO_TAGS
    if isinstance(content, KraftVersion):
        return ControlType.KRAFT_VERSION, _VERSION_0 + _SHORT.pack(content.kraft_version) + _NO_TAGS
    voters = _array([_voter(voter) for voter in content.voters])
    return ControlType.KRAFT_VOTERS, _VERSION_0 + voters + _NO_TAGS


def _election_voter(voter: ElectionVoter, version: int) -> bytes:
    return _INT.pack(voter.voter_id) + (voter.directory_id if version >= 1 else b"") + _NO_TAGS


def _voter(voter: Voter) -> bytes:
    endpoints = [
        _string(endpoint.name) + _string(endpoint.host) + _PORT.pack(endpoint.port) + _NO_TAGS
        for endpoint in voter.endpoints
    ]
    supported = _SHORT.pack(voter.min_supported_version) + _SHORT.pack(voter.max_supported_version) + _NO_TAGS
    return _INT.pack(voter.voter_id) + voter.directory_id + _array(endpoints) + supported + _NO_TAGS


def _read_leader_change(reader: "_FieldReader", version: int) -> LeaderChange:
    def voter(inner: _FieldReader) -> ElectionVoter:
        found = ElectionVoter(inner.number(_INT), inner.take(16) if version >= 1 else bytes(16))
        inner.skip_tags()
        return found

    return LeaderChange(reader.number(_INT), reader.array(voter), reader.array(voter), version)


def _read_voter(reader: "_FieldReader") -> Voter:
    voter_id = reader.number(_INT)
    directory_id = reader.take(16)
    endpoints = reader.array(_read_endpoint)
    lowest, highest = reader.number(_SHORT), reader.number(_SHORT)
    reader.skip_tags()
    reader.skip_tags()
    return Voter(voter_id, directory_id, endpoints, lowest, highest)


def _read_endpoint(reader: "_FieldReader") -> Endpoint:
    endpoint = Endpoint(reader.string(), reader.string(), reader.number(_PORT))
    reader.skip_tags()
    return endpoint


def _unsigned(value: int) -> bytes:
    output = bytearray()
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def _string(text: str) -> bytes:
    raw = text.encode()
    return _unsigned(len(raw) + 1) + raw


def _array(items: list[bytes]) -> bytes:
    return _unsigned(len(items) + 1) + b"".join(items)


class _FieldReader:
    """Reads the few field types of these values from the front, never past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        start = self._position
        if size > len(self._data) - start:
            raise CorruptBatch(start, "a control record's value is cut off")
        self._position = start + size
        return self._data[start : self._position]

    def number(self, shape: Struct) -> int:
        value: int = shape.unpack(self.take(shape.size))[0]
        return value

    def unsigned(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptBatch(self._position, "a number is too large")

    def string(self) -> str:
        size = self._length()
        return self.take(size).decode("utf-8", "replace")

    def array(self, read: Callable[["_FieldReader"], _Item]) -> tuple[_Item, ...]:
        return tuple(read(self) for _ in range(self._length()))

    def skip_tags(self) -> None:
        for _ in range(self.unsigned()):
            self.unsigned()
            self.take(self.unsigned())

    def _length(self) -> int:
        size = self.unsigned() - 1
        if size < 0:
            raise CorruptBatch(self._position, "a control record has a null where it may not")
        return size
