"""DescribeClientQuotas: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ComponentData(Message):
    __slots__ = (
        "entity_type",
        "match_type",
        "match",
    )
    FIELDS = (
        Field("entity_type", "string", default=""),
        Field("match_type", "int8", default=0),
        Field("match", "string", null_from=0, default=""),
    )

    def __init__(
        self,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Root):
    __slots__ = (
        "components",
        "strict",
    )
    KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("components", ComponentData, array=True, default=()),
        Field("strict", "bool", default=False),
    )

    def __init__(
        self,
        components: Sequence[ComponentData] = (),
        strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict


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


class ValueData(Message):
    __slots__ = (
        "key",
        "value",
    )
    FIELDS = (
        Field("key", "string", default=""),
        Field("value", "float64", default=0.0),
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class EntryData(Message):
    __slots__ = (
        "entity",
        "values",
    )
    FIELDS = (
        Field("entity", EntityData, array=True, default=()),
        Field("values", ValueData, array=True, default=()),
    )

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        values: Sequence[ValueData] = (),
    ) -> None:
        self.entity = entity
        self.values = values


class DescribeClientQuotasResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "entries",
    )
    KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("error_message", "string", null_from=0, default=""),
        Field("entries", EntryData, array=True, null_from=0, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: Sequence[EntryData] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries
