"""Avro and Protobuf by their own libraries: what a producer writes, a consumer reads."""

from typing import Any

from google.protobuf.wrappers_pb2 import StringValue

from ottla.client.consumer import deserializers
from ottla.client.producer import serializers

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


def test_protobuf_comes_back_as_it_went() -> None:
    message = StringValue(value="two coffees")
    data = serializers.Protobuf().serialize("orders", message)
    assert data is not None
    assert deserializers.Protobuf(StringValue).deserialize("orders", data) == message
