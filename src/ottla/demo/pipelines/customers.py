"""Orders with who ordered: a compacted topic as a table that enriches a stream, written back exactly once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark.pipelines import Pipeline

PIPELINE = {"name": "shop-customers", "dead_letters": "${DEAD_LETTERS:-shop.dead-letters}"}


def build(p: "Pipeline") -> None:
    orders = p.source(
        "orders",
        topic=p.variables.get("ORDERS", "orders"),
        format="json",
        schema="order STRING, customer STRING, item STRING, quantity INT, cents BIGINT, time TIMESTAMP",
        select=["order", "customer", "item", "quantity", "cents", "time"],
    )
    customers = p.table(
        "customers",
        topic=p.variables.get("CUSTOMERS", "customers"),
        format="json",
        schema="customer STRING, name STRING, city STRING, tier STRING",
        select=["customer", "name", "city", "tier"],
    )
    enriched = p.step("enriched", orders.join(customers, "customer", "left"))
    p.sink(
        "enriched",
        enriched,
        topic=p.variables.get("ENRICHED", "orders.enriched"),
        key="order",
        delivery="exactly-once",
    )
