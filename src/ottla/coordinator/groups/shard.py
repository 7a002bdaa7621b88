"""One led partition of `__consumer_offsets` and the machine of the groups it holds."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.coordinator.groups.cluster import ImageCluster
from ottla.coordinator.shard import BatchWriter, CoordinatorShard, Decided, read_clock
from ottla.groups.decision import GroupDecision, GroupLimits
from ottla.groups.facts import Fact, OffsetFact
from ottla.groups.log_lines import generation_of, group_of, is_gone, new_generation
from ottla.groups.machine import GroupMachine
from ottla.groups.records import written
from ottla.replicas.partitions import Partition
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.coordinator.groups.group_coordinator import GroupCoordinator

logger = logging.getLogger("ottla.groups")

Answer: TypeAlias = "Message | asyncio.Future[Message] | None"


class GroupShard(CoordinatorShard[Fact, Message]):
    """The groups of one partition."""

    def __init__(self, coordinator: "GroupCoordinator", partition: Partition, limits: GroupLimits) -> None:
        context = coordinator.context
        cluster = ImageCluster(context, coordinator.topic_patterns)
        self.machine = GroupMachine(limits, context.world.random, read_clock(context.clock), cluster)
        self._coordinator = coordinator
        compression = context.values.integer("offsets.topic.compression.codec")
        seconds = context.values.integer("offsets.commit.timeout.ms") / 1000
        super().__init__(context, coordinator.commits, partition, self.machine, written, seconds, compression)

    def carry_out(
        self,
        decision: Decided[Fact, Message],
        refused: Callable[[ErrorCode], Message],
        writer: BatchWriter | None = None,
    ) -> Answer:
        assert isinstance(decision, GroupDecision)
        group_id = group_of(decision)
        if group_id is None:
            return super().carry_out(decision, refused, writer)
        before = self.machine.groups.get(group_id)
        generation, members = generation_of(before), tuple(before.members) if before is not None else ()
        answer = super().carry_out(decision, refused, writer)
        after = self.machine.groups.get(group_id)
        if after is not None and generation_of(after) > generation:
            self._coordinator.rebalances += 1
            logger.info("%s", new_generation(decision, members, after))
        return answer

    def _apply(self, facts: Sequence[Fact], writer: BatchWriter | None) -> None:
        if writer is None:
            super()._apply(facts, writer)
            for fact in facts:
                if type(fact) is not OffsetFact and is_gone(fact) and fact.group_id not in self.machine.groups:
                    logger.info("group %s is deleted", fact.group_id)
            return
        for fact in facts:
            assert isinstance(fact, OffsetFact)
            self.machine.offsets.pending.note(writer.producer_id, fact)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The end of a producer's transaction is in the log: its offsets hold from now on, or never."""
        for fact in self.machine.offsets.pending.end(producer_id, commit):
            self.machine.apply(fact)

    def _carry_out_due(self, decision: Decided[Fact, Message]) -> None:
        if decision.group is None and decision.aftermath is None:  # type: ignore[attr-defined]
            super()._carry_out_due(decision)
        else:
            self.carry_out(decision, _nobody)


def _nobody(error: ErrorCode) -> Message:
    """A deadline's decision has no asker; that it was not stored has been logged, and it comes again."""
    return Message()
