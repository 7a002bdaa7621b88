"""What a handler knows of the request beside its body."""

from ottla.net.dispatch import Context

__all__ = ["Context"]
