"""What a decider goes by, and what it answers: facts to store and the reply to give once they are stored."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage

Reply = TypeVar("Reply")

MOST_FACTS = 10_000
"""What one request may bring about; more would make every node pause while it applies them."""


class DecisionContext(NamedTuple):
    """Where a decision is made: the cluster as it is, and the deciding node's settings as the image has them."""

    image: ClusterImage
    values: BrokerValues

    def after(self, facts: Sequence[Fact]) -> "DecisionContext":
        """The cluster as it is once these facts are stored too; the node's settings are as before."""
        if not facts:
            return self
        delta = ClusterDelta(self.image)
        delta.replay_all(facts)
        return self._replace(image=delta.apply(self.image.offset, self.image.epoch))


class MetadataDecision(NamedTuple, Generic[Reply]):
    """Facts are stored together or not at all; without facts the reply can be given at once."""

    facts: list[Fact]
    reply: Reply


class Refusal(NamedTuple):
    """Why one part of a request is not done."""

    error: ErrorCode
    message: str | None


TOO_MANY_FACTS = Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
