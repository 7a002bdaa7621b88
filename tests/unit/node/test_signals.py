"""Which signals end a node."""

import signal
from collections.abc import Iterator

import pytest

from ottla.node.signals import ending_signals


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_ends_a_node_as_ctrl_c_does() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert ending_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def test_a_node_that_was_started_with_nohup_outlives_its_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert ending_signals() == (signal.SIGTERM, signal.SIGINT)
