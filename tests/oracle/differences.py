"""Where ottla answers otherwise than Kafka on purpose. One entry a difference, each with its reason."""

from __future__ import annotations

from typing import Any


def allow(api: str, ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Both answers without the differences that are deliberate."""
    return ours, theirs
