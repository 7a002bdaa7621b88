"""Which topics consumers subscribe to, read from the metadata they join with.

Owns: the first fields of the consumers' own format (version, topics), which the coordinator reads to know whose
offsets are in use. Everything behind them is between the members.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

_SHORT = Struct(">h")
_INT = Struct(">i")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all; None when one of them is not in the consumers' format."""
    topics: set[str] = set()
    try:
        for data in metadata:
            topics.update(_topics(data))
    except (StructError, UnicodeDecodeError, ValueError):
        return None
    return frozenset(topics)


def _topics(data: bytes) -> list[str]:
    if _SHORT.unpack_from(data)[0] < 0:
        raise ValueError("a negative version")
    (count,) = _INT.unpack_from(data, 2)
    position = 6
    found = []
    for _ in range(count):
        (size,) = _SHORT.unpack_from(data, position)
        position += 2
        name = data[position : position + size]
        if size < 0 or len(name) != size:
            raise ValueError("a topic's name is cut off")
        found.append(name.decode())
        position += size
    return found
