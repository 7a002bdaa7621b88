"""What `ottla cluster quorum` shows, made from what the quorum's leader told.

Owns: the rows and JSON documents. Never knows: how they were asked for, or printing. Pure functions of values.
"""

from collections.abc import Iterator
from typing import Any

from ottla.base.vocabulary import NO_TOPIC_ID, identity_text
from ottla.cli.output import Column, Table
from ottla.client.admin.brokers import Quorum, QuorumReplica

LEADER, VOTER, OBSERVER = "leader", "voter", "observer"


def replicas(quorum: Quorum) -> Iterator[tuple[str, QuorumReplica]]:
    """Every keeper of the metadata log with its role: voters first, each by number."""
    for replica in quorum.voters:
        yield (LEADER if replica.node_id == quorum.leader_id else VOTER), replica
    for replica in quorum.observers:
        yield OBSERVER, replica


def behind(quorum: Quorum, replica: QuorumReplica) -> int | None:
    """Milliseconds since it had caught up, by the leader's own clock; None where that is not known."""
    now = max((each.last_caught_up for _, each in replicas(quorum)), default=-1)
    return now - replica.last_caught_up if replica.last_caught_up >= 0 else None


def quorum_summary(quorum: Quorum) -> str:
    """The lines above the table."""
    voters = [replica for role, replica in replicas(quorum) if role != OBSERVER]
    late = [milliseconds for replica in voters if (milliseconds := behind(quorum, replica)) is not None]
    facts = [
        ("leader", str(quorum.leader_id) if quorum.leader_id >= 0 else "none"),
        ("epoch", str(quorum.leader_epoch)),
        ("high watermark", str(quorum.high_watermark)),
        ("largest lag", f"{max((quorum.lag(each) for each in voters), default=0)} records of a voter"),
        ("longest lag", f"{max(late) / 1000:.1f} s of a voter" if late else "?"),
    ]
    return "".join(f"{name:<15} {text}\n" for name, text in facts)


def quorum_table(quorum: Quorum) -> Table:
    """The keepers of the metadata log and how far they are."""
    columns = [
        Column("NODE", True),
        Column("QUORUM"),
        Column("END OFFSET", True),
        Column("LAG", True),
        Column("BEHIND", True),
    ]
    rows = []
    for role, replica in replicas(quorum):
        late = behind(quorum, replica)
        rows.append(
            [
                str(replica.node_id),
                role,
                str(replica.end_offset),
                str(quorum.lag(replica)),
                "?" if late is None else f"{late / 1000:.1f} s",
            ]
        )
    return Table(columns, rows)


def places_table(quorum: Quorum) -> Table:
    """`quorum_table` with where each node listens and the id of its directory, which say who a voter is."""
    table = quorum_table(quorum)
    rows = [
        [*row, directory_text(replica) or "-", _listeners(quorum, replica.node_id) or "-"]
        for row, (_, replica) in zip(table.rows, replicas(quorum), strict=True)
    ]
    return Table([*table.columns, Column("DIRECTORY"), Column("LISTENERS")], rows)


def quorum_json(quorum: Quorum) -> dict[str, Any]:
    return {
        "leader": quorum.leader_id if quorum.leader_id >= 0 else None,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [_replica_json(quorum, replica) for replica in quorum.voters],
        "observers": [_replica_json(quorum, replica) for replica in quorum.observers],
    }


def directory_text(replica: QuorumReplica) -> str | None:
    """The id of its directory; None where voters are known by their numbers alone."""
    return None if replica.directory_id == NO_TOPIC_ID else identity_text(replica.directory_id)


def _replica_json(quorum: Quorum, replica: QuorumReplica) -> dict[str, Any]:
    return {
        "id": replica.node_id,
        "end_offset": replica.end_offset,
        "lag": quorum.lag(replica),
        "behind_ms": behind(quorum, replica),
        "directory_id": directory_text(replica),
        "listeners": {name: str(address) for name, address in quorum.listeners.get(replica.node_id, {}).items()},
    }


def _listeners(quorum: Quorum, node: int) -> str:
    return ",".join(f"{name}://{address}" for name, address in quorum.listeners.get(node, {}).items())
