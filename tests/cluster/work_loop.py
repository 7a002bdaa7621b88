"""A consumer whose work never gets done: `python work_loop.py BOOTSTRAP TOPIC GROUP auto|after`.

`auto` commits what it was given by a timer, whether worked on or not; `after` commits what it has worked on, which is
nothing. Prints the number of records it holds, and waits to be killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer


def hold(bootstrap: str, topic: str, group: str, when: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": when == "auto",
            "auto.commit.interval.ms": 100,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    held = 0
    while True:
        records = [record for record in consumer.consume(1000, 0.1) if record.error() is None]
        if records:
            held += len(records)
            print(held, flush=True)


if __name__ == "__main__":
    hold(*sys.argv[1:])
