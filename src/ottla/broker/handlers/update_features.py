"""UpdateFeatures, v0 to v2: levels of features for the whole cluster, all of a request or none.

KIP-584; KIP-778 (v1: unsafe downgrades).
"""

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.net.dispatch import Context
from ottla.net.portions import at_most
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MOST_FEATURES = 1000


@at_most(
    MOST_FEATURES,
    "feature_updates",
    lambda request, context: UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message=f"A request updates at most {MOST_FEATURES} features."
    ),
)
async def handle(broker: "Broker", request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    return await broker.controller.update_features(request, context.version)
