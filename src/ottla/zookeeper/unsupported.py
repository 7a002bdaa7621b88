"""What is answered to requests that only a quorum can serve.

Owns: the answer UNSUPPORTED_VERSION. Never knows: what was asked for.
"""

import sys
from typing import Any, cast

from ottla.base.errors import ErrorCode
from ottla.wire.schema import Root

MESSAGE = "This cluster is coordinated by ZooKeeper and has no quorum."


def unsupported(request: Root) -> Root:
    """The answer to a request about a quorum, as from a broker of Kafka that knows of none."""
    kind = type(request)
    name = kind.__name__.removesuffix("Request") + "Response"
    answer = cast("type[Root]", getattr(sys.modules[kind.__module__], name))
    fields: dict[str, Any] = {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    if "error_message" in answer.__slots__:
        fields["error_message"] = MESSAGE
    return answer(**fields)
