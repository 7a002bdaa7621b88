"""A broker's standing in the cluster: joining, heartbeats, leaving."""

import asyncio
import json
from collections.abc import Callable

import pytest

from kit.worlds.idle_brokers import idle_broker
from kit.worlds.unasked import UnaskedController
from ottla.base.errors import ErrorCode
from ottla.broker import lifecycle as lifecycle_module
from ottla.broker.lifecycle import CannotRegister, Presence
from ottla.log.data_directory import RUNNING_FILE
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.stored.metadata import BrokerRegistrationChangeRecord, FeatureLevelRecord, RegisterBrokerRecord

PRESENCE = Presence(b"i" * 16, {"PLAINTEXT": ("h", 9092)}, "rack-1", (b"d" * 16,), 41)
CAUGHT_UP_AT = 42
SETTINGS = {"broker.heartbeat.interval.ms": "3600000", "initial.broker.registration.timeout.ms": "1"}


class Controller(UnaskedController):
    """Answers as a controller would: a broker is unfenced once it has seen its registration."""

    def __init__(self) -> None:
        super().__init__(ClusterImage("c", offset=CAUGHT_UP_AT))
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.error = ErrorCode.NONE
        self.heartbeat_errors: list[ErrorCode] = []
        self.led = 2
        self.beaten = asyncio.Event()
        self.registered = asyncio.Event()
        self.when_registering: list[Callable[[], None]] = []

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        self.registrations.append(request)
        for each in self.when_registering:
            each()
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


class Fixture:
    """A broker that follows the controller's image and does nothing else until it joins."""

    def __init__(self) -> None:
        self.controller = Controller()
        self.broker = idle_broker(self.controller, SETTINGS, node_id=3)
        self.lifecycle = self.broker.lifecycle
        self.controller.subscribe(self._follow)
        self.controller.when_registering.append(lambda: self.counted.append(self.broker.partitions.registered))
        self.counted: list[bool] = []
        """Of each registration: whether the one before still counted."""

    def _follow(self, delta: ClusterDelta, image: ClusterImage) -> None:
        self.broker.context.image = image

    @property
    def marked_epoch(self) -> int:
        """Whose the directory is, by what lies in it."""
        file = self.broker.world.disk.open(f"/data/{RUNNING_FILE}", read_only=True)
        return int(json.loads(file.read_at(0, file.size()))["brokerEpoch"])

    async def join(self) -> None:
        await self.lifecycle.register(PRESENCE)
        await self.lifecycle.serve()


async def test_a_broker_joins_with_what_it_is_and_when_it_has_seen_itself() -> None:
    fixture = Fixture()
    fixture.controller.image = fixture.controller.image._replace(offset=CAUGHT_UP_AT - 1)
    joining = asyncio.ensure_future(fixture.join())
    await asyncio.wait_for(fixture.controller.registered.wait(), 60)
    assert not fixture.controller.heartbeats, "it waits until it has seen its registration"
    fixture.controller.take(FeatureLevelRecord(name="group.version", feature_level=1))
    await asyncio.wait_for(joining, 60)
    request = fixture.controller.registrations[0]
    assert (request.broker_id, request.rack, request.previous_broker_epoch) == (3, "rack-1", 41)
    assert fixture.broker.context.broker_epoch == CAUGHT_UP_AT
    assert fixture.marked_epoch == CAUGHT_UP_AT, "the directories must know whose they are before anything is written"
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
    assert fixture.counted == [True, False], "in between it can prove nothing"
    assert fixture.broker.partitions.registered
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
    fixture.controller.take(
        RegisterBrokerRecord(broker_id=7, broker_epoch=1, fenced=False),
        BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=1, in_controlled_shutdown=1),
    )
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
