"""What the options mean, without a broker."""

import ast
import subprocess
import sys
import time
from datetime import datetime

import pytest
import typer

from ottla.cli.failures import Failure
from ottla.cli.main import COMMANDS, load
from ottla.cli.produce import parse_headers
from ottla.cli.reading import choose
from ottla.cli.record_places import Where, parse_where
from ottla.cli.sending import summarize
from ottla.cli.topic import parse_settings
from ottla.client.cluster import Partition, Topic
from ottla.client.offsets import EARLIEST, LATEST

TOPIC = Topic("t", bytes(16), False, tuple(Partition(number, 1, 0, (1,), (1,), ()) for number in range(3)))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("beginning", Where(moment=EARLIEST)),
        ("end", Where(moment=LATEST)),
        ("0", Where(offset=0)),
        ("12345", Where(offset=12345)),
        ("-10", Where(last=10)),
        ("2026-01-31T12:00:00Z", Where(moment=1769860800000)),
        ("@1769860800000", Where(moment=1769860800000)),
        ("2026-01-31", Where(moment=int(datetime(2026, 1, 31).timestamp() * 1000))),
    ],
)
def test_from_takes_names_offsets_counts_and_times(text: str, where: Where) -> None:
    assert parse_where(text, "--from") == where


def test_from_takes_how_long_ago() -> None:
    now = time.time() * 1000
    moment = parse_where("1h30m", "--from").moment
    assert moment is not None
    assert now - 5_400_000 - 1 <= moment <= time.time() * 1000 - 5_400_000


@pytest.mark.parametrize("text", ["", "yesterday", "-", "--5", "1.5", "٣"])
def test_from_refuses_the_rest(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="beginning"):
        parse_where(text, "--from")


def test_settings_and_headers_are_name_equals_value() -> None:
    assert parse_settings(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    assert parse_headers(["a=b=c", "a="]) == (("a", b"b=c"), ("a", b""))
    for wrong in ("a", "=b"):
        with pytest.raises(typer.BadParameter):
            parse_settings([wrong])
        with pytest.raises(typer.BadParameter):
            parse_headers([wrong])


def test_partitions_are_those_asked_for_once_each_or_all() -> None:
    assert [place.partition for place in choose(TOPIC, [2, 0, 2])] == [2, 0]
    assert [place.partition for place in choose(TOPIC, [])] == [0, 1, 2]
    with pytest.raises(Failure, match="has no partition 3; it has 0 to 2"):
        choose(TOPIC, [3])


def test_the_summary_says_how_much_how_fast_and_what_failed() -> None:
    assert summarize("t", (2000, 4096, 0), 2.0) == (
        "sent 2,000 records (4.0 KiB) to 't' in 2.00 s, 1,000 records/s, 2.0 KiB/s"
    )
    assert summarize("t", (1, 10, 3), 0.0) == "sent 1 record (10 B) to 't' in 0.00 s, 3 failed"
    assert summarize("t", (0, 0, 0), 1.0, 2) == "sent 0 records (0 B) to 't' in 1.00 s, 2 skipped"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_explains_itself(name: str) -> None:
    assert load(name).help


def test_starting_a_node_imports_none_of_the_client_commands() -> None:
    program = (
        "import sys; from ottla.cli.main import load; load('serve');"
        "print([name for name in sys.modules if name in ('asyncio', 'rich', 'pydantic') or name.startswith('ottla.')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(answer.stdout)) == {"ottla.cli", "ottla.cli.main", "ottla.cli.serve"}


def test_every_command_has_json_for_programs() -> None:
    """In `produce` it is what is read; --report says what became of it, in JSON as well."""
    commands = {name: load(name) for name in COMMANDS}
    verbs = [(name, verb) for name, each in commands.items() for verb in getattr(each, "commands", {"": each}).values()]
    lacking = [name for name, verb in verbs if not any("--json" in parameter.opts for parameter in verb.params)]
    assert lacking == []
