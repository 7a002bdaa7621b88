"""Which twin of the record codec serves: the compiled one where it was built, else the Python one.

Owns: the choice, made once at import. `OTTLA_PURE_PYTHON=1` in the environment forces the Python twin; nothing else in
this room looks at the environment.
"""

from os import environ
from typing import TYPE_CHECKING

COMPILED = False

if TYPE_CHECKING:
    from ottla.records._pure import (
        decode,
        decode_consumed,
        encode,
        find_timestamp,
        inspect,
        latest_timestamp,
        murmur2,
        scan,
    )
else:
    if environ.get("OTTLA_PURE_PYTHON", "") not in ("", "0"):
        from ottla.records import _pure as _twin
    else:
        try:
            from ottla.records import _codec as _twin

            COMPILED = True
        except ImportError:
            from ottla.records import _pure as _twin

    decode = _twin.decode
    decode_consumed = _twin.decode_consumed
    encode = _twin.encode
    find_timestamp = _twin.find_timestamp
    inspect = _twin.inspect
    latest_timestamp = _twin.latest_timestamp
    murmur2 = _twin.murmur2
    scan = _twin.scan

__all__ = [
    "COMPILED",
    "decode",
    "decode_consumed",
    "encode",
    "find_timestamp",
    "inspect",
    "latest_timestamp",
    "murmur2",
    "scan",
]
