"""Topics: metadata, creation, deletion, more partitions, records deleted from the front."""

from __future__ import annotations

from typing import Any

from kit.wire.messages import ZERO_ID
from oracle.cases import Case, Step, configs_of, metadata_of, records_of
from oracle.sides import UNKNOWN_ID, Side


def _metadata(side: Side, *names: str, create: bool = False, **more: Any) -> dict[str, Any]:
    rows = [{"name": side.name(name), "topic_id": None} for name in names]
    return {"topics": rows, "allow_auto_topic_creation": create, **more}


def _exact_metadata(*names: str) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}


def _by_id(*identifiers: Any) -> dict[str, Any]:
    return {"topics": [{"name": None, "topic_id": each} for each in identifiers], "allow_auto_topic_creation": False}


LONG = "x" * 250

METADATA = (
    Case("metadata of a topic", "metadata", lambda s: _metadata(s, "t"), given=lambda s: s.create("t", 3)),
    Case("metadata of two topics", "metadata", lambda s: _metadata(s, "a", "b"),
         given=lambda s: s.create_all("b", "a")),
    Case("metadata of all topics", "metadata", lambda s: {"topics": None if s.version else []}, only_own=True,
         given=lambda s: s.create_all("a", "b")),
    Case("metadata of no topics", "metadata", lambda s: {"topics": []}, versions=range(1, 14)),
    Case("metadata of an unknown topic, creation not wanted", "metadata", lambda s: _metadata(s, "absent"),
         versions=range(4, 14), then=[metadata_of("absent")]),
    Case("metadata of a topic asked for twice", "metadata", lambda s: _metadata(s, "t", "t"),
         given=lambda s: s.create("t")),
    Case("metadata of a known and an unknown topic", "metadata", lambda s: _metadata(s, "t", "absent"),
         given=lambda s: s.create("t"), versions=range(4, 14)),
    Case("metadata creates a topic when asked to", "metadata", lambda s: _metadata(s, "new", create=True),
         then=[metadata_of("new")]),
    Case("metadata does not create a topic of a bad name", "metadata",
         lambda s: {"topics": [{"name": "bad/name"}], "allow_auto_topic_creation": True}),
    Case("metadata of an empty name", "metadata", lambda s: _exact_metadata(""), versions=range(4, 14)),
    Case("metadata of a name that is too long", "metadata", lambda s: _exact_metadata(LONG), versions=range(4, 14)),
    Case("metadata of two dots", "metadata", lambda s: _exact_metadata(".."), versions=range(4, 14)),
    Case("metadata of bad names with creation wanted", "metadata",
         lambda s: {"topics": [{"name": name} for name in ("", LONG, ".", "..", "ä", "a b")],
                    "allow_auto_topic_creation": True}),
    Case("metadata by id", "metadata", lambda s: _by_id(s.id("t")), given=lambda s: s.create("t"), versions=(12, 13)),
    Case("metadata by an id nobody has", "metadata", lambda s: _by_id(UNKNOWN_ID), versions=(12, 13)),
    Case("metadata by id and name at once", "metadata",
         lambda s: {"topics": [{"name": s.name("t"), "topic_id": s.id("t")}]}, given=lambda s: s.create("t"),
         versions=(12, 13)),
    Case("metadata by id with an empty name", "metadata",
         lambda s: {"topics": [{"name": "", "topic_id": s.id("t")}]}, given=lambda s: s.create("t"), versions=(12, 13)),
    Case("metadata by id does not create what it also names", "metadata",
         lambda s: {"topics": [{"name": s.name("absent"), "topic_id": s.id("t")}], "allow_auto_topic_creation": True},
         given=lambda s: s.create("t"), versions=(12, 13), then=[metadata_of("absent")]),
    Case("metadata by an id nobody has does not create what it also names", "metadata",
         lambda s: {"topics": [{"name": s.name("absent"), "topic_id": UNKNOWN_ID}], "allow_auto_topic_creation": True},
         versions=(12, 13), then=[metadata_of("absent")]),
    Case("metadata by id in a version that refuses it", "metadata",
         lambda s: {"topics": [{"name": s.name("t"), "topic_id": s.id("t")}]}, given=lambda s: s.create("t"),
         versions=(10, 11)),
    Case("metadata with what a client may do", "metadata",
         lambda s: _metadata(s, "t", include_topic_authorized_operations=True,
                             include_cluster_authorized_operations=True),
         given=lambda s: s.create("t"), versions=range(8, 14)),
)  # fmt: skip


def _create(side: Side, *topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{"num_partitions": 1, "replication_factor": 1, "name": side.name("t"), **topic} for topic in topics]
    return {"topics": rows, "timeout": 10_000, **more}


def _configs(**configs: str | None) -> list[dict[str, str | None]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]


def _assigned(*replicas: list[int]) -> dict[str, Any]:
    rows = [{"partition_index": number, "broker_ids": ids} for number, ids in enumerate(replicas)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": rows}


def _creation(name: str, *topics: dict[str, Any], see: tuple[str, ...] = ("t",), **more: Any) -> Case:
    given = more.pop("given", None)
    case = Case(name, "create_topics", lambda s: _create(s, *topics, **more), then=[metadata_of(*see)])
    return case._replace(given=given) if given else case


CREATE_TOPICS = (
    _creation("create a topic", {"num_partitions": 3}),
    _creation("create a topic with settings", {"configs": _configs(retention_ms="1000", cleanup_policy="compact")}),
    _creation("create a topic with the broker's defaults", {"num_partitions": -1, "replication_factor": -1}),
    _creation("create a topic that exists", {}, given=lambda s: s.create("t")),
    _creation("create the same topic twice in a request", {}, {}),
    _creation("create nothing"),
    _creation("create a topic without partitions", {"num_partitions": 0}),
    _creation("create a topic with minus two partitions", {"num_partitions": -2}),
    _creation("create a topic with replication factor zero", {"replication_factor": 0}),
    _creation("create a topic with minus two replicas", {"replication_factor": -2}),
    _creation("create a topic with more replicas than brokers", {"replication_factor": 2}),
    _creation("create a topic with far too many partitions", {"num_partitions": 10_001}, validate_only=True),
    _creation("create a topic with a setting meant for tests", {"configs": _configs(internal_segment_bytes="100000")}),
    _creation("create a topic with an unknown setting", {"configs": _configs(no_such_setting="1")}),
    _creation("create a topic with a setting that does not parse", {"configs": _configs(retention_ms="soon")}),
    _creation("create a topic with a setting out of range", {"configs": _configs(segment_bytes="0")}),
    _creation("create a topic with a setting out of its list", {"configs": _configs(cleanup_policy="burn")}),
    _creation("create a topic with a null setting", {"configs": _configs(retention_ms=None)}),
    _creation("create a topic with contradicting lags",
              {"configs": _configs(min_compaction_lag_ms="100", max_compaction_lag_ms="10")}),
    _creation("create a topic with remote storage", {"configs": _configs(remote_storage_enable="true")}),
    _creation("create a topic with the same setting twice",
              {"configs": [*_configs(retention_ms="1"), *_configs(retention_ms="2")]}),
    _creation("only validate a topic", {"num_partitions": 2}, validate_only=True),
    _creation("only validate a wrong topic", {"num_partitions": 0}, validate_only=True),
    _creation("only validate a topic that exists", {}, validate_only=True, given=lambda s: s.create("t")),
    _creation("create a topic by assignment", _assigned([1], [1])),
    _creation("create a topic by assignment to an unknown broker", _assigned([99])),
    _creation("create a topic by assignment with a broker twice", _assigned([1, 1])),
    _creation("create a topic by assignment to nobody", _assigned([])),
    _creation("create a topic by assignment to a negative broker", _assigned([-1])),
    _creation("create a topic by an assignment with a gap",
              {**_assigned([1]), "assignments": [{"partition_index": 1, "broker_ids": [1]}]}),
    _creation("create a topic by an assignment that names a partition twice",
              {**_assigned([1]), "assignments": [{"partition_index": 0, "broker_ids": [1]}] * 2}),
    _creation("create a topic by assignment and by number", {**_assigned([1]), "num_partitions": 1}),
    _creation("create a topic by assignment and by replication factor", {**_assigned([1]), "replication_factor": 1}),
    Case("create topics of bad names", "create_topics",
         lambda s: _create(s, *({"name": name} for name in ("", ".", "..", LONG, "a b", "ä", "a/b", "a:b")))),
    Case("create a topic whose name collides", "create_topics", lambda s: _create(s, {"name": s.name("a_b")}),
         given=lambda s: s.create("a.b")),
    Case("create an internal topic's name", "create_topics",
         lambda s: _create(s, {"name": "__cluster_metadata"}, validate_only=True)),
    Case("create two topics of which one is wrong", "create_topics",
         lambda s: _create(s, {"name": s.name("good")}, {"name": s.name("bad"), "num_partitions": 0}),
         then=[metadata_of("good", "bad")]),
    Case("settings of a created topic", "create_topics",
         lambda s: _create(s, {"configs": _configs(retention_ms="1000", segment_bytes="1048576")}),
         then=[configs_of("t")]),
)  # fmt: skip


def _delete(side: Side, *names: str) -> dict[str, Any]:
    full = [side.name(name) for name in names]
    return {"topic_names": full, "topics": [{"name": name} for name in full], "timeout": 10_000}


def _delete_ids(*identifiers: Any, name: str | None = None) -> dict[str, Any]:
    return {"topics": [{"name": name, "topic_id": each} for each in identifiers], "timeout": 10_000}


DELETE_TOPICS = (
    Case("delete a topic", "delete_topics", lambda s: _delete(s, "t"), given=lambda s: s.create("t"),
         then=[metadata_of("t")]),
    Case("delete an unknown topic", "delete_topics", lambda s: _delete(s, "absent")),
    Case("delete a known and an unknown topic", "delete_topics", lambda s: _delete(s, "t", "absent"),
         given=lambda s: s.create("t"), then=[metadata_of("t")]),
    Case("delete a topic twice in a request", "delete_topics", lambda s: _delete(s, "t", "t"),
         given=lambda s: s.create("t"), then=[metadata_of("t")]),
    Case("delete nothing", "delete_topics", _delete),
    Case("delete a topic of a bad name", "delete_topics",
         lambda s: {"topic_names": ["a b"], "topics": [{"name": "a b"}], "timeout": 10_000}),
    Case("delete by id", "delete_topics", lambda s: _delete_ids(s.id("t")), given=lambda s: s.create("t"),
         then=[metadata_of("t")], versions=(6,)),
    Case("delete by an id nobody has", "delete_topics", lambda s: _delete_ids(UNKNOWN_ID), versions=(6,)),
    Case("delete by id and name at once", "delete_topics", lambda s: _delete_ids(s.id("t"), name=s.name("t")),
         given=lambda s: s.create("t"), versions=(6,)),
    Case("delete without id and name", "delete_topics", lambda s: _delete_ids(ZERO_ID), versions=(6,)),
    Case("delete the same topic by id and by name", "delete_topics",
         lambda s: {"topics": [{"name": None, "topic_id": s.id("t")}, {"name": s.name("t"), "topic_id": None}],
                    "timeout": 10_000},
         given=lambda s: s.create("t"), versions=(6,)),
    Case("a topic made again after its deletion is empty", "delete_topics", lambda s: _delete(s, "t"),
         given=lambda s: s.create_filled("t"),
         then=[metadata_of("t"), Step("create_topics", 7, lambda s: _create(s, {})), metadata_of("t"),
               records_of("t")]),
)  # fmt: skip


def _grow(side: Side, *topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{"name": side.name("t"), "assignments": None, **topic} for topic in topics]
    return {"topics": rows, "timeout": 10_000, **more}


def _growth(name: str, *topics: dict[str, Any], **more: Any) -> Case:
    return Case(name, "create_partitions", lambda s: _grow(s, *topics, **more), given=lambda s: s.create("t", 2),
                then=[metadata_of("t")])  # fmt: skip


CREATE_PARTITIONS = (
    _growth("add partitions", {"count": 5}),
    _growth("add no partitions", {"count": 2}),
    _growth("take partitions away", {"count": 1}),
    _growth("ask for no partitions at all", {"count": 0}),
    _growth("ask for minus one partitions", {"count": -1}),
    _growth("add partitions by assignment", {"count": 3, "assignments": [{"broker_ids": [1]}]}),
    _growth("add partitions with too few assignments", {"count": 4, "assignments": [{"broker_ids": [1]}]}),
    _growth("add partitions on an unknown broker", {"count": 3, "assignments": [{"broker_ids": [99]}]}),
    _growth("add partitions with another replication factor", {"count": 3, "assignments": [{"broker_ids": [1, 2]}]}),
    _growth("add partitions on nobody", {"count": 3, "assignments": [{"broker_ids": []}]}),
    _growth("add partitions to the same topic twice", {"count": 3}, {"count": 4}),
    _growth("only validate more partitions", {"count": 5}, validate_only=True),
    _growth("only validate fewer partitions", {"count": 1}, validate_only=True),
    _growth("add far too many partitions", {"count": 20_000}, validate_only=True),
    _growth("add partitions to no topic"),
    Case("add partitions to an unknown topic", "create_partitions",
         lambda s: _grow(s, {"name": s.name("absent"), "count": 3})),
)  # fmt: skip


def _trim(side: Side, *rows: tuple[int, int], name: str = "t") -> dict[str, Any]:
    partitions = [{"partition_index": number, "offset": offset} for number, offset in rows]
    return {"topics": [{"name": side.name(name), "partitions": partitions}], "timeout": 5_000}


def _trimming(name: str, *rows: tuple[int, int]) -> Case:
    return Case(name, "delete_records", lambda s: _trim(s, *rows), given=lambda s: s.create_filled("t"),
                then=[records_of("t"), EARLIEST])  # fmt: skip


EARLIEST = Step(
    "list_offsets",
    5,
    lambda s: {
        "replica_id": -1,
        "topics": [{"name": s.name("t"), "partitions": [{"partition_index": 0, "timestamp": -2}]}],
    },
)

DELETE_RECORDS = (
    _trimming("delete records up to a batch's start", (0, 3)),
    _trimming("delete records up to the middle of a batch", (0, 4)),
    _trimming("delete all records", (0, -1)),
    _trimming("delete records beyond the end", (0, 100)),
    _trimming("delete no records", (0, 0)),
    _trimming("delete records to a negative offset", (0, -2)),
    _trimming("delete records of an unknown partition", (7, 1)),
    _trimming("delete records of a known and an unknown partition", (0, 3), (7, 1)),
    Case("delete records of an unknown topic", "delete_records", lambda s: _trim(s, (0, 1), name="absent")),
    Case("delete records of a compacted topic", "delete_records", lambda s: _trim(s, (0, 1)),
         given=lambda s: s.create_filled("t", cleanup_policy="compact"), then=[EARLIEST]),
    Case("delete records of a topic that is compacted and deleted", "delete_records", lambda s: _trim(s, (0, 1)),
         given=lambda s: s.create_filled("t", cleanup_policy="compact,delete"), then=[EARLIEST]),
    Case("delete fewer records than before", "delete_records", lambda s: _trim(s, (0, 5)),
         given=lambda s: s.create_filled("t"),
         then=[Step("delete_records", 2, lambda s: _trim(s, (0, 2))), EARLIEST]),
    Case("delete no topic's records", "delete_records", lambda s: {"topics": [], "timeout": 5_000}),
)  # fmt: skip

CASES = (*METADATA, *CREATE_TOPICS, *DELETE_TOPICS, *CREATE_PARTITIONS, *DELETE_RECORDS)
