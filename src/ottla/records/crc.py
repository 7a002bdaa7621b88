"""CRC-32C, the checksum of record batches.

Owns: where the function comes from. Never knows: what it is computed over.

The package's own `__init__` imports `importlib.metadata` (with email and zipfile behind it) only to learn its version,
which costs a broker a sixth of its start-up time; so the extension inside it is loaded by itself where that works.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

from ottla.base.ports import ByteView

Checksum = Callable[[ByteView], int]


def _load() -> Checksum:
    package = find_spec("crc32c")
    extension = PathFinder.find_spec("_crc32c", package.submodule_search_locations) if package else None
    if extension is not None and extension.loader is not None:
        module = module_from_spec(extension)
        extension.loader.exec_module(module)
        return cast(Checksum, module.crc32c)
    from crc32c import crc32c  # another layout of the package: take the ordinary way

    return cast(Checksum, crc32c)


crc32c: Checksum = _load()
