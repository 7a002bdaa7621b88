"""Settings that must agree with each other.

Owns: what a client makes of combinations, as Kafka's does: a default gives way to what was asked for, and two wishes
that exclude each other are refused. Never knows: how values were given.
"""

from collections.abc import Mapping

from ottla.client.errors import InvalidSetting
from ottla.client.settings.tables import CONSUMER, PRODUCER, ClientKind

_IDEMPOTENT_IN_FLIGHT = 5
_LARGEST_INT = 2147483647
_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def agree(kind: ClientKind, values: Mapping[str, object], given: frozenset[str]) -> Mapping[str, object]:
    """The values with dependent defaults settled."""
    settled = dict(values)
    if kind is PRODUCER:
        _settle_idempotence(settled, given)
        _settle_delivery(settled, given)
        if settled["transaction.two.phase.commit.enable"] and "transaction.timeout.ms" in given:
            raise InvalidSetting(
                "transaction.timeout.ms",
                "transaction.timeout.ms cannot be set: with transaction.two.phase.commit.enable there is no time-out",
            )
    elif kind is CONSUMER:
        _settle_group(settled, given)
    return settled


def _settle_idempotence(values: dict[str, object], given: frozenset[str]) -> None:
    if values["acks"] == "-1":
        values["acks"] = "all"
    wanted = bool(values["enable.idempotence"]) and "enable.idempotence" in given
    for name, broken, need in (
        ("acks", values["acks"] != "all", "acks=all"),
        ("retries", values["retries"] == 0, "retries of at least 1"),
        (
            "max.in.flight.requests.per.connection",
            _number(values, "max.in.flight.requests.per.connection") > _IDEMPOTENT_IN_FLIGHT,
            f"max.in.flight.requests.per.connection of at most {_IDEMPOTENT_IN_FLIGHT}",
        ),
    ):
        if broken and (wanted or values["transactional.id"] is not None):
            owner = "enable.idempotence" if wanted else "transactional.id"
            raise InvalidSetting(name, f"{name} cannot be {values[name]!r}: {owner} needs {need}")
        if broken:
            values["enable.idempotence"] = False
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        raise InvalidSetting(
            "enable.idempotence", "enable.idempotence cannot be False: transactional.id needs an idempotent producer"
        )


def _settle_delivery(values: dict[str, object], given: frozenset[str]) -> None:
    least = min(_number(values, "linger.ms") + _number(values, "request.timeout.ms"), _LARGEST_INT)
    if _number(values, "delivery.timeout.ms") >= least:
        return
    if "delivery.timeout.ms" in given:
        raise InvalidSetting(
            "delivery.timeout.ms",
            f"delivery.timeout.ms cannot be {values['delivery.timeout.ms']}: allowed is at least linger.ms + "
            f"request.timeout.ms, which is {least}",
        )
    values["delivery.timeout.ms"] = least


def _settle_group(values: dict[str, object], given: frozenset[str]) -> None:
    if values["group.id"] is None:
        if values["enable.auto.commit"] and "enable.auto.commit" in given:
            raise InvalidSetting("enable.auto.commit", "enable.auto.commit cannot be True: offsets need a group.id")
        values["enable.auto.commit"] = False
    if values["group.protocol"] == "CONSUMER":
        for name in _CLASSIC_ONLY:
            if name in given:
                raise InvalidSetting(name, f"{name} cannot be set with group.protocol=consumer: the broker decides it")
    elif "group.remote.assignor" in given:
        raise InvalidSetting("group.remote.assignor", "group.remote.assignor needs group.protocol=consumer")
    elif _number(values, "heartbeat.interval.ms") >= _number(values, "session.timeout.ms"):
        raise InvalidSetting(
            "heartbeat.interval.ms",
            f"heartbeat.interval.ms cannot be {values['heartbeat.interval.ms']}: allowed is less than "
            f"session.timeout.ms, which is {values['session.timeout.ms']}",
        )


def _number(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value
