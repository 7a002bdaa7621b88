"""A program: break the code in one way, and say which of the test run's universes notices first, and by what.

`PYTHONHASHSEED=0 python broken.py elect_anybody`
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.fetches import fetch
from ottla.log.flushing import FlushTicket
from ottla.metadata.partition_change import PartitionChange
from ottla.replicas import fetcher as replica_fetcher
from ottla.replicas.partitions import Partition
from ottla.replication.leader import Leading
from ottla.sim import universe
from ottla.sim.faults import Power

SEEDS = range(1, 101)
"""Those of the test run."""
HEAL_SECONDS = 60.0
"""A cluster that cannot heal is not watched for longer than this; others need far less."""


def skip_the_fsync(patch: pytest.MonkeyPatch) -> None:
    """Records are said to be on the disk and are not; the quorum's own log is left as it is."""
    run = FlushTicket.run

    def skip(ticket: FlushTicket) -> None:
        if "__cluster_metadata" in ticket.directory:
            run(ticket)

    patch.setattr(FlushTicket, "run", skip)


def count_a_follower_too_early(patch: pytest.MonkeyPatch) -> None:
    """Followers that had everything not long ago are taken to have everything."""
    watermark = Leading.watermark

    def count(leading: Leading, end: int, may_join: Callable[[int], bool], now: float, lag_seconds: float) -> int:
        progress = [leading.followers[replica] for replica in leading.in_sync if replica in leading.followers]
        if all(each.caught_up(end, now, lag_seconds) for each in progress):
            return end
        return watermark(leading, end, may_join, now, lag_seconds)

    patch.setattr(Leading, "watermark", count)


def forget_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps what its leader does not have."""
    patch.setattr(replica_fetcher, "truncate_where_histories_part", lambda log, epoch, end_offset: None)


def accept_a_stale_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader serves followers of older epochs as if they were of its own, and their records its own."""
    patch.setattr(Partition, "fence", lambda partition, epoch: ErrorCode.NONE)
    patch.setattr(fetch, "_diverges", lambda known, wanted: False)


def elect_out_of_the_in_sync_set(patch: pytest.MonkeyPatch) -> None:
    """Any living replica may lead."""
    patch.setattr(PartitionChange, "_has_everything", lambda change, replica: True)


def lies_in_wait(plan: universe.UniversePlan) -> bool:
    """Whether leaders die at the worst moment."""
    return plan.ambushes and plan.replicas > 1


def trusts_its_disk(plan: universe.UniversePlan) -> bool:
    """Whether power may fail where nobody else has what one disk lost."""
    return plan.ambushes and plan.power is Power.ANY and plan.replicas == 1


Suits = Callable[[universe.UniversePlan], bool]
BREAKS: dict[Callable[[pytest.MonkeyPatch], None], Suits] = {
    skip_the_fsync: trusts_its_disk,
    count_a_follower_too_early: lies_in_wait,
    forget_truncation: lies_in_wait,
    accept_a_stale_epoch: lies_in_wait,
    elect_out_of_the_in_sync_set: lies_in_wait,
}
"""And the universes in which each is looked for; others may notice too."""


def main() -> int:
    patch = pytest.MonkeyPatch()
    break_it, suits = next((each, suits) for each, suits in BREAKS.items() if each.__name__ == sys.argv[1])
    break_it(patch)
    patch.setattr(universe, "HEAL_SECONDS", HEAL_SECONDS)
    for seed in SEEDS:
        world = universe.Universe(seed)
        if not suits(world.plan):
            continue
        verdict = world.run()
        if verdict.violations:
            print(f"seed {seed} noticed: {verdict.violations[0]}")
            return 0
    print("no universe noticed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
