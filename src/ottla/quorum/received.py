"""Requests of other nodes, from their coming to their answer.

Owns: who waits for which answer, and what of the log or a snapshot goes into it. Never knows: what is answered, and
when (that is the machine's). Invariants: an answer is made at once, as the log may be another one when the asker gets
its turn; where nothing can be said any more, everybody who waits is told.
"""

import asyncio

from ottla.base.errors import ErrorCode
from ottla.log.files import StorageFailure
from ottla.quorum.log import QuorumLog
from ottla.quorum.settings import QuorumSettings
from ottla.raft.messages import Answer, Fetched, FetchedSnapshot
from ottla.raft.translation import write_answer
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.schema import Root


class ReceivedRequest:
    """One of them: the machine's token for it."""

    __slots__ = ("reply", "request")

    def __init__(self, request: Root, reply: asyncio.Future[Root]) -> None:
        self.request = request
        self.reply = reply


class ReceivedRequests:
    """Those without an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: QuorumSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._waiting: dict[ReceivedRequest, None] = {}  # in the order of their coming

    def add(self, request: Root) -> ReceivedRequest:
        received = ReceivedRequest(request, self._loop.create_future())
        self._waiting[received] = None
        return received

    def remove(self, received: ReceivedRequest) -> None:
        self._waiting.pop(received, None)

    def answer(self, token: object, answer: Answer, log: QuorumLog) -> None:
        """The machine's answer, with the records that it promises."""
        assert isinstance(token, ReceivedRequest)
        if token.reply.done():
            return
        request = token.request
        records = b""
        if isinstance(answer, Fetched) and answer.read_from is not None:
            assert isinstance(request, FetchRequest)
            records = log.read_bytes(answer.read_from, min(request.max_bytes, self._settings.fetch_max_bytes))
        token.reply.set_result(write_answer(request, answer, records))

    def answer_portion(self, token: object, answer: FetchedSnapshot, log: QuorumLog) -> None:
        """The machine's answer, with a portion of the snapshot that it is about."""
        assert isinstance(token, ReceivedRequest)
        assert isinstance(token.request, FetchSnapshotRequest)
        most = min(token.request.max_bytes, self._settings.snapshot_max_bytes)
        self.answer(token, _with_portion(answer, most, log), log)

    def fail(self, failure: StorageFailure) -> None:
        """Nobody will be answered."""
        for received in self._waiting:
            if not received.reply.done():
                received.reply.set_exception(failure)


def _with_portion(answer: FetchedSnapshot, most: int, log: QuorumLog) -> FetchedSnapshot:
    if answer.error != ErrorCode.NONE:
        return answer
    found = log.snapshots.read_portion(answer.snapshot, max(answer.position, 0), most)
    if found is None:
        return answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
    size, data = found
    if not 0 <= answer.position < size:
        return answer._replace(error=ErrorCode.POSITION_OUT_OF_RANGE)
    return answer._replace(size=size, data=data)
