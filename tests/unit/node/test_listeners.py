"""Addresses in settings."""

import pytest

from ottla.node.listeners import Address, BadListener, parse_listeners


def test_kafkas_forms_are_understood() -> None:
    texts = ["PLAINTEXT://localhost:9092", "inside://:0", "SIX://[::1]:19092", "A.b-c_1://0.0.0.0:1"]
    assert parse_listeners(texts, "listeners") == [
        Address("PLAINTEXT", "localhost", 9092),
        Address("INSIDE", "", 0),
        Address("SIX", "::1", 19092),
        Address("A.B-C_1", "0.0.0.0", 1),
    ]


def test_an_address_of_version_six_is_shown_in_brackets() -> None:
    assert str(Address("A", "::1", 5)) == "[::1]:5"


@pytest.mark.parametrize(
    "text", ["localhost:9092", "PLAINTEXT://host", "PLAINTEXT://host:99999", "://h:1", "A://h:x", ""]
)
def test_another_form_is_refused_with_the_setting_named(text: str) -> None:
    with pytest.raises(BadListener, match=r"listeners: .* is not of the form NAME://host:port"):
        parse_listeners([text], "listeners")


def test_a_listener_is_named_once() -> None:
    with pytest.raises(BadListener, match="names a listener twice"):
        parse_listeners(["A://h:1", "a://h:2"], "listeners")


def test_no_address_is_refused() -> None:
    with pytest.raises(BadListener, match="names no address"):
        parse_listeners([], "listeners")
