"""Values as typed columns and back: JSON, CSV, Avro and Protobuf.

One module a format; `options` understands what the user wrote, `rows` puts typed columns beside those of the record.
"""
