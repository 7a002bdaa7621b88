"""Requests that fail or take their time because a test wants it so.

Owns: which requests of clients are meddled with, and how. Never knows: nodes, what an API does. Invariants: requests of
other nodes are left alone; replies keep the order of their requests; without faults a request takes the ordinary way.
"""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.client.links import CLIENT_ID
from ottla.net.connection import Connection, Service
from ottla.net.dispatch import encoded
from ottla.testing.answers import failed_answer
from ottla.wire.apis import PRODUCE, TABLE, RequestHead, read_head
from ottla.wire.codec import MalformedMessage, decode


class Failing:
    """Requests that will fail, and how many did: what `fail_next` answers."""

    def __init__(self, key: int, times: int, error: ErrorCode | None, node_id: int | None) -> None:
        self.key = key
        self.error = error
        self.node_id = node_id
        self.left = times
        """How many are still to fail."""
        self.hits = 0
        """How many have."""


class Faults:
    """The faults of a whole system. Set by the test's thread, met by those of the nodes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failing: list[Failing] = []
        self._delays: dict[int, float] = {}
        self.none = True

    def fail_next(self, api: str, times: int, error: ErrorCode | str | int | None, node_id: int | None) -> Failing:
        failing = Failing(api_key(api), times, error_code(error), node_id)
        with self._lock:
            self._failing.append(failing)
            self.none = False
        return failing

    def delay(self, api: str, seconds: float) -> None:
        key = api_key(api)
        with self._lock:
            if seconds > 0:
                self._delays[key] = seconds
            else:
                self._delays.pop(key, None)
            self.none = not self._failing and not self._delays

    def clear(self) -> None:
        with self._lock:
            self._failing.clear()
            self._delays.clear()
            self.none = True

    def meet(self, key: int, node_id: int) -> Failing | None:
        """The failure that this request is to suffer."""
        with self._lock:
            for failing in self._failing:
                if failing.key == key and failing.node_id in (None, node_id):
                    failing.left -= 1
                    failing.hits += 1
                    if failing.left == 0:
                        self._failing.remove(failing)
                        self.none = not self._failing and not self._delays
                    return failing
        return None

    def delay_of(self, key: int) -> float:
        with self._lock:
            return self._delays.get(key, 0.0)


class FaultyService:
    """Stands between the connections of clients and the broker's dispatcher."""

    def __init__(self, real: Service, faults: Faults, node_id: int, loop: asyncio.AbstractEventLoop) -> None:
        self._real = real
        self._faults = faults
        self._node_id = node_id
        self._loop = loop
        self.most_frame_bytes = real.most_frame_bytes

    def receive(self, connection: Connection, frame: memoryview) -> None:
        if self._faults.none:
            self._real.receive(connection, frame)
            return
        try:
            head = read_head(frame)
        except MalformedMessage as problem:
            connection.drop(str(problem))
            return
        if head.client_id == CLIENT_ID:
            self._real.receive(connection, frame)
            return
        seconds = self._faults.delay_of(head.key)
        if seconds > 0:
            # Nothing else is taken from this client meanwhile. The answer queues behind the place, which stays empty.
            place = connection.defer(alone=True)
            kept = memoryview(bytearray(frame))

            def go_on() -> None:
                if connection.open:
                    self._serve(connection, kept, head)
                place.complete([])

            self._loop.call_later(seconds, go_on)
            return
        self._serve(connection, frame, head)

    def _serve(self, connection: Connection, frame: memoryview, head: RequestHead) -> None:
        failing = self._faults.meet(head.key, self._node_id)
        if failing is None:
            self._real.receive(connection, frame)
        elif failing.error is None:
            connection.drop("a test wants it so")
        else:
            self._fail(connection, frame, head, failing.error)

    def _fail(self, connection: Connection, frame: memoryview, head: RequestHead, error: ErrorCode) -> None:
        api = TABLE[head.key]
        if not api.first <= head.version <= api.last:
            self._real.receive(connection, frame)
            return
        request, _ = decode(api.request_class(), head.version, frame, head.body)
        if head.key == PRODUCE and request.acks == 0:  # type: ignore[attr-defined]
            return
        answer = failed_answer(request, api.response_class(), head.version, error)
        if answer is None:
            connection.drop(f"{api.name} was to fail, and its answer has no place to say so")
        else:
            connection.answer([encoded(answer, head, api)])

    def closed(self, connection: Connection, reason: str) -> None:
        self._real.closed(connection, reason)

    def in_thread(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> Any:
        return self._real.in_thread(work, done)

    def unreadable(self, path: str, problem: BaseException) -> None:
        self._real.unreadable(path, problem)


def api_key(name: str) -> int:
    """The API of a name such as Produce or OffsetCommit, however it is written. Raises ValueError."""
    wanted = name.replace("_", "").replace("-", "").lower()
    for key, api in TABLE.items():
        if api.name.lower() == wanted:
            return key
    raise ValueError(f"there is no API {name!r}; they have Kafka's names, such as Produce, Fetch or OffsetCommit")


def error_code(error: ErrorCode | str | int | None) -> ErrorCode | None:
    """An error by its number or Kafka's name; None is a connection that breaks. Raises ValueError."""
    if error is None:
        return None
    if isinstance(error, str):
        try:
            return ErrorCode[error.upper()]
        except KeyError:
            raise ValueError(
                f"there is no error {error!r}; they have Kafka's names, such as REQUEST_TIMED_OUT"
            ) from None
    return ErrorCode(error)
