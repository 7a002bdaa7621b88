"""ListTransactions: request and response. Generated from Kafka 4.3.1's schemas by scripts/generate_messages.py."""

from collections.abc import Sequence

from ottla.wire.schema import Field, Message, Root


class ListTransactionsRequest(Root):
    __slots__ = (
        "state_filters",
        "producer_id_filters",
        "duration_filter",
        "transactional_id_pattern",
    )
    KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("state_filters", "string", array=True, default=()),
        Field("producer_id_filters", "int64", array=True, default=()),
        Field("duration_filter", "int64", first=1, default=-1),
        Field("transactional_id_pattern", "string", first=2, null_from=2),
    )

    def __init__(
        self,
        state_filters: Sequence[str] = (),
        producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Message):
    __slots__ = (
        "transactional_id",
        "producer_id",
        "transaction_state",
    )
    FIELDS = (
        Field("transactional_id", "string", default=""),
        Field("producer_id", "int64", default=0),
        Field("transaction_state", "string", default=""),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Root):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "unknown_state_filters",
        "transaction_states",
    )
    KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", default=0),
        Field("error_code", "int16", default=0),
        Field("unknown_state_filters", "string", array=True, default=()),
        Field("transaction_states", TransactionState, array=True, default=()),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states
