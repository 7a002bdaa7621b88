"""UpdateFeatures, v0 to v2: levels of features for the whole cluster, all of a request or none."""

from typing import TYPE_CHECKING

from ottla.net.dispatch import Context
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def handle(broker: "Broker", request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    return await broker.controller.update_features(request, context.version)
