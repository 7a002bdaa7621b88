"""Why a consumer receives nothing, in one readable line.

Owns: which of the reasons is told first, and its words. Never knows: how to mend it. Invariant: there is always an
answer, also when all is well.
"""

from collections.abc import Iterable

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster
from ottla.client.consumer.locator import Locator
from ottla.client.consumer.positions import Held, PositionState
from ottla.client.errors import BrokerError, ClientError, ConnectionFailed

_SHOWN = 3


def explain(cluster: Cluster, locator: Locator, held: Iterable[Held], buffered: int, committed_only: bool) -> str:
    """The reason for partitions that are held; groups and subscriptions were looked at before."""
    rows = list(held)
    if buffered and any(not row.paused for row in rows):
        return "records are waiting to be polled"
    if locator.failure is not None:
        return f"the cluster cannot be asked for metadata: {words(locator.failure, cluster)}"
    for name, failure in locator.missing.items():
        return _missing(name, failure)
    if not rows:
        return "no partitions are assigned"
    for row in rows:
        if row.failure is not None and not row.paused:
            return f"{row.partition} cannot be read: {words(row.failure, cluster)}"
    if all(row.paused for row in rows):
        return f"all {len(rows)} partitions are paused"
    for row in rows:
        if row.standing is not PositionState.READING and not row.paused:
            return f"{row.partition}: {row.standing.value}"
    for row in rows:
        if row.leader < 0:
            return f"{row.partition} has no leader at the moment"
    if committed_only:
        for row in rows:
            if row.last_stable_offset <= row.position < row.high_watermark:
                return (
                    f"{row.partition} has records up to {row.high_watermark}, but a transaction is open since offset "
                    f"{row.last_stable_offset}, and isolation.level is read_committed"
                )
    if any(row.end(committed_only) < 0 for row in rows):
        return "the first fetch is on its way"
    return f"everything was read: {_places(rows)}"


def words(failure: ClientError, cluster: Cluster) -> str:
    """A failure, and for a broker that cannot be reached who says that it is there."""
    if isinstance(failure, ConnectionFailed):
        for broker in cluster.brokers.values():
            if str(broker.address) == failure.address:
                return f"broker {broker.node_id} advertises {failure.address}, and that fails: {failure.reason}"
    return str(failure)


def _missing(name: str, failure: BrokerError) -> str:
    if failure.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {name!r}"
    if failure.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"not authorised to read topic {name!r}"
    return str(failure)


def _places(rows: list[Held]) -> str:
    shown = ", ".join(f"{row.partition} up to {row.position}" for row in rows[:_SHOWN])
    return shown if len(rows) <= _SHOWN else f"{shown} and {len(rows) - _SHOWN} more"
