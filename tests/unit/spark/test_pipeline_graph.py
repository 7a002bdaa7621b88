"""What is made from what."""

from __future__ import annotations

import pytest

from ottla.spark.pipelines.definition import BadPipeline, understand
from ottla.spark.pipelines.graph import advice, draw, graph_json, graph_of, tables_in

KNOWN = ["orders", "payments", "customers", "paid"]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM orders", ("orders",)),
        ("select o.id from ORDERS o left join payments p on o.id = p.id", ("orders", "payments")),
        ("SELECT customers FROM orders -- FROM payments", ("orders",)),
        ("SELECT 'from payments' FROM `orders`", ("orders",)),
        ("SELECT * FROM orders, payments WHERE orders.paid", ("orders", "payments")),
        ("SELECT * FROM (SELECT * FROM orders) AS x JOIN other", ("orders",)),
        ("WITH x AS (SELECT * FROM paid) SELECT id, orders FROM x", ("paid",)),
        ("SELECT count(*) FROM orders GROUP BY window(time, '5 minutes'), customers", ("orders",)),
        ("SELECT 1 /* FROM orders */", ()),
    ],
)
def test_the_rows_that_sql_reads_are_found_in_it(sql: str, found: tuple[str, ...]) -> None:
    assert tables_in(sql, KNOWN) == found


DOCUMENT = {
    "dead_letters": "dead",
    "sources": {
        "orders": {
            "topic": "orders",
            "format": "json",
            "schema": "id STRING, time TIMESTAMP",
            "watermark": {"column": "time", "delay": "1 minute"},
        }
    },
    "tables": {"customers": {"topic": "customers"}, "unused": {"topic": "u"}},
    "steps": {
        "counted": "SELECT count(*) FROM joined",
        "joined": "SELECT * FROM single JOIN customers USING (id)",
        "single": {"from": "orders", "deduplicate": ["id"]},
    },
    "sinks": {"counts": {"from": "counted", "topic": "counts"}, "screen": {"from": "joined", "screen": True}},
}


def test_steps_come_after_what_they_are_made_of_however_they_are_written() -> None:
    nodes = graph_of(understand(DOCUMENT, "test"))
    assert [node.name for node in nodes if node.kind == "step"] == ["single", "joined", "counted"]
    form = graph_json("test", nodes)
    joined = next(node for node in form["nodes"] if node["name"] == "joined")
    assert joined == {"kind": "step", "name": "joined", "detail": "SQL", "inputs": ["single", "customers"]}


def test_the_picture_goes_from_each_sink_back_to_the_sources() -> None:
    assert draw(graph_of(understand(DOCUMENT, "test"))).splitlines() == [
        "sink counts: topic counts, json, append, exactly-once",
        "└─ step counted: SQL",
        "   └─ step joined: SQL",
        "      ├─ step single: without duplicates of id",
        "      │  └─ source orders: topic orders, json, up to 1 minute late by time",
        "      └─ table customers: topic customers",
        "sink screen: the screen, append",
        "└─ step joined: see above",
        "sink dead_letters: topic dead, late and undecodable records",
        "└─ source orders: topic orders, json, up to 1 minute late by time",
        "not used: unused",
    ]


def test_steps_in_a_circle_are_a_problem() -> None:
    steps = {"a": "SELECT * FROM b", "b": "SELECT * FROM a"}
    sinks = {"out": {"from": "a", "screen": True}}
    with pytest.raises(BadPipeline, match="steps a, b are made of each other in a circle"):
        graph_of(understand({**DOCUMENT, "steps": steps, "sinks": sinks}, "test"))


def test_windows_whose_open_records_would_be_called_late_are_worth_a_note() -> None:
    windowed = {"steps": {"a": "SELECT count(*) FROM orders GROUP BY window(time, '1 minute')"}}
    windowed["sinks"] = {"out": {"from": "a", "screen": True}}  # type: ignore[dict-item]
    noted = advice(understand({**DOCUMENT, **windowed}, "test"))
    assert len(noted) == 1
    assert "watermark.until" in noted[0]
    assert advice(understand(DOCUMENT, "test")) == []
