"""Features, registrations and producer ids."""

import pytest

from kit.machines.clusters import applied, cluster
from ottla.base.errors import ErrorCode
from ottla.base.settings.values import BrokerValues
from ottla.metadata import features, producer_ids
from ottla.metadata.decision import DecisionContext
from ottla.metadata.image import ClusterImage
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


def agreed() -> ClusterImage:
    return applied(features.bootstrap(), cluster())


def update(
    *wanted: tuple[str, int, int], image: ClusterImage | None = None, validate_only: bool = False
) -> tuple[ClusterImage, UpdateFeaturesResponse]:
    before = agreed() if image is None else image
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in wanted
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    facts, reply = features.update(request, DecisionContext(before, BrokerValues({})), 1, version=1)
    return applied(facts, before), reply


def test_a_new_cluster_starts_with_the_newest_levels() -> None:
    assert agreed().features == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }


def test_levels_go_down_and_up_again() -> None:
    image, reply = update(("transaction.version", 1, features.SAFE_DOWNGRADE))
    assert image.features["transaction.version"] == 1
    assert [(each.feature, each.error_code) for each in reply.results] == [("transaction.version", 0)]

    image, _ = update(("transaction.version", 2, features.UPGRADE), image=image)
    assert image.features["transaction.version"] == 2


def test_a_level_that_another_node_does_not_support_is_refused() -> None:
    image = agreed()
    old = image.brokers[1]._replace(features={**image.brokers[1].features, "transaction.version": (0, 1)})
    image = image._replace(brokers={1: old}, features={**image.features, "transaction.version": 1})

    _, refused = update(("transaction.version", 2, features.UPGRADE), image=image)
    absent = old._replace(features={})
    _, unknown = update(("transaction.version", 2, features.UPGRADE), image=image._replace(brokers={1: absent}))

    assert refused.error_message is not None
    assert refused.error_message.endswith("Broker 1 only supports versions 0-1")
    assert unknown.error_message is not None
    assert unknown.error_message.endswith("Broker 1 does not support this feature.")


def test_a_level_can_be_tried_out() -> None:
    image, reply = update(("group.version", 0, features.SAFE_DOWNGRADE), validate_only=True)

    assert (image.features["group.version"], reply.error_code) == (1, 0)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            ("nope", 1, 1),
            "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.",
        ),
        (
            ("group.version", 9, 1),
            "Invalid update version 9 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
        (
            ("group.version", 0, 1),
            "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            ("group.version", -1, 1),
            "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
        ),
        (
            ("group.version", 1, 9),
            "Invalid update version 1 for feature group.version. The controller does not support the given upgrade "
            "type.",
        ),
    ],
)
def test_one_bad_level_spoils_all(wanted: tuple[str, int, int], reason: str) -> None:
    image, reply = update(("transaction.version", 1, features.SAFE_DOWNGRADE), wanted)

    assert image.features == agreed().features
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert reply.error_message == (
        f"The update failed for all features since the following feature had an error: {reason}"
    )


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    image = cluster()
    starts = []
    for _ in range(3):
        facts, reply = producer_ids.allocate(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), image)
        starts.append((reply.producer_id_start, reply.producer_id_len))
        image = applied(facts, image)

    assert starts == [(0, 1000), (1000, 1000), (2000, 1000)]


@pytest.mark.parametrize(("broker", "epoch"), [(1, 99), (7, 1)])
def test_only_the_present_registration_of_a_broker_gets_producer_ids(broker: int, epoch: int) -> None:
    facts, reply = producer_ids.allocate(AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch), cluster())

    assert (facts, reply.error_code) == ([], ErrorCode.STALE_BROKER_EPOCH)
