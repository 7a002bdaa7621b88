"""From the command line and a settings file to the settings of a node.

Owns: what `--port`, `--data`, `--metrics-port`, `--config` and `--set` mean together. Never knows: how a node runs. A
later source wins: built-in defaults, settings file, `--port`, `--data` and `--metrics-port`, `--set`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.settings.file import check_static, merge, parse_properties
from ottla.base.settings.kinds import InvalidSetting
from ottla.base.settings.values import BrokerValues

DEFAULT_PORT = 9092
DEFAULT_DATA = "./ottla-data"
QUICK_START = {"group.initial.rebalance.delay.ms": "0"}
"""What Kafka's own example settings say and its defaults do not: somebody who starts a node without a settings file
is not bringing up a hundred consumers at once, and would wait three seconds for the first record."""


class StartFailure(Exception):
    """Why a node cannot start: one sentence that says what and what to do."""


class Options(NamedTuple):
    """What `ottla serve` was given."""

    port: int | None = None
    data: str | None = None
    config: str | None = None
    assignments: Sequence[str] = ()
    metrics_port: int | None = None


def resolve(options: Options) -> BrokerValues:
    """The settings of the node. Raises StartFailure."""
    static: dict[str, str] = dict(QUICK_START)
    if options.config is not None:
        try:
            with open(options.config, encoding="utf-8") as file:
                static = parse_properties(file.read())
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
            raise StartFailure(f"cannot read the settings file {options.config}: {reason}.") from None
    if options.port is not None or "listeners" not in static:
        port = DEFAULT_PORT if options.port is None else options.port
        # Without a word about addresses only this machine is served: there is no authentication to hide behind.
        static["listeners"] = f"PLAINTEXT://localhost:{port}"
    if options.data is not None or not ("log.dirs" in static or "log.dir" in static):
        static.pop("log.dir", None)
        static["log.dirs"] = options.data or DEFAULT_DATA
    if options.metrics_port is not None:
        static["ottla.metrics.port"] = str(options.metrics_port)
    try:
        merged = merge(static, options.assignments)
        check_static(merged)
    except InvalidSetting as problem:
        raise StartFailure(str(problem)) from None
    return BrokerValues(merged)
