"""Avro and Protobuf by their own libraries: what a producer writes, a consumer reads."""

import re
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.wrappers_pb2 import StringValue

from ottla.client.consumer import deserializers
from ottla.client.producer import serializers
from ottla.client.protobuf_messages import BadDescriptors, message_class

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": ["null", "int"], "default": None}],
}
ORDERS: list[dict[str, Any]] = [{"item": "tea", "count": 2}, {"item": "Kakaó", "count": None}]


def test_avro_comes_back_as_it_went() -> None:
    writer, reader = serializers.Avro(SCHEMA), deserializers.Avro(SCHEMA)
    for order in ORDERS:
        data = writer.serialize("orders", order)
        assert data is not None
        assert reader.deserialize("orders", data) == order


def test_avro_in_the_framing_of_a_schema_registry() -> None:
    data = serializers.Avro(SCHEMA, confluent_id=258).serialize("orders", ORDERS[0])
    assert data is not None
    assert data[:5] == b"\0\0\0\1\2"
    assert deserializers.Avro(SCHEMA, framed=True).deserialize("orders", data) == ORDERS[0]


def test_avro_of_another_schema_is_refused_and_not_guessed_at() -> None:
    data = serializers.Avro(SCHEMA, confluent_id=258).serialize("orders", ORDERS[0])
    assert data is not None
    with pytest.raises(ValueError, match="bytes are left over"):
        deserializers.Avro(SCHEMA).deserialize("orders", data)


def test_protobuf_comes_back_as_it_went() -> None:
    message = StringValue(value="two coffees")
    data = serializers.Protobuf().serialize("orders", message)
    assert data is not None
    assert deserializers.Protobuf(StringValue).deserialize("orders", data) == message


NESTED = descriptor_pb2.FileDescriptorSet()
_FILE = NESTED.file.add(name="shop.proto", package="shop", syntax="proto3")
_FILE.message_type.add(name="Place").field.add(name="city", number=1, type=9, label=1)
_FILE.message_type.add(name="Order").nested_type.add(name="Line").field.add(name="item", number=1, type=9, label=1)


@pytest.mark.parametrize(
    ("name", "place"), [("shop.Place", b"\0"), ("shop.Order", b"\2\2"), ("shop.Order.Line", b"\4\2\0")]
)
def test_protobuf_in_the_framing_of_a_schema_registry(name: str, place: bytes) -> None:
    kind = message_class(NESTED.SerializeToString(), name)
    message = kind(**{field.name: "tea" for field in kind.DESCRIPTOR.fields})
    data = serializers.Protobuf(confluent_id=258).serialize("orders", message)
    assert data is not None
    assert data == b"\0\0\0\1\2" + place + message.SerializeToString()
    assert deserializers.Protobuf(kind, framed=True).deserialize("orders", data) == message


def test_a_message_need_not_be_named_where_there_is_one() -> None:
    alone = descriptor_pb2.FileDescriptorSet()
    alone.file.add(name="one.proto", package="a.b", syntax="proto3").message_type.add(name="Only")
    assert message_class(alone.SerializeToString()).DESCRIPTOR.full_name == "a.b.Only"


@pytest.mark.parametrize(
    ("descriptors", "name", "said"),
    [
        (b"\0\0", None, "the schema is no descriptor set"),
        (b"", None, "say which message values are: the descriptor set has none"),
        (
            NESTED.SerializeToString(),
            None,
            "say which message values are: the descriptor set has shop.Order, shop.Place",
        ),
        (
            NESTED.SerializeToString(),
            "Nobody",
            "there is no message 'Nobody': the descriptor set has shop.Order, shop.",
        ),
    ],
)
def test_what_is_wrong_with_a_descriptor_set_is_a_sentence(descriptors: bytes, name: str | None, said: str) -> None:
    with pytest.raises(BadDescriptors, match=re.escape(said)):
        message_class(descriptors, name)
