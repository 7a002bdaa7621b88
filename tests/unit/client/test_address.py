"""Addresses as people write them."""

import pytest

from ottla.client.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [Address("localhost", 9092)]),
        ("a:1,b:2", [Address("a", 1), Address("b", 2)]),
        (" a:1 , a:1 ,", [Address("a", 1)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
    ],
)
def test_lists_of_addresses_are_read(text: str, addresses: list[Address]) -> None:
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize("text", ["", ",", "a:0", "a:65536", "a:x", ":9092", "::1", "[::1", "[::1]9092", "a:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port|host"):
        parse_addresses(text)


def test_an_address_reads_back_from_its_text() -> None:
    for address in (Address("localhost", 1), Address("::1", 9092)):
        assert parse_addresses(str(address)) == (address,)
