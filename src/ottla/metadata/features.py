"""Features: what the release can do and which levels of it are finalized in the cluster.

Owns: the table of supported levels, the levels a new cluster starts with, and UpdateFeatures. Never knows: what a level
switches on elsewhere, but for what has to be committed together with it. Invariant: a level outside the supported range
is never finalized.
"""

from collections.abc import Mapping

from ottla.base.errors import ErrorCode
from ottla.metadata import eligible
from ottla.metadata.decision import DecisionContext, MetadataDecision, Refusal
from ottla.metadata.facts import METADATA_VERSION, Fact
from ottla.metadata.image import ClusterImage
from ottla.metadata.partition_change import ELIGIBLE_LEADERS
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.stored.metadata import FeatureLevelRecord

# Kafka's features; those of share groups and Kafka Streams groups are not claimed before they are served.
SUPPORTED: Mapping[str, tuple[int, int]] = {
    "metadata.version": (METADATA_VERSION, METADATA_VERSION),
    "kraft.version": (0, 0),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    ELIGIBLE_LEADERS: (0, 1),
}

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


def starting_levels() -> dict[str, int]:
    """The newest levels, for a new cluster. kraft.version is the quorum's own and stands in no fact."""
    return {name: last for name, (_, last) in SUPPORTED.items() if last > 0}


def bootstrap() -> list[Fact]:
    """The facts that a new cluster begins with."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in starting_levels().items()]


def update(
    request: UpdateFeaturesRequest, context: DecisionContext, node_id: int, version: int
) -> MetadataDecision[UpdateFeaturesResponse]:
    """UpdateFeatures: all levels or none."""
    image = context.image
    facts: list[Fact] = []
    for wanted in request.feature_updates:
        refusal = _refusal(wanted, image, node_id, version)
        if refusal is not None:
            message = f"The update failed for all features since the following feature had an error: {refusal.message}"
            return MetadataDecision([], UpdateFeaturesResponse(error_code=refusal.error, error_message=message))
        if image.features.get(wanted.feature, 0) != wanted.max_version_level:
            if wanted.feature == ELIGIBLE_LEADERS:
                facts += eligible.after_level(wanted.max_version_level, image, context.values)
            facts.append(FeatureLevelRecord(name=wanted.feature, feature_level=wanted.max_version_level))
    results = [
        UpdatableFeatureResult(feature=wanted.feature, error_message="NONE") for wanted in request.feature_updates
    ]
    return MetadataDecision(
        [] if request.validate_only else facts, UpdateFeaturesResponse(error_message=None, results=results)
    )


def _refusal(wanted: FeatureUpdateKey, image: ClusterImage, node_id: int, version: int) -> Refusal | None:
    name, level = wanted.feature, wanted.max_version_level
    kind = wanted.upgrade_type if version > 0 else (SAFE_DOWNGRADE if wanted.allow_downgrade else UPGRADE)
    current = image.features.get(name, 0)
    supported = SUPPORTED.get(name)
    problem: str | None = None
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "The controller does not support the given upgrade type."
    elif level < 0:
        problem = "A feature version cannot be less than 0."
    elif supported is None:
        problem = f"Local controller {node_id} does not support this feature."
    elif not supported[0] <= level <= supported[1]:
        problem = f"Local controller {node_id} only supports versions {supported[0]}-{supported[1]}"
    elif (other := _unsupported_elsewhere(name, level, image, node_id)) is not None:
        problem = other
    elif level < current and kind == UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    elif level > current and kind != UPGRADE:
        problem = "Can't downgrade to a newer version."
    if problem is None:
        return None
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {problem}")


def _unsupported_elsewhere(name: str, level: int, image: ClusterImage, node_id: int) -> str | None:
    """Why another node cannot follow; level 0 is the absence of a feature, which everybody supports."""
    nodes = [(f"Broker {broker.id}", broker.features) for broker in image.brokers.values()]
    nodes += [
        (f"Controller {controller.id}", controller.features)
        for controller in image.controllers.values()
        if controller.id != node_id
    ]
    for node, ranges in nodes:
        supported = ranges.get(name)
        if supported is None and level > 0:
            return f"{node} does not support this feature."
        if supported is not None and not supported[0] <= level <= supported[1]:
            return f"{node} only supports versions {supported[0]}-{supported[1]}"
    return None
