"""Brokers for the tests that need a real process."""

from __future__ import annotations

import os
import re
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kit.brokers.brokers import SETTINGS, Broker, broker_under_test
from kit.others.kafka import RealKafka

# Drawn examples are the same in every run, and none fails because the machine is busy;
# `--hypothesis-profile=default` draws others.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# What a machine or a CI says about its terminal would change what programs print, also those that tests start.
for name in ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)

# A shell that starts the tests in the background has their programs ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that the client tests share."""
    with broker_under_test(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


@pytest.fixture
def start_broker(tmp_path: Path) -> Callable[[Mapping[str, str]], AbstractContextManager[Broker]]:
    """Starts a broker of the test's own, with the settings it asks for."""
    numbers = iter(range(100))

    def start(settings: Mapping[str, str]) -> AbstractContextManager[Broker]:
        return broker_under_test(tmp_path / f"own{next(numbers)}", settings)

    return start


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """The oracle: one real Kafka for the whole session, started when the first test asks for it."""
    with RealKafka(tmp_path_factory.mktemp("oracle") / "lab", SETTINGS) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses; the test that wants the topic creates it."""
    sentence = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")
    return f"{sentence[:80]}-{uuid.uuid4().hex[:8]}"
