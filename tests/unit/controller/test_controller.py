"""The controller: decisions are stored before they are answered, shared syncs, restarts, and disks that fail."""

import asyncio
import errno
from pathlib import Path

import pytest

from kit.machines.clusters import Controlled, creation, new_topic, registration, settled
from ottla.base.errors import ErrorCode
from ottla.controller.controller import Controller
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.metadata.quorum_events import UnreadableMetadata
from ottla.records.batch import read_records
from ottla.records.builder import build_batch
from ottla.records.control import LeaderChange, read_control
from ottla.records.header import iterate_headers
from ottla.records.record import Record
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from ottla.wire.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
)


@pytest.fixture
async def controlled(tmp_path: Path) -> Controlled:
    controlled = Controlled(tmp_path)
    await controlled.start()
    controlled.syncs = 0
    return controlled


async def create(controller: Controller, *names: str) -> list[int]:
    return [topic.error_code for topic in (await controller.create_topics(creation(*names))).topics]


def log_file(controlled: Controlled) -> Path:
    return Path(controlled.directory) / "00000000000000000000.log"


async def test_a_new_cluster_knows_its_features_and_its_broker(controlled: Controlled) -> None:
    image = controlled.controller.image

    assert image.features["metadata.version"] == 30
    assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert image.brokers[1].active
    assert image.brokers[1].listeners == {"PLAINTEXT": ("broker.test", 9092)}


async def test_a_created_topic_is_in_the_image_when_the_answer_comes(controlled: Controlled) -> None:
    assert await create(controlled.controller, "orders") == [ErrorCode.NONE]
    assert "orders" in controlled.controller.image.topics


async def test_the_answer_waits_for_the_sync_and_so_does_the_image(controlled: Controlled) -> None:
    controlled.hold()
    answer = asyncio.ensure_future(create(controlled.controller, "orders"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert not answer.done()
    assert "orders" not in controlled.controller.image.topics
    controlled.release()
    assert await answer == [ErrorCode.NONE]


async def test_a_refusal_that_rests_on_an_unsynced_fact_waits_for_it_too(controlled: Controlled) -> None:
    controlled.hold()
    first = asyncio.ensure_future(create(controlled.controller, "orders"))
    second = asyncio.ensure_future(create(controlled.controller, "orders"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert not second.done()
    controlled.release()
    assert list(await asyncio.gather(first, second)) == [[ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS]]


async def test_requests_that_come_together_share_a_sync(controlled: Controlled) -> None:
    answers = await asyncio.gather(*(create(controlled.controller, f"t{number}") for number in range(50)))

    assert answers == [[ErrorCode.NONE]] * 50
    assert controlled.syncs <= 2
    assert len(controlled.controller.image.topics) == 50


async def test_subscribers_hear_of_every_change_in_order_before_its_answer(controlled: Controlled) -> None:
    heard: list[tuple[list[str], int]] = []

    def listen(delta: ClusterDelta, image: ClusterImage) -> None:
        assert controlled.controller.image is image
        heard.append((list(delta.created_topics.values()), image.offset))

    controlled.controller.subscribe(listen)
    await asyncio.gather(*(create(controlled.controller, f"t{number}") for number in range(5)))

    assert [names for names, _ in heard] == [[f"t{number}"] for number in range(5)]
    offsets = [offset for _, offset in heard]
    assert offsets == sorted(offsets)


async def test_a_failing_subscriber_keeps_nobody_from_hearing(
    controlled: Controlled, caplog: pytest.LogCaptureFixture
) -> None:
    heard = []

    def fail(delta: ClusterDelta, image: ClusterImage) -> None:
        raise RuntimeError("no")

    controlled.controller.subscribe(fail)
    controlled.controller.subscribe(lambda delta, image: heard.append(image))

    assert await create(controlled.controller, "orders") == [ErrorCode.NONE]
    assert len(heard) == 1
    assert "a subscriber failed" in caplog.text


async def test_nothing_is_written_for_a_request_that_is_refused_or_tried_out(controlled: Controlled) -> None:
    before = log_file(controlled).stat().st_size

    await controlled.controller.create_topics(creation("orders", validate_only=True))
    await create(controlled.controller, "a/b")

    assert log_file(controlled).stat().st_size == before
    assert controlled.syncs == 0


async def exercise(controller: Controller) -> None:
    """Something of everything."""
    await controller.create_topics(
        creation(new_topic("orders", 3, configs={"retention.ms": "5"}), new_topic("a.b", 2), "gone")
    )
    await controller.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")]), 6)
    await controller.create_partitions(CreatePartitionsRequest(topics=[CreatePartitionsTopic("orders", 5, None)]))
    await controller.incremental_alter_configs(
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalResource(2, "orders", [AlterableConfig("cleanup.policy", 2, "compact")]),
                IncrementalResource(4, "", [AlterableConfig("log.retention.ms", 0, "77")]),
            ]
        )
    )
    await controller.alter_configs(AlterConfigsRequest(resources=[AlterConfigsResource(2, "a.b", [])]))
    epoch = controller.image.brokers[1].epoch
    await controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))


async def test_everything_is_there_after_a_clean_restart(controlled: Controlled) -> None:
    await exercise(controlled.controller)
    before = controlled.controller.image
    await controlled.stop()

    after = (await controlled.start()).image

    assert settled(after) == settled(before)
    assert len(after.topics["orders"].partitions) == 5
    assert after.config(ResourceType.TOPIC, "orders") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert after.next_producer_id == 1000


async def test_everything_that_was_answered_is_there_after_a_power_cut(controlled: Controlled) -> None:
    await exercise(controlled.controller)
    before = controlled.controller.image
    controlled.disk.crash(controlled.directory)

    assert settled((await controlled.start()).image) == settled(before)


async def test_a_torn_tail_is_cut_off_at_the_start(controlled: Controlled) -> None:
    await create(controlled.controller, "orders")
    before = controlled.controller.image
    with log_file(controlled).open("ab") as file:
        file.write(log_file(controlled).read_bytes()[-40:])

    assert settled((await controlled.start()).image) == settled(before)
    assert await create(controlled.controller, "more") == [ErrorCode.NONE]
    assert set((await controlled.start()).image.topics) == {"orders", "more"}


async def test_each_start_is_an_epoch_that_begins_with_a_leader_change(controlled: Controlled) -> None:
    await controlled.start()
    await create(await controlled.start(), "orders")

    data = log_file(controlled).read_bytes()
    changes = {}
    epochs = []
    for position, header in iterate_headers(data):
        epochs.append(header.leader_epoch)
        if header.control:
            (record,) = read_records(data, header, position)
            content = read_control(record)
            assert isinstance(content, LeaderChange)
            changes[header.leader_epoch] = content.leader_id
    assert changes == {1: 1, 2: 1, 3: 1}
    assert epochs == sorted(epochs)
    assert controlled.controller.epoch == 3


async def test_an_epoch_is_not_used_again_when_only_the_quorum_state_remembers_it(controlled: Controlled) -> None:
    state = Path(controlled.directory) / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":40'))

    assert (await controlled.start()).epoch == 41


async def test_the_epoch_of_a_registration_is_the_offset_of_its_fact(controlled: Controlled) -> None:
    first = controlled.controller.image.brokers[1].epoch
    second = (await controlled.start()).image.brokers[1].epoch

    assert second > first
    assert second == controlled.controller.image.offset - 1


async def test_a_sync_that_fails_refuses_everything_that_waits_and_leaves_no_trace(controlled: Controlled) -> None:
    await create(controlled.controller, "before")
    image = controlled.controller.image
    controlled.disk.sync_errno = errno.EIO

    answers = list(await asyncio.gather(create(controlled.controller, "a"), create(controlled.controller, "b")))

    assert answers == [[ErrorCode.KAFKA_STORAGE_ERROR], [ErrorCode.KAFKA_STORAGE_ERROR]]
    assert controlled.controller.image is image
    await controlled.heal()
    assert await create(controlled.controller, "a", "after") == [ErrorCode.NONE, ErrorCode.NONE]
    assert set((await controlled.start()).image.topics) == {"before", "a", "after"}


async def test_what_was_decided_on_top_of_a_failed_sync_fails_too(controlled: Controlled) -> None:
    controlled.hold()
    first = asyncio.ensure_future(create(controlled.controller, "orders"))
    for _ in range(3):
        await asyncio.sleep(0)
    second = asyncio.ensure_future(create(controlled.controller, "more"))
    await asyncio.sleep(0)
    controlled.disk.sync_errno = errno.EIO
    controlled.release()

    assert list(await asyncio.gather(first, second)) == [[ErrorCode.KAFKA_STORAGE_ERROR]] * 2
    await controlled.heal()
    assert dict((await controlled.start()).image.topics) == {}


async def test_a_full_disk_is_told_and_forgotten_when_there_is_room_again(controlled: Controlled) -> None:
    controlled.disk.room = 30

    (result,) = (await controlled.controller.create_topics(creation("orders"))).topics

    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error_message is not None
    assert "No room" in result.error_message
    await controlled.heal()
    assert await create(controlled.controller, "orders") == [ErrorCode.NONE]
    assert list((await controlled.start()).image.topics) == ["orders"]


async def test_a_write_that_fails_half_way_and_cannot_be_undone_is_repaired_later(controlled: Controlled) -> None:
    await create(controlled.controller, "before")
    controlled.disk.fail_writes_from = controlled.disk.writes + 1
    controlled.disk.truncate_errno = errno.EIO

    assert await create(controlled.controller, "lost") == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert await create(controlled.controller, "lost") == [ErrorCode.KAFKA_STORAGE_ERROR]
    await controlled.heal()
    assert await create(controlled.controller, "after") == [ErrorCode.NONE]
    assert set((await controlled.start()).image.topics) == {"before", "after"}


async def test_every_kind_of_request_names_its_items_when_nothing_can_be_stored(controlled: Controlled) -> None:
    controller = controlled.controller
    await create(controller, "orders")
    controlled.disk.sync_errno = errno.EIO

    deleted = await controller.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]), 6)
    grown = await controller.create_partitions(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic("orders", 5, None)])
    )
    altered = await controller.incremental_alter_configs(
        IncrementalAlterConfigsRequest(
            resources=[IncrementalResource(2, "orders", [AlterableConfig("retention.ms", 0, "1")])]
        )
    )
    epoch = controller.image.brokers[1].epoch
    ids = await controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))

    refused = ErrorCode.KAFKA_STORAGE_ERROR
    assert [(each.name, each.error_code) for each in deleted.responses] == [("orders", refused)]
    assert [(each.name, each.error_code) for each in grown.results] == [("orders", refused)]
    assert [(each.resource_name, each.error_code) for each in altered.responses] == [("orders", refused)]
    assert ids.error_code == refused
    assert list(controller.image.topics) == ["orders"]


async def test_a_log_with_a_fact_from_the_future_is_refused_with_its_place(controlled: Controlled) -> None:
    end = controlled.controller.image.offset + 1
    batch = build_batch([Record(end, 1, None, b"\x01\x63\x00\x00")], base_offset=end, leader_epoch=1)
    with log_file(controlled).open("ab") as file:
        file.write(batch)

    with pytest.raises(UnreadableMetadata, match=rf"offsets {end} and {end} of .* no fact of kind 99"):
        await controlled.start()


async def test_facts_of_a_transaction_count_when_it_ends_and_not_before(controlled: Controlled) -> None:
    quorum = controlled.quorum

    def topic(name: str) -> list[Fact]:
        return [TopicRecord(name=name, topic_id=name.encode().ljust(16))]

    quorum.append([BeginTransactionRecord(name="x"), *topic("kept")])
    quorum.append([EndTransactionRecord()])
    quorum.append([BeginTransactionRecord(name="y"), *topic("dropped"), AbortTransactionRecord()])
    quorum.append([BeginTransactionRecord(name="z"), *topic("open")])
    await controlled.stop()

    assert list((await controlled.start()).image.topics) == ["kept"]
    assert await create(controlled.controller, "open") == [ErrorCode.NONE]
    assert set((await controlled.start()).image.topics) == {"kept", "open"}


async def test_the_broker_of_this_very_node_is_taken_in_at_once_wherever_it_listens_now(controlled: Controlled) -> None:
    controlled.starts += 1
    controlled.port = 1234

    await controlled.start()

    assert controlled.controller.image.brokers[1].listeners == {"PLAINTEXT": ("broker.test", 1234)}


async def test_a_broker_may_say_something_new_of_itself(controlled: Controlled) -> None:
    seen = []
    controlled.controller.subscribe(lambda delta, image: seen.append(delta.changed_brokers))

    answer = await controlled.controller.register_broker(registration(1, "west", incarnation=controlled.starts))

    assert answer.error_code == ErrorCode.NONE
    assert controlled.controller.image.brokers[1].rack == "west"
    assert seen == [{1}]
