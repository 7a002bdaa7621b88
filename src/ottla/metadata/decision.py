"""What a decider answers: facts to store and the reply to give once they are stored."""

from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.metadata.facts import Fact

Reply = TypeVar("Reply")

MOST_FACTS = 10_000
"""What one request may bring about; more would make every node pause while it applies them."""


class Decision(NamedTuple, Generic[Reply]):
    """Facts are stored together or not at all; without facts the reply can be given at once."""

    facts: list[Fact]
    reply: Reply


class Refusal(NamedTuple):
    """Why one part of a request is not done."""

    error: ErrorCode
    message: str | None
