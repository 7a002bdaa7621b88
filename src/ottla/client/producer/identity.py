"""The producer id of a producer that is idempotent but has no transactions.

Owns: asking for it, again and again: without one nothing can leave. Never knows: what it is for.
"""

import asyncio
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ClientError
from ottla.client.producer.accumulator import NO_IDENTITY
from ottla.client.producer.sequences import Sequences
from ottla.client.retry import pause_before
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

LAST_WITHOUT_TWO_PHASES = 5
"""Of InitProducerId: what follows is for somebody else's two-phase commit, and not stable in Kafka."""


class Identity:
    """`news` is called when it is there (None) or when it will never be (why)."""

    def __init__(
        self, cluster: Cluster, sequences: Sequences, transaction_ms: int, news: Callable[[ClientError | None], None]
    ) -> None:
        self._cluster = cluster
        self._sequences = sequences
        self._request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=transaction_ms)
        self._news = news
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """See to it that there will be one; that of a transactional producer comes from its coordinator."""
        if self._task is None and not self._sequences.transactional:
            self._task = asyncio.get_running_loop().create_task(self._ask())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        cluster = self._cluster
        attempt = 0
        refused: ClientError | None = None
        try:
            while self._sequences.identity == NO_IDENTITY and refused is None:
                try:
                    deadline = cluster.deadline(cluster.settings.request_seconds)
                    answer = await cluster.ask_any(
                        self._request, InitProducerIdResponse, deadline, highest=LAST_WITHOUT_TWO_PHASES
                    )
                    if answer.error_code:
                        raise BrokerError(answer.error_code, "a producer id")
                    self._sequences.identity = answer.producer_id, answer.producer_epoch
                except ClientError as failure:
                    if failure.retriable:
                        attempt += 1
                        await asyncio.sleep(pause_before(attempt, cluster.random, cluster.settings.pauses))
                    else:
                        refused = failure
        finally:
            self._task = None
        self._news(refused)
