"""Whatever is asked of a controller, in whatever order: the log, read again, gives the image that was answered from,
and so does a snapshot.

The same requests also go through a plain model of names and counts, so that an image cannot be equal and wrong.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.machines.clusters import Controlled, creation, new_topic, settled
from ottla.base.errors import ErrorCode
from ottla.controller.controller import Controller
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import decode_facts, encode_facts
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.metadata.snapshot import facts_of
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(-1, 5)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("grow"), NAMES, st.integers(0, 8)),
        st.tuples(st.just("set"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("unset"), NAMES, st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.just(0)),
        st.tuples(st.just("crash"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


class Model:
    """What ought to be there: partitions and retention by name."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        self.retention: dict[str, str] = {}

    def create(self, name: str, count: int) -> bool:
        taken = {each.replace(".", "_") for each in self.partitions if "." in each or "_" in each}
        collides = name.replace(".", "_") in taken and ("." in name or "_" in name)
        if name in self.partitions or collides or count == 0:
            return False
        self.partitions[name] = 1 if count == -1 else count
        return True

    def delete(self, name: str) -> bool:
        self.retention.pop(name, None)
        return self.partitions.pop(name, None) is not None

    def grow(self, name: str, count: int) -> bool:
        if self.partitions.get(name, count) >= count:
            return False
        self.partitions[name] = count
        return True

    def set(self, name: str, value: str | None) -> bool:
        if name not in self.partitions:
            return False
        if value is None:
            self.retention.pop(name, None)
        else:
            self.retention[name] = value
        return True


async def step(controller: Controller, model: Model, what: str, name: str, number: int) -> None:
    if what == "create":
        topics = await controller.create_topics(creation(new_topic(name, number)))
        assert (topics.topics[0].error_code == ErrorCode.NONE) == model.create(name, number)
    elif what == "delete":
        deleted = await controller.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6)
        assert (deleted.responses[0].error_code == ErrorCode.NONE) == model.delete(name)
    elif what == "grow":
        wanted = CreatePartitionsTopic(name, number, None)
        grown = await controller.create_partitions(CreatePartitionsRequest(topics=[wanted]))
        assert (grown.results[0].error_code == ErrorCode.NONE) == model.grow(name, number)
    else:
        value = str(number) if what == "set" else None
        config = AlterableConfig("retention.ms", 0 if what == "set" else 1, value)
        request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(2, name, [config])])
        altered = await controller.incremental_alter_configs(request)
        assert (altered.responses[0].error_code == ErrorCode.NONE) == model.set(name, value)


async def run(directory: Path, steps: list[tuple[str, str, int]]) -> None:
    controlled = Controlled(directory)
    await controlled.start()
    model = Model()
    for what, name, number in [*steps, ("crash", "", 0)]:
        before = controlled.controller.image
        if what == "restart":
            await controlled.stop()
        elif what == "crash":
            controlled.disk.crash(controlled.directory)
        else:
            await step(controlled.controller, model, what, name, number)
            image = controlled.controller.image
            written = ClusterDelta(ClusterImage(image.cluster_id))
            written.replay_all(decode_facts(encode_facts(facts_of(image))))
            assert written.apply(image.offset, image.epoch) == image
            continue
        assert settled((await controlled.start()).image) == settled(before)
    image = controlled.controller.image
    assert {name: len(topic.partitions) for name, topic in image.topics.items()} == model.partitions
    assert {topic.name for topic in image.topics_by_id.values()} == set(model.partitions)
    retention = {
        name: values["retention.ms"] for (kind, name), values in image.configs.items() if kind == ResourceType.TOPIC
    }
    assert retention == model.retention


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_log_read_again_gives_the_image_that_was_answered_from(steps: list[tuple[str, str, int]]) -> None:
    with TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory), steps))
