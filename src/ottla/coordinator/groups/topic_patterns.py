"""Which topics the patterns of subscriptions match, worked out once for each set of names.

Owns: the answers for the topics there are now, refusals among them. Never knows: groups and members. A pattern is
compiled and matched in a thread where somebody can wait for that (`learn`), and on the spot where nobody can.
Invariants: an answer is forgotten when a topic comes or goes; at most `MOST_ANSWERS` are kept.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from ottla.groups.pattern_syntax import BadPattern
from ottla.groups.patterns import matching

MOST_ANSWERS = 4_096

Answer: TypeAlias = frozenset[str] | BadPattern
InThread: TypeAlias = Callable[[Callable[[], list[Answer]]], Awaitable[list[Answer]]]


class TopicPatterns:
    """What every pattern in use matches. `topics` tells the present ones by name."""

    def __init__(self, topics: Callable[[], Mapping[str, object]]) -> None:
        self._topics = topics
        self._names: Mapping[str, object] = {}
        self._answers: dict[str, Answer] = {}

    def unknown(self, patterns: Iterable[str]) -> list[str]:
        """Those that have not been matched with the present topics."""
        answers = self._current()
        return [pattern for pattern in patterns if pattern not in answers]

    async def learn(self, patterns: list[str], in_thread: InThread) -> None:
        """Match these while the loop goes on."""
        self._current()
        names = self._names
        found = await in_thread(lambda: [_answer(pattern, names) for pattern in patterns])
        self._current()
        if self._names is names:
            self._keep(zip(patterns, found, strict=True))

    def matching(self, pattern: str) -> frozenset[str]:
        """The topics it matches; raises BadPattern."""
        known = self._current().get(pattern)
        if known is None:
            known = _answer(pattern, self._names)
            self._keep([(pattern, known)])
        if isinstance(known, BadPattern):
            raise known
        return known

    def _current(self) -> dict[str, Answer]:
        topics = self._topics()
        if topics is not self._names:
            if topics.keys() != self._names.keys():
                self._answers.clear()
            self._names = topics
        return self._answers

    def _keep(self, found: Iterable[tuple[str, Answer]]) -> None:
        self._answers.update(found)
        while len(self._answers) > MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]


def _answer(pattern: str, names: Iterable[str]) -> Answer:
    try:
        return matching(pattern, names)
    except BadPattern as refusal:
        return refusal.with_traceback(None)
