"""Whatever changes in a cluster, in whatever order: the znodes, written change by change, read back as the same image.

The changes go through ZooKeeper's rules (a znode is created once, versions count, a folder with content stays), so a
wrong order or version does not pass.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.worlds.zookeeper_tree import MemoryTree
from ottla.metadata.delta import ClusterDelta
from ottla.metadata.facts import Fact
from ottla.metadata.image import ClusterImage, ResourceType
from ottla.wire.stored import metadata as stored
from ottla.zookeeper import layout
from ottla.zookeeper.translation import Create, Remove, TreeWriter, Write, portions, read_tree

CLUSTER = "the-cluster-of-the-tree"
NAMES = ["orders", "orders.late", "orders_late", "__consumer_offsets", "x"]
BROKERS = st.integers(0, 4)
GROUPS = ["plain", "with/slash", "mit Ümlaut %", "<default>"]


def directory(broker_id: int) -> bytes:
    return bytes([0x7F, broker_id] * 8)


@st.composite
def facts(draw: st.DrawFn, image: ClusterImage) -> list[Fact]:
    """One decision that makes sense for the cluster as it is."""
    kinds = ["register", "create", "config", "features", "ids", "controller"]
    if image.topics:
        kinds += ["change", "change", "grow", "delete", "eligible"]
    if image.brokers:
        kinds += ["fence", "unregister"]
    kind = draw(st.sampled_from(kinds))
    if kind == "register":
        broker_id = draw(BROKERS)
        end_points = [stored.BrokerEndpoint("PLAINTEXT", draw(st.sampled_from(["host", "::1"])), 9092, 0)]
        return [
            stored.RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=directory(broker_id),
                broker_epoch=image.offset + 1,
                end_points=end_points,
                features=[stored.BrokerFeature("metadata.version", 1, 30)],
                rack=draw(st.none() | st.text(max_size=5)),
                fenced=draw(st.booleans()),
                log_dirs=[directory(broker_id)],
            )
        ]
    if kind == "fence":
        broker = image.brokers[draw(st.sampled_from(sorted(image.brokers)))]
        return [
            stored.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, fenced=draw(st.sampled_from([-1, 1]))
            )
        ]
    if kind == "unregister":
        broker = image.brokers[draw(st.sampled_from(sorted(image.brokers)))]
        return [stored.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)]
    if kind == "features":
        return [stored.FeatureLevelRecord(name="group.version", feature_level=draw(st.integers(0, 2)))]
    if kind == "ids":
        return [stored.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=image.next_producer_id + 1000)]
    if kind == "controller":
        return [stored.RegisterControllerRecord(controller_id=draw(BROKERS), incarnation_id=bytes(16))]
    if kind == "config":
        resource, name = draw(
            st.sampled_from(
                [
                    (ResourceType.BROKER, ""),
                    (ResourceType.BROKER, "1"),
                    *((ResourceType.GROUP, group) for group in GROUPS),
                    *((ResourceType.TOPIC, topic) for topic in image.topics),
                ]
            )
        )
        key, value = draw(st.sampled_from(["retention.ms", "a"])), draw(st.none() | st.text(max_size=8))
        return [stored.ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value)]
    if kind == "create":
        free = [name for name in NAMES if name not in image.topics]
        if not free:
            return []
        name = draw(st.sampled_from(free))
        topic_id = draw(st.binary(min_size=16, max_size=16).filter(lambda each: each not in image.topics_by_id))
        made: list[Fact] = [stored.TopicRecord(name=name, topic_id=topic_id)]
        made += [draw(partition(topic_id, number)) for number in range(draw(st.integers(1, 3)))]
        if draw(st.booleans()):
            made.append(stored.ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name="b", value="c"))
        return made
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    if kind == "delete":
        return [stored.RemoveTopicRecord(topic_id=topic.topic_id)]
    if kind == "grow":
        return [draw(partition(topic.topic_id, len(topic.partitions)))]
    if kind == "eligible":
        return [stored.ClearElrRecord(topic_name="")]
    changes = draw(st.integers(1, 2))
    return [draw(change(topic.topic_id, draw(st.integers(0, len(topic.partitions) - 1)))) for _ in range(changes)]


REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True)


@st.composite
def partition(draw: st.DrawFn, topic_id: bytes, number: int) -> Fact:
    replicas = draw(REPLICAS)
    return stored.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory(each) for each in replicas],
    )


@st.composite
def change(draw: st.DrawFn, topic_id: bytes, number: int) -> Fact:
    replicas = draw(st.none() | REPLICAS)
    return stored.PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=draw(st.none() | REPLICAS),
        leader=draw(st.sampled_from([-2, -1, 1, 2])),
        replicas=replicas,
        directories=None if replicas is None else [directory(each) for each in replicas],
        adding_replicas=draw(st.none() | REPLICAS),
        removing_replicas=draw(st.none() | st.just([])),
        eligible_leader_replicas=draw(st.none() | REPLICAS | st.just([])),
        last_known_elr=draw(st.none() | st.just([3]) | st.just([])),
        leader_recovery_state=draw(st.sampled_from([-1, 0, 1])),
    )


def store(
    tree: MemoryTree, writer: TreeWriter, decided: list[Fact], before: ClusterImage, most_bytes: int
) -> ClusterImage:
    delta = ClusterDelta(before)
    delta.replay_all(decided)
    after = delta.apply(before.offset + len(decided), 1)
    for portion in portions(writer.operations(decided, delta, after), most_bytes):
        for operation in portion:
            if isinstance(operation, Create):
                tree.create(operation.path, operation.data, sequential=operation.sequential)
            elif isinstance(operation, Write):
                tree.write(operation.path, operation.data, operation.version)
            else:
                assert isinstance(operation, Remove)
                tree.remove(operation.path)
    return after


def said(image: ClusterImage) -> object:
    """Everything an image says, but for when."""
    return image._replace(offset=0, epoch=0)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from([1, 300, 1 << 20]))
def test_znodes_that_were_written_change_by_change_read_back_as_the_same_image(
    data: st.DataObject, most_bytes: int
) -> None:
    tree = MemoryTree()
    for path in layout.PERSISTENT:
        if path not in tree.nodes:
            tree.create(path, b"", makepath=True)
    image = ClusterImage(CLUSTER)
    writer = TreeWriter([], 1)
    for _ in range(data.draw(st.integers(1, 12), label="decisions")):
        image = store(tree, writer, data.draw(facts(image)), image, most_bytes)
        loaded = read_tree(tree.znodes(), CLUSTER, iter(()))
        assert said(loaded.image) == said(image)
        assert (loaded.unstated, loaded.unnamed) == ({}, frozenset())
        if data.draw(st.booleans(), label="another controller"):
            # It knows what is there from the tree alone.
            image = loaded.image._replace(offset=image.offset)
            writer = TreeWriter(tree.nodes, 2)
