"""Which brokers hold a new partition.

Owns: spreading leaders and replicas evenly over racks first, then over brokers, and the checks on assignments made by
hand. Never knows: requests. Invariants: no broker twice in a partition; the first replica is on an active broker;
brokers that are fenced or shutting down are used only where active ones do not suffice.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.base.errors import ErrorCode
from ottla.base.ports import Random
from ottla.metadata.decision import Refusal
from ottla.metadata.image import BrokerImage

UNASSIGNED_DIRECTORY = bytes(16)
LOST_DIRECTORY = bytes(15) + b"\x01"


class _Rack:
    """The brokers of one rack, handed out in turn: leaders, their neighbours and followers from elsewhere."""

    def __init__(self, active: list[int], others: list[int], random: Random) -> None:
        self.active = active
        self.others = others
        self._leader_turn = _below(random, len(active))
        self._neighbour_turn = 0
        self._follower_turn = _below(random, len(active))
        self._other_turn = _below(random, len(others))
        self._leaders = 0

    def leader(self) -> int:
        count = len(self.active)
        self._leader_turn += 1
        rounds, self._leaders = self._leaders // count, self._leaders + 1
        # In each round every broker comes first after one leader, and after another one than in the round before: so
        # the load of a leader that goes is shared, and nobody gets the load of two.
        self._neighbour_turn = self._leader_turn + (rounds % (count - 1) if count > 1 else 0)
        return self.active[self._leader_turn % count]

    def neighbour(self, taken: list[int]) -> int | None:
        """A follower in the leader's own rack."""
        for _ in self.active:
            self._neighbour_turn += 1
            broker = self.active[self._neighbour_turn % len(self.active)]
            if broker not in taken:
                return broker
        return self._other(taken)

    def follower(self, taken: list[int]) -> int | None:
        """A follower of a leader in another rack."""
        for _ in self.active:
            self._follower_turn += 1
            broker = self.active[self._follower_turn % len(self.active)]
            if broker not in taken:
                return broker
        return self._other(taken)

    def _other(self, taken: list[int]) -> int | None:
        for _ in self.others:
            self._other_turn += 1
            broker = self.others[self._other_turn % len(self.others)]
            if broker not in taken:
                return broker
        return None


def place(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]] | Refusal:
    """The replicas of new partitions, leader first."""
    registered = [broker for broker in brokers if not broker.directories or _uncordoned(broker)]
    problem: str | None = None
    if not any(not broker.fenced for broker in registered):
        problem = "All brokers are currently fenced."
    elif replication_factor > len(registered):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(registered)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    elif not any(broker.active for broker in registered):
        problem = "All brokers are currently fenced or in controlled shutdown."
    if problem is not None:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {problem}",
        )
    racks = _racks(registered, random)
    start = _below(random, len(racks))
    return [_place_one(racks, start, number, replication_factor) for number in range(partitions)]


def _racks(brokers: list[BrokerImage], random: Random) -> list[_Rack]:
    by_name: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        by_name.setdefault(broker.rack or "", []).append(broker)
    return [
        _Rack([each.id for each in found if each.active], [each.id for each in found if not each.active], random)
        for _, found in sorted(by_name.items())
    ]


def _place_one(racks: list[_Rack], start: int, number: int, replication_factor: int) -> tuple[int, ...]:
    count = len(racks)
    turn = start + number
    first = next(position % count for position in range(turn, turn + count) if racks[position % count].active)
    taken = [racks[first].leader()]
    # One replica in each rack before any rack gets a second one; from round to round another rack comes next.
    shift = number // count
    others = [(first + 1 + (shift + step) % (count - 1)) % count for step in range(count - 1)]
    while True:
        for position in (*others, first):
            if len(taken) == replication_factor:
                return tuple(taken)
            rack = racks[position]
            broker = rack.neighbour(taken) if position == first else rack.follower(taken)
            if broker is not None:
                taken.append(broker)


def _below(random: Random, bound: int) -> int:
    return min(int(random.uniform(0, bound)), bound - 1) if bound else 0


def check_assignment(
    replicas: Sequence[int], brokers: Mapping[int, BrokerImage], replication_factor: int | None, number: int
) -> Refusal | None:
    """Why a new partition cannot have this assignment made by hand."""
    refusal = check_replicas(replicas, brokers, replication_factor)
    if refusal is None and not any(brokers[broker].active for broker in replicas):
        refusal = Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for "
            f"partition {number} are fenced or in controlled shutdown.",
        )
    return refusal


def check_replicas(
    replicas: Sequence[int], brokers: Mapping[int, BrokerImage], replication_factor: int | None
) -> Refusal | None:
    """Why no partition can have these replicas; None for the factor allows any."""
    problem: str | None = None
    # Of more replicas than there are brokers, one is unknown or named twice among the first already.
    ordered = sorted(replicas[: len(brokers) + 1])
    if not ordered:
        problem = "an empty replica list."
    for position, broker in enumerate(ordered):
        if problem is None and broker not in brokers:
            problem = f"broker {broker}, but no such broker is registered."
        elif problem is None and position and ordered[position - 1] == broker:
            problem = f"the broker {broker} more than once."
    if problem is None and replication_factor is not None and len(ordered) != replication_factor:
        problem = (
            f"a partition with {len(ordered)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    if problem is None:
        return None
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}")


def directory_of(broker: BrokerImage) -> bytes:
    """Where a new replica goes on a broker: known when it has one directory, else the broker chooses and says."""
    open_ones = _uncordoned(broker)
    return open_ones[0] if len(open_ones) == 1 else UNASSIGNED_DIRECTORY


def _uncordoned(broker: BrokerImage) -> list[bytes]:
    return [directory for directory in broker.directories if directory not in broker.cordoned]
