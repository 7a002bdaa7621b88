"""ApiVersions, v0 to v4: what this broker serves.

Asked in a version from the future, it answers in the oldest form with UNSUPPORTED_VERSION and the list, so that the
client can ask again.

KIP-35; KIP-511 (v3: the client's name and version), KIP-584 (features).
"""

import re
from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.apis import advertised_versions, served_apis
from ottla.net.dispatch import Context
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: "Broker", request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.version < 0:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served(broker))
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    features = broker.image.features
    return ApiVersionsResponse(
        api_keys=_served(broker),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in broker.supported_features.items()
            # Older clients refuse a range that begins at 0.
            if context.version >= 4 or first > 0
        ],
        finalized_features_epoch=broker.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.items()
        ],
    )


def _served(broker: "Broker") -> list[ApiVersion]:
    served = served_apis(unstable=broker.values.boolean("unstable.api.versions.enable"))
    ranges = ((api.key, *advertised_versions(api)) for api in served.values())
    return [ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in sorted(ranges)]
