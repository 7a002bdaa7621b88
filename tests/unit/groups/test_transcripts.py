"""Groups as transcripts: people join them, share partitions, commit, fall silent; the story has the clock.

What is printed: what is stored, then who is told what. `t:0,1` are partitions of the topic t. A person is called by
name, also where the coordinator made up a member id for it; one who comes back as somebody new gets another name, as
`anna2`. It asks with what it was told last (member id, generation or epoch) unless the command says otherwise.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kit.machines.consumer_groups import Assigned, ModernCoordinator, quick
from kit.machines.groups import GROUP, Place
from kit.machines.transcripts import Printer, Stage, check_transcript, transcript_name, transcripts_beside
from ottla.base.errors import ErrorCode
from ottla.groups.classic import ClassicGroup
from ottla.groups.decision import GroupDecision, GroupLimits
from ottla.groups.embedded import read_assignment, write_assignment
from ottla.groups.facts import StoredMember
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse, TopicPartitions
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.offset_commit import OffsetCommitResponse

HIDDEN = [
    *["group_id", "client_id", "client_host", "protocol_type", "topic_id", "leader_epoch", "committed_metadata"],
    *["digest", "version", "rebalance_timeout_ms", "heartbeat_interval_ms"],
    *["since_ms", "commit_ms", "expire_ms", "computed_ms", "resolved_ms"],
]
"""What no story turns on."""
MADE_UP = re.compile(r"[a-z0-9]+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-([0-9a-f]{12})")


def partitions_word(partitions: Mapping[str, Iterable[int]]) -> str:
    """`t:0,1+u:3`; a dash for none."""
    parts = [f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in sorted(partitions.items())]
    return "+".join(parts) or "-"


def partitions_of(word: str) -> Assigned:
    """What was written as `partitions_word` does."""
    topics = [] if word == "-" else [part.split(":") for part in word.split("+")]
    return {topic: [int(number) for number in numbers.split(",")] for topic, numbers in topics}


def topic_name(topic_id: bytes) -> str:
    return topic_id.rstrip(b"\0").decode()


def owned_word(owned: Mapping[bytes, Iterable[int]] | None) -> str:
    return partitions_word({topic_name(topic_id): numbers for topic_id, numbers in (owned or {}).items()})


def assignment_word(assignment: Any) -> str:
    """Of a classic member in the consumers' own bytes, of another in the answer itself."""
    if isinstance(assignment, bytes | bytearray | memoryview):
        return partitions_word(read_assignment(bytes(assignment))) if assignment else "-"
    given: list[TopicPartitions] = assignment.topic_partitions
    return partitions_word({topic_name(topic.topic_id): topic.partitions for topic in given})


def subscription(*topics: str) -> bytes:
    """What a consumer joins with, in version 0 of the consumers' own format."""
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + b"\xff\xff\xff\xff"


def error_word(error: int) -> str:
    return "" if error == ErrorCode.NONE else ErrorCode(error).name


def commit_word(answer: OffsetCommitResponse) -> str:
    """Of one partition."""
    return f"{type(answer).__name__}({error_word(answer.topics[0].partitions[0].error_code)})"


shown: Printer = Printer(
    {
        StoredMember: lambda member: f"{member.member_id}:{assignment_word(member.assignment)}",
        JoinGroupResponseMember: lambda member: member.member_id,
        OffsetCommitResponse: commit_word,
    },
    named={
        "error_code": error_word,
        "assignment": assignment_word,
        "partitions": lambda found: owned_word(found) if isinstance(found, Mapping) else shown(found),
        "assigned": owned_word,
        "revoking": owned_word,
    },
    hidden=HIDDEN,
)


class Names:
    """The `Random` port without chance: whoever asks first is known by what it drew."""

    def __init__(self) -> None:
        self.asker = ""
        self.instance = ""
        """Of a static member, whose id begins with it."""
        self._drawn: list[str] = []
        self._member_ids: dict[str, str] = {}

    def identity(self) -> bytes:
        self._drawn.append(self.asker)
        number = len(self._drawn)
        self._member_ids.setdefault(self.asker, f"{self.instance or 'client'}-00000000-0000-4000-8000-{number:012x}")
        return number.to_bytes(16, "big")

    def uniform(self, low: float, high: float) -> float:
        return low

    def member_id(self, person: str) -> str:
        """The one that was made up for it; empty before it asked for anything."""
        return self._member_ids.get(person, "")

    def in_line(self, line: str) -> str:
        """With people's names instead of what they drew."""
        return MADE_UP.sub(lambda found: self._drawn[int(found[1], 16) - 1], line)


class Recorded(ModernCoordinator):
    """A coordinator that says what it stores and whom it answers."""

    def __init__(self, stage: "GroupStage", limits: GroupLimits, names: Names, **topics: int) -> None:
        super().__init__(limits, names, **topics)
        self._stage = stage
        self._names = names
        self.places: dict[Place, str] = {}

    def carry_out(self, decision: GroupDecision) -> Any:
        reply = super().carry_out(decision)
        for fact in decision.facts:
            self._stage.say(f"stores {shown(fact)}")
        for place, answer in decision.released:
            assert isinstance(place, Place)
            self.tell(self.places.get(place, self._names.asker), answer)
        if reply is not None:
            self.tell(self._names.asker, reply)
        return reply

    def tell(self, person: str, answer: Any) -> None:
        self._stage.say(f"answers {person}: {shown(answer)}")
        self._stage.learn(person, answer)


class GroupStage(Stage):
    """One group and its coordinator; the commands are the methods without a leading underscore."""

    def __init__(self) -> None:
        super().__init__()
        self._names = Names()
        self._epochs: dict[str, int] = {}
        """The generation or member epoch that each was told last."""
        self._coordinator = Recorded(self, quick(), self._names)

    def say(self, line: str) -> None:
        super().say(self._names.in_line(line))

    def learn(self, person: str, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.NONE:
            self._epochs[person] = answer.generation_id
        elif isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code == ErrorCode.NONE:
            self._epochs[person] = answer.member_epoch

    def _asks(self, person: str, instance: str = "") -> Recorded:
        self._names.asker = person
        self._names.instance = instance
        return self._coordinator

    # --- the world ---------------------------------------------------------------------------------------------------

    def coordinator(self, *, delay: str = "0", max_size: str = "", **topics: str) -> None:
        """With these topics; `delay`: how many seconds a new group waits for more members before it begins."""
        limits = quick(initial_delay_ms=int(float(delay) * 1000))
        limits = limits._replace(max_size=int(max_size)) if max_size else limits
        counts = {name: int(count) for name, count in topics.items()} or {"t": 4}
        self._coordinator = Recorded(self, limits, self._names, **counts)

    def topics(self, **counts: str) -> None:
        """They have so many partitions from now on."""
        self._coordinator.topics.grow(**{name: int(count) for name, count in counts.items()})

    def wait(self, seconds: str) -> None:
        """Time passes, with every deadline that comes due; what nothing follows from is not printed."""
        coordinator = self._asks("nobody")
        until = coordinator.now_ms + round(float(seconds) * 1000)
        while (due := coordinator.machine.next_deadline()) <= until:
            said = len(self.said)
            coordinator.pass_time(max(0, due - coordinator.now_ms))
            if len(self.said) > said:
                self.said.insert(said, f"at {coordinator.now_ms / 1000:g} s")
        coordinator.pass_time(until - coordinator.now_ms)

    def move(self) -> None:
        """Another coordinator takes over: those who wait are sent away, and it knows what was stored."""
        coordinator = self._asks("nobody")
        for place, answer in coordinator.machine.given_up():
            assert isinstance(place, Place)
            coordinator.tell(coordinator.places[place], answer)
        coordinator.reload()

    def show(self) -> None:
        """How the group stands."""
        group = self._coordinator.machine.groups[GROUP]
        number = f"generation {group.generation}" if isinstance(group, ClassicGroup) else f"epoch {group.epoch}"
        self.say(f"{group.state.value} in {number}: {' '.join(sorted(group.members)) or 'nobody'}")

    # --- the classic protocol ----------------------------------------------------------------------------------------

    def join(
        self, person: str, *, topics: str = "t", instance: str = "", version: str = "3", session: str = "10"
    ) -> None:
        place = self._asks(person, instance).join(
            self._names.member_id(person),
            instance=instance or None,
            metadata=subscription(*topics.split(",")),
            version=int(version),
            session_ms=int(session) * 1000,
        )
        self._waits(person, place)

    def sync(self, person: str, *, instance: str = "", generation: str = "", **assigned: str) -> None:
        """`anna=t:0,1 bert=t:2,3` is what the leader assigns."""
        coordinator = self._asks(person)
        given = {
            self._names.member_id(member): write_assignment(partitions_of(partitions), 1)
            for member, partitions in assigned.items()
        }
        number = self._epoch(person, generation)
        self._waits(person, coordinator.sync(self._names.member_id(person), number, given, instance or None))

    def _waits(self, person: str, place: Place) -> None:
        self._coordinator.places[place] = person
        if not place.answered:
            self.say(f"{person} waits")

    def _epoch(self, person: str, said: str) -> int:
        return int(said) if said else self._epochs.get(person, 0)

    def heartbeat(self, *people: str, instance: str = "", generation: str = "") -> None:
        for person in people:
            self._asks(person).heartbeat(
                self._names.member_id(person), self._epoch(person, generation), instance or None
            )

    def leave(self, person: str, *, instance: str = "") -> None:
        self._asks(person).leave((self._names.member_id(person), instance or None))

    def stable(self, *people: str) -> None:
        """They have joined and share four partitions in turn: the beginning of other stories, told in brief."""
        for number, person in enumerate(people):
            self.join(person)
            for earlier in people[:number]:
                self.join(earlier)
        leader = self._names.in_line(self._coordinator.group.leader or "")
        shares = {person: f"t:{','.join(map(str, range(4)[at :: len(people)]))}" for at, person in enumerate(people)}
        for person in sorted(people, key=lambda person: person == leader):
            self.sync(person, **(shares if person == leader else {}))
        self.said = []
        self.show()

    # --- the consumer protocol (KIP-848) -----------------------------------------------------------------------------

    def beat(
        self,
        person: str,
        *,
        epoch: str = "",
        topics: str = "",
        pattern: str = "",
        owned: str = "",
        instance: str = "",
        assignor: str = "",
    ) -> None:
        """A heartbeat; the first is the join, the one with the epoch -1 (of a static member also -2) is good-bye.

        The pattern `-` is none any more.
        """
        self._asks(person).beat(
            person,
            self._epoch(person, epoch),
            topics=topics.split(",") if topics else None,
            pattern="" if pattern == "-" else pattern or None,
            owned=partitions_of(owned) if owned else None,
            instance=instance or None,
            assignor=assignor or None,
        )

    # --- offsets -----------------------------------------------------------------------------------------------------

    def commit(self, person: str, offset: str, *, epoch: str = "", version: str = "9") -> None:
        """Of the first partition of t; `nobody` has no group membership to show."""
        coordinator = self._asks(person)
        coordinator.commit(
            int(offset),
            member_id="" if person == "nobody" else self._names.member_id(person) or person,
            generation=-1 if person == "nobody" else self._epoch(person, epoch),
            topic="t",
            topic_id=b"t".ljust(16, b"\0"),
            version=int(version),
        )


@pytest.mark.parametrize("transcript", transcripts_beside(__file__), ids=transcript_name)
def test_a_transcript_is_what_the_groups_say(transcript: Path) -> None:
    check_transcript(transcript, GroupStage())
