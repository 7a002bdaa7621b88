"""Whom a quota is for, and how it is shown."""

import pytest
import typer

from ottla.cli.output import plain
from ottla.cli.quota import entity_of, parse_quotas, quotas_table
from ottla.client.admin.quotas import ClientQuota


def test_options_name_whom_and_the_default_has_no_name() -> None:
    assert entity_of("ann", None, None) == {"user": "ann"}
    assert entity_of("ann", "default", None) == {"user": "ann", "client-id": None}
    assert entity_of(None, None, "10.0.0.1") == {"ip": "10.0.0.1"}
    assert entity_of(None, None, None) == {}


def test_quotas_are_numbers() -> None:
    assert parse_quotas(["producer_byte_rate=1048576", "request_percentage=12.5"]) == {
        "producer_byte_rate": 1048576.0,
        "request_percentage": 12.5,
    }
    with pytest.raises(typer.BadParameter, match="QUOTA=NUMBER"):
        parse_quotas(["producer_byte_rate=much"])


def test_a_table_has_a_row_for_each_quota() -> None:
    found = [
        ClientQuota({"user": "ann", "client-id": None}, {"producer_byte_rate": 1048576.0, "request_percentage": 12.5})
    ]
    assert plain(quotas_table(found)) == (
        "WHO                         QUOTA                 VALUE\n"
        "user=ann client-id=default  producer_byte_rate  1048576\n"
        "user=ann client-id=default  request_percentage     12.5\n"
    )
