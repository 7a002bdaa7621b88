"""One connection: versions, order, deadlines, and what happens when the other side misbehaves."""

import asyncio
import errno
import struct

import pytest

from kit.wire.scripted_broker import SILENCE, ScriptedBroker
from kit.worlds.loop_time import LoopTime
from ottla.client import links
from ottla.client.address import Address
from ottla.client.connection import Connection, open_connection
from ottla.client.errors import (
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    ProtocolViolation,
    UnsupportedRequest,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

SOON = 0.15
LATER = 60.0


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def connect(broker: ScriptedBroker, in_flight: int = 5) -> Connection:
    return await open_connection(broker.address, after(LATER), client_id="me", in_flight=in_flight)


async def ask(connection: Connection, seconds: float = LATER) -> MetadataResponse:
    return await connection.ask(MetadataRequest(), MetadataResponse, after(seconds))


async def test_the_newest_common_version_is_spoken() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: MetadataResponse(cluster_id="c")}) as broker:
        connection = await connect(broker)
        assert (await ask(connection)).cluster_id == "c"
        assert connection.version_for(MetadataRequest) == MetadataRequest.VERSIONS[1]
        assert connection.version_for(MetadataRequest, highest=4) == 4
        assert broker.client_ids == {"me"}
        connection.close()


async def test_an_old_broker_is_asked_again_in_the_version_it_names() -> None:
    versions = {ApiVersionsRequest.KEY: (0, 1), MetadataRequest.KEY: (0, 2)}
    async with ScriptedBroker({MetadataRequest: lambda _: MetadataResponse(cluster_id="old")}, versions) as broker:
        connection = await connect(broker)
        assert connection.version_for(MetadataRequest) == 2
        assert (await ask(connection)).cluster_id == "old"
        with pytest.raises(UnsupportedRequest, match="DescribeCluster"):
            await connection.ask(DescribeClusterRequest(), DescribeClusterResponse, after(LATER))
        connection.close()


async def test_requests_are_pipelined_and_answered_in_order_up_to_the_bound() -> None:
    numbers = iter(range(100))
    answers = {MetadataRequest: lambda _: MetadataResponse(controller_id=next(numbers))}
    async with ScriptedBroker(answers) as broker:
        connection = await connect(broker, in_flight=3)
        found = await asyncio.gather(*(ask(connection) for _ in range(20)))
        assert [answer.controller_id for answer in found] == list(range(20))
        connection.close()


async def test_no_more_requests_than_the_bound_are_on_their_way() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: SILENCE}) as broker:
        connection = await connect(broker, in_flight=2)
        asked = [asyncio.create_task(ask(connection)) for _ in range(2)]
        await broker.got(MetadataRequest, 2)
        with pytest.raises(DeadlineExceeded, match="takes no further"):
            await ask(connection, SOON)
        assert len(broker.received(MetadataRequest)) == 2
        connection.close()
        for failure in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(failure, ConnectionLost)


async def test_a_request_past_its_deadline_closes_the_connection_for_all() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: SILENCE}) as broker:
        connection = await connect(broker)
        behind = asyncio.create_task(ask(connection))
        await broker.got(MetadataRequest)
        with pytest.raises(DeadlineExceeded, match="did not answer Metadata"):
            await ask(connection, SOON)
        with pytest.raises(ConnectionLost, match="earlier request"):
            await behind
        assert connection.closed
        with pytest.raises(ConnectionLost):
            await ask(connection)


async def test_a_caller_that_gives_up_leaves_the_connection_whole() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: MetadataResponse(cluster_id="c")}) as broker:
        connection = await connect(broker, in_flight=1)
        given_up = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        given_up.cancel()
        assert (await ask(connection)).cluster_id == "c"
        connection.close()


async def test_what_cannot_be_written_leaves_the_connection_whole() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: MetadataResponse(cluster_id="c")}) as broker:
        connection = await connect(broker, in_flight=1)
        for _ in range(3):
            with pytest.raises(struct.error):
                await connection.ask(
                    ListOffsetsRequest(replica_id=1 << 40), ListOffsetsResponse, after(LATER), highest=1
                )
        assert (await ask(connection)).cluster_id == "c"
        connection.close()


async def test_a_broker_that_hangs_up_fails_what_waits() -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: SILENCE}) as broker:
        connection = await connect(broker)
        waiting = asyncio.create_task(ask(connection))
        await broker.got(MetadataRequest)
        broker.hang_up()
        with pytest.raises(ConnectionLost):
            await waiting
        assert connection.closed


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n", id="another protocol"),
        pytest.param(b"\x00\x00\x00\x04\x00\x00\x00\x63", id="the answer to another request"),
        pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\x00\xff", id="a body that ends too early"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative length"),
    ],
)
async def test_bytes_that_are_no_answer_close_the_connection(frame: bytes) -> None:
    async with ScriptedBroker({MetadataRequest: lambda _: frame}) as broker:
        connection = await connect(broker)
        with pytest.raises(ProtocolViolation):
            await ask(connection)
        assert connection.closed


async def test_nobody_listening_is_said_in_plain_words() -> None:
    async with ScriptedBroker() as broker:
        address = broker.address
    with pytest.raises(ConnectionFailed, match="connection refused"):
        await open_connection(address, after(LATER))


NO_ROUTE = OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.9', 9092)")
REFUSED = "[Errno 111] Connect call failed ('::1', 9092, 0, 0)"


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (NO_ROUTE, "No route to host"),
        (OSError(f"Multiple exceptions: {REFUSED}, {REFUSED}"), "connection refused"),
        (OSError(f"Multiple exceptions: {REFUSED}, {NO_ROUTE}"), "Multiple exceptions"),
        (OSError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.9', 9092)"), "connection refused"),
    ],
)
async def test_only_where_every_address_refuses_the_connection_is_refused(
    monkeypatch: pytest.MonkeyPatch, problem: OSError, told: str
) -> None:
    async def fail(*arguments: object) -> None:
        raise problem

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)

    with pytest.raises(ConnectionFailed) as failure:
        await open_connection(Address("somewhere", 9092), after(LATER))
    assert failure.value.reason.startswith(told)
    assert (failure.value.reason == links.REFUSED) == (told == "connection refused")


async def test_a_name_that_does_not_resolve_is_a_failed_connection() -> None:
    with pytest.raises(ConnectionFailed, match="does-not-exist"):
        await open_connection(Address("does-not-exist.invalid", 9092), after(LATER))


async def test_a_listener_that_never_speaks_is_given_up_at_the_deadline(loop_time: LoopTime) -> None:
    async with ScriptedBroker({ApiVersionsRequest: lambda _: loop_time.forward(LATER)}) as broker:
        with pytest.raises(DeadlineExceeded, match="ApiVersions"):
            await open_connection(broker.address, after(LATER))
