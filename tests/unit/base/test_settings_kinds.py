"""Texts become values, and values become texts, the way Java does it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ErrorCode
from ottla.base.settings import InvalidSetting, Setting, Value, ValueKind, parse, text_of
from ottla.base.settings.bounds import CountByAddress, ListOf, NonEmpty, OffsetReset, OneOf, Range, Servers, Voters


def a(kind: ValueKind, check: object = None) -> Setting:
    return Setting("x", kind, None, "A sentence.", check=check)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ValueKind.INT, " 5 ", 5),
        (ValueKind.INT, "+5", 5),
        (ValueKind.INT, "٣", 3),
        (ValueKind.LONG, "-9223372036854775808", -(2**63)),
        (ValueKind.BOOLEAN, " TRUE ", True),
        (ValueKind.BOOLEAN, "false", False),
        (ValueKind.DOUBLE, "0.5f", 0.5),
        (ValueKind.DOUBLE, "1e-1", 0.1),
        (ValueKind.DOUBLE, "-Infinity", float("-inf")),
        (ValueKind.LIST, " a , b,a ", ("a", "b")),
        (ValueKind.LIST, "  ", ()),
        (ValueKind.STRING, " text ", "text"),
        (ValueKind.CLASS, "org.apache.kafka.common.metrics.JmxReporter", "org.apache.kafka.common.metrics.JmxReporter"),
        (ValueKind.STRING, None, None),
    ],
)
def test_a_text_is_read_as_java_reads_it(kind: ValueKind, text: str | None, value: Value) -> None:
    assert parse(a(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ValueKind.INT, "2147483648", "Not a number of type INT"),
        (ValueKind.SHORT, "70000", "Not a number of type SHORT"),
        (ValueKind.LONG, "1_000", "Not a number of type LONG"),
        (ValueKind.LONG, "0x10", "Not a number of type LONG"),
        (ValueKind.LONG, "1.5", "Not a number of type LONG"),
        (ValueKind.LONG, "", "Not a number of type LONG"),
        (ValueKind.LONG, "-", "Not a number of type LONG"),
        (ValueKind.DOUBLE, "x", "Not a number of type DOUBLE"),
        (ValueKind.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (ValueKind.DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (ValueKind.DOUBLE, "1.2.3", "Not a number of type DOUBLE"),
        (ValueKind.DOUBLE, "", "Not a number of type DOUBLE"),
        (ValueKind.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ValueKind.CLASS, "x.Y", "Class x.Y could not be found."),
    ],
)
def test_a_text_of_another_kind_is_refused_in_kafkas_words(kind: ValueKind, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse(a(kind), text)
    assert str(refused.value) == f"Invalid value {text} for configuration x: {reason}"
    assert refused.value.error is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (123456.789, "123456.789"),
        (12345678.5, "1.23456785E7"),
        (1e-5, "1.0E-5"),
        (-1.5e300, "-1.5E300"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert text_of(a(ValueKind.DOUBLE), value) == text


@given(st.floats(allow_nan=False))
def test_a_double_survives_being_written_and_read(value: float) -> None:
    setting = a(ValueKind.DOUBLE)
    assert parse(setting, text_of(setting, value)) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_survives_being_written_and_read(value: int) -> None:
    setting = a(ValueKind.LONG)
    assert parse(setting, text_of(setting, value)) == value


@given(st.sampled_from(list(ValueKind)), st.text())
def test_any_text_is_a_value_or_an_invalid_setting(kind: ValueKind, text: str) -> None:
    with contextlib.suppress(InvalidSetting):
        parse(a(kind), text)


@pytest.mark.parametrize(
    ("setting", "text", "message"),
    [
        (a(ValueKind.INT, Range(1)), "0", "Invalid value 0 for configuration x: Value must be at least 1"),
        (a(ValueKind.DOUBLE, Range(0, 1)), "2", "Invalid value 2.0 for configuration x: Value must be no more than 1"),
        (a(ValueKind.STRING, OneOf("a", "b")), "A", "Invalid value A for configuration x: String must be one of: a, b"),
        (
            a(ValueKind.STRING, OneOf("A", any_case=True)),
            "b",
            "Invalid value b for configuration x: String must be one of (case insensitive): A",
        ),
        (a(ValueKind.STRING, NonEmpty()), "  ", "Invalid value  for configuration x: String must be non-empty"),
        (a(ValueKind.LIST, ListOf()), "a,,b", "Configuration 'x' values must not be empty."),
        (
            a(ValueKind.LIST, ListOf(may_be_empty=False)),
            "",
            "Configuration 'x' must not be empty. Valid values include: any non-empty value",
        ),
        (
            a(ValueKind.LIST, ListOf("a", "b", may_be_empty=False)),
            "",
            "Configuration 'x' must not be empty. Valid values include: [a, b]",
        ),
        (
            a(ValueKind.LIST, Voters()),
            "1@a:b",
            "Failed to parse host name from entry 1@a:b for the configuration x. "
            "Each entry should be in the form `{id}@{host}:{port}`.",
        ),
        (
            a(ValueKind.LIST, Voters()),
            "a:1",
            "Invalid configuration value for x. Each entry should be in the form `{id}@{host}:{port}`.",
        ),
        (
            a(ValueKind.LIST, Servers()),
            "a",
            "Failed to parse host name from a for the configuration x. "
            'Each entry should be in the form "{host}:{port}"',
        ),
        (
            a(ValueKind.STRING, CountByAddress()),
            "a:1,b",
            "Error parsing configuration property 'x': 'b' is not host:count",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_kafkas_words(setting: Setting, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse(setting, text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:P3D"]
)
def test_a_share_group_may_start_at_an_end_or_some_time_ago(text: str) -> None:
    assert parse(a(ValueKind.STRING, OffsetReset()), text) == text


@pytest.mark.parametrize(
    "text", ["LATEST", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:PT1M1H", "by_duration:1H"]
)
def test_a_share_group_starts_nowhere_else(text: str) -> None:
    with pytest.raises(InvalidSetting):
        parse(a(ValueKind.STRING, OffsetReset()), text)
