"""Producer ids of a broker: each once, in blocks from the controller."""

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import pytest

from kit.machines.clusters import Controlled, cluster
from ottla.base.errors import ErrorCode
from ottla.broker.producer_ids import ProducerIds
from ottla.wire.links import LinkDown
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def test_ids_are_given_out_once_across_blocks_and_waiters(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    await controlled.start()
    ids = ProducerIds(controlled.channel, 1)

    taken = await asyncio.gather(*(ids.take() for _ in range(2500)))

    assert taken == list(range(2500))
    assert controlled.controller.image.next_producer_id == 3000


async def test_ids_of_another_start_do_not_repeat(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    await controlled.start()
    assert await ProducerIds(controlled.channel, 1).take() == 0

    await controlled.start()
    assert await ProducerIds(controlled.channel, 1).take() == 1000


async def test_without_a_stored_block_there_is_no_id(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    await controlled.start()
    ids = ProducerIds(controlled.channel, 1)
    controlled.disk.sync_errno = errno.EIO
    assert await ids.take() == ErrorCode.KAFKA_STORAGE_ERROR

    await controlled.heal()
    assert await ids.take() == 0


async def test_a_broker_that_is_not_registered_gets_none_yet(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path)
    await controlled.start()
    ids = ProducerIds(controlled.channel, 7)

    assert await ids.take() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Answering:
    """A controller that says one thing."""

    def __init__(self, error: ErrorCode | None) -> None:
        self.image = cluster(1)
        self._error = error

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        if self._error is None:
            raise LinkDown("no controller answered")
        return AllocateProducerIdsResponse(error_code=self._error)


@pytest.mark.parametrize("error", [None, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
async def test_while_controller_or_broker_change_their_standing_clients_are_told_to_ask_again(
    error: ErrorCode | None,
) -> None:
    ids = ProducerIds(cast(Any, Answering(error)), 1)

    assert await ids.take() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
