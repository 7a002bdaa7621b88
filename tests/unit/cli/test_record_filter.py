"""Which records are shown."""

import pytest

from ottla.base.vocabulary import TopicPartition
from ottla.cli.failures import Failure
from ottla.cli.record_filter import Expression, chosen
from ottla.records.record import Record

PLACE = TopicPartition("orders", 2)
ORDER = Record(5, 1_769_860_800_250, b"ann", b'{"amount": 12, "items": ["tea"]}', (("source", b"web"), ("n", b"1")))
TEXT = Record(6, 1_769_860_800_251, None, b"plain text")
BINARY = Record(7, 1_769_860_800_252, b"\xff", b"\xfe")
NOTHING = Record(8, 1_769_860_800_253, b"ann", None)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("value['amount'] > 10", [ORDER]),
        ("'tea' in value['items']", [ORDER]),
        ("any(item.startswith('t') for item in value['items'])", [ORDER]),
        ("key == 'ann'", [ORDER, NOTHING]),
        ("key is None", [TEXT]),
        ("raw_key == b'\\xff' and raw_value == b'\\xfe' and value == b'\\xfe'", [BINARY]),
        ("value == text == 'plain text'", [TEXT]),
        ("value is None", [NOTHING]),
        ("headers.get('source') == 'web' and headers['n'] == '1'", [ORDER]),
        ("topic == 'orders' and partition == 2 and 5 < offset < 8", [TEXT, BINARY]),
        ("timestamp % 1000 == 250 and time == datetime(2026, 1, 31, 12, 0, 0, 250000, UTC)", [ORDER]),
        (" re.search('x', text) ", [TEXT]),
        ("time - timedelta(hours=1) < time", [ORDER, TEXT, BINARY, NOTHING]),
    ],
)
def test_an_expression_sees_the_record(text: str, kept: list[Record]) -> None:
    keep = Expression(text)
    assert [record for record in (ORDER, TEXT, BINARY, NOTHING) if keep(PLACE, record)] == kept


def test_records_on_which_an_expression_fails_are_left_out_and_counted() -> None:
    keep = Expression("value['amount'] > 10")
    assert keep.complaint() is None
    assert [keep(PLACE, record) for record in (ORDER, TEXT, NOTHING)] == [True, False, False]
    complaint = keep.complaint()
    assert complaint is not None
    assert complaint.startswith("left out 2 records on which --where failed, the first with TypeError: ")
    assert complaint.endswith("at orders-2 offset 6")


def test_what_is_no_expression_is_refused_and_an_unknown_name_ends_it() -> None:
    with pytest.raises(ValueError, match="is not a Python expression"):
        Expression("amount >")
    with pytest.raises(Failure, match="name 'amount' is not defined; it sees topic, partition"):
        Expression("amount > 1")(PLACE, ORDER)


def test_keys_headers_and_expressions_must_all_hold() -> None:
    def kept(*conditions: object) -> list[int]:
        keep = chosen(*conditions)  # type: ignore[arg-type]
        assert keep is not None
        return [record.offset for record in (ORDER, TEXT, BINARY, NOTHING) if keep(PLACE, record)]

    assert chosen(None, (), None) is None
    assert kept(b"ann", (), None) == [5, 8]
    assert kept(None, [("source", None)], None) == [5]
    assert kept(None, [("source", b"app")], None) == []
    assert kept(b"ann", [("source", b"web"), ("n", None)], Expression("offset == 5")) == [5]
    assert kept(b"ann", (), Expression("offset == 8")) == [8]
