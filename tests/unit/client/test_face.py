"""`import ottla`: cheap, and everything it promises is there."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla import blocking
from ottla.client.settings import KINDS

CLIENT = Path(ottla.__file__).parent / "client"


def test_importing_it_loads_nothing_else_of_the_package() -> None:
    program = "import sys, ottla; print([name for name in sys.modules if name.startswith('ottla.')])"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize("name", ottla.__all__)
def test_every_name_is_there_at_its_first_use(name: str) -> None:
    assert getattr(ottla, name) is getattr(ottla, name)


def test_a_name_that_is_not_there_is_refused_as_pythons_are() -> None:
    with pytest.raises(AttributeError, match="module 'ottla' has no attribute 'Streams'"):
        _ = ottla.Streams  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_the_blocking_client_has_every_call_of_the_asynchronous_one(name: str) -> None:
    asynchronous, waiting = getattr(ottla, name), getattr(blocking, name)
    calls = {each for each, value in inspect.getmembers(asynchronous) if callable(value) and not each.startswith("_")}
    assert calls - {"start"} <= set(dir(waiting))


@pytest.mark.parametrize("name", ["ClientError", "BufferFull", "InvalidSetting", "BrokerError"])
def test_errors_are_of_one_family(name: str) -> None:
    assert issubclass(getattr(ottla.errors, name), ottla.errors.ClientError)


def test_every_error_of_the_client_has_a_public_name() -> None:
    from ottla.client import errors

    ours = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert ours <= set(ottla.errors.__all__)


def test_a_setting_that_claims_an_effect_is_read_by_somebody() -> None:
    tables = {"every_client.py", "producer.py", "consumer.py", "admin.py"}
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in CLIENT.rglob("*.py")
        if not (path.parent.name == "settings" and path.name in tables)
    )
    levels = {f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")}  # read by a name that is put together
    claims = {name for kind in KINDS for name, setting in kind.settings.items() if not setting.no_effect}
    checked_only = {"security.protocol"}  # whose one value that is allowed needs nobody
    assert {name for name in claims if f'"{name}"' not in source} == levels | checked_only
