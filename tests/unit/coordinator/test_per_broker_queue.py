"""What brokers tell each other about transactions: together where it can be, and nothing without an answer."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.vocabulary import TopicPartition
from ottla.coordinator.transactions.remote_markers import RemoteMarkers
from ottla.coordinator.transactions.verification import Errors, RemoteCoordinators
from ottla.log.producers import EndMarker
from ottla.transactions.decision import ProducerIdentity
from ottla.wire.links import LinkDown
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKER = EndMarker(7, 3, 5, True, 2)


def at(index: int) -> TopicPartition:
    return TopicPartition("topic", index)


class Others:
    """Other brokers: every request waits until the test answers it, or fails when its link is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.addresses: dict[int, tuple[str, int]] = {2: ("two", 9092), 3: ("three", 9092)}
        self.asked: list[tuple[str, Any, asyncio.Future[Any]]] = []

    @property
    def links(self) -> Others:
        return self

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        return self.addresses.get(broker_id)

    def link(self, host: str, port: int) -> OtherLink:
        return OtherLink(self, host)

    async def next(self) -> tuple[str, Any, asyncio.Future[Any]]:
        """The next request that was sent, with the host it went to."""
        for _ in range(10):
            if self.asked:
                return self.asked.pop(0)
            await asyncio.sleep(0)
        raise AssertionError("nothing was asked")


class OtherLink:
    def __init__(self, others: Others, host: str) -> None:
        self._others = others
        self._host = host
        self._waiting: set[asyncio.Future[Any]] = set()

    async def ask(self, request: Any, answer: Any, seconds: float, *, highest: int = 0) -> Any:
        place: asyncio.Future[Any] = self._others.loop.create_future()
        self._waiting.add(place)
        self._others.asked.append((self._host, request, place))
        return await place

    def close(self) -> None:
        for place in self._waiting:
            if not place.done():
                place.set_exception(LinkDown("closed"))


def verdict(request: AddPartitionsToTxnRequest, error: ErrorCode = ErrorCode.NONE) -> AddPartitionsToTxnResponse:
    """The same for every partition asked about."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                asked.transactional_id,
                [
                    AddPartitionsToTxnTopicResult(
                        topic.name, [AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions]
                    )
                    for topic in asked.topics
                ],
            )
            for asked in request.transactions
        ]
    )


def written(request: WriteTxnMarkersRequest, failed: dict[int, ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, failed.get(index, ErrorCode.NONE))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def ask(questions: RemoteCoordinators, name: str, broker_id: int = 2, adds: bool = True) -> asyncio.Future[Errors]:
    return questions.ask(broker_id, ProducerIdentity(name, 7, 3), frozenset((at(0), at(1))), adds)


async def test_questions_that_come_meanwhile_go_together() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    first = ask(questions, "a", adds=False)
    host, request, place = await others.next()
    assert (host, request.transactions[0].verify_only) == ("two", True)
    later = [ask(questions, name) for name in ("b", "c")]
    place.set_result(verdict(request))
    assert await first == {}
    _, request, place = await others.next()
    assert [asked.transactional_id for asked in request.transactions] == ["b", "c"]
    assert not request.transactions[0].verify_only
    place.set_result(verdict(request, ErrorCode.PRODUCER_FENCED))
    assert [await answer for answer in later] == [dict.fromkeys((at(0), at(1)), ErrorCode.PRODUCER_FENCED)] * 2


async def test_two_questions_about_one_transaction_do_not_share_a_request() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    answers = [ask(questions, name) for name in ("a", "b", "a")]
    for expected in (["a", "b"], ["a"]):
        _, request, place = await others.next()
        assert [asked.transactional_id for asked in request.transactions] == expected
        place.set_result(verdict(request))
    assert await asyncio.gather(*answers) == [{}, {}, {}]


async def test_brokers_do_not_wait_for_each_other() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    slow, quick = ask(questions, "a", 2), ask(questions, "b", 3)
    await others.next()
    _, request, place = await others.next()
    place.set_result(verdict(request))
    assert await quick == {}
    assert not slow.done()
    await questions.stop()


async def test_without_an_answer_the_error_says_so() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    unreachable = dict.fromkeys((at(0), at(1)), ErrorCode.NETWORK_EXCEPTION)
    assert await ask(questions, "a", broker_id=9) == unreachable

    waiting = ask(questions, "a")
    await others.next()
    questions.gone(2)
    assert await waiting == unreachable

    under_way, queued = ask(questions, "a"), ask(questions, "a")
    await others.next()
    await questions.stop()
    assert [await under_way, await queued] == [unreachable, unreachable]
    assert await ask(questions, "a") == unreachable, "nothing is asked any more"


async def test_an_error_of_the_whole_answer_is_that_of_every_partition() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    waiting = ask(questions, "a")
    _, _, place = await others.next()
    place.set_result(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert set((await waiting).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


async def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    others = Others()
    questions = RemoteCoordinators(others)
    for address in ("two", "elsewhere"):
        others.addresses[2] = (address, 9092)
        waiting = ask(questions, "a")
        host, request, place = await others.next()
        assert host == address
        place.set_result(verdict(request))
        await waiting


async def test_markers_of_several_transactions_go_in_one_request_and_each_hears_its_own_errors() -> None:
    others = Others()
    markers = RemoteMarkers(others)
    told: list[asyncio.Future[Any]] = [others.loop.create_future() for _ in range(2)]
    markers.send(2, MARKER, [at(0), at(1)], told[0].set_result)
    markers.send(2, MARKER._replace(producer_id=8, commit=False), [at(1), at(2)], told[1].set_result)
    _, request, place = await others.next()
    first, second = request.markers
    assert (first.producer_id, first.producer_epoch, first.coordinator_epoch) == (7, 3, 5)
    assert (first.transaction_result, first.transaction_version) == (True, 2)
    assert (second.producer_id, second.transaction_result) == (8, False)
    place.set_result(written(request, {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    assert [await each for each in told] == [{}, {at(2): ErrorCode.NOT_LEADER_OR_FOLLOWER}]


async def test_markers_that_a_fenced_broker_was_sent_come_back() -> None:
    others = Others()
    markers = RemoteMarkers(others)
    told: asyncio.Future[Any] = others.loop.create_future()
    markers.send(2, MARKER, [at(0)], told.set_result)
    await others.next()
    markers.gone(2)
    assert await told == {at(0): ErrorCode.NETWORK_EXCEPTION}
