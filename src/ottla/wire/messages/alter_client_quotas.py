"""AlterClientQuotas: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class EntityData(Message):
    __slots__ = (
        "entity_type",
        "entity_name",
    )
    FIELDS = (
        Field("entity_type", "string", default=""),
        Field("entity_name", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(Message):
    __slots__ = (
        "key",
        "value",
        "remove",
    )
    FIELDS = (
        Field("key", "string", default=""),
        Field("value", "float64", default=0.0),
        Field("remove", "bool", default=False),
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class EntryData(Message):
    __slots__ = (
        "entity",
        "ops",
    )
    FIELDS = (
        Field("entity", EntityData, array=True, default=()),
        Field("ops", OpData, array=True, default=()),
    )

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        ops: Sequence[OpData] = (),
    ) -> None:
        self.entity = entity
        self.ops = ops


class AlterClientQuotasRequest(Root):
    __slots__ = (
        "entries",
        "validate_only",
    )
    KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("entries", EntryData, array=True, default=()),
        Field("validate_only", "bool", default=False),
    )

    def __init__(
        self,
        entries: Sequence[EntryData] = (),
        validate_only: bool = False,
    ) -> None:
        self.entries = entries
        self.validate_only = validate_only


class ResponseEntityData(Message):
    __slots__ = (
        "entity_type",
        "entity_name",
    )
    FIELDS = (
        Field("entity_type", "string", default=""),
        Field("entity_name", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ResponseEntryData(Message):
    __slots__ = (
        "error_code",
        "error_message",
        "entity",
    )
    FIELDS = (
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("entity", ResponseEntityData, array=True, default=()),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: Sequence[ResponseEntityData] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = entity


class AlterClientQuotasResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "entries",
    )
    KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("entries", ResponseEntryData, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: Sequence[ResponseEntryData] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries
