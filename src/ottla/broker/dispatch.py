"""The broker's dispatch: Produce and Fetch by hand, everything else by one handler file per API.

Owns: which requests take the short way. Never knows: what an API does. See `net.dispatch` for the rest.
"""

import math
from importlib import import_module
from struct import error as StructError
from typing import TYPE_CHECKING, cast

from ottla.base.settings.values import BrokerValues
from ottla.broker.apis import SERVED, served_apis
from ottla.broker.handlers import fetch, produce
from ottla.log.files import StorageFailure
from ottla.net.connection import Connection
from ottla.net.dispatch import Dispatcher, Handler, RequestLimits, logger
from ottla.wire.apis import FETCH, HEAD, PRODUCE, Api, hot_body
from ottla.wire.codec import MalformedMessage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_PRODUCE = SERVED[PRODUCE]
_FETCH = SERVED[FETCH]
_BY_HAND = {PRODUCE: _PRODUCE, FETCH: _FETCH}


class BrokerDispatcher(Dispatcher):
    """What the connections of a broker's clients hand their frames to."""

    def __init__(self, broker: "Broker", limits: RequestLimits) -> None:
        served = served_apis(unstable=broker.values.boolean("unstable.api.versions.enable"))
        others = {key: api for key, api in served.items() if key not in _BY_HAND}
        super().__init__(broker, others, _handler, limits)
        self._broker = broker
        self._produces = self.meter.times("Produce")
        self._consumers = self.meter.times("FetchConsumer")
        self._followers = self.meter.times("FetchFollower")

    def take_settings(self) -> None:
        """Settings were changed at run time."""
        self.meter.slow_seconds = slow_seconds(self._broker.values)

    def receive(self, connection: Connection, frame: memoryview) -> None:
        self._received += 1
        connection.deferred = None
        try:
            key, version, correlation_id, client_id_size = HEAD.unpack_from(frame)
            if key == PRODUCE and _PRODUCE.first <= version <= _PRODUCE.last:
                body = hot_body(frame, key, version, client_id_size)
                produce.handle(self._broker, connection, frame, (version, correlation_id, body))
                self.meter.handled(connection, self._produces)
            elif key == FETCH and _FETCH.first <= version <= _FETCH.last:
                body = hot_body(frame, key, version, client_id_size)
                follower = fetch.handle(self._broker, connection, frame, (version, correlation_id, body))
                self.meter.handled(connection, self._followers if follower else self._consumers)
            elif key in _BY_HAND:
                connection.drop(f"{_BY_HAND[key].name} in version {version}, which is not served")
            else:
                self._receive(connection, frame)
        except StructError:
            connection.drop("a request shorter than its header")
        except MalformedMessage as problem:
            connection.drop(f"a malformed request: {problem}")
        except Exception:
            logger.exception("a request of %s failed", connection.peer)
            connection.drop("an internal error")

    def unreadable(self, path: str, problem: BaseException) -> None:
        super().unreadable(path, problem)
        if isinstance(problem, OSError):
            self._broker.storage_failed(StorageFailure.of(path, problem))


def slow_seconds(values: BrokerValues) -> float:
    """How long a request may take before the log tells of it."""
    milliseconds = values.integer("ottla.slow.request.ms")
    return milliseconds / 1000 if milliseconds >= 0 else math.inf


def _handler(api: Api) -> Handler:
    return cast("Handler", import_module(f"ottla.broker.handlers.{api.module}").handle)
