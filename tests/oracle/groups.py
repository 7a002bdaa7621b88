"""Groups in every state a case can start from, made by the same requests on both sides.

Owns the members' steps (ask for an id, join, synchronise) over connections of their own, since a join may wait for
others. A member is called by a short name; the id that the broker made up for it is in `side.members`.
"""

from __future__ import annotations

from typing import Any

from kit.brokers.processes import until
from kit.wire.messages import Answer
from kit.wire.raw import RawConnection
from oracle.sides import Side

SESSION_MS = 30_000
REBALANCE_MS = 60_000
LOADING = ("coordinator_load_in_progress", "not_coordinator", "coordinator_not_available")


def subscription(*topics: str) -> bytes:
    """A consumer's subscription in its first version: topics, no user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_fields(side: Side, member: str = "", **more: Any) -> dict[str, Any]:
    """A join of the case's group; `member` is an id or the short name of a member."""
    protocols = [{"name": "range", "metadata": subscription(side.name("t"))}]
    return {
        "group_id": side.name("g"),
        "session_timeout": SESSION_MS,
        "rebalance_timeout": REBALANCE_MS,
        "member_id": side.members.get(member, member),
        "protocol_type": "consumer",
        "protocols": protocols,
        **more,
    }


def coordinated(side: Side, short: str = "g") -> None:
    """Wait until the broker coordinates the group and has loaded what it knows of it."""

    def ready() -> bool:
        found = side.ask("find_coordinator", 3, key=side.name(short), key_type=0)["error_code"]
        described = side.ask("describe_groups", 0, groups=[side.name(short)])["groups"][0]["error_code"]
        return found == "none" and described not in LOADING

    until(ready, f"{side.broker.name} coordinates {side.name(short)}")


def member_id(side: Side, short: str = "a", **more: Any) -> None:
    """A dynamic member that was given its id and has not joined with it."""
    coordinated(side)
    answer = side.ask("join_group", 9, **join_fields(side, **more))
    assert answer["error_code"] == "member_id_required", f"{side.broker.name}: {answer}"
    side.members[short] = answer["member_id"]


def alone(side: Side, short: str = "a", **more: Any) -> None:
    """A group whose only member has joined; it has not yet been given its partitions."""
    member_id(side, short, **more)
    joined(side, side.ask("join_group", 9, **join_fields(side, short, **more)))


def static(side: Side, short: str = "a", instance: str = "i") -> None:
    """A stable group whose only member is static."""
    coordinated(side)
    answer = side.ask("join_group", 9, **join_fields(side, group_instance_id=instance))
    joined(side, answer)
    side.members[short] = answer["member_id"]
    synchronised(side.ask("sync_group", 5, **sync_fields(side, short, group_instance_id=instance)))


def stable(side: Side, short: str = "a", **more: Any) -> None:
    """A stable group of one."""
    alone(side, short, **more)
    synchronised(side.ask("sync_group", 5, **sync_fields(side, short)))


def empty(side: Side) -> None:
    """A group whose only member left."""
    stable(side)
    left = side.ask("leave_group", 2, group_id=side.name("g"), member_id=side.members["a"])
    assert left["error_code"] == "none", left


def two(side: Side) -> None:
    """A stable group of members a, which leads, and b."""
    with waiting_for_a(side) as other:
        joined(side, side.ask("join_group", 9, **join_fields(side, "a")))
        joined(side, other.receive())
        synchronised(side.ask("sync_group", 5, **sync_fields(side, "a", "b")))
        synchronised(other.ask("sync_group", 5, **sync_fields(side, "b")))


def preparing(side: Side) -> None:
    """A group that waits for its member a to join again, since b has come."""
    side.kept.append(waiting_for_a(side))


def waiting_for_a(side: Side) -> RawConnection:
    stable(side)
    member_id(side, "b")
    other = RawConnection(side.broker.host, side.broker.port)
    other.send("join_group", 9, join_fields(side, "b"))
    until(lambda: beats(side)["error_code"] == "rebalance_in_progress", "a rebalance")
    return other


def beats(side: Side) -> Answer:
    return side.ask("heartbeat", 4, group_id=side.name("g"), generation_id=side.generation, member_id=side.members["a"])


def sync_fields(side: Side, member: str, *others: str, **more: Any) -> dict[str, Any]:
    """What a member says after its join; each member named is given its own name for an assignment."""
    given = [{"member_id": side.members[short], "assignment": short.encode()} for short in (member, *others)]
    return {
        "group_id": side.name("g"),
        "generation_id": side.generation,
        "member_id": side.members.get(member, member),
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": given,
        **more,
    }


def joined(side: Side, answer: Answer) -> None:
    assert answer["error_code"] == "none", f"{side.broker.name}: {answer}"
    side.generation = answer["generation_id"]


def synchronised(answer: Answer) -> None:
    assert answer["error_code"] == "none", answer
