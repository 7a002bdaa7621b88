"""Protobuf's messages without generated code, and where schema registries say which of them a value is.

Owns: classes of messages made from a descriptor set, and the numbers between a registry's five bytes and the message.
Never knows: topics, columns, options. Invariants: what is wrong with a descriptor set is a `BadDescriptors` with one
sentence; without Google's library it is an ImportError that says how to get it.
"""

from typing import Any


class BadDescriptors(ValueError):
    """Why there is no such message, as one sentence."""


def message_class(descriptors: bytes, name: str | None = None) -> Any:
    """The class of a message in what `protoc --descriptor_set_out --include_imports` writes.

    Without a name: the only message of the last file, which is the one that protoc was given.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as missing:
        raise ImportError("Protobuf needs protobuf: pip install 'ottla[protobuf]'") from missing
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
    except DecodeError:
        raise BadDescriptors("the schema is no descriptor set: write one with protoc --descriptor_set_out") from None
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        found = pool.FindMessageTypeByName(_only(files) if name is None else name)
    except KeyError:
        raise BadDescriptors(
            f"there is no message {name!r}: the descriptor set has {', '.join(_names(files))}"
        ) from None
    except TypeError as problem:
        raise BadDescriptors(f"the descriptor set is not complete ({problem}): use protoc --include_imports") from None
    return message_factory.GetMessageClass(found)


def _names(files: Any) -> list[str]:
    return sorted(f"{file.package}.{each.name}".lstrip(".") for file in files.file for each in file.message_type)


def _only(files: Any) -> str:
    last = files.file[-1:]
    found = [f"{file.package}.{each.name}".lstrip(".") for file in last for each in file.message_type]
    if len(found) != 1:
        known = ", ".join(_names(files)) or "none"
        raise BadDescriptors(f"say which message values are: the descriptor set has {known}")
    return found[0]


def write_place(message: Any) -> bytes:
    """Which message of its file this descriptor is, as registries' serializers write it."""
    path: list[int] = []
    while message is not None:
        outer = message.containing_type
        siblings = message.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.insert(0, [each.name for each in siblings].index(message.name))
        message = outer
    if path == [0]:
        return b"\0"
    return b"".join(_written(each) for each in (len(path), *path))


def behind_place(value: bytes) -> bytes:
    """What follows the numbers of `write_place`."""
    count, position = _varint(value, 0)
    for _ in range(count):
        _, position = _varint(value, position)
    return value[position:]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number >> 1 ^ -(number & 1), position


def _written(number: int) -> bytes:
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
