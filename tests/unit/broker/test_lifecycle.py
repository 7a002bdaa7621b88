"""A broker's standing in the cluster: joining, heartbeats, leaving."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker import lifecycle as lifecycle_module
from ottla.broker.lifecycle import CannotRegister, Lifecycle, Presence
from ottla.log.files import StorageFailure
from ottla.node.options import Options, resolve
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

PRESENCE = Presence(b"i" * 16, {"PLAINTEXT": ("h", 9092)}, "rack-1", (b"d" * 16,), 41)
CAUGHT_UP_AT = 42
SETTINGS = ("broker.heartbeat.interval.ms=3600000", "initial.broker.registration.timeout.ms=1")


class Controller:
    """Answers as a controller would: a broker is unfenced once it has seen its registration."""

    def __init__(self) -> None:
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.error = ErrorCode.NONE
        self.heartbeat_errors: list[ErrorCode] = []
        self.led = 2
        self.subscribers: list[Callable[[Any, Any], None]] = []
        self.beaten = asyncio.Event()
        self.registered = asyncio.Event()
        self.image = SimpleNamespace(offset=CAUGHT_UP_AT, cluster_id="c", brokers={})

    def subscribe(self, subscriber: Callable[[Any, Any], None]) -> None:
        self.subscribers.append(subscriber)

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        self.registrations.append(request)
        self.registered.set()
        return BrokerRegistrationResponse(error_code=self.error, broker_epoch=CAUGHT_UP_AT)

    async def broker_heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        self.heartbeats.append(request)
        self.beaten.set()
        if self.heartbeat_errors:
            return BrokerHeartbeatResponse(error_code=self.heartbeat_errors.pop(0))
        if request.want_shut_down:
            self.led -= 1
            return BrokerHeartbeatResponse(should_shut_down=self.led <= 0)
        caught_up = request.current_metadata_offset >= CAUGHT_UP_AT
        return BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=not caught_up)


async def run_here(work: Callable[[], Any]) -> Any:
    return work()


class Fixture:
    def __init__(self) -> None:
        self.controller = Controller()
        self.image = self.controller.image
        self.marked: list[int] = []
        self.standings: list[bool] = []
        self.broker: Any = SimpleNamespace(
            controller=self.controller,
            image=self.image,
            node_id=3,
            context=SimpleNamespace(broker_epoch=-1),
            loop=asyncio.get_running_loop(),
            values=resolve(Options(assignments=SETTINGS)),
            supported_features={"metadata.version": (1, 2)},
            store=SimpleNamespace(mark_running=self._mark),
            run_blocking=run_here,
            replicas=SimpleNamespace(registration_changed=self.standings.append),
        )
        self.lifecycle = Lifecycle(self.broker)  # type: ignore[arg-type]

    def _mark(self, epoch: int) -> list[StorageFailure]:
        self.marked.append(epoch)
        return []

    async def join(self) -> None:
        await self.lifecycle.register(PRESENCE)
        await self.lifecycle.serve()


async def test_a_broker_joins_with_what_it_is_and_when_it_has_seen_itself() -> None:
    fixture = Fixture()
    fixture.image.offset = 7
    joining = asyncio.ensure_future(fixture.join())
    await asyncio.wait_for(fixture.controller.registered.wait(), 60)
    assert not fixture.controller.heartbeats, "it waits until it has seen its registration"
    fixture.image.offset = CAUGHT_UP_AT
    for subscriber in fixture.controller.subscribers:
        subscriber(SimpleNamespace(changed_brokers=()), fixture.image)
    await asyncio.wait_for(joining, 60)
    request = fixture.controller.registrations[0]
    assert (request.broker_id, request.rack, request.previous_broker_epoch) == (3, "rack-1", 41)
    assert fixture.broker.context.broker_epoch == CAUGHT_UP_AT
    assert fixture.marked == [CAUGHT_UP_AT], "the directories must know whose they are before anything is written"
    assert not fixture.lifecycle.fenced
    await fixture.lifecycle.leave()


async def test_a_broker_that_is_refused_says_why() -> None:
    fixture = Fixture()
    fixture.controller.error = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    with pytest.raises(CannotRegister, match=r"another broker that lives has the id 3 \(node.id\)"):
        await fixture.join()


async def test_a_registration_that_does_not_count_any_more_is_made_anew() -> None:
    fixture = Fixture()
    fixture.controller.heartbeat_errors = [ErrorCode.STALE_BROKER_EPOCH]
    await asyncio.wait_for(fixture.join(), 60)
    assert len(fixture.controller.registrations) == 2
    assert fixture.standings == [False, True], "in between it can prove nothing"
    await fixture.lifecycle.leave()


async def test_a_failed_directory_is_told_at_once() -> None:
    fixture = Fixture()
    await asyncio.wait_for(fixture.join(), 60)
    fixture.controller.beaten.clear()
    fixture.lifecycle.directory_failed(b"d" * 16)
    await asyncio.wait_for(fixture.controller.beaten.wait(), 60)
    assert fixture.controller.heartbeats[-1].offline_log_dirs == [b"d" * 16]
    await fixture.lifecycle.leave()


async def test_a_broker_leaves_when_others_lead_what_it_led() -> None:
    fixture = Fixture()
    await asyncio.wait_for(fixture.join(), 60)
    await asyncio.wait_for(fixture.lifecycle.leave(), 60)
    assert fixture.controller.led == 0
    assert [request.want_shut_down for request in fixture.controller.heartbeats[-2:]] == [True, True]


async def test_a_broker_tells_at_once_that_it_has_seen_another_leave() -> None:
    fixture = Fixture()
    await asyncio.wait_for(fixture.join(), 60)
    fixture.controller.beaten.clear()
    fixture.image.brokers = {7: SimpleNamespace(in_controlled_shutdown=True)}
    for subscriber in fixture.controller.subscribers:
        subscriber(SimpleNamespace(changed_brokers={7}), fixture.image)
    await asyncio.wait_for(fixture.controller.beaten.wait(), 60)
    await fixture.lifecycle.leave()


async def test_a_broker_does_not_wait_for_a_controller_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_module, "SILENCE_SECONDS", 0.05)
    fixture = Fixture()
    await asyncio.wait_for(fixture.join(), 60)

    async def silent(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    monkeypatch.setattr(fixture.controller, "broker_heartbeat", silent)
    await asyncio.wait_for(fixture.lifecycle.leave(), 60)
