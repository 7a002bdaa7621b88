"""An image written as facts and read again is the same image; what lies between two images can be told."""

from kit.machines.clusters import applied, cluster, topic_facts
from kit.machines.partition_states import TOPIC_ID, partition_facts, with_partition
from ottla.metadata.delta import ClusterDelta, difference
from ottla.metadata.facts import decode_facts, encode_facts
from ottla.metadata.image import ClusterImage
from ottla.metadata.snapshot import facts_of
from ottla.wire.stored.metadata import (
    ClearElrRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
)


def everything() -> ClusterImage:
    image = with_partition(
        cluster({1: "west", 2: None, 3: "east"}, fenced=[2]),
        isr=(1,),
        eligible_leader_replicas=[3],
        last_known_elr=[2],
        leader_recovery_state=1,
        adding_replicas=[3],
        removing_replicas=[2],
        configs={"retention.ms": "5", "min.insync.replicas": "2"},
    )
    return applied(
        [
            *topic_facts("a.b", 3),
            *topic_facts("a_b", 1),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
            ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=7000),
            RegisterControllerRecord(
                controller_id=9,
                incarnation_id=b"i" * 16,
                end_points=[ControllerEndpoint("CONTROLLER", "host.test", 9093, 0)],
                features=[ControllerFeature("group.version", 0, 1)],
            ),
        ],
        image,
    )


def test_an_image_written_and_read_again_is_the_same() -> None:
    image = everything()
    delta = ClusterDelta(ClusterImage(image.cluster_id))

    delta.replay_all(decode_facts(encode_facts(facts_of(image))))

    assert delta.apply(image.offset, image.epoch) == image


def test_an_empty_image_has_no_facts() -> None:
    assert list(facts_of(ClusterImage("x"))) == []


def test_what_lies_between_two_images_is_told_like_a_change() -> None:
    before = everything()
    facts = [
        *topic_facts("new", 2),
        *partition_facts(0, isr=(1, 3)),
        *partition_facts(1),
        RemoveTopicRecord(topic_id=b"a.b-------------"),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="6"),
    ]
    direct = ClusterDelta(before)
    direct.replay_all(facts)

    jump = difference(before, direct.apply(before.offset + len(facts), 1))

    assert jump.created_topics == direct.created_topics
    assert jump.changed_topics == direct.changed_topics == {TOPIC_ID: {0, 1}}
    assert jump.removed_topics == direct.removed_topics
    assert jump.changed_configs == direct.changed_configs
    assert (jump.changed_brokers, jump.features_changed) == (set(), False)


def test_another_least_number_of_in_sync_replicas_ends_eligibility_for_its_topic() -> None:
    image = everything()

    cleared = applied([ClearElrRecord(topic_name="orders")], image).topics["orders"].partitions[0]
    untouched = applied([ClearElrRecord(topic_name="a.b")], image).topics["orders"].partitions[0]
    all_cleared = applied([ClearElrRecord(topic_name="")], image).topics["orders"].partitions[0]

    assert (cleared.eligible, cleared.last_known, cleared.partition_epoch) == ((), (), 11)
    assert untouched == image.topics["orders"].partitions[0]
    assert all_cleared == cleared
